"""The schemas of custom resources: structure, extensions, defaults, bounds. Rows E14, R21, R35.

Source: k8s.io/apiextensions-apiserver, pkg/apiserver/schema and pkg/apis/apiextensions/validation (1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.custom_resources.definitions.validation.schema_tree import (
    DEPTH_MAX,
    PATH_MAX,
    SCHEMAS_MAX,
    validate_extent,
)
from apiserver.meta import names
from tests.unit.catalogue.served_kinds import ServedKind

VERSION: Final = {"name": "v1", "served": True, "storage": True}
DEFINITION: Final = ServedKind(
    "customresourcedefinitions.apiextensions.k8s.io",
    {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{**VERSION, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    },
)
ROOT: Final = "spec.validation.openAPIV3Schema"
X: Final = "x-kubernetes-"


def of_root(schema: dict[str, Any], **more: Any) -> list[str]:
    version = {**VERSION, "schema": {"openAPIV3Schema": schema}, **more}
    return list(map(str, DEFINITION.create({"spec.versions": [version]}).errors))


def of_field(schema: dict[str, Any]) -> list[str]:
    """What is wrong with a field `a` of this schema; its path is left out."""
    errors = of_root({"type": "object", "properties": {"a": schema}})
    return [error.removeprefix(f"{ROOT}.properties[a]").removeprefix(".") for error in errors]


INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
OBJECT: Final = {"type": "object"}
STRINGS: Final = {"type": "array", "items": {"type": "string"}}
ATOMIC: Final = {"type": "object", f"{X}map-type": "atomic"}


def keyed(item: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {"type": "array", f"{X}list-type": "map", f"{X}list-map-keys": list(keys), "items": item}


ITEM: Final = {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}
ACCEPTED: Final[dict[str, dict[str, Any]]] = {
    "integers or strings": {f"{X}int-or-string": True},
    "with their types in anyOf": {f"{X}int-or-string": True, "anyOf": INT_OR_STRING},
    "or in the first of allOf": {
        f"{X}int-or-string": True,
        "allOf": [{"anyOf": INT_OR_STRING}, {"pattern": "a"}],
    },
    "what is unknown, without a type": {f"{X}preserve-unknown-fields": True},
    "an embedded resource": {
        "type": "object",
        f"{X}embedded-resource": True,
        f"{X}preserve-unknown-fields": True,
    },
    "a set of whole objects": {"type": "array", f"{X}list-type": "set", "items": ATOMIC},
    "a list with a key": keyed(ITEM, "k"),
    "a key with a default": keyed(
        {"type": "object", "properties": {"k": {"type": "string", "default": "x"}}}, "k"
    ),
    "additionalProperties that say nothing new": {
        "type": "object",
        "properties": {},
        "additionalProperties": True,
    },
    "a junctor that specifies a field that is not outside": {
        "type": "object",
        "oneOf": [{"properties": {"b": {"minLength": 1}}}],
    },
    "a default": {"type": "object", "default": {"b": 1}, "properties": {"b": {"type": "integer"}}},
    "a null that may be": {"type": "string", "nullable": True},
    "a default of what is unknown": {f"{X}preserve-unknown-fields": True, "default": {"b": [{}]}},
}


@pytest.mark.parametrize("schema", ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(schema: dict[str, Any]) -> None:
    assert of_field(schema) == []


EMBEDDED: Final = {"type": "object", f"{X}embedded-resource": True, f"{X}preserve-unknown-fields": True}
(_DNS,), (_LABEL,) = names.dns1035_label("a_b"), names.label_value("-")
_STRUCTURAL: Final = "to be structural"
REFUSED: Final[dict[str, tuple[dict[str, Any], list[str]]]] = {
    "no type": ({}, ["type: Required value: must not be empty for specified object fields"]),
    "no type of items": (
        {"type": "array", "items": {}},
        ["items.type: Required value: must not be empty for specified array items"],
    ),
    "a null as type": (
        {"type": "null"},
        [
            (
                'type: Unsupported value: "null": supported values: '
                '"array", "boolean", "integer", "number", "object", "string"'
            ),
            "type: Forbidden: type cannot be set to null, use nullable as an alternative",
        ],
    ),
    "several items": (
        {"type": "array", "items": [{"type": "string"}]},
        ["items: Forbidden: items must be a schema object and not an array"],
    ),
    "what JSON schemas have and these have not": (
        {
            "type": "object",
            "id": "x",
            "$ref": "",
            "additionalItems": True,
            "patternProperties": {"a": OBJECT},
            "definitions": {"a": OBJECT},
            "dependencies": {"a": ["b"]},
        },
        [
            "id: Forbidden: id is not supported",
            "additionalItems: Forbidden: additionalItems is not supported",
            "patternProperties: Forbidden: patternProperties is not supported",
            "definitions: Forbidden: definitions is not supported",
            "dependencies: Forbidden: dependencies is not supported",
            "$ref: Forbidden: $ref is not supported",
        ],
    ),
    "types in a junctor": (
        {"type": "object", "anyOf": [{"type": "object"}, {"items": {"type": "string"}}]},
        [
            f"anyOf[0].type: Forbidden: must be empty {_STRUCTURAL}",
            f"anyOf[1].items.type: Forbidden: must be empty {_STRUCTURAL}",
        ],
    ),
    "anything but values in a junctor": (
        {
            "type": "array",
            "items": {"type": "string"},
            "not": {
                "description": "d",
                "title": "t",
                "nullable": True,
                "default": 0,
                "additionalProperties": {},
                f"{X}list-type": "atomic",
                f"{X}validations": [{"rule": "true"}],
            },
        },
        [
            f"not.additionalProperties: Forbidden: must be undefined {_STRUCTURAL}",
            f"not.default: Forbidden: must be undefined {_STRUCTURAL}",
            f"not.description: Forbidden: must be empty {_STRUCTURAL}",
            f"not.nullable: Forbidden: must be false {_STRUCTURAL}",
            f"not.title: Forbidden: must be empty {_STRUCTURAL}",
            f"not.{X}list-type: Forbidden: must be undefined {_STRUCTURAL}",
            f"not.{X}validations: Forbidden: must be empty {_STRUCTURAL}",
            f"not.type: Required value: must be array if {X}list-type is specified",
        ],
    ),
    "metadata in a junctor": (
        {"type": "object", "allOf": [{"properties": {"metadata": {}}}]},
        ["allOf[0].properties[metadata]: Forbidden: must not be specified in a nested context"],
    ),
    "types of integers or strings in another order": (
        {f"{X}int-or-string": True, "anyOf": INT_OR_STRING[::-1]},
        [f"anyOf[{index}].type: Forbidden: must be empty {_STRUCTURAL}" for index in (0, 1)],
    ),
    "integers or strings that are objects": (
        {f"{X}int-or-string": True, f"{X}preserve-unknown-fields": True, f"{X}embedded-resource": True},
        [
            f"type: Required value: must be object if {X}embedded-resource is true",
            f"{X}embedded-resource: Invalid value: true: must be false if {X}int-or-string is true",
            f"{X}preserve-unknown-fields: Invalid value: true: must be false if {X}int-or-string is true",
        ],
    ),
    "an embedded resource as a map": (
        {"type": "object", f"{X}embedded-resource": True, "additionalProperties": {"type": "string"}},
        [
            f"additionalProperties: Forbidden: must not be used if {X}embedded-resource is set",
            (
                f"properties: Required value: must not be empty if {X}embedded-resource is true without "
                f"{X}preserve-unknown-fields"
            ),
        ],
    ),
    "a pattern that does not compile": (
        {"type": "string", "pattern": "["},
        [
            (
                'pattern: Invalid value: "[": must be a valid regular expression, but isn\'t: '
                "error parsing regexp: missing closing ]: `[`"
            )
        ],
    ),
    "unknown fields that are not preserved": (
        {"type": "object", f"{X}preserve-unknown-fields": False},
        [f"{X}preserve-unknown-fields: Invalid value: false: must be true or undefined"],
    ),
    "properties beside a map": (
        {"type": "object", "properties": {"b": OBJECT}, "additionalProperties": False},
        ["additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
    ),
    "a list type without a list": (
        {f"{X}preserve-unknown-fields": True, f"{X}list-type": "atomic"},
        [f"type: Required value: must be array if {X}list-type is specified"],
    ),
    "a map type without a map": (
        {"type": "string", f"{X}map-type": "odd"},
        [
            f'type: Invalid value: "string": must be object if {X}map-type is specified',
            f'{X}map-type: Unsupported value: "odd": supported values: "atomic", "granular"',
        ],
    ),
    "keys without a list of them": (
        {**STRINGS, f"{X}list-map-keys": ["k"]},
        [f"{X}list-type: Required value: must be map if {X}list-map-keys is non-empty"],
    ),
    "a list of scalars with keys": (
        keyed({"type": "string"}, "k"),
        [f'items.type: Invalid value: "string": must be object if parent array\'s {X}list-type is map'],
    ),
    "keys that are no fields, and twice": (
        keyed({"type": "object"}, "k", "k"),
        [
            f'{X}list-map-keys: Invalid value: ["k","k"]: {text}'
            for text in (
                "entries must all be names of item properties",
                "entries must all be names of item properties",
                "must not contain duplicate entries",
            )
        ],
    ),
    "keys that are lists, or null": (
        keyed(
            {
                "type": "object",
                "nullable": True,
                "required": ["k", "l"],
                "properties": {"k": STRINGS, "l": {"type": "string", "nullable": True}},
            },
            *("k", "l"),
        ),
        [
            (
                'items.properties[k].type: Invalid value: "object": must be a scalar type if parent array\'s '
                f"{X}list-type is map"
            ),
            f"items.nullable: Forbidden: cannot be nullable when {X}list-type is map",
            (
                f"items.properties[l].nullable: Forbidden: this property is in {X}list-map-keys, "
                "so it cannot be nullable"
            ),
        ],
    ),
    "a default of another type": (
        {"type": "string", "default": 5},
        ['default: Invalid value: "integer":  in body must be of type string: "integer"'],
    ),
    "a default that is too long inside": (
        {"type": "object", "default": {"b": "xyz"}, "properties": {"b": {"type": "string", "maxLength": 2}}},
        ["default.b: Too long: may not be more than 2 bytes"],
    ),
    "a default with fields that would be pruned": (
        {"type": "object", "default": {"b": 1}, "properties": {"c": {"type": "integer"}}},
        ['default: Invalid value: {"b":1}: must not have unknown fields'],
    ),
    "an embedded resource by default that is none": (
        {**EMBEDDED, "default": {"kind": "a_b", "metadata": {"labels": {"x": "-"}}}},
        [
            "default.apiVersion: Required value",
            f'default.kind: Invalid value: "a_b": may have mixed case, but should otherwise match: {_DNS}',
            f'default.metadata.labels: Invalid value: "-": {_LABEL}',
        ],
    ),
    "metadata by default that are none": (
        {**EMBEDDED, "default": {"apiVersion": "v1", "kind": "A", "metadata": {"labels": 5}}},
        [
            (
                'default.metadata: Invalid value: {"labels":5}: json: cannot unmarshal number into Go struct '
                "field ObjectMeta.labels of type map[string]string"
            )
        ],
    ),
    "a kind by default that is none": (
        {
            "type": "object",
            f"{X}embedded-resource": True,
            "properties": {"kind": {"type": "string", "default": ""}},
        },
        ['properties[kind].default: Invalid value: "": must result in valid metadata: kind: Required value'],
    ),
}


@pytest.mark.parametrize(("schema", "errors"), REFUSED.values(), ids=REFUSED)
def test_refused(schema: dict[str, Any], errors: list[str]) -> None:
    assert of_field(schema) == errors


def rule(**fields: str) -> list[str]:
    schema = {"type": "object", "properties": {"b": {"type": "string"}, "c.d": STRINGS}}
    errors = of_field({**schema, f"{X}validations": [{"rule": "true", **fields}]})
    return [error.removeprefix(f"{X}validations[0].") for error in errors]


RULES: Final[dict[str, tuple[dict[str, str], list[str]]]] = {
    "a path with quotes": ({"fieldPath": "['c.d']"}, []),
    "a rule says something": ({"rule": " "}, ["rule: Required value: rule is not specified"]),
    "a message, too": (
        {"message": " "},
        ['message: Invalid value: " ": message must be non-empty if specified'],
    ),
    "a message is a line": (
        {"message": "a\nb"},
        [r'message: Invalid value: "a\nb": message must not contain line breaks'],
    ),
    "a rule of lines has a message": (
        {"rule": "a\n&& b"},
        ["message: Required value: message must be specified if rule contains line breaks"],
    ),
    "an expression says something": (
        {"messageExpression": " "},
        ["messageExpression: Required value: messageExpression must be non-empty if specified"],
    ),
    "reasons are four": (
        {"reason": "Odd"},
        [
            (
                'reason: Unsupported value: "Odd": supported values: "FieldValueDuplicate", '
                '"FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"'
            )
        ],
    ),
    "a path leads to a field": (
        {"fieldPath": ".d"},
        ['fieldPath: Invalid value: ".d": must be a valid path'],
    ),
}


@pytest.mark.parametrize(("fields", "errors"), RULES.values(), ids=RULES)
def test_rules_before_they_are_compiled(fields: dict[str, str], errors: list[str]) -> None:
    assert rule(**fields) == errors


def test_values_in_errors_are_safe_in_html() -> None:
    errors = of_field({"type": "object", "default": {"a": "<b>"}})
    assert errors == [r'default: Invalid value: {"a":"\u003cb\u003e"}: must not have unknown fields']


METADATA: Final = (
    f"{ROOT}.properties[metadata]: Forbidden: must not specify anything other than name and generateName, "
    "but metadata is implicitly specified"
)


def at_metadata(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"metadata": {"type": "object", **fields}}}


ROOTS: Final[dict[str, tuple[dict[str, Any], list[str]]]] = {
    "names may be limited": (
        at_metadata(
            properties={"name": {"type": "string", "maxLength": 9}, "generateName": {"type": "string"}}
        ),
        [],
    ),
    "labels may not": (at_metadata(properties={"name": {"type": "string"}, "labels": OBJECT}), [METADATA]),
    "metadata is not described": (at_metadata(description="d"), [METADATA]),
    "metadata has no default": (
        at_metadata(default={}),
        [f"{ROOT}.properties[metadata].default: Forbidden: must not be set in top-level metadata"],
    ),
    "a resource is no map": (
        {"type": "object", "additionalProperties": {"type": "string"}},
        [f"{ROOT}.additionalProperties: Forbidden: must not be used at the root"],
    ),
    "a resource is not null": (
        {"type": "object", "nullable": True},
        [f"{ROOT}.nullable: Forbidden: nullable cannot be true at the root"],
    ),
    "junctors of the root specify what is outside": (
        {"type": "object", "anyOf": [{"properties": {"a": {"minLength": 1}}}]},
        [f"{ROOT}.properties[a]: Required value: because it is defined in {ROOT}.anyOf[0].properties[a]"],
    ),
    "a schema has no schema": (
        {"type": "object", "$schema": "x"},
        [f"{ROOT}: Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported"],
    ),
}


@pytest.mark.parametrize(("schema", "errors"), ROOTS.values(), ids=ROOTS)
def test_roots(schema: dict[str, Any], errors: list[str]) -> None:
    assert of_root(schema) == errors


def test_with_a_status_the_root_says_little() -> None:
    (error,) = of_root({"type": "object", "anyOf": [{"required": ["a"]}]}, subresources={"status": {}})
    assert error.startswith(
        f'{ROOT}: Invalid value: {{"ID":"","Schema":"","Ref":null,"Description":"","Type":"object",'
    )
    assert error.endswith(
        ": only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength "
        "MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs "
        "Example XPreserveUnknownFields XValidations] fields are allowed at the root of the schema "
        "if the status subresource is enabled"
    )


# ---- bounds


# The ways in which a schema stands in another one.
INSIDE: Final[dict[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "properties": lambda schema: {"type": "object", "properties": {"a": schema}},
    "items": lambda schema: {"type": "array", "items": schema},
    "one of several items": lambda schema: {"type": "array", "items": [{"type": "string"}, schema]},
    "additionalProperties": lambda schema: {"type": "object", "additionalProperties": schema},
    "additionalItems": lambda schema: {"type": "array", "additionalItems": schema},
    "patternProperties": lambda schema: {"type": "object", "patternProperties": {"a": schema}},
    "definitions": lambda schema: {"definitions": {"a": schema}},
    "dependencies": lambda schema: {"dependencies": {"a": schema}},
    "allOf": lambda schema: {"allOf": [{}, schema]},
    "anyOf": lambda schema: {"anyOf": [schema]},
    "oneOf": lambda schema: {"oneOf": [schema]},
    "not": lambda schema: {"not": schema},
}
WAYS: Final = tuple(INSIDE.values())


def nested(depth: int, *ways: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """ways: taken in turn, the last one outermost."""
    schema: dict[str, Any] = {"type": "string"}
    for _, way in zip(range(depth - 1), cycle(ways), strict=False):
        schema = way(schema)
    return schema


def fields(count: int, name: str = "f") -> dict[str, Any]:
    return {"type": "object", "properties": {f"{name}{index}": {"type": "string"} for index in range(count)}}


BOUNDS: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "as deep as may be": (nested(DEPTH_MAX, INSIDE["properties"]), ""),
    "deeper": (
        nested(DEPTH_MAX + 1, INSIDE["properties"]),
        f"schemas must not be nested more than {DEPTH_MAX} deep",
    ),
    "as many as may be": (fields(SCHEMAS_MAX - 1), ""),
    "more": (fields(SCHEMAS_MAX), f"there must not be more than {SCHEMAS_MAX} schemas in a definition"),
    "long names": (
        fields(1, "n" * PATH_MAX),
        f"names on the way to a field must not have more than {PATH_MAX} characters together",
    ),
}


@pytest.mark.parametrize(("schema", "problem"), BOUNDS.values(), ids=BOUNDS)
def test_extent(schema: dict[str, Any], problem: str) -> None:
    path = "spec.versions[0].schema.openAPIV3Schema"
    assert of_root(schema) == ([f"{path}: Forbidden: {problem}"] if problem else [])


@pytest.mark.parametrize("way", INSIDE.values(), ids=INSIDE)
def test_depth_counts_however_schemas_are_nested(way: Callable[..., dict[str, Any]]) -> None:
    told = f"schemas must not be nested more than {DEPTH_MAX} deep"
    assert not any(told in error for error in of_root(nested(DEPTH_MAX, way)))
    assert any(told in error for error in of_root(nested(DEPTH_MAX + 1, way)))


@given(st.lists(st.sampled_from(WAYS), min_size=1, max_size=6), st.sampled_from((DEPTH_MAX, DEPTH_MAX + 1)))
def test_depth_counts_in_any_mix(ways: list[Callable[..., dict[str, Any]]], depth: int) -> None:
    found = validate_extent([("p", nested(depth, *ways))])
    assert bool(found) == (depth > DEPTH_MAX)


def test_how_deep_a_default_may_be() -> None:
    def default(depth: int) -> list[str]:
        value: Any = 1
        for _ in range(depth):
            value = [value]
        return of_field({f"{X}preserve-unknown-fields": True, "default": value})

    assert default(DEPTH_MAX - 1) == []
    assert default(DEPTH_MAX) == [f"default: Forbidden: must not be nested more than {DEPTH_MAX} deep"]


def test_a_list_with_a_default_and_without_its_keys() -> None:
    """The default is checked before the keys are missed."""
    listed = {"type": "array", f"{X}list-type": "map", "items": ITEM, "default": []}
    assert of_field(listed) == [
        f"{X}list-map-keys: Required value: must not be empty if {X}list-type is map",
    ]
