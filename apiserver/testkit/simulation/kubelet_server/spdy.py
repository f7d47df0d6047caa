"""SPDY/3.1 as kubelets speak it: the server's end of a connection, as far as clients use it.

Source: https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1/; github.com/moby/spdystream.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, cast

from aiohttp import hdrs, web
from aiohttp.http_websocket import WebSocketReader

from apiserver.endpoints.reverse_proxy.errors import BackendRequestFailed
from apiserver.endpoints.reverse_proxy.spdy import (
    DATA_BYTES_MAX,
    FIN,
    GOAWAY,
    HEADER_DICTIONARY,
    PING,
    RST_STREAM,
    SYN_REPLY,
    SYN_STREAM,
    control_frame,
    data_frame,
    read_frame,
)
from apiserver.storage.event_loop_turns import Turn
from apiserver.testkit.simulation.kubelet_server.requests import PROTOCOL_HEADER

# Streams that are open at the same time: a connection to a port has two.
STREAMS_MAX: Final = 256
# Of the headers of a stream, which are a few words.
HEADER_BYTES_MAX: Final = 16 * 1024
# How many unread frames are kept. Reading from the other side pauses until there is room.
_UNREAD_FRAMES_MAX: Final = 1
_UNREAD_BYTES_MAX: Final = 64 * 1024
_NUMBER: Final = 0x7FFF_FFFF
_REFUSED: Final = 3
_INTERNAL_ERROR: Final = 6


class SpdyStream:
    """A stream that the client has opened. number: that in the connection. headers: names in lower case."""

    def __init__(self, session: SpdySession, number: int, headers: Mapping[str, str]) -> None:
        self.number, self.headers = number, headers
        self._session = session
        self._arrived: asyncio.Queue[bytes] = asyncio.Queue(_UNREAD_FRAMES_MAX)
        self._has_ended = False
        self._is_closed = False

    async def read(self) -> bytes:
        """Returns data of the client; empty at its end."""
        if self._has_ended:
            return b""
        data = await self._arrived.get()
        self._has_ended = not data
        return data

    async def write(self, data: bytes) -> None:
        for begin in range(0, len(data), DATA_BYTES_MAX):
            await self._session.send(data_frame(self.number, data[begin : begin + DATA_BYTES_MAX]))

    async def close(self) -> None:
        """Signal the end of the data, and accept no more."""
        if not self._is_closed:
            self._stop_reading()
            await self._session.send(data_frame(self.number, b"", is_last=True))
            self._session.forget(self)

    async def reset(self) -> None:
        """Signal an error, and accept no more data."""
        if not self._is_closed:
            self._stop_reading()
            await self._session.reset(self.number, _INTERNAL_ERROR)
            self._session.forget(self)

    async def take(self, data: bytes, *, is_last: bool) -> None:
        """Take received data, as soon as there is room for it."""
        for piece in (data, b"") if data and is_last else (data,):
            if not self._is_closed and (piece or is_last):
                await self._arrived.put(piece)

    def _stop_reading(self) -> None:
        self._is_closed = True
        # Tasks that wait for room need not wait any more.
        with contextlib.suppress(asyncio.QueueEmpty):
            self._arrived.get_nowait()


class SpdySession:
    """The kubelet's end of a SPDY connection. opened: the streams, as the client opens them.

    write: sends bytes, and waits while the client does not read.
    """

    def __init__(self, reader: asyncio.StreamReader, write: Callable[[bytes], Awaitable[None]]) -> None:
        self.opened: asyncio.Queue[SpdyStream] = asyncio.Queue(STREAMS_MAX)
        self._reader, self._write = reader, write
        self._streams: dict[int, SpdyStream] = {}
        self._inflate = zlib.decompressobj(zdict=HEADER_DICTIONARY)
        self._deflate = zlib.compressobj(zdict=HEADER_DICTIONARY)

    async def run(self) -> None:
        """Read from the client until it disconnects, or violates the protocol."""
        turn = Turn()
        with contextlib.suppress(BackendRequestFailed, OSError, zlib.error, struct.error, UnicodeDecodeError):
            while (frame := await read_frame(self._reader)) is not None:
                if turn.is_over():
                    await turn.next()
                if frame.kind == 0:
                    stream = self._streams.get(frame.number)
                    if stream is not None:
                        await stream.take(frame.data, is_last=bool(frame.flags & FIN))
                elif frame.kind == SYN_STREAM:
                    await self._open(frame.flags, frame.data)
                elif frame.kind == RST_STREAM:
                    stream = self._streams.pop(struct.unpack(">I", frame.data[:4])[0] & _NUMBER, None)
                    if stream is not None:
                        await stream.take(b"", is_last=True)
                elif frame.kind == PING:  # The same comes back.
                    await self.send(control_frame(PING, frame.data))
                elif frame.kind == GOAWAY:
                    return

    async def send(self, frame: bytes) -> None:
        await self._write(frame)

    async def reset(self, number: int, status: int) -> None:
        await self.send(control_frame(RST_STREAM, struct.pack(">II", number, status)))

    async def go_away(self) -> None:
        """Signal that no more streams are accepted."""
        last = max(self._streams, default=0)
        await self.send(control_frame(GOAWAY, struct.pack(">II", last, 0)))

    def forget(self, stream: SpdyStream) -> None:
        self._streams.pop(stream.number, None)

    async def _open(self, flags: int, data: bytes) -> None:
        """Open a stream."""
        number = struct.unpack(">I", data[:4])[0] & _NUMBER
        block = self._inflate.decompress(data[10:], HEADER_BYTES_MAX)
        if self._inflate.unconsumed_tail:
            raise BackendRequestFailed(f"the headers of a stream are longer than {HEADER_BYTES_MAX} bytes")
        if len(self._streams) >= STREAMS_MAX or number in self._streams:
            await self.reset(number, _REFUSED)
            return
        stream = self._streams[number] = SpdyStream(self, number, _headers_of(block))
        empty = self._deflate.compress(struct.pack(">I", 0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        await self.send(control_frame(SYN_REPLY, data[:4] + empty))
        await self.opened.put(stream)
        if flags & FIN:
            await stream.take(b"", is_last=True)


def _headers_of(block: bytes) -> dict[str, str]:
    """Returns the headers in a block."""
    texts, at = [], 4
    (count,) = struct.unpack(">I", block[:4])
    if count > len(block):
        raise struct.error("more headers than bytes")
    for _ in range(2 * count):
        (size,) = struct.unpack(">I", block[at : at + 4])
        texts.append(block[at + 4 : at + 4 + size].decode())
        at += 4 + size
    return {name.lower(): value for name, value in zip(texts[::2], texts[1::2], strict=True)}


# ---- beneath aiohttp's server


@asynccontextmanager
async def upgraded(
    request: web.BaseRequest, protocol: str
) -> AsyncIterator[tuple[web.StreamResponse, SpdySession]]:
    """Upgrades a connection to SPDY, which ends afterwards."""
    headers = {hdrs.CONNECTION: hdrs.UPGRADE, hdrs.UPGRADE: "SPDY/3.1", PROTOCOL_HEADER: protocol}
    response = web.StreamResponse(status=101, headers=headers)
    response.force_close()
    reader = asyncio.StreamReader(limit=_UNREAD_BYTES_MAX)
    if request.transport is None:
        raise ConnectionResetError("the client is gone")
    reader.set_transport(request.transport)
    # aiohttp asks no more of what reads its WebSockets.
    request.protocol.set_parser(cast(WebSocketReader, _SpdyParser(reader)))
    await response.prepare(request)
    yield response, SpdySession(reader, response.write)


class _SpdyParser:
    """Passes on the client's data, in place of aiohttp's parser of requests."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self._reader.feed_data(data)
        return False, b""

    def feed_eof(self) -> None:
        self._reader.feed_eof()
