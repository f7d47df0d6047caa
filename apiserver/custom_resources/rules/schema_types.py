"""The CEL types of schemas, with the sizes that their values may have.

Source: k8s.io/apiserver, pkg/cel/common/schemas.go, pkg/cel/limits.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from apiserver.cel import types
from apiserver.cel.compatibility_version import KEYWORD_FIELDS
from apiserver.cel.escaping import RESERVED, escape
from apiserver.cel.types import Field, Type, TypeKind
from apiserver.custom_resources.schemas.json_schema import JSONSchema
from apiserver.schema.extensions import Extensions

# The greatest size of a value, as it is that of a request.
REQUEST_BYTES_MAX: Final = 3 * 1024 * 1024
# The longest strings in these formats, and the shortest in JSON.
_FORMATS: Final[Mapping[str, tuple[TypeKind, int, int]]] = {
    "date": (TypeKind.TIMESTAMP, 12, 12),
    "date-time": (TypeKind.TIMESTAMP, 32, 21),
    "duration": (TypeKind.DURATION, 32, 3),
}
_STRING_BYTES_MAX: Final = REQUEST_BYTES_MAX - 2  # quotes
_STRING_BYTES_MIN: Final = 2
_COLLECTION_BYTES_MIN: Final = 2
_PLAIN: Final[Mapping[str, Type]] = {
    "boolean": Type(TypeKind.BOOL, size_min=4),
    "number": Type(TypeKind.DOUBLE, size_min=1),
    "integer": Type(TypeKind.INT, size_min=1),
}
# The fields that every resource has, whatever its schema says.
_NAMED: Final[JSONSchema] = {"type": "string"}
_META: Final[JSONSchema] = {"type": "object", "properties": {"name": _NAMED, "generateName": _NAMED}}


class SchemaTypes:
    """The types of a schema and of all schemas in it, each made once, on first use."""

    def __init__(self, extensions: Extensions) -> None:
        self._extensions = extensions
        # By the identity of schemas, which are kept so that no other object gets it.
        self._made: dict[int, tuple[JSONSchema, Type | None]] = {}

    def of(self, schema: JSONSchema, name: str, *, is_root: bool = False) -> Type | None:
        """Returns the type of a schema; None if CEL cannot access its values.

        name: the unique name of the type, if it is an object's.
        is_root: whether it is a resource's, and so has metadata.
        """
        made = self._made.get(id(schema))
        if made is None:
            type_ = self._make(
                schema, name, is_root=is_root or bool(schema.get(self._extensions.embedded_resource))
            )
            made = self._made[id(schema)] = schema, type_
        return made[1]

    def _make(self, schema: JSONSchema, name: str, *, is_root: bool) -> Type | None:
        if schema.get(self._extensions.int_or_string):
            # Which of the two it is, is known only in evaluation.
            return Type(TypeKind.DYN, size_max=_string_size(schema, factor=4), size_min=1)
        match schema.get("type"):
            case "object":
                properties = resource_properties(schema) if is_root else (schema.get("properties") or {})
                return self._object(schema, properties, name)
            case "array":
                return self._list(schema, name)
            case "string":
                return _string(schema)
            case other:
                return _PLAIN.get(other or "")

    def _list(self, schema: JSONSchema, name: str) -> Type | None:
        items = schema.get("items")
        element = None if not isinstance(items, dict) else self.of(items, f"{name}.@idx")
        if element is None:
            return None
        # What is between brackets, with a comma for each.
        most = (REQUEST_BYTES_MAX - 2) // ((element.size_min or 0) + 1)
        size = _limit(schema, "maxItems", most)
        return Type(TypeKind.LIST, parameters=(element,), size_max=size, size_min=_COLLECTION_BYTES_MIN)

    def _object(self, schema: JSONSchema, properties: Mapping[str, JSONSchema], name: str) -> Type | None:
        values = schema.get("additionalProperties")
        if isinstance(values, dict):
            value = self.of(values, f"{name}.@elem")
            if value is None:
                return None
            # With quotes around the key and at least two characters in it, a colon and a comma.
            most = (REQUEST_BYTES_MAX - 2) // ((value.size_min or 0) + 6)
            size = _limit(schema, "maxProperties", most)
            parameters = (types.STRING, value)
            return Type(TypeKind.MAP, parameters=parameters, size_max=size, size_min=_COLLECTION_BYTES_MIN)
        required = schema.get("required", ())
        fields: dict[str, Field] = {}
        size_min = _COLLECTION_BYTES_MIN
        for key, child in properties.items():
            escaped = escape(key)
            type_ = self.of(child, f"{name}.{escaped or key}")
            if type_ is None:
                continue
            if escaped is not None:
                fields[escaped] = Field(key, type_)
            if key in RESERVED:  # as it is after a dot, too
                fields.setdefault(key, Field(key, type_, since=KEYWORD_FIELDS))
            if key in required and child.get("default") is None:
                size_min += len(key) + (type_.size_min or 0) + 4
        return types.object_of(name, fields, size_min=size_min)


def resource_properties(schema: JSONSchema) -> Mapping[str, JSONSchema]:
    """Returns the properties of a resource, with its type and the names in its metadata."""
    properties: Mapping[str, JSONSchema] = schema.get("properties") or {}
    own_meta = properties.get("metadata", {})
    named = own_meta.get("properties", {})
    is_complete = (
        all(properties.get(key, {}).get("type") == "string" for key in ("apiVersion", "kind"))
        and own_meta.get("type") == "object"
        and all(named.get(key, {}).get("type") == "string" for key in ("name", "generateName"))
    )
    if is_complete:
        return properties
    return {**properties, "apiVersion": _NAMED, "kind": _NAMED, "metadata": _META}


def _string(schema: JSONSchema) -> Type:
    format_ = schema.get("format", "")
    if format_ == "byte":
        return Type(TypeKind.BYTES, size_max=_string_size(schema, factor=1), size_min=_STRING_BYTES_MIN)
    if format_ in _FORMATS:
        kind, size_max, size_min = _FORMATS[format_]
        return Type(kind, size_max=size_max, size_min=size_min)
    if schema.get("maxLength") is None and (values := schema.get("enum")):
        longest = max((len(value.encode()) for value in values if isinstance(value, str)), default=0)
        return Type(TypeKind.STRING, size_max=longest, size_min=_STRING_BYTES_MIN)
    # The limit counts characters, each of up to four bytes; sizes are bytes.
    return Type(TypeKind.STRING, size_max=_string_size(schema, factor=4), size_min=_STRING_BYTES_MIN)


def _string_size(schema: JSONSchema, *, factor: int) -> int:
    found = schema.get("maxLength")
    return _STRING_BYTES_MAX if found is None else max(0, int(found)) * factor


def _limit(schema: JSONSchema, name: str, otherwise: int) -> int:
    found = schema.get(name)
    return otherwise if found is None else max(0, int(found))
