"""SPDY/3.1 as kubelets speak it: frames, and the client's end of a connection.

As in the library that kubelets use, there is no flow control per stream, only that of the connection.
Source: https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1/; github.com/moby/spdystream.
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import AsyncIterator, Mapping
from typing import Final, NamedTuple

from apiserver.endpoints.reverse_proxy.errors import BackendRequestFailed
from apiserver.storage.event_loop_turns import Turn

# A longer frame is no data of a shell or a port, which are sent as they are read.
FRAME_BYTES_MAX: Final = 1024 * 1024
# What is sent in one frame.
DATA_BYTES_MAX: Final = 64 * 1024

SYN_STREAM, SYN_REPLY, RST_STREAM, PING, GOAWAY = 1, 2, 3, 6, 7
FIN: Final = 1
_CONTROL: Final = 0x8000
_VERSION: Final = 3
_NUMBER: Final = 0x7FFF_FFFF
_NAMES: Final = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges "
    "age allow authorization cache-control connection content-base content-encoding content-language "
    "content-length content-location content-md5 content-range content-type date etag expect expires from "
    "host if-match if-modified-since if-none-match if-range if-unmodified-since last-modified location "
    "max-forwards pragma proxy-authenticate proxy-authorization range referer retry-after server te trailer "
    "transfer-encoding upgrade user-agent vary via warning www-authenticate method get status 200_OK version "
    "HTTP/1.1 url public set-cookie keep-alive origin"
)
_TAIL: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _dictionary() -> bytes:
    """Returns the dictionary that both sides compress headers with (section 2.6.10.1)."""
    names = (name.replace("_", " ").encode() for name in _NAMES.split())
    return b"".join(struct.pack(">I", len(name)) + name for name in names) + _TAIL.encode()


HEADER_DICTIONARY: Final = _dictionary()


class Frame(NamedTuple):
    """A SPDY frame. kind: that of a control frame; 0 for data. number: that of the stream, for data."""

    kind: int
    number: int
    flags: int
    data: bytes


def data_frame(number: int, data: bytes, *, is_last: bool = False) -> bytes:
    return struct.pack(">II", number, (FIN if is_last else 0) << 24 | len(data)) + data


def control_frame(kind: int, data: bytes) -> bytes:
    return struct.pack(">HHI", _CONTROL | _VERSION, kind, len(data)) + data


def header_block(headers: Mapping[str, str]) -> bytes:
    """Returns an uncompressed block of headers."""
    texts = [text.encode() for pair in headers.items() for text in pair]
    return struct.pack(">I", len(headers)) + b"".join(struct.pack(">I", len(text)) + text for text in texts)


async def read_frame(reader: asyncio.StreamReader) -> Frame | None:
    """Returns the next frame; None at the end of the connection. Raises RequestFailed."""
    try:
        first, rest = struct.unpack(">II", await reader.readexactly(8))
        length = rest & 0xFF_FFFF
        if length > FRAME_BYTES_MAX:
            raise BackendRequestFailed(f"a frame is longer than {FRAME_BYTES_MAX} bytes")
        data = await reader.readexactly(length)
    except (asyncio.IncompleteReadError, OSError):
        return None
    flags = rest >> 24
    if not first >> 31:
        return Frame(0, first, flags, data)
    if first >> 16 != _CONTROL | _VERSION:
        raise BackendRequestFailed("the connection does not speak SPDY/3.1")
    return Frame(first & 0xFFFF, 0, flags, data)


class StreamData(NamedTuple):
    """The data received on a stream. is_last: whether it is the last of the stream."""

    number: int
    data: bytes
    is_last: bool


class SpdyClient:
    """The client's end of an upgraded connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._deflate = zlib.compressobj(zdict=HEADER_DICTIONARY)
        self._next_number = 1

    async def open(self, headers: Mapping[str, str]) -> int:
        """Opens a stream, and returns its number."""
        number = self._next_number
        self._next_number += 2
        block = self._deflate.compress(header_block(headers)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        self._writer.write(control_frame(SYN_STREAM, struct.pack(">IIxx", number, 0) + block))
        await self._writer.drain()
        return number

    async def send(self, number: int, data: bytes, *, is_last: bool = False) -> None:
        for begin in range(0, len(data), DATA_BYTES_MAX):
            self._writer.write(data_frame(number, data[begin : begin + DATA_BYTES_MAX]))
            await self._writer.drain()
        if is_last:
            self._writer.write(data_frame(number, b"", is_last=True))
            await self._writer.drain()

    async def arrivals(self) -> AsyncIterator[StreamData]:
        """Yields received data, until the other side has nothing more to send. Raises RequestFailed."""
        turn = Turn()
        while (frame := await read_frame(self._reader)) is not None:
            # Thousands of small ones may have come at once, for which nothing waits.
            if turn.is_over():
                await turn.next()
            if frame.kind == 0:
                yield StreamData(frame.number, frame.data, bool(frame.flags & FIN))
            elif frame.kind in (SYN_REPLY, RST_STREAM) and len(frame.data) >= 4:
                is_last = frame.kind == RST_STREAM or bool(frame.flags & FIN)
                if is_last:
                    yield StreamData(struct.unpack(">I", frame.data[:4])[0] & _NUMBER, b"", True)
            elif frame.kind == PING:
                self._writer.write(control_frame(PING, frame.data))
                await self._writer.drain()
            elif frame.kind == GOAWAY:
                return
