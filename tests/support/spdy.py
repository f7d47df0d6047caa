"""SPDY/3.1 as kubelets speak it: the server's end of a connection, with as much of it as kubectl uses.

https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1/
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Mapping
from typing import Final

_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_FIN: Final = 1
_VERSION: Final = 0x8003
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
    """Returns what both sides know of headers before they begin (section 2.6.10.1)."""
    names = (name.replace("_", " ").encode() for name in _NAMES.split())
    return b"".join(struct.pack(">I", len(name)) + name for name in names) + _TAIL.encode()


class Stream:
    """One stream that the client has opened. arrived: what it has sent, and None at its end."""

    def __init__(self, session: Session, number: int, headers: Mapping[str, str]) -> None:
        self.headers = headers
        self.arrived: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._session, self._number = session, number

    async def write(self, data: bytes) -> None:
        await self._session.send_data(self._number, 0, data)

    async def close(self) -> None:
        await self._session.send_data(self._number, _FIN, b"")


class Session:
    """A connection. opened: the streams, as the client opens them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened: asyncio.Queue[Stream] = asyncio.Queue()
        self._reader, self._writer = reader, writer
        self._streams: dict[int, Stream] = {}
        self._inflate = zlib.decompressobj(zdict=_dictionary())
        self._deflate = zlib.compressobj(zdict=_dictionary())

    async def run(self) -> None:
        """Read what the client sends, until it hangs up."""
        while True:
            try:
                first, rest = struct.unpack(">II", await self._reader.readexactly(8))
                data = await self._reader.readexactly(rest & 0xFF_FFFF)
            except (asyncio.IncompleteReadError, OSError):
                return
            flags = rest >> 24
            if not first >> 31:
                await self._take_data(first, flags, data)
                continue
            assert first >> 16 == _VERSION, hex(first)
            match first & 0xFFFF:
                case 1:
                    await self._open(flags, data)
                case 6:  # the same comes back
                    await self._send(_PING, 0, data)
                case 3 | 7:
                    pass

    async def send_data(self, number: int, flags: int, data: bytes) -> None:
        self._writer.write(struct.pack(">II", number, flags << 24 | len(data)) + data)
        await self._writer.drain()

    async def _take_data(self, number: int, flags: int, data: bytes) -> None:
        stream = self._streams[number]
        if data:
            stream.arrived.put_nowait(data)
        if flags & _FIN:
            stream.arrived.put_nowait(None)

    async def _open(self, flags: int, data: bytes) -> None:
        (number,) = struct.unpack(">I", data[:4])
        block = self._inflate.decompress(data[10:])
        stream = self._streams[number & 0x7FFF_FFFF] = Stream(self, number, _headers_of(block))
        if flags & _FIN:
            stream.arrived.put_nowait(None)
        empty = self._deflate.compress(struct.pack(">I", 0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        await self._send(_SYN_REPLY, 0, data[:4] + empty)
        self.opened.put_nowait(stream)

    async def _send(self, kind: int, flags: int, data: bytes) -> None:
        self._writer.write(struct.pack(">HHI", _VERSION, kind, flags << 24 | len(data)) + data)
        await self._writer.drain()


def _headers_of(block: bytes) -> dict[str, str]:
    texts, at = [], 4
    (count,) = struct.unpack(">I", block[:4])
    for _ in range(2 * count):
        (size,) = struct.unpack(">I", block[at : at + 4])
        texts.append(block[at + 4 : at + 4 + size].decode())
        at += 4 + size
    return {name.lower(): value for name, value in zip(texts[::2], texts[1::2], strict=True)}
