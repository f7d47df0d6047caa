"""Decodes messages to documents."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from apiserver.schema.go_fields import go_struct
from apiserver.schema.structural import Kind, Schema
from apiserver.vocabulary import Document
from apiserver.wire.protobuf.wire_format import InvalidProtobuf, Raw, as_bytes, as_text, fields

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


_Decode: TypeAlias = Callable[[Raw, _Progress], Any]


class MessageDecoder:
    """Decodes messages of one kind."""

    def __init__(self, schema: Schema) -> None:
        """Raises LookupError for a kind whose protobuf fields are not known."""
        self._decode = _Compiler().message(schema)

    def __call__(self, raw: bytes) -> Document:
        """Decode a message to a document without apiVersion and kind. Raises InvalidProtobuf."""
        document: Document = self._decode(raw, _Progress())
        return document


class _Member(NamedTuple):
    """A field of a message.

    name: its JSON name; empty for an inlined message.
    """

    name: str
    kind: Kind
    decode: _Decode
    drops_zero: bool


class _Compiler:
    def __init__(self) -> None:
        self._messages: dict[Schema, _Decode] = {}  # schemas may be recursive

    def message(self, schema: Schema) -> _Decode:
        done = self._messages.get(schema)
        if done is None:
            done = self._messages[schema] = self._struct(schema, schema.definition)
        return done

    def _struct(self, schema: Schema, definition: str) -> _Decode:
        """definition: the one with the field numbers; that of an inlined message is not the schema's own."""
        known = go_struct(definition, schema.vendor)
        if known is None:
            raise LookupError(f"{definition} has no known protobuf fields")
        members: dict[int, _Member] = {}
        for name, go_field in known.fields.items():
            child = schema.fields.get(name)
            if child is not None and go_field.is_message:
                members[go_field.number] = _Member(name, Kind.ANY, self._items_message(child), False)
            elif child is not None:
                drops_zero = not go_field.is_pointer and not go_field.encodes_zero
                drops_zero &= child.kind is not Kind.INT_OR_STRING  # an empty string is not the number 0
                members[go_field.number] = _Member(name, child.kind, self._value(child), drops_zero)
        for inlined, number in known.inlined.items():
            members[number] = _Member("", Kind.STRUCT, self._struct(schema, inlined), False)
        name_of_type = schema.go_type

        def decode(raw: Raw, progress: _Progress) -> Document:
            if progress.depth > DEPTH_MAX:
                raise InvalidProtobuf(f"messages are nested more than {DEPTH_MAX} deep")
            progress.depth += 1
            document: Document = {}
            for number, value in fields(as_bytes(raw)):
                progress.fields_left -= 1
                if progress.fields_left < 0:
                    raise InvalidProtobuf(f"the message has more than {FIELDS_MAX} fields")
                member = members.get(number)
                if member is None:
                    # Ignoring it would lose what the client has set.
                    raise InvalidProtobuf(
                        f"field {number} of {name_of_type} is not known in protobuf here; use JSON"
                    )
                _add(document, member, value, progress)
            progress.depth -= 1
            return document

        return decode

    def _value(self, schema: Schema) -> _Decode:
        """The decoder of a value; for a list that of one item, for a map that of one entry."""
        match schema.kind:
            case Kind.STRUCT:
                return lambda raw, progress: self.message(schema)(raw, progress)
            case Kind.LIST:
                assert schema.element is not None
                return self._value(schema.element)
            case Kind.MAP:
                assert schema.element is not None
                return self._entry(schema.element)
            case Kind.EITHER:
                return self._either(schema)
            case kind:
                return _SCALARS[kind]

    def _items_message(self, schema: Schema) -> _Decode:
        """The decoder of a list that is a message with the items in its first field."""
        decode_item = self._value(schema)

        def decode(raw: Raw, progress: _Progress) -> list[Any]:
            items = [value for number, value in fields(as_bytes(raw)) if number == 1]
            progress.fields_left -= len(items)
            if progress.fields_left < 0:
                raise InvalidProtobuf(f"the message has more than {FIELDS_MAX} fields")
            return [decode_item(item, progress) for item in items]

        return decode

    def _either(self, schema: Schema) -> _Decode:
        """The decoder of a message with the field `schema` for an object, and another one."""
        known = go_struct(schema.definition)
        assert known is not None
        assert schema.element is not None
        assert schema.other is not None
        is_list = schema.other.kind is Kind.LIST
        number_of_object = known.fields["schema"].number
        as_object, as_other = self._value(schema.element), self._value(schema.other)

        def decode(raw: Raw, progress: _Progress) -> Any:
            others: list[Any] = []
            for number, value in fields(as_bytes(raw)):
                progress.fields_left -= 1
                if progress.fields_left < 0:
                    raise InvalidProtobuf(f"the message has more than {FIELDS_MAX} fields")
                if number == number_of_object:
                    return as_object(value, progress)
                others.append(as_other(value, progress))
            return others or None if is_list else any(others)

        return decode

    def _entry(self, element: Schema) -> _Decode:
        decode_value = self._value(element)
        is_list = element.kind is Kind.LIST

        def decode(raw: Raw, progress: _Progress) -> tuple[str, Any]:
            key, value = "", b""
            for number, part in fields(as_bytes(raw)):
                if number == 1:
                    key = as_text(as_bytes(part))
                elif number == 2:
                    value = part  # type: ignore[assignment]
            if is_list:
                # A list that is a map's value is a message with the items in it.
                return key, [decode_value(item, progress) for _, item in fields(as_bytes(value))]
            return key, decode_value(value, progress)

        return decode


