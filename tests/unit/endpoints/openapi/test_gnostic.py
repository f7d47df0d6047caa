"""Documents of OpenAPI as protobuf. Source of the numbers: google/gnostic, its two files of messages."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

import pytest

from apiserver.endpoints.openapi.gnostic import to_v2, to_v3
from apiserver.wire.protobuf.wire_format import fields


def at(message: bytes, *path: int) -> list[Any]:
    """The values of a field of messages in messages, by the fields' numbers."""
    found: list[Any] = [message]
    for number in path:
        found = [
            value
            for each in found
            for key, value in (fields(each) if isinstance(each, bytes) else ())
            if key >> 3 == number
        ]
    return found


def v2_schema(schema: dict[str, Any]) -> dict[str, Any]:
    return {"definitions": {"S": schema}}


def v3_schema(schema: dict[str, Any]) -> dict[str, Any]:
    return {"components": {"schemas": {"S": schema}}}


def operation(content: dict[str, Any]) -> dict[str, Any]:
    return {"paths": {"/p": {"get": content}}}


# Where in a document its one schema stands, and its one operation.
V2_SCHEMA: Final = (9, 1, 2)
V2_OPERATION: Final = (8, 2, 2, 2)
V3_SCHEMA: Final = (5, 1, 1, 2, 1)
V3_OPERATION: Final = (4, 1, 2, 4)
QUERY: Final = {"name": "n", "in": "query", "description": "d"}

V2: Final[dict[str, tuple[dict[str, Any], tuple[int, ...], list[Any]]]] = {
    "version": ({"swagger": "2.0"}, (1,), [b"2.0"]),
    "title": ({"info": {"title": "t", "version": "v"}}, (2, 1), [b"t"]),
    "paths have names": ({"paths": {"/a": {}, "/b": {}}}, (8, 2, 1), [b"/a", b"/b"]),
    "definitions have names": (v2_schema({}), (9, 1, 1), [b"S"]),
    "a type": (v2_schema({"type": "object"}), (*V2_SCHEMA, 22, 1), [b"object"]),
    "a reference": (v2_schema({"$ref": "#/definitions/T"}), (*V2_SCHEMA, 1), [b"#/definitions/T"]),
    "documentation elsewhere": (
        v2_schema({"externalDocs": {"description": "d", "url": "u"}}),
        (*V2_SCHEMA, 29, 2),
        [b"u"],
    ),
    "a description": (v2_schema({"description": "ü"}), (*V2_SCHEMA, 4), ["ü".encode()]),
    "required fields": (v2_schema({"required": ["a", "b"]}), (*V2_SCHEMA, 19), [b"a", b"b"]),
    "properties": (
        v2_schema({"properties": {"p": {"format": "byte"}}}),
        (*V2_SCHEMA, 25, 1, 2, 2),
        [b"byte"],
    ),
    "items": (v2_schema({"items": {"format": "f"}}), (*V2_SCHEMA, 23, 1, 2), [b"f"]),
    "values of a map": (v2_schema({"additionalProperties": {"format": "f"}}), (*V2_SCHEMA, 21, 1, 2), [b"f"]),
    "any value": (v2_schema({"additionalProperties": True}), (*V2_SCHEMA, 21, 2), [1]),
    "an enumeration is YAML": (v2_schema({"enum": ["a", 1]}), (*V2_SCHEMA, 20, 2), [b'"a"', b"1"]),
    "a bound": (v2_schema({"maximum": 1.5}), (*V2_SCHEMA, 7), [struct.pack("<d", 1.5)]),
    "a length": (v2_schema({"maxLength": 300}), (*V2_SCHEMA, 11), [300]),
    "extensions have names": (v2_schema({"x-a": [1]}), (*V2_SCHEMA, 31, 1), [b"x-a"]),
    "extensions are YAML": (v2_schema({"x-a": [1]}), (*V2_SCHEMA, 31, 2, 2), [b"[1]"]),
    "an operation": (operation({"operationId": "o"}), (*V2_OPERATION, 5), [b"o"]),
    "its extension": (operation({"x-a": "list"}), (*V2_OPERATION, 13, 2, 2), [b'"list"']),
    "a parameter": (operation({"parameters": [QUERY]}), (*V2_OPERATION, 8, 1, 2, 3, 4), [b"n"]),
    "a part of the path": (
        operation({"parameters": [{"name": "n", "in": "path", "required": True, "type": "string"}]}),
        (*V2_OPERATION, 8, 1, 2, 4, 5),
        [b"string"],
    ),
    "a body": (
        operation({"parameters": [{"name": "body", "in": "body", "schema": {"$ref": "r"}}]}),
        (*V2_OPERATION, 8, 1, 1, 5, 1),
        [b"r"],
    ),
    "an answer's code": (operation({"responses": {"200": {}}}), (*V2_OPERATION, 9, 1, 1), [b"200"]),
    "an answer": (
        operation({"responses": {"200": {"schema": {"$ref": "r"}}}}),
        (*V2_OPERATION, 9, 1, 2, 1, 2, 1, 1),
        [b"r"],
    ),
    "parameters of a path": ({"paths": {"/p": {"parameters": [QUERY]}}}, (8, 2, 2, 9, 1, 2, 3, 3), [b"d"]),
    "who one is": (
        {"securityDefinitions": {"b": {"type": "apiKey", "in": "header", "name": "a"}}},
        (13, 1, 2, 2, 3),
        [b"header"],
    ),
    "who one must be": ({"security": [{"b": []}]}, (12, 1, 1), [b"b"]),
}

