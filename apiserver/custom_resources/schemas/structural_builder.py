"""Makes the structural schema of a custom resource, as the rest of the server uses it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from apiserver.custom_resources.schemas.json_schema import JSONSchema
from apiserver.schema.extensions import Extensions
from apiserver.schema.structural import Schema, ValueKind

_SCALARS: Final[Mapping[str, tuple[ValueKind, str]]] = {
    "string": (ValueKind.STRING, "string"),
    "integer": (ValueKind.INTEGER, "int64"),
    "number": (ValueKind.NUMBER, "float64"),
    "boolean": (ValueKind.BOOLEAN, "bool"),
}


def structural_schema(document: JSONSchema, extensions: Extensions, meta: Schema) -> Schema:
    """Returns the schema of whole objects, with their metadata.

    Objects that preserve unknown fields are STRUCTs with an `element` of ANY; objects without a schema are
    ANY_OBJECT, and values without a type ANY.
    """
    root = {"type": "object", **document, extensions.embedded_resource: True}
    schema = _shell(root, extensions)
    # A stack of our own: schemas may be deep.
    todo: list[tuple[Schema, JSONSchema]] = [(schema, root)]
    while todo:
        shell, source = todo.pop()
        todo += _fill(shell, source, extensions, meta)
    return schema


def _shell(source: JSONSchema, extensions: Extensions) -> Schema:
    """Returns the structural schema of one JSON schema, without nested schemas."""
    if source.get(extensions.int_or_string):
        return Schema(ValueKind.INT_OR_STRING, "intstr.IntOrString", default=source.get("default"))
    match source.get("type"):
        case "object":
            kind, go_type = _object_kind(source, extensions), "map[string]interface {}"
        case "array":
            kind, go_type = ValueKind.LIST, "[]interface {}"
        case scalar:
            kind, go_type = _SCALARS.get(scalar or "", (ValueKind.ANY, "interface {}"))
    return Schema(
        kind,
        go_type,
        list_type=source.get(extensions.list_type) or "",
        list_map_keys=tuple(source.get(extensions.list_map_keys) or ()),
        map_type=source.get(extensions.map_type) or "",
        default=source.get("default"),
    )


def _object_kind(source: JSONSchema, extensions: Extensions) -> ValueKind:
    if source.get(extensions.embedded_resource) or source.get("properties"):
        return ValueKind.STRUCT
    if source.get("additionalProperties"):
        return ValueKind.MAP
    return ValueKind.ANY_OBJECT if source.get(extensions.preserve_unknown_fields) else ValueKind.STRUCT


def _fill(
    schema: Schema, source: JSONSchema, extensions: Extensions, meta: Schema
) -> Iterator[tuple[Schema, JSONSchema]]:
    """Add the schemas directly in a schema; yields them, with their sources, to be filled."""

    def child(child_source: Any) -> tuple[Schema, JSONSchema]:
        source = child_source if isinstance(child_source, Mapping) else {}
        return _shell(source, extensions), source

    if schema.kind is ValueKind.LIST:
        schema.element, below = child(source.get("items"))
        yield schema.element, below
    elif schema.kind is ValueKind.MAP:
        schema.element, below = child(source.get("additionalProperties"))
        yield schema.element, below
    elif schema.kind is ValueKind.STRUCT:
        for name, each in (source.get("properties") or {}).items():
            schema.fields[name], below = child(each)
            yield schema.fields[name], below
        if source.get(extensions.embedded_resource):
            schema.fields |= {"apiVersion": _TEXT, "kind": _TEXT, "metadata": meta}
        if source.get(extensions.preserve_unknown_fields):
            schema.element = _ANY


_TEXT: Final = Schema(ValueKind.STRING, "string")
_ANY: Final = Schema(ValueKind.ANY, "interface {}")