def _add(document: Document, member: _Member, raw: Raw, progress: _Progress) -> None:
    """Set one field of a message in the document."""
    if member.kind is Kind.LIST:
        document.setdefault(member.name, []).append(member.decode(raw, progress))
        return
    value = member.decode(raw, progress)
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


def _string(raw: Raw, progress: _Progress) -> str:
    return as_text(as_bytes(raw))


def _integer(raw: Raw, progress: _Progress) -> int:
    if not isinstance(raw, int):
        raise InvalidProtobuf("a number was expected where bytes are")
    return raw - (1 << 64) if raw >> 63 else raw


def _boolean(raw: Raw, progress: _Progress) -> bool:
    return bool(_integer(raw, progress))


def _number(raw: Raw, progress: _Progress) -> float:
    data = as_bytes(raw)
    if len(data) != 8:
        raise InvalidProtobuf("a floating-point number must have 8 bytes")
    (value,) = struct.unpack("<d", data)
    return float(value)


def _base64(raw: Raw, progress: _Progress) -> str:
    return base64.b64encode(as_bytes(raw)).decode()


def _quantity(raw: Raw, progress: _Progress) -> str:
    parts = dict(fields(as_bytes(raw)))
    return as_text(as_bytes(parts.get(1, b"")))


def _int_or_string(raw: Raw, progress: _Progress) -> int | str:
    parts = dict(fields(as_bytes(raw)))
    is_text = parts.get(1, 0) == 1
    return as_text(as_bytes(parts.get(3, b""))) if is_text else _integer(parts.get(2, 0), progress)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _time(timespec: str) -> _Decode:
    def decode(raw: Raw, progress: _Progress) -> str | None:
        parts = dict(fields(as_bytes(raw)))
        if not parts:
            return None  # the zero time, which is null in JSON
        seconds, nanos = _integer(parts.get(1, 0), progress), _integer(parts.get(2, 0), progress)
        try:
            time = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
        except OverflowError:
            raise InvalidProtobuf(f"{seconds} s is not a valid time") from None
        return time.isoformat(timespec=timespec).replace("+00:00", "Z")

    return decode


def _raw_json(raw: Raw, progress: _Progress) -> Any:
    parts = dict(fields(as_bytes(raw)))
    text = as_bytes(parts.get(1, b""))
    if not text:
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidProtobuf(f"an embedded document is not valid JSON: {error}") from None


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
