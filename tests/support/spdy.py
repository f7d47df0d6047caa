"""SPDY/3.1 as kubelets speak it: the server's end of a connection, with as much of it as kubectl uses.

https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1/
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Mapping

from apiserver.reverse_proxy.spdy import (
    FIN,
    HEADER_DICTIONARY,
    PING,
    SYN_REPLY,
    SYN_STREAM,
    control_frame,
    data_frame,
    read_frame,
)


class Stream:
    """One stream that the client has opened. arrived: what it has sent, and None at its end."""

    def __init__(self, session: Session, number: int, headers: Mapping[str, str]) -> None:
        self.headers = headers
        self.arrived: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._session, self._number = session, number

    async def write(self, data: bytes) -> None:
        await self._session.send_data(self._number, 0, data)

    async def close(self) -> None:
        await self._session.send_data(self._number, FIN, b"")


class Session:
    """A connection. opened: the streams, as the client opens them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened: asyncio.Queue[Stream] = asyncio.Queue()
        self._reader, self._writer = reader, writer
        self._streams: dict[int, Stream] = {}
        self._inflate = zlib.decompressobj(zdict=HEADER_DICTIONARY)
        self._deflate = zlib.compressobj(zdict=HEADER_DICTIONARY)

    async def run(self) -> None:
        """Read what the client sends, until it hangs up."""
        while (frame := await read_frame(self._reader)) is not None:
            if frame.kind == 0:
                await self._take_data(frame.number, frame.flags, frame.data)
            elif frame.kind == SYN_STREAM:
                await self._open(frame.flags, frame.data)
            elif frame.kind == PING:  # the same comes back
                await self._send(control_frame(PING, frame.data))

    async def send_data(self, number: int, flags: int, data: bytes) -> None:
        await self._send(data_frame(number, data, is_last=bool(flags & FIN)))

    async def _take_data(self, number: int, flags: int, data: bytes) -> None:
        stream = self._streams[number]
        if data:
            stream.arrived.put_nowait(data)
        if flags & FIN:
            stream.arrived.put_nowait(None)

    async def _open(self, flags: int, data: bytes) -> None:
        (number,) = struct.unpack(">I", data[:4])
        block = self._inflate.decompress(data[10:])
        stream = self._streams[number & 0x7FFF_FFFF] = Stream(self, number, _headers_of(block))
        if flags & FIN:
            stream.arrived.put_nowait(None)
        empty = self._deflate.compress(struct.pack(">I", 0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        await self._send(control_frame(SYN_REPLY, data[:4] + empty))
        self.opened.put_nowait(stream)

    async def _send(self, frame: bytes) -> None:
        self._writer.write(frame)
        await self._writer.drain()


def _headers_of(block: bytes) -> dict[str, str]:
    texts, at = [], 4
    (count,) = struct.unpack(">I", block[:4])
    for _ in range(2 * count):
        (size,) = struct.unpack(">I", block[at : at + 4])
        texts.append(block[at + 4 : at + 4 + size].decode())
        at += 4 + size
    return {name.lower(): value for name, value in zip(texts[::2], texts[1::2], strict=True)}
