"""Kubernetes' protobuf: an envelope, and in it a message of the object's kind. Rows D03-D05.

kubectl from 1.32 on writes built-in types this way. A message is decoded to the document that the same
client would have sent as JSON: what is empty because nobody set it is left out, which the Go types tell
apart from what was set to nothing (`schema.go_fields`). Source: k8s.io/apimachinery,
pkg/runtime/serializer/protobuf; the encoding itself: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from apiserver.schema.go_fields import go_struct
from apiserver.schema.structural import Kind, Schema
from apiserver.vocabulary import Document

MAGIC: Final = b"k8s\x00"
# No type of Kubernetes nests as deep; JSON schemas in custom resource definitions come closest.
DEPTH_MAX: Final = 200

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
# varint as int, the others as bytes
_Raw: TypeAlias = "int | bytes"
_Decode: TypeAlias = Callable[[_Raw, int], Any]


class NotProtobuf(ValueError):
    """The bytes are no message of this kind; the message is the client's."""


class Envelope(NamedTuple):
    """api_version and kind are empty if the sender does not say."""

    api_version: str
    kind: str
    raw: bytes


def open_envelope(body: bytes) -> Envelope:
    """Raises NotProtobuf."""
    if not body.startswith(MAGIC):
        raise NotProtobuf(
            "provided data does not appear to be a protobuf message, expected prefix "
            f"[{' '.join(map(str, MAGIC))}]"
        )
    api_version = kind = ""
    raw = b""
    for number, value in _fields(body[len(MAGIC) :]):
        if number == 1 and isinstance(value, bytes):
            type_meta = {n: v for n, v in _fields(value) if isinstance(v, bytes)}
            api_version, kind = _text(type_meta.get(1, b"")), _text(type_meta.get(2, b""))
        elif number == 2 and isinstance(value, bytes):
            raw = value
        elif number == 3 and value:
            raise NotProtobuf("the content of the envelope is encoded, which is not supported")
    return Envelope(api_version, kind, raw)


class Decoder:
    """Decodes messages of one kind."""

    def __init__(self, schema: Schema) -> None:
        """Raises LookupError for a kind that has no form in protobuf here."""
        self._decode = _Compiler().message(schema)

    def __call__(self, raw: bytes) -> Document:
        """The message as a document without apiVersion and kind. Raises NotProtobuf."""
        document: Document = self._decode(raw, 0)
        return document


class _Member(NamedTuple):
    """A field of a message.

    name: its JSON name; empty for a message whose fields stand among the others.
    """

    name: str
    kind: Kind
    decode: _Decode
    drops_zero: bool


class _Compiler:
    def __init__(self) -> None:
        self._messages: dict[int, _Decode] = {}  # by id of the schema, for recursive ones

    def message(self, schema: Schema) -> _Decode:
        done = self._messages.get(id(schema))
        if done is None:
            self._messages[id(schema)] = lambda raw, depth: self._messages[id(schema)](raw, depth)
            done = self._messages[id(schema)] = self._struct(schema, schema.definition)
        return done

    def _struct(self, schema: Schema, definition: str) -> _Decode:
        """definition: whose numbers count; for inlined ones another than the schema's own."""
        known = go_struct(definition)
        if known is None:
            raise LookupError(f"{definition} has no form in protobuf here")
        members: dict[int, _Member] = {}
        for name, go_field in known.fields.items():
            child = schema.fields.get(name)
            if child is not None:
                drops_zero = not go_field.is_pointer and not go_field.shows_empty
                members[go_field.number] = _Member(name, child.kind, self._value(child), drops_zero)
        for inlined, number in known.inlined.items():
            members[number] = _Member("", Kind.STRUCT, self._struct(schema, inlined), False)
        name_of_type = schema.go_type

        def decode(raw: _Raw, depth: int) -> Document:
            if depth > DEPTH_MAX:
                raise NotProtobuf(f"messages are nested more than {DEPTH_MAX} deep")
            document: Document = {}
            for number, value in _fields(_bytes(raw)):
                member = members.get(number)
                if member is None:
                    # Leaving it out would lose what the client meant.
                    raise NotProtobuf(
                        f"field {number} of {name_of_type} is not known in protobuf here; use JSON"
                    )
                _add(document, member, value, depth)
            return document

        return decode

    def _value(self, schema: Schema) -> _Decode:
        """For a list the decoder of one item, for a map that of one entry."""
        match schema.kind:
            case Kind.STRUCT:
                return lambda raw, depth: self.message(schema)(raw, depth + 1)
            case Kind.LIST:
                assert schema.element is not None
                return self._value(schema.element)
            case Kind.MAP:
                assert schema.element is not None
                return self._entry(schema.element)
            case kind:
                return _SCALARS[kind]

    def _entry(self, element: Schema) -> _Decode:
        decode_value = self._value(element)
        is_list = element.kind is Kind.LIST

        def decode(raw: _Raw, depth: int) -> tuple[str, Any]:
            key, value = "", b""
            for number, part in _fields(_bytes(raw)):
                if number == 1:
                    key = _text(_bytes(part))
                elif number == 2:
                    value = part  # type: ignore[assignment]
            if is_list:
                # A list as a map's value is a message with the items in it.
                return key, [decode_value(item, depth + 1) for _, item in _fields(_bytes(value))]
            return key, decode_value(value, depth + 1)

        return decode


