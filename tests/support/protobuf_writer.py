"""Writes protobuf by hand, to say byte for byte what a client sends.

It knows the encoding (https://protobuf.dev/programming-guides/encoding/) and the few messages that
Kubernetes writes in ways of their own, and nothing of the code under test: tests name the numbers of
fields, as the `generated.proto` files of k8s.io/api have them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

MAGIC = b"k8s\x00"


def varint(value: int) -> bytes:
    """A number in groups of seven bits; negative ones as their 64-bit complement."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def key(number: int, wire_type: int) -> bytes:
    return varint(number << 3 | wire_type)


def field(number: int, value: bool | int | float | str | bytes) -> bytes:
    """One field: numbers as varint, fractions in eight bytes, all else with its length before it."""
    match value:
        case int():
            return key(number, 0) + varint(value)
        case float():
            return key(number, 1) + struct.pack("<d", value)
        case str():
            value = value.encode()
    return key(number, 2) + varint(len(value)) + value


def entry(number: int, name: str, value: str | bytes) -> bytes:
    """One entry of a map."""
    return field(number, field(1, name) + field(2, value))


def entries(number: int, values: Mapping[str, str]) -> bytes:
    return b"".join(entry(number, name, value) for name, value in values.items())


def envelope(raw: bytes, api_version: str = "v1", kind: str = "ConfigMap", *, more: bytes = b"") -> bytes:
    """`Unknown` with the magic before it, as runtime/serializer/protobuf writes it. more: further fields."""
    return MAGIC + field(1, field(1, api_version) + field(2, kind)) + field(2, raw) + more


# ---- messages with a JSON form of their own


def time(seconds: int, nanos: int = 0) -> bytes:
    """meta.v1.Time, MicroTime: seconds since 1970."""
    return field(1, seconds) + field(2, nanos)


def quantity(text: str) -> bytes:
    """resource.Quantity."""
    return field(1, text)


def int_or_string(value: int | str) -> bytes:
    """util.intstr.IntOrString: which of the two, and both, as Go's encoder writes them."""
    if isinstance(value, int):
        return field(1, 0) + field(2, value) + field(3, "")
    return field(1, 1) + field(2, 0) + field(3, value)


def raw_json(document: Any) -> bytes:
    """FieldsV1, JSON, RawExtension: a text of JSON within the message."""
    return field(1, json.dumps(document))
