"""The envelope of messages (`runtime.Unknown`), and the frames of watch events."""

from __future__ import annotations

from typing import Final, NamedTuple

from apiserver.wire.protobuf.wire_format import (
    BYTES,
    InvalidProtobuf,
    as_text,
    delimited,
    key,
    known_fields,
    varint,
)

MAGIC: Final = b"k8s\x00"
_FIRST: Final = key(1, BYTES)
_SECOND: Final = key(2, BYTES)
# Content encoding and content type, which Go encodes although they are empty.
ENVELOPE_END: Final = delimited(key(3, BYTES), b"") + delimited(key(4, BYTES), b"")
# The fields of `runtime.Unknown`, and of `TypeMeta` in it.
_UNKNOWN: Final = {1: BYTES, 2: BYTES, 3: BYTES, 4: BYTES}
_TYPE_META: Final = {1: BYTES, 2: BYTES}
# Of the length before each event in a stream.
EVENT_LENGTH_BYTES: Final = 4


class Envelope(NamedTuple):
    """An opened envelope. api_version and kind are empty if the sender omits them."""

    api_version: str
    kind: str
    raw: bytes


def open_envelope(body: bytes) -> Envelope:
    """Decode the envelope of a body. Raises InvalidProtobuf."""
    if not body.startswith(MAGIC):
        raise InvalidProtobuf(
            "provided data does not appear to be a protobuf message, expected prefix "
            f"[{' '.join(map(str, MAGIC))}]"
        )
    api_version = kind = ""
    raw = b""
    for number, value in known_fields(body[len(MAGIC) :], _UNKNOWN):
        if number == 1:
            type_meta = dict(known_fields(value, _TYPE_META))
            api_version, kind = as_text(type_meta.get(1, b"")), as_text(type_meta.get(2, b""))
        elif number == 2:
            raw = value
        elif number == 3 and value:
            raise InvalidProtobuf("the content of the envelope is encoded, which is not supported")
    return Envelope(api_version, kind, raw)


def seal(api_version: str, kind: str, raw: bytes) -> bytes:
    """Put a message into its envelope."""
    return envelope_start(api_version, kind, len(raw)) + raw + ENVELOPE_END


def envelope_start(api_version: str, kind: str, raw_bytes: int) -> bytes:
    """Returns the part of an envelope before a message of `raw_bytes` bytes; `ENVELOPE_END` is the part after
    it.
    """
    type_meta = delimited(_FIRST, api_version.encode()) + delimited(_SECOND, kind.encode())
    return MAGIC + delimited(_FIRST, type_meta) + _SECOND + varint(raw_bytes)


def event_frame(kind: str, sealed: bytes) -> bytes:
    """Returns a watch event with an object in its envelope, preceded by the event's length."""
    event = delimited(_FIRST, kind.encode()) + delimited(_SECOND, delimited(_FIRST, sealed))
    return len(event).to_bytes(EVENT_LENGTH_BYTES, "big") + event
