"""Errors about wrong types after a strategic merge patch, where Kubernetes converts a map to a Go object.

In that case it does not decode JSON. Source: k8s.io/apimachinery, pkg/runtime/converter.go, fromUnstructured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from apiserver.golang.whole_numbers import is_whole
from apiserver.meta.vocabulary import Document
from apiserver.schema.compile import SchemaCompiler, TypeMismatch
from apiserver.schema.go_fields import fields_of
from apiserver.schema.structural import Schema, ValueKind

# The kinds of values in a map, and the types of numbers.
_GO_KINDS: Final[Mapping[type, str]] = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    dict: "map",
    list: "slice",
}
_SCALARS: Final[Mapping[ValueKind, type]] = {
    ValueKind.STRING: str,
    ValueKind.BOOLEAN: bool,
    ValueKind.INTEGER: int,
}


def mismatch_text(document: Document, schema: Schema) -> str:
    """Returns the error about the first value that does not have its field's type; empty if there is none."""
    try:
        return next(_mismatches(document, schema, SchemaCompiler()), "")
    except RecursionError:
        return ""


def _mismatches(value: Any, schema: Schema, compiler: SchemaCompiler) -> Iterator[str]:
    """Yields the errors about a value and those in it, in the order of the Go type's fields."""
    if value is None:
        return
    found = _GO_KINDS[type(value)]
    match schema.kind:
        case ValueKind.STRUCT if type(value) is not dict:
            yield f"cannot restore struct from: {found}"
        case ValueKind.STRUCT:
            in_order = fields_of(schema.definition, schema.vendor) or schema.fields
            for name in in_order:
                if name in value and (field := schema.fields.get(name)) is not None:
                    yield from _mismatches(value[name], field, compiler)
        case ValueKind.MAP | ValueKind.ANY_OBJECT if type(value) is not dict:
            yield f"cannot restore map from {found}"
        case ValueKind.MAP if schema.element is not None:
            for member in value.values():
                yield from _mismatches(member, schema.element, compiler)
        case ValueKind.LIST if type(value) is not list:
            yield f"cannot restore slice from {found}"
        case ValueKind.LIST if schema.element is not None:
            for item in value:
                yield from _mismatches(item, schema.element, compiler)
        case ValueKind.BYTES if type(value) is not str:
            yield f"cannot restore slice from {found}"
        case ValueKind.INTEGER if type(value) is float and is_whole(value):
            yield from _decoding_error(value, schema, compiler)
        case ValueKind.STRING | ValueKind.BOOLEAN | ValueKind.INTEGER if (
            type(value) is not _SCALARS[schema.kind]
        ):
            yield _scalar_mismatch(value, found, schema)
        case ValueKind.NUMBER if type(value) not in (int, float):
            yield f"unrecognized type: {schema.go_type}"
        case _:
            # These types decode themselves, from JSON.
            yield from _decoding_error(value, schema, compiler)


def _scalar_mismatch(value: Any, found: str, schema: Schema) -> str:
    """Returns the error about a wrong scalar: Go converts integers to strings, and numbers to each other."""
    is_convertible = (schema.kind is ValueKind.STRING and type(value) is int) or (
        schema.kind is ValueKind.INTEGER and type(value) is float
    )
    if is_convertible:
        return f"cannot convert {found} to {schema.go_type}"
    return f"unrecognized type: {schema.go_type}"


def _decoding_error(value: Any, schema: Schema, compiler: SchemaCompiler) -> Iterator[str]:
    try:
        compiler.compile(schema)(value, is_merged=True)
    except TypeMismatch as mismatch:
        yield f"error decoding from json: {mismatch}" if schema.kind is ValueKind.BYTES else str(mismatch)
