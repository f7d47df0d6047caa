"""Frames of HTTP/2, and the header block of a request. Sources: RFC 9113, RFC 7541."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

# Kinds of frames.
DATA: Final = 0x0
HEADERS: Final = 0x1
RST_STREAM: Final = 0x3
SETTINGS: Final = 0x4
PUSH_PROMISE: Final = 0x5
PING: Final = 0x6
GOAWAY: Final = 0x7
WINDOW_UPDATE: Final = 0x8
CONTINUATION: Final = 0x9
# Flags.
ACK: Final = 0x1
END_STREAM: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITY: Final = 0x20
# Settings.
HEADER_TABLE_SIZE: Final = 0x1
ENABLE_PUSH: Final = 0x2
MAX_CONCURRENT_STREAMS: Final = 0x3
INITIAL_WINDOW_SIZE: Final = 0x4
MAX_FRAME_SIZE: Final = 0x5
# Errors.
REFUSED_STREAM: Final = 0x7
CANCEL: Final = 0x8

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_HEAD: Final = struct.Struct(">HBBBL")  # the length as 16 and 8 bits, kind, flags, stream
SETTING: Final = struct.Struct(">HL")
UINT32: Final = struct.Struct(">L")
INITIAL_WINDOW_BYTES: Final = 65_535  # of the connection and of each stream, unless settings say otherwise
FRAME_BYTES_MIN: Final = 16_384  # the longest frame, unless settings allow longer ones
FRAME_BYTES_MAX: Final = (1 << 24) - 1  # the longest that settings can allow
WINDOW_BYTES_MAX: Final = (1 << 31) - 1
STREAM_ID_MAX: Final = (1 << 31) - 1


class ProtocolError(Exception):
    """The server has sent something other than HTTP/2 as gRPC uses it."""


def request_block(
    path: str, authority: str, *, is_tls: bool, headers: Iterable[tuple[str, str]] = ()
) -> bytes:
    """Returns the header block of a gRPC request, whose fields are all literals without indexing."""
    static = b"\x83" + (b"\x87" if is_tls else b"\x86")  # :method: POST, :scheme: https or http
    return b"".join(
        [
            static,
            b"\x04" + _text(path),  # :path
            b"\x01" + _text(authority),  # :authority
            *(
                b"\x00" + _text(name) + _text(value)
                for name, value in (("te", "trailers"), ("content-type", "application/grpc"), *headers)
            ),
        ]
    )


def _text(text: str) -> bytes:
    """Returns a string literal without Huffman coding. Its length is an integer with a 7-bit prefix."""
    encoded = text.encode("ascii")
    length = len(encoded)
    if length < 0x7F:
        return bytes([length]) + encoded
    rest, prefix = length - 0x7F, bytearray([0x7F])
    while rest >= 0x80:
        prefix.append(rest & 0x7F | 0x80)
        rest >>= 7
    prefix.append(rest)
    return bytes(prefix) + encoded


def frame(kind: int, flags: int, stream_id: int, payload: bytes) -> bytes:
    """Returns a frame."""
    length = len(payload)
    return FRAME_HEAD.pack(length >> 8, length & 0xFF, kind, flags, stream_id) + payload


def window_update(stream_id: int, size: int) -> bytes:
    """Returns a frame that lets the peer send so many bytes more."""
    return frame(WINDOW_UPDATE, 0, stream_id, UINT32.pack(size))


def only_uint32(payload: bytes) -> int:
    """Returns the integer of a payload. Raises ProtocolError unless it has 32 bits."""
    if len(payload) != UINT32.size:
        raise ProtocolError("a frame has the wrong size")
    number: int = UINT32.unpack(payload)[0]
    return number


def unpadded(payload: bytes) -> bytes:
    """Returns the content of a padded frame. Raises ProtocolError for invalid padding."""
    if not payload or payload[0] >= len(payload):
        raise ProtocolError("the padding is longer than the frame")
    return payload[1 : len(payload) - payload[0]]