def _add(document: Document, member: _Member, raw: _Raw, depth: int) -> None:
    """Put one field of a message into the document."""
    if member.kind is Kind.LIST:
        document.setdefault(member.name, []).append(member.decode(raw, depth))
        return
    value = member.decode(raw, depth)
    if not member.name:
        document.update(value)
    elif member.kind is Kind.MAP:
        key, entry = value
        document.setdefault(member.name, {})[key] = entry
    elif isinstance(value, dict) and isinstance(before := document.get(member.name), dict):
        _merge(before, value)
    elif value is not None and not (member.drops_zero and value in (0, "", False)):
        document[member.name] = value


def _merge(document: Document, more: Document) -> None:
    """A message may come in pieces: lists go on, other fields are the last piece's."""
    for name, value in more.items():
        before = document.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            _merge(before, value)
        elif isinstance(before, list) and isinstance(value, list):
            before += value
        else:
            document[name] = value


# ---- values


def _string(raw: _Raw, depth: int) -> str:
    return _text(_bytes(raw))


def _integer(raw: _Raw, depth: int) -> int:
    if not isinstance(raw, int):
        raise NotProtobuf("a number was expected where bytes are")
    return raw - (1 << 64) if raw >> 63 else raw


def _boolean(raw: _Raw, depth: int) -> bool:
    return bool(_integer(raw, depth))


def _number(raw: _Raw, depth: int) -> float:
    data = _bytes(raw)
    if len(data) != 8:
        raise NotProtobuf("a floating-point number must have 8 bytes")
    (value,) = struct.unpack("<d", data)
    return float(value)


def _base64(raw: _Raw, depth: int) -> str:
    return base64.b64encode(_bytes(raw)).decode()


def _quantity(raw: _Raw, depth: int) -> str:
    parts = dict(_fields(_bytes(raw)))
    return _text(_bytes(parts.get(1, b"")))


def _int_or_string(raw: _Raw, depth: int) -> int | str:
    parts = dict(_fields(_bytes(raw)))
    is_text = parts.get(1, 0) == 1
    return _text(_bytes(parts.get(3, b""))) if is_text else _integer(parts.get(2, 0), depth)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _time(timespec: str) -> _Decode:
    def decode(raw: _Raw, depth: int) -> str | None:
        parts = dict(_fields(_bytes(raw)))
        if not parts:
            return None  # the zero time, which JSON has as null
        seconds, nanos = _integer(parts.get(1, 0), depth), _integer(parts.get(2, 0), depth)
        try:
            moment = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
        except OverflowError:
            raise NotProtobuf(f"{seconds} s is no time") from None
        return moment.isoformat(timespec=timespec).replace("+00:00", "Z")

    return decode


def _raw_json(raw: _Raw, depth: int) -> Any:
    parts = dict(_fields(_bytes(raw)))
    text = _bytes(parts.get(1, b""))
    if not text:
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise NotProtobuf(f"an embedded document is no JSON: {error}") from None


_SCALARS: Final[dict[Kind, _Decode]] = {
    Kind.STRING: _string,
    Kind.INTEGER: _integer,
    Kind.NUMBER: _number,
    Kind.BOOLEAN: _boolean,
    Kind.BYTES: _base64,
    Kind.TIME: _time("seconds"),
    Kind.MICRO_TIME: _time("microseconds"),
    Kind.INT_OR_STRING: _int_or_string,
    Kind.QUANTITY: _quantity,
    Kind.ANY: _raw_json,
    Kind.ANY_OBJECT: _raw_json,
}


# ---- the encoding itself


def _fields(data: bytes) -> Iterator[tuple[int, _Raw]]:
    """Number and value of each field of a message. Raises NotProtobuf."""
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        number, wire_type = key >> 3, key & 7
        if wire_type == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire_type == _BYTES:
            length, at = _varint(data, at)
        elif wire_type in (_FIXED64, _FIXED32):
            length = 8 if wire_type == _FIXED64 else 4
        else:
            raise NotProtobuf(f"wire type {wire_type} is not in use")
        if length > end - at:
            raise NotProtobuf("unexpected end of the message")
        yield number, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        if at >= len(data):
            raise NotProtobuf("unexpected end of the message")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
    raise NotProtobuf("a number has more than 10 bytes")


def _bytes(raw: _Raw) -> bytes:
    if isinstance(raw, int):
        raise NotProtobuf("bytes were expected where a number is")
    return raw


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise NotProtobuf("a text is not UTF-8") from None
