"""The schema of one version: read, and made into what is needed, when it is first needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, Final, NamedTuple

import orjson

from apiserver.apiextensions.schema_rules.validator import Rules
from apiserver.brand import Brand
from apiserver.registry.served_resource import Check
from apiserver.registry.stored_object import StoredObject
from apiserver.schema.custom import CustomSchema
from apiserver.schema.custom.json_schema import everywhere
from apiserver.schema.structural import Schema
from apiserver.vocabulary import Document, GroupVersion

# Of smaller ones all is made within a few milliseconds.
LARGE_DEFINITION_BYTES: Final = 32 * 1024
# So many are decoded together sooner than looked for.
DECODED_TOGETHER_MAX: Final = 8
_OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
# What a published schema may say. All else is told to nobody: what is deprecated, or means nothing here.
_PUBLISHED: Final = frozenset(
    {
        "additionalProperties",
        "allOf",
        "anyOf",
        "default",
        "description",
        "enum",
        "example",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "not",
        "nullable",
        "oneOf",
        "pattern",
        "properties",
        "required",
        "title",
        "type",
        "uniqueItems",
    }
)
# What is not told where anything goes: clients of v2 would take it for all there is.
_SHAPE: Final = ("items", "properties", "type")
_TYPE_META_DESCRIPTIONS: Final = {
    "apiVersion": "The version of the schema that this object is written in, with its group.",
    "kind": "What this object is. It cannot be changed.",
}


class DefinitionSource:
    """Where a definition is read from.

    found: it, as it is stored. It may be replaced by a version that says the same.
    """

    __slots__ = ("_places", "found")

    def __init__(self, found: StoredObject) -> None:
        self.found = found
        self._places: _VersionOffsets | None = None

    def version(self, name: str) -> tuple[Document, bool]:
        """A version as the definition has it, decoded anew, and whether all of them keep unknown fields.

        Of many versions each is found in the text by where it was last: to decode all for each would take
        seconds.
        """
        found, places = self.found, self._places
        if places is not None and places.revision == found.resource_version and name in places.of_versions:
            start, end = places.of_versions[name]
            return orjson.loads(found.tail[start:end]), places.keeps_unknown
        spec = found.document()["spec"]
        # Only definitions of other servers, or of long ago, say so.
        keeps_unknown = spec.get("preserveUnknownFields") is True
        if len(spec["versions"]) > DECODED_TOGETHER_MAX:
            of_versions = _places(found.tail, spec["versions"])
            self._places = _VersionOffsets(found.resource_version, keeps_unknown, of_versions)
        return next(each for each in spec["versions"] if each["name"] == name), keeps_unknown


class _VersionOffsets(NamedTuple):
    """Where in the text of a definition, as of a revision, its versions begin and end."""

    revision: str
    keeps_unknown: bool
    of_versions: Mapping[str, tuple[int, int]]


def _places(text: bytes, versions: Iterable[Document]) -> Mapping[str, tuple[int, int]]:
    """Of all up to the first that somebody else's encoder wrote."""
    places: dict[str, tuple[int, int]] = {}
    end = 0
    for version in versions:
        encoded = orjson.dumps(version)
        start = text.find(encoded, end)
        if start < 0:
            break
        end = start + len(encoded)
        places[version["name"]] = start, end
    return places