V3: Final[dict[str, tuple[dict[str, Any], tuple[int, ...], list[Any]]]] = {
    "version": ({"openapi": "3.0.0"}, (1,), [b"3.0.0"]),
    "the version of what is described": ({"info": {"title": "t", "version": "v"}}, (2, 6), [b"v"]),
    "schemas have names": (v3_schema({}), (5, 1, 1, 1), [b"S"]),
    "documentation elsewhere": (
        v3_schema({"externalDocs": {"description": "d", "url": "u"}}),
        (*V3_SCHEMA, 6, 2),
        [b"u"],
    ),
    "a type": (v3_schema({"type": "object"}), (*V3_SCHEMA, 25), [b"object"]),
    "a reference": (v3_schema({"properties": {"p": {"$ref": "r"}}}), (*V3_SCHEMA, 31, 1, 2, 2, 1), [b"r"]),
    "a wrapped reference": (v3_schema({"allOf": [{"$ref": "r"}]}), (*V3_SCHEMA, 26, 2, 1), [b"r"]),
    "one of two": (
        v3_schema({"oneOf": [{"type": "a"}, {"type": "b"}]}),
        (*V3_SCHEMA, 27, 1, 25),
        [b"a", b"b"],
    ),
    "items": (v3_schema({"items": {"format": "f"}}), (*V3_SCHEMA, 30, 1, 1, 35), [b"f"]),
    "values of a map": (
        v3_schema({"additionalProperties": {"format": "f"}}),
        (*V3_SCHEMA, 32, 1, 1, 35),
        [b"f"],
    ),
    "no other values": (v3_schema({"additionalProperties": False}), (*V3_SCHEMA, 32, 2), [0]),
    "a default that is text": (v3_schema({"default": "TCP"}), (*V3_SCHEMA, 33, 3), [b"TCP"]),
    "a default that is a number": (v3_schema({"default": 1}), (*V3_SCHEMA, 33, 1), [struct.pack("<d", 1)]),
    "a default that is false": (v3_schema({"default": False}), (*V3_SCHEMA, 33, 2), [0]),
    "a default without a form": (v3_schema({"default": {}}), (*V3_SCHEMA, 33), []),
    "extensions": (v3_schema({"x-a": {"b": 1}}), (*V3_SCHEMA, 36, 2, 2), [b'{"b":1}']),
    "an operation": (operation({"operationId": "o"}), (*V3_OPERATION, 5), [b"o"]),
    "a parameter": (
        operation({"parameters": [{**QUERY, "schema": {"type": "string"}}]}),
        (*V3_OPERATION, 6, 1, 10, 1, 25),
        [b"string"],
    ),
    "a body": (
        operation({"requestBody": {"content": {"*/*": {"schema": {"$ref": "r"}}}}}),
        (*V3_OPERATION, 7, 1, 2, 1, 2, 1, 2, 1),
        [b"r"],
    ),
    "an answer": (
        operation({"responses": {"200": {"description": "OK"}}}),
        (*V3_OPERATION, 8, 2, 2, 1, 1),
        [b"OK"],
    ),
    "an answer's type": (
        operation({"responses": {"200": {"content": {"a/b": {}}}}}),
        (*V3_OPERATION, 8, 2, 2, 1, 3, 1, 1),
        [b"a/b"],
    ),
    "who one is": (
        {"components": {"securitySchemes": {"b": {"type": "apiKey", "in": "header", "name": "a"}}}},
        (5, 7, 1, 2, 1, 4),
        [b"header"],
    ),
}


@pytest.mark.parametrize(("document", "path", "values"), V2.values(), ids=V2)
def test_v2(document: dict[str, Any], path: tuple[int, ...], values: list[Any]) -> None:
    assert at(to_v2(document), *path) == values


@pytest.mark.parametrize(("document", "path", "values"), V3.values(), ids=V3)
def test_v3(document: dict[str, Any], path: tuple[int, ...], values: list[Any]) -> None:
    assert at(to_v3(document), *path) == values


@pytest.mark.parametrize("write", [to_v2, to_v3])
def test_unsupported_keywords_are_an_error(write: Callable[[dict[str, Any]], bytes]) -> None:
    with pytest.raises(KeyError):
        write({"colour": "red"})
