"""The client of all workloads: keeps a number of connections busy with requests and counts answers.

It only finds the end of an answer, so that the server is the limit, not the client. Where both share two
cores, the client slows the bare limit as much as the server.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Self, cast
from urllib.parse import urlsplit

READ_BYTES: Final = 256 * 1024
_LENGTH: Final = re.compile(rb"\r\nContent-Length: (\d+)", re.IGNORECASE)
_CHUNKED: Final = re.compile(rb"\r\nTransfer-Encoding: chunked", re.IGNORECASE)
_LAST_CHUNK: Final = b"0\r\n\r\n"
_HEAD_END: Final = b"\r\n\r\n"

# The bytes of the next request, or None when there are no more.
NextRequest = Callable[[], bytes | None]


class UnexpectedAnswer(Exception):
    """The server did not answer with a success."""


@dataclass(slots=True)
class Load:
    """The answers to a load. seconds: from the first request to the last answer. delays_s: of each answer."""

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
    """A context that verifies no certificates: the server is known, and this costs only when connecting."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class _Connection(asyncio.BufferedProtocol):
    """Sends each request after the answer to the one before, and stays open when there are no more."""

    def __init__(self) -> None:
        self._next: NextRequest = lambda: None
        self._load = Load()
        self._send_all: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._buffer = bytearray(READ_BYTES)
        self._head = b""
        self._remaining = -1  # of a body of known length; -1: in the head
        self._is_chunked = False
        self._tail = b""
        self._sent_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._send_all.done():
            self._send_all.set_exception(UnexpectedAnswer(f"the connection was closed: {exc}"))

    async def run(self, next_request: NextRequest, load: Load) -> None:
        """Send one request after the other until there are no more; adds the answers to `load`."""
        self._next, self._load = next_request, load
        self._send_all = asyncio.get_running_loop().create_future()
        if self._transport.is_closing():
            raise UnexpectedAnswer("the connection was closed between two requests")
        self._send()
        await self._send_all

    def close(self) -> None:
        self._send_all.cancel()
        self._transport.abort()

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
            self._send_all.set_result(None)
            return
        self._sent_at = time.perf_counter()
        self._transport.write(request)

    def _fail(self, answer: bytes) -> None:
        self._send_all.set_exception(UnexpectedAnswer(answer[:500].decode(errors="replace")))
        self._transport.abort()


class Connections:
    """Connections that stay open over any number of runs, so that no figure includes opening them."""

    def __init__(self, opened: list[_Connection]) -> None:
        self._opened = opened

    @classmethod
    @asynccontextmanager
    async def to(cls, url: str, count: int) -> AsyncIterator[Self]:
        loop, context = asyncio.get_running_loop(), tls_context()
        opened: list[_Connection] = []
        try:
            for _ in range(count):
                _, connection = await loop.create_connection(_Connection, *address(url), ssl=context)
                opened.append(connection)
            yield cls(opened)
        finally:
            for connection in opened:
                connection.close()

    async def run(self, next_request: NextRequest) -> Load:
        """Send requests on all connections, as fast as answers come. Raises UnexpectedAnswer."""
        load, began = Load(), time.perf_counter()
        await asyncio.gather(*(connection.run(next_request, load) for connection in self._opened))
        load.seconds = time.perf_counter() - began
        return load

    async def paced(self, next_request: NextRequest, *, per_second: float) -> Load:
        """Send at a rate that does not wait for answers, as long as one of the connections is free.

        The load's seconds are those of sending, so its rate is the one that was reached. Raises
        UnexpectedAnswer.
        """
        load, began = Load(), time.perf_counter()
        free: asyncio.Queue[_Connection] = asyncio.Queue()
        for connection in self._opened:
            free.put_nowait(connection)

        async def ask(connection: _Connection, request: bytes) -> None:
            await connection.run(each_of(iter([request])), load)
            free.put_nowait(connection)

        async with asyncio.TaskGroup() as asked:
            for n in itertools.count():
                await asyncio.sleep(began + n / per_second - time.perf_counter())
                connection = await free.get()
                request = next_request()
                if request is None:
                    load.seconds = time.perf_counter() - began
                    break
                asked.create_task(ask(connection, request))
        return load


async def run(url: str, next_request: NextRequest, *, connections: int) -> Load:
    """Send requests over new connections until there are no more. Raises UnexpectedAnswer."""
    async with Connections.to(url, connections) as opened:
        return await opened.run(next_request)


def repeated(request: bytes, *, for_s: float) -> NextRequest:
    """Repeat one request until the time is up."""
    return generated(lambda: request, for_s=for_s)


def generated(make: Callable[[], bytes], *, for_s: float) -> NextRequest:
    """Make a new request each time until the time is up."""
    ends = time.perf_counter() + for_s
    return lambda: make() if time.perf_counter() < ends else None


def each_of(requests: Iterator[bytes]) -> NextRequest:
    return lambda: next(requests, None)


NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


def request(
    method: str,
    target: str,
    body: bytes = b"",
    *,
    token: str = "admin-token",
    headers: Mapping[str, str] = NO_HEADERS,
) -> bytes:
    """A request as bytes.

    token: empty for an anonymous one. headers: in addition to those of all requests.
    """
    head = f"{method} {target} HTTP/1.1\r\nHost: bench\r\nUser-Agent: bench\r\n"
    if token:
        head += f"Authorization: Bearer {token}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    if body:
        if "Content-Type" not in headers:
            head += "Content-Type: application/json\r\n"
        head += f"Content-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body
