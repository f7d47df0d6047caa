"""Encodes OpenAPI documents as protobuf messages, which kubectl and client-go ask for.

Only the constructs in this server's documents are supported. Values of any type (extensions, enumerations,
defaults in v2) are YAML in a string; JSON is YAML. Source of the numbers: google/gnostic-models,
openapiv2/OpenAPIv2.proto and openapiv3/OpenAPIv3.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import orjson

from apiserver.meta.vocabulary import Document
from apiserver.wire.protobuf.wire_format import BYTES, FIXED64, VARINT, delimited, key, varint

V2_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
V3_TYPE: Final = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"

# Encodes a value as the field with a number, including the key.
Write: TypeAlias = Callable[[int, Any], bytes]


def text(number: int, value: str) -> bytes:
    return delimited(key(number, BYTES), value.encode())


def flag(number: int, value: bool) -> bytes:
    return key(number, VARINT) + varint(int(value))


def integer(number: int, value: int) -> bytes:
    return key(number, VARINT) + varint(value)


def double(number: int, value: float) -> bytes:
    return key(number, FIXED64) + struct.pack("<d", value)


def any_value(number: int, value: Any) -> bytes:
    return delimited(key(number, BYTES), text(2, orjson.dumps(value).decode()))


def repeated(write: Write) -> Write:
    """Returns the encoder of a repeated field."""
    return lambda number, values: b"".join(write(number, value) for value in values)


def named(write: Write) -> Write:
    """Returns the encoder of a repeated field of name and value pairs, for a map."""
    return lambda number, values: b"".join(
        delimited(key(number, BYTES), text(1, name) + write(2, value)) for name, value in values.items()
    )


def wrapped(inner: int, write: Write) -> Write:
    """Returns the encoder of a message with one field."""
    return lambda number, value: delimited(key(number, BYTES), write(inner, value))


def one_of(choose: Callable[[Any], tuple[int, Write]]) -> Write:
    """Returns the encoder of a message with one of several fields, chosen by the value."""

    def write(number: int, value: Any) -> bytes:
        inner, chosen = choose(value)
        return delimited(key(number, BYTES), chosen(inner, value))

    return write


class GnosticMessage:
    """Encodes a JSON object as a message with a field for each key.

    extensions: the number of the field that holds all keys beginning with `x-`.
    """

    def __init__(self, *, extensions: int = 0) -> None:
        self._extensions = extensions
        self._fields: Mapping[str, tuple[int, Write]] = {}

    def has(self, fields: Mapping[str, tuple[int, Write]]) -> GnosticMessage:
        """Sets the fields, which for recursive messages is not possible in the constructor."""
        self._fields = fields
        return self

    def __call__(self, number: int, value: Document) -> bytes:
        return delimited(key(number, BYTES), self.content(value))

    def content(self, value: Document) -> bytes:
        """Returns the encoded fields. Raises KeyError for a key that has no field."""
        parts = []
        for name, each_value in value.items():
            if name.startswith("x-") and self._extensions:
                pair = text(1, name) + any_value(2, each_value)
                parts.append(delimited(key(self._extensions, BYTES), pair))
            else:
                number, write = self._fields[name]
                parts.append(write(number, each_value))
        return b"".join(parts)


def _numbered(first: int, fields: Mapping[str, Write]) -> dict[str, tuple[int, Write]]:
    """Returns fields whose numbers follow each other."""
    return {name: (number, write) for number, (name, write) in enumerate(fields.items(), first)}


# In both versions, under other numbers, but in the same order.
_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch")
_CONSTRAINTS: Final[Mapping[str, Write]] = {
    "multipleOf": double,
    "maximum": double,
    "exclusiveMaximum": flag,
    "minimum": double,
    "exclusiveMinimum": flag,
    "maxLength": integer,
    "minLength": integer,
    "pattern": text,
    "maxItems": integer,
    "minItems": integer,
    "uniqueItems": flag,
    "maxProperties": integer,
    "minProperties": integer,
    "required": repeated(text),
    "enum": repeated(any_value),
}
_EXTERNAL_DOCS: Final = GnosticMessage().has({"description": (1, text), "url": (2, text)})

# ---- v2


def _v2() -> GnosticMessage:
    schema = GnosticMessage(extensions=31)
    properties = wrapped(1, named(schema))
    schema.has(
        {
            "$ref": (1, text),
            "format": (2, text),
            "title": (3, text),
            "description": (4, text),
            "default": (5, any_value),
            **_numbered(6, _CONSTRAINTS),
            "additionalProperties": (
                21,
                one_of(lambda value: (2, flag) if isinstance(value, bool) else (1, schema)),
            ),
            "type": (22, wrapped(1, text)),
            "items": (23, wrapped(1, schema)),
            "allOf": (24, repeated(schema)),
            "properties": (25, properties),
            "readOnly": (27, flag),
            "externalDocs": (29, _EXTERNAL_DOCS),
            "example": (30, any_value),
        }
    )
    body = GnosticMessage(extensions=6).has(
        _numbered(1, {"description": text, "name": text, "in": text, "required": flag, "schema": schema})
    )
    shared = _numbered(1, {"required": flag, "in": text, "description": text, "name": text})
    query = GnosticMessage(extensions=23).has(
        {**shared, "type": (6, text), "format": (7, text), "uniqueItems": (20, flag)}
    )
    path = GnosticMessage(extensions=22).has(
        {**shared, "type": (5, text), "format": (6, text), "uniqueItems": (19, flag)}
    )
    simple = one_of(lambda value: (3, query) if value["in"] == "query" else (4, path))
    parameter = wrapped(1, one_of(lambda value: (1, body) if value["in"] == "body" else (2, simple)))
    response = GnosticMessage(extensions=5).has({"description": (1, text), "schema": (2, wrapped(1, schema))})
    operation = GnosticMessage(extensions=13).has(
        {
            **_numbered(1, {"tags": repeated(text), "summary": text, "description": text}),
            "operationId": (5, text),
            "produces": (6, repeated(text)),
            "consumes": (7, repeated(text)),
            "parameters": (8, repeated(parameter)),
            "responses": (9, wrapped(1, named(wrapped(1, response)))),
            "schemes": (10, repeated(text)),
            "deprecated": (11, flag),
        }
    )
    item = GnosticMessage(extensions=10).has(
        {**_numbered(2, dict.fromkeys(_METHODS, operation)), "parameters": (9, repeated(parameter))}
    )
    api_key = GnosticMessage(extensions=5).has(
        _numbered(1, dict.fromkeys(("type", "name", "in", "description"), text))
    )
    return GnosticMessage(extensions=16).has(
        {
            "swagger": (1, text),
            "info": (2, GnosticMessage(extensions=7).has({"title": (1, text), "version": (2, text)})),
            "paths": (8, wrapped(2, named(item))),
            "definitions": (9, properties),
            "security": (12, repeated(wrapped(1, named(wrapped(1, repeated(text)))))),
            "securityDefinitions": (13, wrapped(1, named(wrapped(2, api_key)))),
        }
    )


# ---- v3


def _default_v3(number: int, value: Any) -> bytes:
    """Encodes a default; only scalars are supported."""
    if isinstance(value, bool):
        content = flag(2, value)
    elif isinstance(value, int | float):
        content = double(1, value)
    elif isinstance(value, str):
        content = text(3, value)
    else:
        return b""
    return delimited(key(number, BYTES), content)


def _v3() -> GnosticMessage:
    reference = GnosticMessage().has({"$ref": (1, text), "description": (3, text)})
    schema = GnosticMessage(extensions=36)
    schema_or_reference = one_of(lambda value: (2, reference) if "$ref" in value else (1, schema))
    properties = wrapped(1, named(schema_or_reference))
    schema.has(
        {
            "nullable": (1, flag),
            **_numbered(3, {"readOnly": flag, "writeOnly": flag}),
            **_numbered(
                6, {"externalDocs": _EXTERNAL_DOCS, "example": any_value, "deprecated": flag, "title": text}
            ),
            **_numbered(10, _CONSTRAINTS),
            "type": (25, text),
            **_numbered(26, dict.fromkeys(("allOf", "oneOf", "anyOf"), repeated(schema_or_reference))),
            "not": (29, schema),
            "items": (30, wrapped(1, schema_or_reference)),
            "properties": (31, properties),
            "additionalProperties": (
                32,
                one_of(lambda value: (2, flag) if isinstance(value, bool) else (1, schema_or_reference)),
            ),
            **_numbered(33, {"default": _default_v3, "description": text, "format": text}),
        }
    )
    parameter = GnosticMessage(extensions=14).has(
        {
            **_numbered(1, {"name": text, "in": text, "description": text, "required": flag}),
            "schema": (10, schema_or_reference),
        }
    )
    parameters = repeated(wrapped(1, parameter))
    media_type = GnosticMessage(extensions=5).has({"schema": (1, schema_or_reference)})
    content = wrapped(1, named(media_type))
    body = GnosticMessage(extensions=4).has(
        {"description": (1, text), "content": (2, content), "required": (3, flag)}
    )
    response = GnosticMessage(extensions=5).has({"description": (1, text), "content": (3, content)})
    operation = GnosticMessage(extensions=13).has(
        {
            **_numbered(1, {"tags": repeated(text), "summary": text, "description": text}),
            "operationId": (5, text),
            "parameters": (6, parameters),
            "requestBody": (7, wrapped(1, body)),
            "responses": (8, wrapped(2, named(wrapped(1, response)))),
            "deprecated": (10, flag),
        }
    )
    item = GnosticMessage(extensions=14).has(
        {**_numbered(4, dict.fromkeys(_METHODS, operation)), "parameters": (13, parameters)}
    )
    scheme = GnosticMessage(extensions=9).has(
        {"type": (1, text), "description": (2, text), "name": (3, text), "in": (4, text)}
    )
    components = GnosticMessage(extensions=10).has(
        {"schemas": (1, properties), "securitySchemes": (7, wrapped(1, named(wrapped(1, scheme))))}
    )
    return GnosticMessage(extensions=9).has(
        {
            "openapi": (1, text),
            "info": (2, GnosticMessage(extensions=7).has({"title": (1, text), "version": (6, text)})),
            "paths": (4, wrapped(1, named(item))),
            "components": (5, components),
        }
    )


# Encode documents of OpenAPI v2 and v3.
to_v2: Final = _v2().content
to_v3: Final = _v3().content
