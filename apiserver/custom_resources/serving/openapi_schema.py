"""The schema of one version of a definition as OpenAPI publishes it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from apiserver.custom_resources.serving.version_schema import VersionSchema
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import Document, GroupVersion

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


def openapi_schema(
    schema: VersionSchema, group_version: GroupVersion, kind: str, is_v2: bool, texts: Mapping[str, str]
) -> Document:
    """Returns the schema of the kind as OpenAPI publishes it, with references of OpenAPI v3.

    is_v2: whether to leave out what clients of v2 would misunderstand.
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
    """Returns a schema with the keywords that are published; validation has bounded its depth."""
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
    """Returns the schema of an integer or string with `anyOf` instead of an extension.

    Source: k8s.io/apiextensions-apiserver, pkg/apiserver/schema/unfold.go.
    """
    both, all_of = [{"type": "integer"}, {"type": "string"}], node.get("allOf") or []
    if node.get("anyOf") == both or (all_of and all_of[0].get("anyOf") == both):
        return node
    if not node.get("anyOf"):
        return {**node, "anyOf": both}
    return {**node, "allOf": [{"anyOf": both}, *all_of]}


def _without_what_v2_lacks(node: Document, brand: Brand) -> Document:
    """Returns a schema, without changing nested ones, without keywords that clients of v2 misunderstand.

    They take properties and items for everything that is allowed, and cannot express null: nullable values
    have no type and are not required. Source: k8s.io/apiextensions-apiserver,
    pkg/controller/openapi/v2/conversion.go.
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
