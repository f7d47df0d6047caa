"""A connection to the server that sends what it is told, byte for byte, and reads only when it is told."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Mapping
from typing import Final, Self, cast

import orjson

from tests.hostile.site import Site, token

HEAD_BYTES_MAX: Final = 1_000_000
# So small that what a client does not read waits in the server, not in the kernel.
SMALL_WINDOW_BYTES: Final = 4_096
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED: Final = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)


def head(method: str, path: str, user: str, headers: Mapping[str, str] | None = None) -> bytes:
    """The head of a request. An empty user sends no token."""
    lines = [f"{method} {path} HTTP/1.1", "Host: server"]
    if user:
        lines.append(f"Authorization: Bearer {token(user)}")
    lines.extend(f"{name}: {value}" for name, value in (headers or {}).items())
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def request(
    method: str,
    path: str,
    user: str,
    body: object = None,
    *,
    type: str = "application/json",  # noqa: A002  what HTTP calls it
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """A whole request. body: bytes, or a document to send as JSON."""
    if body is None:
        return head(method, path, user, headers)
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    sent = {"Content-Type": type, "Content-Length": str(len(data)), **(headers or {})}
    return head(method, path, user, sent) + data


class Connection:
    """One TLS connection. After `stop_reading` the server can send only what fits a small window."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self._writer = reader, writer

    @classmethod
    async def open(cls, site: Site, source: str, tls: ssl.SSLContext | None, *, small_window: bool) -> Self:
        plain = socket.socket()
        try:
            plain.setblocking(False)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # An address has its own 28,000 ports to every other; without this, bind would look for a free
            # one.
            if hasattr(socket, "IP_BIND_ADDRESS_NO_PORT"):
                plain.setsockopt(socket.IPPROTO_IP, socket.IP_BIND_ADDRESS_NO_PORT, 1)
            if small_window:
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_WINDOW_BYTES)
            plain.bind((source, 0))
            await asyncio.get_running_loop().sock_connect(plain, (site.host, site.port))
            reader, writer = await asyncio.open_connection(
                sock=plain, ssl=tls, server_hostname="" if tls else None, limit=HEAD_BYTES_MAX
            )
        except BaseException:
            plain.close()
            raise
        return cls(reader, writer)

    def stop_reading(self) -> None:
        self._transport.pause_reading()

    async def read_a_little(self) -> bytes:
        """Read what comes next, which a small window makes a few KB. Nothing if the server has closed."""
        self._transport.resume_reading()
        data = await self.reader.read(HEAD_BYTES_MAX)
        self._transport.pause_reading()
        return data

    @property
    def _transport(self) -> asyncio.Transport:
        # Those of uvloop are transports of sockets, too, but registered as no such class.
        return cast(asyncio.Transport, self._writer.transport)

    async def send(self, data: bytes) -> None:
        """Send as fast as the server reads."""
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self) -> tuple[int, bytes]:
        """Read one answer: its status and body."""
        answer_head = await self.reader.readuntil(b"\r\n\r\n")
        status = int(answer_head[9:12])
        if status < 200:
            return status, b""
        length = _LENGTH.search(answer_head)
        if length is not None:
            return status, await self.reader.readexactly(int(length[1]))
        if not _CHUNKED.search(answer_head):
            return status, b"" if status in (204, 304) else await self.reader.read()
        parts = []
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            parts.append((await self.reader.readexactly(size + 2))[:-2])
        await self.reader.readexactly(2)
        return status, b"".join(parts)

    def close(self) -> None:
        self._writer.transport.abort()
