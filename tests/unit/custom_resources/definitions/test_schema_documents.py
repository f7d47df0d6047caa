"""Definitions as they come and as they are kept: nothing is lost, and forms are Go's. Rows D03, T14."""

from __future__ import annotations

import copy
from typing import Any, Final

import pytest

from apiserver.custom_resources.schemas.schema_paths import InvalidSchemaPath, find_field
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.compile import TypeMismatch, compile_schema
from apiserver.wire.protobuf import MessageDecoder, MessageEncoder

KIND: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"
COMPILED: Final = compile_schema(BuiltinSchemas((1, 34)).get(KIND))


def definition(schema: dict[str, Any]) -> dict[str, Any]:
    """Complete, as the walk leaves it."""
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".s"}},
        "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".spec.a", "priority": 1}],
        "selectableFields": [{"jsonPath": ".spec.a"}],
    }
    return {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "widgets", "kind": "Widget"},
            "scope": "Cluster",
            "versions": [version],
        },
        "status": {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": None},
    }


def schema_of(document: dict[str, Any]) -> Any:
    return document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def everything(vendor: str = "kubernetes") -> dict[str, Any]:
    """A schema that says all that one can say."""
    x = f"x-{vendor}-"
    return {
        "id": "i",
        "$schema": "s",
        "$ref": "",
        "description": "d",
        "type": "object",
        "format": "f",
        "title": "t",
        "default": {"a": [1, 1.5, None, False, ""]},
        "example": 0,
        "maximum": 0,
        "minimum": -1.5,
        "multipleOf": 2,
        "exclusiveMaximum": True,
        "exclusiveMinimum": True,
        "maxLength": 0,
        "minLength": 1,
        "pattern": "a",
        "maxItems": 2,
        "minItems": 0,
        "uniqueItems": True,
        "enum": [None, 1, "a", {"b": []}],
        "maxProperties": 3,
        "minProperties": 0,
        "required": ["a"],
        "nullable": True,
        "externalDocs": {"url": "u", "description": "d"},
        "properties": {"a": {"type": "array", "items": {"type": "string"}}, "b": {}},
        "additionalProperties": {"type": "string"},
        "additionalItems": False,
        "patternProperties": {"p": {"additionalProperties": True}},
        "definitions": {"d": {"items": [{"type": "string"}, {}]}},
        "dependencies": {"a": ["b", "c"], "b": {"type": "string"}},
        "allOf": [{"type": "string"}],
        "anyOf": [{}],
        "oneOf": [{"not": {}}],
        f"{x}preserve-unknown-fields": False,
        f"{x}embedded-resource": True,
        f"{x}int-or-string": True,
        f"{x}list-type": "map",
        f"{x}list-map-keys": ["a"],
        f"{x}map-type": "atomic",
        f"{x}validations": [
            {"rule": "true", "message": "m", "reason": "r", "fieldPath": ".a", "optionalOldSelf": False}
        ],
    }


@pytest.mark.parametrize("vendor", ["kubernetes", "acme"])
def test_nothing_that_a_schema_says_is_lost(vendor: str) -> None:
    """Neither in JSON nor in protobuf, whatever the extensions are called."""
    schema = BuiltinSchemas((1, 34), vendor).get(KIND)
    walk = compile_schema(schema)
    document = definition(everything(vendor))
    wanted = copy.deepcopy(document)
    assert walk(document) == []
    assert document == wanted
    decoded = MessageDecoder(schema)(MessageEncoder(schema)(document))
    assert walk(decoded) == []
    assert decoded == wanted


def test_another_vendors_extensions_are_unknown() -> None:
    document = definition({"type": "object", "x-acme-list-type": "map"})
    assert COMPILED(document) == ["spec.versions[0].schema.openAPIV3Schema.x-acme-list-type"]


GO: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "what is empty is left out": (
        {
            "title": "",
            "nullable": False,
            "x-kubernetes-embedded-resource": False,
            "enum": [],
            "properties": {},
        },
        {},
    ),
    "what is null is left out": ({"default": None, "maximum": None, "items": None}, {}),
    "whole numbers have no fraction": ({"maximum": 5.0, "minimum": 0.5}, {"maximum": 5, "minimum": 0.5}),
    "items that are neither a schema nor several are null": (
        {"items": [], "dependencies": {"a": 5}},
        {"items": None, "dependencies": {"a": None}},
    ),
}


@pytest.mark.parametrize(("schema", "kept"), GO.values(), ids=GO)
def test_schemas_are_kept_as_go_has_them(schema: dict[str, Any], kept: dict[str, Any]) -> None:
    document = definition(schema)
    assert COMPILED(document) == []
    assert schema_of(document) == kept


def test_strictness_ends_where_go_decodes_apart() -> None:
    """As in Kubernetes: else definitions that kubectl applies there, strictly, could not be applied here."""
    document = definition({"odd": 1, "items": {"odd": 1, "type": "string"}, "properties": {"a": {"odd": 1}}})
    assert COMPILED(document) == [
        "spec.versions[0].schema.openAPIV3Schema.odd",
        "spec.versions[0].schema.openAPIV3Schema.properties.a.odd",
    ]
    assert schema_of(document) == {"items": {"type": "string"}, "properties": {"a": {}}}


MISMATCHES: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "neither a schema nor a truth": ({"additionalProperties": "x"}, "boolean or JSON schema expected"),
    "inside of items": (
        {"items": {"properties": {"a": {"type": 5}}}},
        "json: cannot unmarshal number into Go struct field JSONSchemaProps.properties.type of type string",
    ),
}


@pytest.mark.parametrize(("schema", "message"), MISMATCHES.values(), ids=MISMATCHES)
def test_wrong_types(schema: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeMismatch) as refused:
        COMPILED(definition(schema))
    assert str(refused.value) == message


# ---- paths into schemas

FIELDS: Final = {
    "type": "object",
    "properties": {
        "a": {"type": "object", "additionalProperties": {"type": "integer"}},
        "b'c": {"type": "object", "additionalProperties": True},
        "d.e": {"type": "string"},
    },
}
FOUND: Final[dict[str, tuple[str, tuple[str, ...], str | None]]] = {
    "a field": (".a", ("a",), "object"),
    "a key": (".a.x", ("a", "[x]"), "integer"),
    "a name with a dot": ("['d.e']", ("d.e",), "string"),
    "a name with a quote": (r"['b\'c']", ("b'c",), "object"),
    "a key of which nothing is said": (r"['b\'c'].x", ("b'c", "[x]"), None),
}


@pytest.mark.parametrize(("path", "steps", "type_name"), FOUND.values(), ids=FOUND)
def test_paths(path: str, steps: tuple[str, ...], type_name: str | None) -> None:
    found = find_field(path, FIELDS)
    assert found.steps == steps
    assert (found.schema and found.schema["type"]) == type_name


NOT_FOUND: Final = {
    "nothing after a dot": (".", "unexpected end of JSON path"),
    "no dot": ("a", r"expected \[ or . but got: a"),
    "an index": (".a[0]", "expected single quoted string but got 0"),
    "an open bracket": (".a['x'", "unexpected end of JSON path"),
    "an unknown escape": (r".a['\q']", "invalid string literal: invalid escape char"),
    "an unknown field": (".z", "does not refer to a valid field"),
    "into a scalar": ("['d.e'].x", "does not refer to a valid field"),
}


@pytest.mark.parametrize(("path", "message"), NOT_FOUND.values(), ids=NOT_FOUND)
def test_paths_that_lead_nowhere(path: str, message: str) -> None:
    with pytest.raises(InvalidSchemaPath, match=message):
        find_field(path, FIELDS)
