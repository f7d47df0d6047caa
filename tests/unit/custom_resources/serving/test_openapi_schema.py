"""Row I20: what OpenAPI says of the schemas in definitions, to clients of v3 and of v2.

Source: k8s.io/apiextensions-apiserver, pkg/controller/openapi/builder and pkg/controller/openapi/v2.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.custom_resources.rules.rule_tree import NullExpressionTimer
from apiserver.custom_resources.serving.openapi_schema import openapi_schema
from apiserver.custom_resources.serving.version_schema import DefinitionSource, VersionSchema
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import GroupVersion
from apiserver.registry.stored_object import StoredObject, encode, head_of
from apiserver.schema.structural import Schema, ValueKind
from apiserver.storage.interface import Stored
from tests.support.definitions import definition, version

HEAD: Final = head_of("apiextensions.k8s.io/v1", "CustomResourceDefinition")
X: Final = "x-kubernetes-"
KEEPS: Final[dict[str, Any]] = {f"{X}preserve-unknown-fields": True}
EMBEDDED: Final[dict[str, Any]] = {f"{X}embedded-resource": True}
INT_OR_STRING: Final[dict[str, Any]] = {f"{X}int-or-string": True}
BOTH: Final = [{"type": "integer"}, {"type": "string"}]
TEXTS: Final = {"apiVersion": "The version.", "kind": "The kind.", "metadata": "Standard metadata."}
OBJECT_META: Final = {
    "allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}],
    "description": "Standard metadata.",
}
OF_OBJECTS: Final[dict[str, Any]] = {
    "apiVersion": {"type": "string", "description": "The version."},
    "kind": {"type": "string", "description": "The kind."},
    "metadata": OBJECT_META,
}
CONVENTIONS: Final = (
    "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
)
OF_EMBEDDED: Final[dict[str, Any]] = {
    "apiVersion": {
        "type": "string",
        "description": "apiVersion defines the versioned schema of this representation of an object. "
        f"{CONVENTIONS}#resources",
    },
    "kind": {
        "type": "string",
        "description": "kind is a string value representing the type of this object. In CamelCase. "
        f"{CONVENTIONS}#types-kinds",
    },
    "metadata": OBJECT_META,
}
GVK: Final[dict[str, Any]] = {
    f"{X}group-version-kind": [{"group": "example.com", "kind": "Widget", "version": "v1"}]
}
SPEC: Final[dict[str, Any]] = {"type": "object", "properties": {"a": {"type": "string"}}}
REQUIRED: Final = ["kind", "apiVersion"]


def _published(schema: dict[str, Any], *, is_v2: bool) -> dict[str, Any]:
    document = definition("example.com", version(schema=schema))
    stored = StoredObject.of(Stored("/registry/definition", encode(document, HEAD), 7, 7))
    meta = Schema(ValueKind.STRUCT, "v1.ObjectMeta")
    read = VersionSchema(
        DefinitionSource(stored), "v1", brand=Brand(), meta=lambda: meta, timer=NullExpressionTimer()
    )
    return openapi_schema(read, GroupVersion("example.com", "v1"), "Widget", is_v2, TEXTS)


# The schema of a field; what v3 says of it; what v2 says.
FIELDS: Final[dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]] = {
    "documentation elsewhere": (
        {"type": "string", "externalDocs": {"url": "https://example.com"}},
        {"type": "string", "externalDocs": {"url": "https://example.com"}},
        {"type": "string", "externalDocs": {"url": "https://example.com"}},
    ),
    "v2 has no shape of an object that keeps unknown fields": (
        {**SPEC, **KEEPS, "description": "d", "required": ["a"]},
        {**SPEC, **KEEPS, "description": "d", "required": ["a"]},
        {**KEEPS, "description": "d", "required": ["a"]},
    ),
    "a string may have the extension, too": (
        {"type": "string", **KEEPS},
        {"type": "string", **KEEPS},
        {"type": "string", **KEEPS},
    ),
    "an array without items has no type in v2": (
        {"type": "array", "items": SPEC, **KEEPS},
        {"type": "array", "items": SPEC, **KEEPS},
        KEEPS,
    ),
    "what may be null has no type in v2": (
        {**SPEC, "nullable": True, "description": "d", "maxProperties": 2},
        {**SPEC, "nullable": True, "description": "d", "maxProperties": 2},
        {"description": "d", "maxProperties": 2},
    ),
    "values that may be null": (
        {"type": "object", "additionalProperties": {"type": "string", "nullable": True}, "required": ["z"]},
        {"type": "object", "additionalProperties": {"type": "string", "nullable": True}, "required": ["z"]},
        {"type": "object", "additionalProperties": {}},
    ),
    "v2 does not require what may be null": (
        {
            "type": "object",
            "required": ["a", "b"],
            "properties": {"a": {"type": "string", "nullable": True}, "b": {"type": "string"}},
        },
        {
            "type": "object",
            "required": ["a", "b"],
            "properties": {"a": {"type": "string", "nullable": True}, "b": {"type": "string"}},
        },
        {"type": "object", "required": ["b"], "properties": {"a": {}, "b": {"type": "string"}}},
    ),
    "v2 requires nothing then": (
        {"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "nullable": True}}},
        {"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "nullable": True}}},
        {"type": "object", "properties": {"a": {}}},
    ),
    "v2 has no junctors": (
        {
            **SPEC,
            **{key: [{"required": ["a"]}] for key in ("allOf", "anyOf", "oneOf")},
            "not": {"minimum": 1},
        },
        {
            **SPEC,
            **{key: [{"required": ["a"]}] for key in ("allOf", "anyOf", "oneOf")},
            "not": {"minimum": 1},
        },
        SPEC,
    ),
    "an integer or string": (INT_OR_STRING, {**INT_OR_STRING, "anyOf": BOTH}, INT_OR_STRING),
    "that says so itself": (
        {**INT_OR_STRING, "anyOf": BOTH, "allOf": [{"pattern": "a"}]},
        {**INT_OR_STRING, "anyOf": BOTH, "allOf": [{"pattern": "a"}]},
        INT_OR_STRING,
    ),
    "that says so in its first condition": (
        {**INT_OR_STRING, "allOf": [{"anyOf": BOTH}, {"maximum": 3}]},
        {**INT_OR_STRING, "allOf": [{"anyOf": BOTH}, {"maximum": 3}]},
        INT_OR_STRING,
    ),
    "that has alternatives of its own": (
        {**INT_OR_STRING, "pattern": "^a", "anyOf": [{"maximum": 3}], "allOf": [{"minimum": 1}]},
        {
            **INT_OR_STRING,
            "pattern": "^a",
            "anyOf": [{"maximum": 3}],
            "allOf": [{"anyOf": BOTH}, {"minimum": 1}],
        },
        {**INT_OR_STRING, "pattern": "^a"},
    ),
    "an embedded resource": (
        {**EMBEDDED, "type": "object", "required": ["a"], "properties": {"a": SPEC, "metadata": SPEC}},
        {
            **EMBEDDED,
            "type": "object",
            "required": ["a", *REQUIRED],
            "properties": {"a": SPEC, **OF_EMBEDDED},
        },
        {
            **EMBEDDED,
            "type": "object",
            "required": ["a", *REQUIRED],
            "properties": {"a": SPEC, **OF_EMBEDDED},
        },
    ),
    "an embedded resource that requires its kind": (
        {**EMBEDDED, "type": "object", "required": ["kind"], "properties": {"a": SPEC}},
        {**EMBEDDED, "type": "object", "required": REQUIRED, "properties": {"a": SPEC, **OF_EMBEDDED}},
        {**EMBEDDED, "type": "object", "required": REQUIRED, "properties": {"a": SPEC, **OF_EMBEDDED}},
    ),
    "an embedded resource of any kind": (
        {**EMBEDDED, **KEEPS, "type": "object"},
        {**EMBEDDED, **KEEPS, "type": "object", "required": REQUIRED, "properties": OF_EMBEDDED},
        {**EMBEDDED, **KEEPS},
    ),
    "an embedded resource that may be null": (
        {**EMBEDDED, "nullable": True, "type": "object", "properties": {"a": SPEC}},
        {
            **EMBEDDED,
            "nullable": True,
            "type": "object",
            "required": REQUIRED,
            "properties": {"a": SPEC, **OF_EMBEDDED},
        },
        {**EMBEDDED, "required": REQUIRED, "properties": OF_EMBEDDED},
    ),
}


@pytest.mark.parametrize("is_v2", [False, True], ids=["v3", "v2"])
@pytest.mark.parametrize("place", ["properties", "items", "additionalProperties"])
@pytest.mark.parametrize("name", FIELDS)
def test_fields_are_published_as_each_version_of_openapi_can_say_it(
    name: str, place: str, is_v2: bool
) -> None:
    schema, *expected = FIELDS[name]
    outer: dict[str, dict[str, Any]] = {
        "properties": {"type": "object", "properties": {"f": schema}},
        "items": {"type": "array", "items": schema},
        "additionalProperties": {"type": "object", "additionalProperties": schema},
    }
    published = _published({"type": "object", "properties": {"outer": outer[place]}}, is_v2=is_v2)
    found = published["properties"]["outer"][place]
    assert (found["f"] if place == "properties" else found) == expected[is_v2]


ROOT: Final[dict[str, Any]] = {
    "type": "object",
    "description": "d",
    "required": ["spec"],
    "properties": {"spec": SPEC},
}
ROOT_PUBLISHED: Final[dict[str, Any]] = {**ROOT, "properties": {"spec": SPEC, **OF_OBJECTS}, **GVK}
ROOTS: Final[dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]] = {
    "a schema": (ROOT, ROOT_PUBLISHED, ROOT_PUBLISHED),
    "the fields of all objects have one description": (
        {"type": "object", "properties": {"kind": {"type": "string", "description": "Mine."}}},
        {"type": "object", "properties": OF_OBJECTS, **GVK},
        {"type": "object", "properties": OF_OBJECTS, **GVK},
    ),
    "v2 says nothing of objects that keep unknown fields": (
        {**ROOT, **KEEPS},
        {**ROOT_PUBLISHED, **KEEPS},
        {"type": "object", **GVK},
    ),
}


@pytest.mark.parametrize("is_v2", [False, True], ids=["v3", "v2"])
@pytest.mark.parametrize("name", ROOTS)
def test_objects_are_published_as_each_version_of_openapi_can_say_it(name: str, is_v2: bool) -> None:
    schema, *expected = ROOTS[name]
    assert _published(schema, is_v2=is_v2) == expected[is_v2]
