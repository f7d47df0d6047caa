"""The schema of one version of a definition: read and compiled when it is first needed, and published.

`schema.custom` compiles it to checks; `strategies` calls these, and those of rules in CEL, for each write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import orjson

from apiserver.apiextensions.schema_rules.rule_tree import ExpressionTimer
from apiserver.apiextensions.schema_rules.validator import RuleValidator
from apiserver.brand import Brand
from apiserver.golang.regex import InvalidPattern, compile_pattern
from apiserver.registry.served_resource import SchemaCheck
from apiserver.registry.stored_object import StoredObject
from apiserver.schema.custom import CustomSchema
from apiserver.schema.custom.json_schema import all_schemas
from apiserver.schema.structural import Schema
from apiserver.vocabulary import Document, GroupVersion

# All that is compiled from smaller ones is compiled within a few milliseconds.
LARGE_DEFINITION_BYTES: Final = 32 * 1024
# What takes time to compile in a pattern, up to a millisecond each, is many copies, or a class of Unicode.
_COSTLY_PATTERN: Final = re.compile(rb"\{\d{2,4}(?:,\d{0,4})?\}|,\d{2,4}\}|\\\\[pP]")
_COSTLY_PATTERNS_MAX: Final = 4
# To decode so many versions takes less time than to find one of them in the text.
DECODED_TOGETHER_MAX: Final = 8
_OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
# The keywords of published schemas. All others are left out: they are deprecated, or mean nothing here.
_PUBLISHED: Final = frozenset(
    {
        "additionalProperties",
        "allOf",
        "anyOf",
        "default",
        "description",
        "enum",
        "example",
        "externalDocs",
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
_NOT_IN_V2: Final = frozenset({"allOf", "anyOf", "nullable", "not", "oneOf"})
# Of the fields of resources that are embedded in others.
_CONVENTIONS: Final = (
    "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
)
_EMBEDDED_TEXTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "apiVersion": "apiVersion defines the versioned schema of this representation of an object. "
        f"{_CONVENTIONS}#resources",
        "kind": "kind is a string value representing the type of this object. In CamelCase. "
        f"{_CONVENTIONS}#types-kinds",
    }
)


class DefinitionSource:
    """Reads versions of a stored definition.

    stored: may be replaced by a later state of the definition with the same spec.
    """

    __slots__ = ("_offsets", "stored")

    def __init__(self, stored: StoredObject) -> None:
        self.stored = stored
        self._offsets: _VersionOffsets | None = None

    def version(self, name: str) -> tuple[Document, bool]:
        """Returns a version, decoded anew, and whether all versions keep unknown fields.

        If there are many, only the version is decoded, at the offsets that it had when all were decoded last:
        to decode all for each of them would take seconds.
        """
        stored, offsets = self.stored, self._offsets
        if (
            offsets is not None
            and offsets.resource_version == stored.resource_version
            and name in offsets.by_version
        ):
            start, end = offsets.by_version[name]
            return orjson.loads(stored.tail[start:end]), offsets.keeps_unknown
        spec = stored.document()["spec"]
        # Only definitions that were written as v1beta1 have it.
        keeps_unknown = spec.get("preserveUnknownFields") is True
        if len(spec["versions"]) > DECODED_TOGETHER_MAX:
            by_version = _offsets(stored.tail, spec["versions"])
            self._offsets = _VersionOffsets(stored.resource_version, keeps_unknown, by_version)
        return next(each for each in spec["versions"] if each["name"] == name), keeps_unknown


class _VersionOffsets(NamedTuple):
    """Where the versions of a definition begin and end in its encoded form, as of a resourceVersion."""

    resource_version: str
    keeps_unknown: bool
    by_version: Mapping[str, tuple[int, int]]


def _offsets(text: bytes, versions: Iterable[Document]) -> Mapping[str, tuple[int, int]]:
    """Returns the offsets of the versions, up to the first that another encoder than ours wrote."""
    offsets: dict[str, tuple[int, int]] = {}
    end = 0
    for version in versions:
        encoded = orjson.dumps(version)
        start = text.find(encoded, end)
        if start < 0:
            break
        end = start + len(encoded)
        offsets[version["name"]] = start, end
    return offsets


class VersionSchema:
    """The schema of one version of a definition, and what is compiled from it.

    A `registry.served_resource.Preparation`: what is large is compiled in a thread.
    meta: gets the schema of ObjectMeta. timer: of the validation rules in it.
    """

    def __init__(
        self,
        source: DefinitionSource,
        version: str,
        *,
        brand: Brand,
        meta: Callable[[], Schema],
        timer: ExpressionTimer,
    ) -> None:
        self._source = source
        self._version = version
        self.brand = brand
        self._meta = meta
        self._timer = timer

    def decode(self) -> Document:
        """Returns the version as the definition has it, decoded anew; `schema` is the schema itself."""
        return self._decode()[0]

    def _decode(self) -> tuple[Document, bool]:
        """Returns the version, and whether all versions keep unknown fields."""
        version, keeps_unknown = self._source.version(self._version)
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}
        if keeps_unknown:
            schema[self.brand.extension("preserve-unknown-fields")] = True
        return {**version, "schema": schema}, keeps_unknown

    @property
    def is_due(self) -> bool:
        """The schema has not been compiled yet, and the definition is large, or has costly patterns."""
        tail = self._source.stored.tail
        return "custom" not in self.__dict__ and (
            len(tail) > LARGE_DEFINITION_BYTES or len(_COSTLY_PATTERN.findall(tail)) > _COSTLY_PATTERNS_MAX
        )

    def prepare(self) -> None:
        """Compile all that requests need. `is_due` stays true until it is complete."""
        custom = self._custom_schema()
        custom.compile()
        _ = custom.schema
        for each in all_schemas(custom.document):
            if (pattern := each.get("pattern")) and _COSTLY_PATTERN.search(orjson.dumps(pattern)):
                with suppress(InvalidPattern):
                    compile_pattern(pattern)  # for its cache: the schema's parts are compiled when used
        self.__dict__.setdefault("custom", custom)
        if self.rules is not None:
            _ = self.rules.compares_old

    @cached_property
    def custom(self) -> CustomSchema:
        return self._custom_schema()

    def _custom_schema(self) -> CustomSchema:
        version, keeps_unknown = self._decode()
        return CustomSchema(
            version["schema"], vendor=self.brand.vendor, meta=self._meta(), keeps_unknown=keeps_unknown
        )

    @property
    def structural(self) -> Schema:
        return self.custom.schema

    @property
    def check(self) -> SchemaCheck:
        return self.custom.pruner

    def prune(self, document: Document) -> bool:
        """Prune a converted document. Returns whether it has changed."""
        return self.custom.prune(document)

    def prune_unknown(self, document: Document) -> bool:
        """Prune a converted document, but keep each null. Returns whether it has changed."""
        return self.custom.prune(document, keeps_null=True)

    def prune_and_default(self, document: Document) -> bool:
        """Prune a stored document and give it its defaults. Returns whether it has changed."""
        return self.custom.prune_and_default(document)

    @cached_property
    def rules(self) -> RuleValidator | None:
        """The validation rules in the schema; None if there are none."""
        extension = self.brand.extension("validations")
        if not any(each.get(extension) for each in all_schemas(self.custom.document)):
            return None
        return RuleValidator(dict(self.custom.document), vendor=self.brand.vendor, timer=self._timer)


# ---- published by OpenAPI


def openapi_schema(
    schema: VersionSchema,
    group_version: GroupVersion,
    kind: str,
    is_v2: bool,
    texts: Mapping[str, str],
) -> Document:
    """Returns the schema of the kind as OpenAPI publishes it. References are those of OpenAPI v3.

    is_v2: without what clients of v2 would misunderstand.
    texts: the descriptions of apiVersion, kind and metadata.
    """
    version = schema.decode()
    document = version["schema"]
    extension = schema.brand.extension
    if is_v2 and document.get(extension("preserve-unknown-fields")) is True:
        published: Document = {}
    else:
        published = _published(document, schema.brand, texts.get("metadata") or "", is_v2=is_v2)
        published["properties"] = {**published.get("properties", {}), **_object_properties(texts)}
    published["type"] = "object"
    if fields := version.get("selectableFields"):
        paths = [{"fieldPath": each["jsonPath"].removeprefix(".")} for each in fields]
        published[extension("selectable-fields")] = paths
    published[extension("group-version-kind")] = [
        {"group": group_version.group, "kind": kind, "version": group_version.version}
    ]
    return published


def _object_properties(texts: Mapping[str, str]) -> Document:
    """Returns the schemas of the fields that all objects have: apiVersion, kind and metadata."""
    fields: dict[str, Document] = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"allOf": [{"$ref": f"#/components/schemas/{_OBJECT_META}"}]},
    }
    return {
        name: {**field, "description": text} if (text := texts.get(name)) else field
        for name, field in fields.items()
    }


def _published(node: Any, brand: Brand, metadata_text: str, *, is_v2: bool) -> Document:
    """Returns a schema with the keywords that are published. Validation has bounded its depth."""
    if not isinstance(node, dict):
        return {}
    if node.get(brand.extension("int-or-string")) is True:
        node = _unfolded(node)
    if is_v2:
        node = _without_what_v2_lacks(node, brand)
    extension_prefix = brand.extension("")
    published: Document = {}
    for key, value in node.items():
        if key == "properties":
            published[key] = {
                name: _published(each, brand, metadata_text, is_v2=is_v2) for name, each in value.items()
            }
        elif key in ("items", "additionalProperties", "not") and isinstance(value, dict):
            published[key] = _published(value, brand, metadata_text, is_v2=is_v2)
        elif key in ("allOf", "anyOf", "oneOf"):
            published[key] = [_published(each, brand, metadata_text, is_v2=is_v2) for each in value]
        elif key in _PUBLISHED or key.startswith(extension_prefix):
            published[key] = value
    keeps_unknown = node.get(brand.extension("preserve-unknown-fields")) is True
    if node.get(brand.extension("embedded-resource")) is True and not (is_v2 and keeps_unknown):
        fields = _object_properties({**_EMBEDDED_TEXTS, "metadata": metadata_text})
        published["properties"] = {**published.get("properties", {}), **fields}
        required = published.get("required") or []
        published["required"] = required + [each for each in ("kind", "apiVersion") if each not in required]
    return published


def _unfolded(node: Document) -> Document:
    """Returns the schema of an integer or string with `anyOf`, which says so without an extension.

    Source: k8s.io/apiextensions-apiserver, pkg/apiserver/schema/unfold.go.
    """
    both, all_of = [{"type": "integer"}, {"type": "string"}], node.get("allOf") or []
    if node.get("anyOf") == both or (all_of and all_of[0].get("anyOf") == both):
        return node
    if not node.get("anyOf"):
        return {**node, "anyOf": both}
    return {**node, "allOf": [{"anyOf": both}, *all_of]}


def _without_what_v2_lacks(node: Document, brand: Brand) -> Document:
    """Returns a schema, but not those below it, without what clients of v2 do not know or misunderstand.

    They take properties and items for all that is allowed, and cannot express null: what may be null has no
    type and is not required. Source: k8s.io/apiextensions-apiserver, pkg/controller/openapi/v2/conversion.go.
    """
    left_out = set(_NOT_IN_V2)
    keeps_unknown = node.get(brand.extension("preserve-unknown-fields")) is True
    if _may_be_null(node):
        left_out |= {"items", "properties", "type"}
    if keeps_unknown:
        left_out |= {"items", "properties"}
    if (node.get("type") == "object" and keeps_unknown) or (
        node.get("type") == "array" and ("items" in left_out or "items" not in node)
    ):
        left_out.add("type")
    kept = {key: value for key, value in node.items() if key not in left_out}
    if required := kept.get("required"):
        properties = kept.get("properties") or {}
        required = [each for each in required if not _may_be_null(properties.get(each))]
        if not required or _may_be_null(kept.get("additionalProperties")):
            del kept["required"]
        else:
            kept["required"] = required
    return kept


def _may_be_null(node: Any) -> bool:
    return isinstance(node, dict) and node.get("nullable") is True