class VersionSchema:
    """One version's."""

    def __init__(
        self, source: DefinitionSource, version: str, *, brand: Brand, meta: Callable[[], Schema]
    ) -> None:
        self._source = source
        self._version = version
        self.brand = brand
        self._meta = meta

    def described(self) -> Document:
        """The version as the definition has it, decoded anew; with a schema."""
        described, keeps_unknown = self._source.version(self._version)
        schema = (described.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}
        if keeps_unknown:
            schema[self.brand.extension("preserve-unknown-fields")] = True
        return {**described, "schema": schema}

    # As `registry.served_resource.Preparation`.

    @property
    def is_due(self) -> bool:
        """Whether what has not been made yet is much."""
        return "custom" not in self.__dict__ and len(self._source.found.tail) > LARGE_DEFINITION_BYTES

    def prepare(self) -> None:
        """Make all that requests need, without what shows that it is made before it is."""
        custom = CustomSchema(self.described()["schema"], vendor=self.brand.vendor, meta=self._meta())
        custom.compile()
        _ = custom.schema
        self.__dict__.setdefault("custom", custom)
        _ = self.rules

    @cached_property
    def custom(self) -> CustomSchema:
        return CustomSchema(self.described()["schema"], vendor=self.brand.vendor, meta=self._meta())

    @property
    def structural(self) -> Schema:
        return self.custom.schema

    @property
    def check(self) -> Check:
        return self.custom.walk

    def prune_and_default(self, document: Document) -> bool:
        """Prune a stored document and give it its defaults. Returns whether it has changed."""
        return self.custom.prune_and_default(document)

    @cached_property
    def rules(self) -> Rules | None:
        """What the schema itself asks of objects; None if it asks nothing."""
        extension = self.brand.extension("validations")
        if not any(each.get(extension) for each in everywhere(self.custom.document)):
            return None
        return Rules(dict(self.custom.document), vendor=self.brand.vendor)


# ---- as OpenAPI has it


def openapi(schema: VersionSchema, group_version: GroupVersion, kind: str, is_v2: bool) -> Document:
    """The schema of the kind, as clients are told. References are those of OpenAPI v3.

    is_v2: without what clients of v2 would misunderstand.
    """
    described = schema.described()
    document = described["schema"]
    extension = schema.brand.extension
    published = _published(document, schema.brand, is_v2=is_v2)
    keeps_all = document.get(extension("preserve-unknown-fields")) is True
    if is_v2 and keeps_all:
        published = {key: value for key, value in published.items() if key not in _SHAPE}
    else:
        published["properties"] = {**published.get("properties", {}), **_head(document)}
    published["type"] = "object"
    if fields := described.get("selectableFields"):
        paths = [{"fieldPath": each["jsonPath"].removeprefix(".")} for each in fields]
        published[extension("selectable-fields")] = paths
    group, version = group_version
    published[extension("group-version-kind")] = [{"group": group, "kind": kind, "version": version}]
    return published


def _head(document: Document) -> Document:
    """The fields that all objects have."""
    own = (document.get("properties") or {}).get("metadata") or {}
    texts = {name: {"type": "string", "description": text} for name, text in _TYPE_META_DESCRIPTIONS.items()}
    reference = {"$ref": f"#/components/schemas/{_OBJECT_META}"}
    text = own.get("description") or "Standard object metadata."
    return {**texts, "metadata": {"allOf": [reference], "description": text}}


def _published(node: Any, brand: Brand, *, is_v2: bool) -> Document:
    """A schema as it is told. Its depth is bounded by what a definition may have."""
    if not isinstance(node, dict):
        return {}
    extensions = f"x-{brand.vendor}-"
    published: Document = {}
    for key, value in node.items():
        if key == "properties":
            published[key] = {name: _published(each, brand, is_v2=is_v2) for name, each in value.items()}
        elif key in ("items", "additionalProperties", "not") and isinstance(value, dict):
            published[key] = _published(value, brand, is_v2=is_v2)
        elif key in ("allOf", "anyOf", "oneOf"):
            published[key] = [_published(each, brand, is_v2=is_v2) for each in value]
        elif key in _PUBLISHED or key.startswith(extensions):
            published[key] = value
    if node.get(brand.extension("embedded-resource")) is True:
        published["properties"] = {**published.get("properties", {}), **_head(node)}
    hides_shape = (
        node.get("nullable") is True
        or node.get(brand.extension("int-or-string")) is True
        or node.get(brand.extension("preserve-unknown-fields")) is True
    )
    if is_v2 and hides_shape:
        return {key: value for key, value in published.items() if key not in _SHAPE}
    return published
