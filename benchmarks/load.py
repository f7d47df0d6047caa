"""The client of all works: keeps a number of connections busy with requests and counts answers.

It reads no more of an answer than where it ends, so that the server is the limit, not the client. Where two
cores are shared by both, the bare limit suffers from it as much as the server.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, cast
from urllib.parse import urlsplit

READ_BYTES: Final = 256 * 1024
_LENGTH: Final = re.compile(rb"\r\nContent-Length: (\d+)", re.IGNORECASE)
_CHUNKED: Final = re.compile(rb"\r\nTransfer-Encoding: chunked", re.IGNORECASE)
_LAST_CHUNK: Final = b"0\r\n\r\n"
_HEAD_END: Final = b"\r\n\r\n"

# The bytes of the next request, or None when there are no more.
NextRequest = Callable[[], bytes | None]


class UnexpectedAnswer(Exception):
    """The server answered with something else than success."""


@dataclass(slots=True)
class Load:
    """seconds: from the first request to the last answer. delays_s: of each answer."""

    answers: int = 0
    seconds: float = 0.0
    bytes: int = 0
    delays_s: list[float] = field(default_factory=list)

    @property
    def per_second(self) -> float:
        return self.answers / self.seconds

    def delay_s(self, quantile: float) -> float:
        return sorted(self.delays_s)[min(len(self.delays_s) - 1, int(len(self.delays_s) * quantile))]


def address(url: str) -> tuple[str, int]:
    where = urlsplit(url)
    assert where.hostname is not None
    assert where.port is not None
    return where.hostname, where.port


def tls_context() -> ssl.SSLContext:
    """No certificate is looked at: who is measured is known, and checking costs at connection time only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class _Connection(asyncio.BufferedProtocol):
    """Sends a request when the answer to the one before has come."""

    def __init__(self, next_request: NextRequest, load: Load) -> None:
        self._next, self._load = next_request, load
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._buffer = bytearray(READ_BYTES)
        self._head = b""
        self._remaining = -1  # of a body of known length; -1: in the head
        self._is_chunked = False
        self._tail = b""
        self._sent_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(UnexpectedAnswer(f"the connection was closed: {exc}"))

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._load.bytes += nbytes
        if self._remaining >= 0 and not self._is_chunked:
            self._remaining -= nbytes
            if self._remaining <= 0:
                self._answered()
            return
        data = bytes(memoryview(self._buffer)[:nbytes])
        if self._is_chunked:
            self._tail = (self._tail + data[-5:])[-5:]
            if self._tail == _LAST_CHUNK:
                self._answered()
            return
        self._head += data
        head, found, body = self._head.partition(_HEAD_END)
        if not found:
            return
        if not head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")):
            self._fail(self._head)
            return
        self._head = b""
        length = _LENGTH.search(head)
        if length is not None:
            self._remaining = int(length[1]) - len(body)
            if self._remaining <= 0:
                self._answered()
        elif _CHUNKED.search(head):
            self._is_chunked, self._remaining = True, 0
            self._tail = body[-5:]
            if self._tail == _LAST_CHUNK:
                self._answered()
        else:
            self._fail(head)

    def _answered(self) -> None:
        load = self._load
        load.answers += 1
        load.delays_s.append(time.perf_counter() - self._sent_at)
        self._remaining, self._is_chunked, self._tail = -1, False, b""
        self._send()

    def _send(self) -> None:
        request = self._next()
        if request is None:
            self.done.set_result(None)
            self._transport.close()
            return
        self._sent_at = time.perf_counter()
        self._transport.write(request)

    def _fail(self, answer: bytes) -> None:
        self.done.set_exception(UnexpectedAnswer(answer[:500].decode(errors="replace")))
        self._transport.abort()


async def run(url: str, next_request: NextRequest, *, connections: int) -> Load:
    """Send requests over so many connections until there are no more. Raises UnexpectedAnswer."""
    loop, load = asyncio.get_running_loop(), Load()
    context = tls_context()
    began = time.perf_counter()
    opened = [
        await loop.create_connection(lambda: _Connection(next_request, load), *address(url), ssl=context)
        for _ in range(connections)
    ]
    await asyncio.gather(*(connection.done for _, connection in opened))
    load.seconds = time.perf_counter() - began
    return load


def repeated(request: bytes, *, for_s: float) -> NextRequest:
    """The same request until the time is up."""
    ends = time.perf_counter() + for_s
    return lambda: request if time.perf_counter() < ends else None


def each_of(requests: Iterator[bytes]) -> NextRequest:
    return lambda: next(requests, None)


def request(method: str, target: str, body: bytes = b"", *, token: str = "admin-token") -> bytes:
    """A request as bytes."""
    head = (
        f"{method} {target} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\nUser-Agent: bench\r\n"
    )
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


class Follower(asyncio.BufferedProtocol):
    """A watch that counts what comes and notes how late it is.

    Events hold `at:<seconds of perf_counter>;` somewhere; those that begin so are counted.
    """

    def __init__(self, target: str, expected: int) -> None:
        self._target, self._expected = target, expected
        self._buffer = bytearray(READ_BYTES)
        self._rest = b""
        self._has_begun = False
        self.began: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.count = 0
        self.delays_s: list[float] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(request("GET", self._target))

    def connection_lost(self, exc: Exception | None) -> None:
        for future in (self.began, self.done):
            if not future.done():
                future.set_exception(UnexpectedAnswer(f"the watch was closed: {exc}"))

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        data = self._rest + bytes(memoryview(self._buffer)[:nbytes])
        if not self.began.done():
            if _HEAD_END not in data:
                self._rest = data
                return
            self.began.set_result(None)
        now = time.perf_counter()
        position = data.find(b"at:")
        while position >= 0:
            end = data.find(b";", position)
            if end < 0:
                break
            self.count += 1
            self.delays_s.append(now - float(data[position + 3 : end]))
            position = data.find(b"at:", end)
        # A stamp may be cut between two reads.
        self._rest = data[position:] if position >= 0 else data[-2:]
        if self.count >= self._expected and not self.done.done():
            self.done.set_result(None)
