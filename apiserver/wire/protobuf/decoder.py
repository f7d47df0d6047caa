"""Decodes messages to documents."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from apiserver.golang.times import YEAR_10000_S, YEAR_ZERO_S, ZERO_MICRO_TIME, ZERO_TIME, FarTime, time_text
from apiserver.meta.vocabulary import Document
from apiserver.schema.go_fields import GoField, go_struct
from apiserver.schema.structural import Schema, ValueKind
from apiserver.wire import json_text
from apiserver.wire.protobuf.wire_format import (
    BYTES,
    FIXED64,
    VARINT,
    InvalidProtobuf,
    as_text,
    fields,
    known_fields,
    packed,
    wrong_wire_type,
)

# No type of Kubernetes is nested as deeply; JSON schemas in CustomResourceDefinitions come closest.
DEPTH_MAX: Final = 200
# In all messages of a document. The largest object that can be stored has fewer.
FIELDS_MAX: Final = 300_000


class _Progress:
    """The progress of decoding one document. depth: that of the current message."""

    __slots__ = ("depth", "fields_left")

    def __init__(self) -> None:
        self.depth = 0
        self.fields_left = FIELDS_MAX

    def count(self, more: int = 1) -> None:
        self.fields_left -= more
        if self.fields_left < 0:
            raise InvalidProtobuf(f"the message has more than {FIELDS_MAX} fields")


# Decodes a value: a varint is an int, the others are bytes.
_Decode: TypeAlias = Callable[[Any, _Progress], Any]
# Decodes the value of one field of a message, and sets it in the message's document.
_Add: TypeAlias = Callable[[Document, Any, _Progress], None]


class MessageDecoder:
    """Decodes messages of one kind to documents."""

    def __init__(self, schema: Schema) -> None:
        """Raises LookupError for a kind with unknown protobuf fields."""
        self._decode = _Compiler().message(schema)

    def __call__(self, raw: bytes) -> Document:
        """Decode a message to a document without apiVersion and kind. Raises InvalidProtobuf."""
        document: Document = self._decode(raw, _Progress())
        return document


class _Compiler:
    def __init__(self) -> None:
        self._messages: dict[Schema, _Decode] = {}  # schemas may be recursive

    def message(self, schema: Schema) -> _Decode:
        done = self._messages.get(schema)
        if done is None:
            done = self._messages[schema] = self._struct(schema, schema.definition)
        return done

    def _struct(self, schema: Schema, definition: str) -> _Decode:
        """Returns the decoder of a struct.

        definition: the one with the field numbers; that of an inlined message differs from the schema's.
        """
        known = go_struct(definition, schema.vendor)
        if known is None:
            raise LookupError(f"{definition} has no known protobuf fields")
        add_by_key: dict[int, _Add] = {}  # a key is a number and a wire type
        names: dict[int, str] = {}
        for name, go_field in known.fields.items():
            child = schema.fields.get(name)
            if child is not None:
                names[go_field.number] = name
                for wire_type, add in self._field(name, child, go_field).items():
                    add_by_key[go_field.number << 3 | wire_type] = add
        for inlined, number in known.inlined.items():
            names[number] = inlined
            add_by_key[number << 3 | BYTES] = _inlined(self._struct(schema, inlined))

        def decode(raw: bytes, progress: _Progress) -> Document:
            if progress.depth > DEPTH_MAX:
                raise InvalidProtobuf(f"messages are nested more than {DEPTH_MAX} deep")
            progress.depth += 1
            document: Document = {}
            for key, value in fields(raw):
                progress.fields_left -= 1
                if progress.fields_left < 0:
                    progress.count(0)
                add = add_by_key.get(key)
                if add is not None:
                    add(document, value, progress)
                elif (number := key >> 3) in names:
                    raise wrong_wire_type(key, names[number])
                # Else it is a field of a later release, which protobuf's rules have readers skip.
            progress.depth -= 1
            return document

        return decode

    def _field(self, name: str, schema: Schema, go_field: GoField) -> dict[int, _Add]:
        """Returns the decoder of a field, by the wire types that it may have."""
        if go_field.is_message:
            return {BYTES: _single(name, self._items_message(schema))}
        wire_type, decode = _wire_type(schema), self._value(schema)
        if schema.kind is ValueKind.MAP:
            return {BYTES: _map_entry(name, decode)}
        if schema.kind is ValueKind.LIST:
            item = _item(name, decode)
            if wire_type == BYTES:
                return {BYTES: item}
            # Numbers may also come together in one field.
            return {wire_type: item, BYTES: _packed_items(name, decode, wire_type)}
        if schema.kind in (ValueKind.STRUCT, ValueKind.EITHER):
            return {BYTES: _message(name, decode)}
        if go_field.is_pointer and schema.kind in _ZERO_TIMES:
            # A pointer to the zero time is not nil, and so not the same as none.
            zero = _ZERO_TIMES[schema.kind]
            return {wire_type: _single(name, lambda raw, progress: decode(raw, progress) or zero)}
        drops_zero = not go_field.is_pointer and not go_field.encodes_zero
        drops_zero &= schema.kind is not ValueKind.INT_OR_STRING  # an empty string is not the number 0
        return {wire_type: _nonzero(name, decode) if drops_zero else _single(name, decode)}

    def _value(self, schema: Schema) -> _Decode:
        """Returns the decoder of a value; for a list that of one item, for a map that of one entry."""
        match schema.kind:
            case ValueKind.STRUCT:
                return lambda raw, progress: self.message(schema)(raw, progress)
            case ValueKind.LIST:
                assert schema.element is not None
                return self._value(schema.element)
            case ValueKind.MAP:
                assert schema.element is not None
                return self._entry(schema.element)
            case ValueKind.EITHER:
                return self._either(schema)
            case kind:
                return _SCALARS[kind]

    def _items_message(self, schema: Schema) -> _Decode:
        """Returns the decoder of a list that is a message with the items in its first field."""
        decode_item, wire_types = self._value(schema), {1: _wire_type(schema)}

        def decode(raw: bytes, progress: _Progress) -> list[Any]:
            items = [value for _, value in known_fields(raw, wire_types)]
            progress.count(len(items))
            return [decode_item(item, progress) for item in items]

        return decode

    def _either(self, schema: Schema) -> _Decode:
        """Returns the decoder of a message with the field `schema` for an object, and another one."""
        (number_of_object, element), (number_of_other, other) = either_fields(schema)
        is_list = other.kind is ValueKind.LIST
        wire_types = {number_of_object: BYTES, number_of_other: _wire_type(other)}
        as_object, as_other = self._value(element), self._value(other)

        def decode(raw: bytes, progress: _Progress) -> Any:
            others: list[Any] = []
            for number, value in known_fields(raw, wire_types):
                progress.count()
                if number == number_of_object:
                    return as_object(value, progress)
                others.append(as_other(value, progress))
            return others or None if is_list else any(others)

        return decode

    def _entry(self, element: Schema) -> _Decode:
        # A list that is a map's value is a message with the items in it.
        is_list = element.kind is ValueKind.LIST
        decode_value = self._items_message(element) if is_list else self._value(element)
        wire_type = BYTES if is_list else _wire_type(element)
        key_of_value, absent = 2 << 3 | wire_type, _ABSENT[wire_type]

        def decode(raw: bytes, progress: _Progress) -> tuple[str, Any]:
            name, value = "", absent
            for key, part in fields(raw):
                if key == _KEY_OF_NAME:
                    name = as_text(part)
                elif key == key_of_value:
                    value = part
                elif key >> 3 in (1, 2):
                    raise wrong_wire_type(key, "key" if key >> 3 == 1 else "value")
            return name, decode_value(value, progress)

        return decode


def either_fields(schema: Schema) -> tuple[tuple[int, Schema], tuple[int, Schema]]:
    """Returns the number and the schema of the field for an object, and those of the other field."""
    known = go_struct(schema.definition)
    assert known is not None
    assert schema.element is not None
    assert schema.other is not None
    number = known.fields["schema"].number
    (number_of_other,) = {each.number for each in known.fields.values()} - {number}
    return (number, schema.element), (number_of_other, schema.other)


WIRE_TYPES: Final = {ValueKind.INTEGER: VARINT, ValueKind.BOOLEAN: VARINT, ValueKind.NUMBER: FIXED64}
# The values of map entries that have none.
_ABSENT: Final = {VARINT: 0, FIXED64: bytes(8), BYTES: b""}
_KEY_OF_NAME: Final = 1 << 3 | BYTES


def _wire_type(schema: Schema) -> int:
    """Returns the wire type of a value; for a list that of one item."""
    while schema.kind is ValueKind.LIST:
        assert schema.element is not None
        schema = schema.element
    return WIRE_TYPES.get(schema.kind, BYTES)


# ---- fields


def _single(name: str, decode: _Decode) -> _Add:
    def add(document: Document, raw: Any, progress: _Progress) -> None:
        value = decode(raw, progress)
        if value is not None:
            document[name] = value

    return add


def _nonzero(name: str, decode: _Decode) -> _Add:
    """Returns the decoder of a field whose zero value is the same as none."""

    def add(document: Document, raw: Any, progress: _Progress) -> None:
        value = decode(raw, progress)
        if value or (value is not None and value not in (0, "", False)):
            document[name] = value

    return add


def _message(name: str, decode: _Decode) -> _Add:
    """Returns the decoder of a message, which may come in parts."""

    def add(document: Document, raw: Any, progress: _Progress) -> None:
        value = decode(raw, progress)
        if isinstance(value, dict) and isinstance(before := document.get(name), dict):
            _merge(before, value)
        elif value is not None:
            document[name] = value

    return add


def _inlined(decode: _Decode) -> _Add:
    return lambda document, raw, progress: _merge(document, decode(raw, progress))


def _item(name: str, decode: _Decode) -> _Add:
    def add(document: Document, raw: Any, progress: _Progress) -> None:
        item = decode(raw, progress)
        items = document.get(name)
        if items is None:
            document[name] = [item]
        else:
            items.append(item)

    return add


def _packed_items(name: str, decode: _Decode, wire_type: int) -> _Add:
    def add(document: Document, raw: Any, progress: _Progress) -> None:
        values = list(packed(raw, wire_type))
        progress.count(len(values))
        document.setdefault(name, []).extend(decode(value, progress) for value in values)

    return add


def _map_entry(name: str, decode: _Decode) -> _Add:
    def add(document: Document, raw: Any, progress: _Progress) -> None:
        key, value = decode(raw, progress)
        document.setdefault(name, {})[key] = value

    return add


def _merge(document: Document, more: Document) -> None:
    """Merge another part of a message: lists are appended to, other fields replaced."""
    for name, value in more.items():
        before = document.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            _merge(before, value)
        elif isinstance(before, list) and isinstance(value, list):
            before += value
        else:
            document[name] = value


# ---- values


def _integer(raw: int, progress: _Progress) -> int:
    return raw - (1 << 64) if raw >> 63 else raw


def _number(raw: bytes, progress: _Progress) -> float:
    (value,) = struct.unpack("<d", raw)
    return float(value)


_TEXT_MESSAGE: Final = {1: BYTES}


_INT_OR_STRING: Final = {1: VARINT, 2: VARINT, 3: BYTES}


def _int_or_string(raw: bytes, progress: _Progress) -> int | str:
    parts = dict(known_fields(raw, _INT_OR_STRING))
    is_text = parts.get(1, 0) == 1
    return as_text(parts.get(3, b"")) if is_text else _integer(parts.get(2, 0), progress)


_ZERO_TIMES: Final = {ValueKind.TIME: ZERO_TIME, ValueKind.MICRO_TIME: ZERO_MICRO_TIME}
_TIMESTAMP: Final = {1: VARINT, 2: VARINT}
# The first second of the calendar of Go's package time, which lasts for 64 bits.
_CALENDAR_BEGIN_S: Final = -9_223_371_966_579_724_800


def _time(raw: bytes, progress: _Progress) -> str | None:
    """Decode a Time: Kubernetes ignores its nanoseconds. No bytes are the zero time: null in JSON."""
    return _time_text(dict(known_fields(raw, _TIMESTAMP)).get(1, 0)) if raw else None


def _micro_time(raw: bytes, progress: _Progress) -> str | None:
    if not raw:
        return None
    parts = dict(known_fields(raw, _TIMESTAMP))
    nanos = parts.get(2, 0) & 0xFFFF_FFFF
    nanos -= nanos >> 31 << 32
    microseconds = nanos // 1000 if nanos >= 0 else -(-nanos // 1000)  # towards zero
    seconds, rest = divmod(microseconds, 1_000_000)
    return _time_text(parts.get(1, 0) + seconds, f"{rest:06}")


def _time_text(number: int, fraction: str = "") -> str:
    """Returns the text of a number of seconds since 1970, of which Go uses the lowest 64 bits."""
    seconds = (number - _CALENDAR_BEGIN_S & 0xFFFF_FFFF_FFFF_FFFF) + _CALENDAR_BEGIN_S
    text = time_text(seconds, fraction)
    return text if YEAR_ZERO_S <= seconds < YEAR_10000_S else FarTime(text)


def _raw_json(raw: bytes, progress: _Progress) -> Any:
    text = dict(known_fields(raw, _TEXT_MESSAGE)).get(1, b"")
    if not text:
        return None
    progress.count(json_text.values_in(text))
    try:
        return json_text.load(text)
    except (json_text.InvalidJson, json_text.TooManyValues) as error:
        raise InvalidProtobuf(f"an embedded document is not valid JSON: {error}") from None


_SCALARS: Final[dict[ValueKind, _Decode]] = {
    ValueKind.STRING: lambda raw, progress: as_text(raw),
    ValueKind.INTEGER: _integer,
    ValueKind.NUMBER: _number,
    ValueKind.BOOLEAN: lambda raw, progress: raw != 0,
    ValueKind.BYTES: lambda raw, progress: base64.b64encode(raw).decode(),
    ValueKind.TIME: _time,
    ValueKind.MICRO_TIME: _micro_time,
    ValueKind.INT_OR_STRING: _int_or_string,
    ValueKind.QUANTITY: lambda raw, progress: as_text(dict(known_fields(raw, _TEXT_MESSAGE)).get(1, b"")),
    ValueKind.ANY: _raw_json,
    ValueKind.ANY_OBJECT: _raw_json,
}
