"""The wire format of protobuf: varints, field keys and lengths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
START_GROUP: Final = 3
END_GROUP: Final = 4
FIXED32: Final = 5

# https://protobuf.dev/programming-guides/proto2/#assigning
FIELD_NUMBER_MAX: Final = (1 << 29) - 1
# Kubernetes has no groups; other implementations of protobuf bound them likewise.
GROUP_DEPTH_MAX: Final = 100

_KEY_MIN: Final = 1 << 3
_KEY_MAX: Final = FIELD_NUMBER_MAX << 3 | 7
_NUMBER_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF
_END: Final = "unexpected EOF"


class InvalidProtobuf(ValueError):
    """Bytes that are not a valid message of this kind. The error message is for the client."""


# ---- decoding


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yields the key and the value of each field of a message. Raises InvalidProtobuf.

    A key is the field's number and, in the last three bits, its wire type, which determines the value: a
    varint is an int, the others are bytes. A group, which is never decoded, has empty bytes.
    """
    at, end = 0, len(data)
    while at < end:
        # Most keys and lengths have one byte.
        field_key = data[at]
        at += 1
        if field_key > 0x7F:
            field_key, at = _varint(data, at - 1)
        wire_type = field_key & 7
        if not _KEY_MIN <= field_key <= _KEY_MAX:
            raise InvalidProtobuf(f"proto: illegal tag {field_key >> 3} (wire type {wire_type})")
        if wire_type == BYTES:
            if at < end and data[at] < 0x80:
                stop = data[at] + at + 1
                at += 1
            else:
                length, at = _varint(data, at)
                stop = at + length
            if stop > end:
                raise InvalidProtobuf(_END)
            yield field_key, data[at:stop]
            at = stop
        elif wire_type == VARINT:
            value, at = _varint(data, at)
            yield field_key, value
        elif wire_type == START_GROUP:
            at = _after_group(data, at, field_key >> 3)
            yield field_key, b""
        else:
            start, at = at, _after_fixed(data, at, wire_type)
            yield field_key, data[start:at]


def known_fields(data: bytes, wire_types: Mapping[int, int]) -> Iterator[tuple[int, Any]]:
    """Yields the number and the value of each known field; others are skipped. Raises InvalidProtobuf.

    wire_types: those of the known fields, by their numbers.
    """
    for field_key, value in fields(data):
        number = field_key >> 3
        wire_type = wire_types.get(number)
        if wire_type == field_key & 7:
            yield number, value
        elif wire_type is not None:
            raise wrong_wire_type(field_key, str(number))


def wrong_wire_type(field_key: int, name: str) -> InvalidProtobuf:
    """Returns the error about a known field with another wire type."""
    return InvalidProtobuf(f"proto: wrong wireType = {field_key & 7} for field {name}")


def packed(data: bytes, wire_type: int) -> Iterator[Any]:
    """Returns the numbers of a list in packed form. Raises InvalidProtobuf."""
    at = 0
    while at < len(data):
        if wire_type == VARINT:
            value, at = _varint(data, at)
            yield value
        else:
            start, at = at, _after_fixed(data, at, wire_type)
            yield data[start:at]


def _after_fixed(data: bytes, at: int, wire_type: int) -> int:
    if wire_type == FIXED64:
        at += 8
    elif wire_type == FIXED32:
        at += 4
    elif wire_type == END_GROUP:
        raise InvalidProtobuf("proto: unexpected end of group")
    else:
        raise InvalidProtobuf(f"proto: illegal wireType {wire_type}")
    if at > len(data):
        raise InvalidProtobuf(_END)
    return at


def _after_group(data: bytes, at: int, number: int) -> int:
    """Returns the end of a group whose content begins at `at`."""
    opened = [number]
    while opened:
        field_key, at = _varint(data, at)
        number, wire_type = field_key >> 3, field_key & 7
        if not _KEY_MIN <= field_key <= _KEY_MAX:
            raise InvalidProtobuf(f"proto: illegal tag {number} (wire type {wire_type})")
        if wire_type == START_GROUP:
            opened.append(number)
            if len(opened) > GROUP_DEPTH_MAX:
                raise InvalidProtobuf(f"groups are nested more than {GROUP_DEPTH_MAX} deep")
        elif wire_type == END_GROUP:
            if number != opened.pop():
                raise InvalidProtobuf("proto: unexpected end of group")
        elif wire_type == VARINT:
            _, at = _varint(data, at)
        elif wire_type == BYTES:
            length, at = _varint(data, at)
            at += length  # beyond the end, the next key is missing
        else:
            at = _after_fixed(data, at, wire_type)
    return at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        if at >= len(data):
            raise InvalidProtobuf(_END)
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _NUMBER_MASK, at
        shift += 7
    raise InvalidProtobuf("proto: integer overflow")


def as_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidProtobuf("a text is not UTF-8") from None


# ---- encoding

_ONE_BYTE: Final = tuple(bytes((value,)) for value in range(0x80))
_TWO_BYTES_END: Final = 1 << 14


@cache
def _two_bytes() -> tuple[bytes, ...]:
    """Returns the encodings of numbers of up to two bytes: made in 4 ms, their lookup halves the time."""
    return _ONE_BYTE + tuple(bytes((n & 0x7F | 0x80, n >> 7)) for n in range(0x80, _TWO_BYTES_END))


def varint(value: int) -> bytes:
    """Encode a number; a negative one as its complement of 64 bits."""
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    if 0 <= value < _TWO_BYTES_END:
        return _two_bytes()[value]
    value &= _NUMBER_MASK
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def key(number: int, wire_type: int) -> bytes:
    """Returns the key that begins a field."""
    return varint(number << 3 | wire_type)


def undelimited(field: bytes) -> bytes:
    """Returns the content of a field that `delimited` made with a key of one byte."""
    start = 2
    while field[start - 1] & 0x80:
        start += 1
    return field[start:]


def delimited(field_key: bytes, content: bytes) -> bytes:
    """Returns a field of bytes, a string or a message: its key, its length and its content."""
    return field_key + varint(len(content)) + content
