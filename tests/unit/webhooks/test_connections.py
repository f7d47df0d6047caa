"""How connections to webhooks are used again, and when they are not. Servers are real, on this machine."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from apiserver.app.serving import pki
from apiserver.webhooks.connections import (
    CONNECTIONS_MAX,
    ConnectFailed,
    ConnectionBroken,
    ConnectionPool,
    ConnectionTarget,
    ResolvedAddress,
)
from apiserver.webhooks.http_answers import AnswerReader
from tests.support.ports import free_port

HOST: Final = "a.example.com"
HEAD: Final = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n"
OK: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
Serving = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Servers:
    """The addresses of a host. asked: how often they were looked up."""

    def __init__(self) -> None:
        self.found: list[ResolvedAddress] = []
        self.asked = 0

    async def addresses(self, host: str, port: int) -> Sequence[ResolvedAddress]:
        self.asked += 1
        return self.found


class Server:
    """accepted: connections that were made to it. gone: set when the last one has ended."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self.accepted = 0
        self.gone = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        try:
            await self._serving(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            self.gone.set()


async def request(reader: asyncio.StreamReader) -> None:
    await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(2)


async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        await request(reader)
        writer.write(OK)


@asynccontextmanager
async def pool_of(
    *serving: Serving, tls: ssl.SSLContext | None = None, keep_alive_s: float = 60.0
) -> AsyncIterator[tuple[ConnectionPool, Servers, list[Server]]]:
    """A pool, with servers behind the addresses of one host."""
    resolver, servers = Servers(), [Server(each) for each in serving]
    async with AsyncExitStack() as stack:
        for server in servers:
            listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
            await stack.enter_async_context(listening)
            resolver.found.append(ResolvedAddress("127.0.0.1", listening.sockets[0].getsockname()[1]))
        pool = ConnectionPool(resolver, keep_alive_s)
        stack.push_async_callback(pool.close)
        yield pool, resolver, servers


async def post(pool: ConnectionPool, context: ssl.SSLContext | None = None) -> bytes:
    reader = AnswerReader(1_000)
    await pool.exchange(ConnectionTarget(HOST, 443, context, HOST), HEAD, b"{}", reader)
    return reader.body


async def test_one_connection_has_one_request_after_the_other() -> None:
    async with pool_of(answers) as (pool, resolver, [server]):
        assert [await post(pool) for _ in range(5)] == [b"{}"] * 5
        assert (server.accepted, resolver.asked) == (1, 1)


async def test_requests_at_the_same_time_have_a_connection_each_up_to_a_bound() -> None:
    waiting: list[asyncio.Event] = []

    async def when_all_are_there(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        waiting.append(asyncio.Event())
        if len(waiting) == CONNECTIONS_MAX:
            for each in waiting:
                each.set()
        await waiting[-1].wait()
        await answers(reader, writer)

    async with pool_of(when_all_are_there) as (pool, _, [server]):
        await asyncio.gather(*(post(pool) for _ in range(CONNECTIONS_MAX + 50)))
        assert server.accepted == CONNECTIONS_MAX


async def test_connections_to_others_are_not_shared() -> None:
    """Others: another host, port or name in the certificate."""
    async with pool_of(answers) as (pool, _, [server]):
        for place in (
            ConnectionTarget(HOST, 443, None, HOST),
            ConnectionTarget(HOST, 444, None, HOST),
            ConnectionTarget(HOST, 443, None, "b"),
        ):
            await pool.exchange(place, HEAD, b"{}", AnswerReader(9))
        assert server.accepted == 3


def says(answer: bytes) -> Serving:
    """A server that answers all requests so."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await request(reader)
            writer.write(answer)

    return serve


NOT_KEPT: Final = {
    "one that the server closes": b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
    "one of HTTP/1.0": b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    "one with more than an answer": OK + b"HTTP/1.1 200 OK\r\n",
}


@pytest.mark.parametrize("answer", NOT_KEPT.values(), ids=NOT_KEPT)
async def test_a_connection_that_is_not_used_again(answer: bytes) -> None:
    async with pool_of(says(answer)) as (pool, _, [server]):
        assert [await post(pool) for _ in range(2)] == [b"{}"] * 2
        assert server.accepted == 2


async def test_what_a_server_says_unasked_is_no_answer() -> None:
    async def talks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(OK)
        await writer.drain()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno")
        await reader.read()

    async with pool_of(talks) as (pool, _, [server]):
        await post(pool)
        await server.gone.wait()
        assert await post(pool) == b"{}"
        assert server.accepted == 2


async def test_a_connection_that_was_closed_meanwhile_is_not_used() -> None:
    async def leaves(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(OK)
        await writer.drain()

    async with pool_of(leaves) as (pool, _, [server]):
        for count in range(1, 4):
            assert await post(pool) == b"{}"
            while pool.open_connections:
                await asyncio.sleep(0)
            assert server.accepted == count


async def test_the_end_of_a_connection_is_the_end_of_the_request() -> None:
    async def breaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(OK[:-1])

    async with pool_of(breaks) as (pool, _, [server]):
        for _ in range(2):
            with pytest.raises(ConnectionBroken, match="EOF"):
                await post(pool)
        assert server.accepted == 2


async def test_an_answer_that_nobody_waits_for_is_nobodys_answer() -> None:
    """Whoever gives up leaves no connection on which the answer may come later."""
    asked = asyncio.Event()

    async def once_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        if not asked.is_set():
            asked.set()
            await reader.read()
        writer.write(OK)
        await answers(reader, writer)

    async with pool_of(once_late) as (pool, _, [server]):
        first = asyncio.create_task(post(pool))
        await asked.wait()
        first.cancel()
        assert await post(pool) == b"{}"
        await server.gone.wait()
        assert (first.cancelled(), server.accepted) == (True, 2)


async def test_a_connection_that_nobody_uses_is_closed() -> None:
    async with pool_of(answers, keep_alive_s=0.01) as (pool, _, [server]):
        await post(pool)
        await server.gone.wait()
        await post(pool)
        assert server.accepted == 2


async def test_closing_closes_all_connections() -> None:
    asked = asyncio.Event()

    async def hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await reader.read()

    async with pool_of(hangs) as (pool, _, [server]):
        waiting = asyncio.create_task(post(pool))
        await asked.wait()
        await pool.close()
        with pytest.raises(ConnectionBroken):
            await waiting
        await server.gone.wait()


# ---- several addresses


async def test_the_next_address_is_taken_where_nobody_listens() -> None:
    async with pool_of(answers) as (pool, resolver, [server]):
        resolver.found.insert(0, ResolvedAddress("127.0.0.1", free_port()))
        assert await post(pool) == b"{}"
        assert server.accepted == 1


async def test_nobody_listens_anywhere() -> None:
    async with pool_of() as (pool, resolver, _):
        for count in (1, 2):
            resolver.found = [ResolvedAddress("127.0.0.1", free_port()) for _ in range(count)]
            with pytest.raises(ConnectFailed) as raised:
                await post(pool)
            assert isinstance(raised.value.cause, ConnectionRefusedError)


class Identity:
    """What a server of tests shows, and who trusts it."""

    def __init__(self, directory: Path, *names: str) -> None:
        made = pki.ensure(directory, names)
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.load_cert_chain(made.serving_cert, made.serving_key)
        self.client = ssl.create_default_context(cafile=made.ca_cert)


async def test_an_address_that_is_silent_does_not_hold_up_the_next_one(tmp_path: Path) -> None:
    identity = Identity(tmp_path, HOST)
    silent = Server(lambda reader, _: _ignored(reader))
    async with (
        pool_of(answers, tls=identity.server) as (pool, resolver, [server]),
        await asyncio.start_server(silent.serve, "127.0.0.1", 0) as listening,
    ):
        port = listening.sockets[0].getsockname()[1]
        resolver.found.insert(0, ResolvedAddress("127.0.0.1", port))
        assert await post(pool, identity.client) == b"{}"
        assert (silent.accepted, server.accepted) == (1, 1)
        # Its attempt is given up.
        await silent.gone.wait()


async def _ignored(reader: asyncio.StreamReader) -> None:
    await reader.read()


async def test_who_shows_a_wrong_certificate_has_answered(tmp_path: Path) -> None:
    identity = Identity(tmp_path, "other.example.com")
    async with pool_of(answers, answers, tls=identity.server) as (pool, _, servers):
        with pytest.raises(ConnectFailed) as raised:
            await post(pool, identity.client)
        assert isinstance(raised.value.cause, ssl.SSLCertVerificationError)
        assert [each.accepted for each in servers] == [0, 0]
