"""Encodes documents as messages."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from apiserver.golang.times import written_time
from apiserver.meta.vocabulary import Document
from apiserver.schema.go_fields import GoField, fields_of, go_struct
from apiserver.schema.structural import Schema, ValueKind
from apiserver.wire.protobuf.decoder import WIRE_TYPES, either_fields
from apiserver.wire.protobuf.wire_format import BYTES, delimited, key, varint

# Encodes the content of a field: bytes without their length, or a number.
_Encode: TypeAlias = Callable[[Any], bytes]
_Write: TypeAlias = Callable[[list[bytes], Any], None]

_FIRST: Final = key(1, BYTES)
_SECOND: Final = key(2, BYTES)
_THIRD: Final = key(3, BYTES)


class NotEncodable(ValueError):
    """A document that cannot be encoded in protobuf. The message is for the client."""


class MessageEncoder:
    """Encodes documents of one kind as messages."""

    def __init__(self, schema: Schema) -> None:
        """Raises LookupError for a kind with unknown protobuf fields."""
        self._encode = _Compiler().message(schema)

    def __call__(self, document: Document) -> bytes:
        """Encode a stored document, without apiVersion and kind. Raises NotEncodable."""
        try:
            return self._encode(document)
        except (AttributeError, TypeError, ValueError, KeyError, RecursionError, struct.error) as error:
            if isinstance(error, NotEncodable):
                raise
            # The stored object does not fit the schema: another release may have written it.
            raise NotEncodable(f"the object cannot be encoded in protobuf: {error}") from error


class _Member(NamedTuple):
    """A field of a message.

    name: its JSON name; empty for an inlined message and for a time, whose `write` gets the whole document.
    """

    number: int
    name: str
    write: _Write


class _Compiler:
    def __init__(self) -> None:
        self._messages: dict[Schema, _Encode] = {}  # schemas may be recursive

    def message(self, schema: Schema) -> _Encode:
        done = self._messages.get(schema)
        if done is None:
            done = self._messages[schema] = self._checked(schema)
        return done

    def _checked(self, schema: Schema) -> _Encode:
        """Returns an encoder that refuses fields without a number, instead of losing them."""
        encode = self._struct(schema, schema.definition)
        known = fields_of(schema.definition, schema.vendor).keys() | {"apiVersion", "kind"}
        go_type = schema.go_type

        def encode_checked(document: Document) -> bytes:
            if not document.keys() <= known:
                for name, value in document.items():
                    if name not in known and value is not None:
                        raise NotEncodable(f"field {name} of {go_type} is not known in protobuf here")
            return encode(document)

        return encode_checked

    def _struct(self, schema: Schema, definition: str) -> _Encode:
        """Returns the encoder of a struct.

        definition: the one with the field numbers; that of an inlined message differs from the schema's.
        """
        known = go_struct(definition, schema.vendor)
        if known is None:
            raise LookupError(f"{definition} has no known protobuf fields")
        members = [
            self._member(name, schema.fields[name], go_field)
            for name, go_field in known.fields.items()
            if name in schema.fields
        ]
        members += [
            _Member(number, "", self._inlined(schema, inlined, number))
            for inlined, number in known.inlined.items()
        ]
        members.sort()  # the order in which Go encodes them

        def encode(document: Document) -> bytes:
            pieces: list[bytes] = []
            for _, name, write in members:
                if not name:
                    write(pieces, document)
                elif (value := document.get(name)) is not None:
                    write(pieces, value)
            return b"".join(pieces)

        return encode

    def _inlined(self, schema: Schema, definition: str, number: int) -> _Write:
        encode, field_key = self._struct(schema, definition), key(number, BYTES)

        def write(pieces: list[bytes], document: Document) -> None:
            if content := encode(document):
                pieces.append(delimited(field_key, content))

        return write

    def _member(self, name: str, schema: Schema, go_field: GoField) -> _Member:
        number = go_field.number
        if schema.kind in (ValueKind.TIME, ValueKind.MICRO_TIME):
            return _Member(number, "", _time_field(name, number))
        make = self._items_message if go_field.is_message else self._field
        return _Member(number, name, make(schema, number))

    def _field(self, schema: Schema, number: int) -> _Write:
        match schema.kind:
            case ValueKind.LIST:
                assert schema.element is not None
                return self._list(schema.element, number)
            case ValueKind.MAP:
                assert schema.element is not None
                return self._map(schema.element, number)
        wire_type = WIRE_TYPES.get(schema.kind, BYTES)
        field_key, encode = key(number, wire_type), self._value(schema)
        if wire_type == BYTES:
            return lambda pieces, value: pieces.append(delimited(field_key, encode(value)))
        return lambda pieces, value: pieces.append(field_key + encode(value))

    def _list(self, element: Schema, number: int) -> _Write:
        write = self._field(element, number)

        def write_all(pieces: list[bytes], values: list[Any]) -> None:
            for value in values:
                write(pieces, value)

        return write_all

    def _map(self, element: Schema, number: int) -> _Write:
        """Returns the encoder of a map, with the entries in the order of their keys, as in Go."""
        field_key, write_value = key(number, BYTES), self._entry_value(element)

        def write(pieces: list[bytes], values: Mapping[str, Any]) -> None:
            for name in sorted(values):
                entry = [delimited(_FIRST, name.encode())]
                write_value(entry, values[name])
                pieces.append(delimited(field_key, b"".join(entry)))

        return write

    def _entry_value(self, element: Schema) -> _Write:
        # A list that is a map's value is a message with the items in it.
        return (
            self._field(element, 2) if element.kind is not ValueKind.LIST else self._items_message(element, 2)
        )

    def _items_message(self, schema: Schema, number: int) -> _Write:
        """Returns the encoder of a list that is a message with the items in its first field."""
        field_key, write_items = key(number, BYTES), self._field(schema, 1)

        def write(pieces: list[bytes], values: list[Any]) -> None:
            items: list[bytes] = []
            write_items(items, values)
            pieces.append(delimited(field_key, b"".join(items)))

        return write

    def _value(self, schema: Schema) -> _Encode:
        match schema.kind:
            case ValueKind.STRUCT:
                # Compiled when the first value comes, since most objects have only a few of the structs.
                compiled: list[_Encode] = []

                def encode(value: Any) -> bytes:
                    if not compiled:
                        try:
                            compiled.append(self.message(schema))
                        except LookupError as error:
                            raise NotEncodable(str(error)) from None
                    return compiled[0](value)

                return encode
            case ValueKind.EITHER:
                return self._either(schema)
            case kind:
                return _SCALARS[kind]

    def _either(self, schema: Schema) -> _Encode:
        """Returns the encoder of a message with the field `schema` for an object, and another one."""
        (number_of_object, element), (number_of_other, other) = either_fields(schema)
        write_object, write_other = (
            self._field(element, number_of_object),
            self._field(other, number_of_other),
        )
        is_boolean = other.kind is ValueKind.BOOLEAN

        def encode(value: Any) -> bytes:
            pieces: list[bytes] = []
            if not isinstance(value, dict):
                write_other(pieces, value)
            else:
                if is_boolean:
                    write_other(pieces, True)
                write_object(pieces, value)
            return b"".join(pieces)

        return encode


def _time_field(name: str, number: int) -> _Write:
    """Returns the encoder of a time field. It also encodes null, which is the zero time."""
    field_key = key(number, BYTES)

    def write(pieces: list[bytes], document: Document) -> None:
        if name in document:
            pieces.append(delimited(field_key, _time(document[name])))

    return write


# ---- values


def _integer(value: Any) -> bytes:
    if type(value) is not int:
        raise NotEncodable(f"{value!r} is not an integer")
    return varint(value)


def _base64(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError) as error:
        raise NotEncodable(f"bytes are not valid base64: {error}") from error


def _int_or_string(value: Any) -> bytes:
    if isinstance(value, str):
        return b"\x08\x01\x10\x00" + delimited(_THIRD, value.encode())
    return b"\x08\x00\x10" + _integer(value) + b"\x1a\x00"


def _time(value: str | None) -> bytes:
    """Encode seconds and nanoseconds since 1970, both even if they are 0: without them it is the zero
    time.
    """
    if value is None:
        return b""
    if value[4] == "-" and not value.startswith("0000"):
        time = datetime.fromisoformat(value)
        seconds, nanoseconds = int(time.replace(microsecond=0).timestamp()), time.microsecond * 1000
    else:  # Python has no such year.
        seconds, nanoseconds, _ = written_time(value)
    return b"\x08" + varint(seconds) + b"\x10" + varint(nanoseconds)


def _raw_json(value: Any) -> bytes:
    return delimited(_FIRST, orjson.dumps(value))


_SCALARS: Final[dict[ValueKind, _Encode]] = {
    ValueKind.STRING: str.encode,
    ValueKind.INTEGER: _integer,
    ValueKind.NUMBER: lambda value: struct.pack("<d", value),
    ValueKind.BOOLEAN: lambda value: b"\x01" if value else b"\x00",
    ValueKind.BYTES: _base64,
    ValueKind.TIME: _time,
    ValueKind.MICRO_TIME: _time,
    ValueKind.INT_OR_STRING: _int_or_string,
    ValueKind.QUANTITY: lambda value: delimited(_FIRST, str(value).encode()),
    ValueKind.ANY: _raw_json,
    ValueKind.ANY_OBJECT: _raw_json,
}
