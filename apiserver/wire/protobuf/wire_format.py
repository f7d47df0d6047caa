"""The wire format of protobuf: varints, field keys and lengths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5
# An undecoded value: a varint as int, the others as bytes.
Raw: TypeAlias = "int | bytes"

_NUMBER_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF


class InvalidProtobuf(ValueError):
    """The bytes are not a valid message of this kind. The error message is for the client."""


# ---- decoding


def fields(data: bytes) -> Iterator[tuple[int, Raw]]:
    """The number and the value of each field of a message. Raises InvalidProtobuf."""
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        number, wire_type = key >> 3, key & 7
        if wire_type == VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire_type == BYTES:
            length, at = _varint(data, at)
        elif wire_type in (FIXED64, FIXED32):
            length = 8 if wire_type == FIXED64 else 4
        else:
            raise InvalidProtobuf(f"wire type {wire_type} is not in use")
        if length > end - at:
            raise InvalidProtobuf("unexpected end of the message")
        yield number, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        if at >= len(data):
            raise InvalidProtobuf("unexpected end of the message")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _NUMBER_MASK, at
        shift += 7
    raise InvalidProtobuf("a number has more than 10 bytes")


def as_bytes(raw: Raw) -> bytes:
    if isinstance(raw, int):
        raise InvalidProtobuf("bytes were expected where a number is")
    return raw


def as_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidProtobuf("a text is not UTF-8") from None


# ---- encoding

_SMALL: Final = tuple(
    bytes((value,)) if value < 0x80 else bytes((value & 0x7F | 0x80, value >> 7)) for value in range(1 << 14)
)


def varint(value: int) -> bytes:
    """Encode a number; a negative one as its complement of 64 bits."""
    if 0 <= value < len(_SMALL):
        return _SMALL[value]
    value &= _NUMBER_MASK
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def key(number: int, wire_type: int) -> bytes:
    """The key with which a field begins."""
    return varint(number << 3 | wire_type)


def undelimited(field: bytes) -> bytes:
    """The content of a field that `delimited` has made with a key of one byte."""
    start = 2
    while field[start - 1] & 0x80:
        start += 1
    return field[start:]


def delimited(field_key: bytes, content: bytes) -> bytes:
    """A field of bytes, a string or a message: its key, its length and its content."""
    return field_key + varint(len(content)) + content
