"""What schemas are to the language. Rows R23 to R29, R31."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from apiserver.cel.types import Type, TypeKind
from apiserver.custom_resources.rules.schema_types import SchemaTypes
from apiserver.schema.extensions import Extensions

Schema = dict[str, Any]


def type_of(schema: Schema, *, is_root: bool = False) -> Type | None:
    return SchemaTypes(Extensions("kubernetes")).of(schema, "self", is_root=is_root)


STRING: Final = {"type": "string"}
# Rows R23, R26, R27, R28, R29.
SHOWN: Mapping[str, tuple[Schema, str | None]] = {
    "a boolean": ({"type": "boolean"}, "bool"),
    "an integer": ({"type": "integer"}, "int"),
    "a number": ({"type": "number"}, "double"),
    "a string": (STRING, "string"),
    "bytes": ({"type": "string", "format": "byte"}, "bytes"),
    "a date": ({"type": "string", "format": "date"}, "timestamp"),
    "a time": ({"type": "string", "format": "date-time"}, "timestamp"),
    "a duration": ({"type": "string", "format": "duration"}, "duration"),
    "another format": ({"type": "string", "format": "email"}, "string"),
    "a nullable value": ({"type": "string", "nullable": True}, "string"),
    "an int or a string": ({"x-kubernetes-int-or-string": True}, "dyn"),
    "a list": ({"type": "array", "items": STRING}, "list(string)"),
    "a set": ({"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}, "list(string)"),
    "a map": ({"type": "object", "additionalProperties": {"type": "number"}}, "map(string, double)"),
    "an object": ({"type": "object", "properties": {"a": STRING}}, "self"),
    "an object that is anything": ({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, "self"),
    "a list of objects": ({"type": "array", "items": {"type": "object"}}, "list(self.@idx)"),
    "a value that is anything": ({"x-kubernetes-preserve-unknown-fields": True}, None),
    "a list of anything": ({"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}}, None),
    "a map of anything": (
        {"type": "object", "additionalProperties": {"x-kubernetes-preserve-unknown-fields": True}},
        None,
    ),
}


@pytest.mark.parametrize(("schema", "shown"), SHOWN.values(), ids=SHOWN)
def test_the_type_of_a_schema(schema: Schema, shown: str | None) -> None:
    found = type_of(schema)
    assert (None if found is None else str(found)) == shown


def fields(type_: Type | None) -> dict[str, str]:
    assert type_ is not None
    return {name: field.key for name, field in type_.fields.items()}


def test_fields_are_known_by_escaped_names() -> None:
    names = ("a", "b-c", "d.e", "f/g", "h__i", "namespace", "1j", "k l", "")
    found = type_of({"type": "object", "properties": dict.fromkeys(names, STRING)})
    assert fields(found) == {
        "a": "a",
        "b__dash__c": "b-c",
        "d__dot__e": "d.e",
        "f__slash__g": "f/g",
        "h__underscores__i": "h__i",
        "__namespace__": "namespace",
        "namespace": "namespace",
    }


def test_fields_of_which_nothing_is_known_are_not_there() -> None:
    anything = {"x-kubernetes-preserve-unknown-fields": True}
    assert fields(type_of({"type": "object", "properties": {"a": anything, "b": STRING}})) == {"b": "b"}


def test_a_resource_has_names_whatever_its_schema_says() -> None:
    schema = {"type": "object", "properties": {"metadata": {"type": "object"}, "spec": STRING}}
    found = type_of(schema, is_root=True)
    assert set(fields(found)) == {"apiVersion", "kind", "metadata", "spec"}
    assert found is not None
    assert set(found.fields["metadata"].type.fields) == {"name", "generateName"}
    assert set(fields(type_of(schema))) == {"metadata", "spec"}


def test_an_embedded_resource_is_one() -> None:
    """Row R24."""
    embedded = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }
    found = type_of({"type": "object", "properties": {"template": embedded}})
    assert found is not None
    assert set(found.fields["template"].type.fields) == {"apiVersion", "kind", "metadata"}


def test_types_of_objects_differ_by_their_path() -> None:
    same = {"type": "object", "properties": {"x": STRING}}
    found = type_of({"type": "object", "properties": {"a": same, "b": dict(same)}})
    assert found is not None
    assert found.fields["a"].type != found.fields["b"].type


def test_the_vendor_names_the_extensions() -> None:
    schema = {"x-acme-int-or-string": True}
    assert SchemaTypes(Extensions("kubernetes")).of(schema, "self") is None
    found = SchemaTypes(Extensions("acme")).of(schema, "self")
    assert found is not None
    assert found.kind is TypeKind.DYN
