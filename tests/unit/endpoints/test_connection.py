"""Connections that no request comes on, or comes too slowly: they are closed, others are not touched."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, cast

import pytest
from aiohttp import web

from apiserver.endpoints.connection import SENT, Connection, Server

IDLE_TIMEOUT_S: Final = 0.2
WITHIN_S: Final = 5.0
GET: Final = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
ANSWER: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def answer(request: web.BaseRequest) -> web.StreamResponse:
    await request.read()
    assert request.transport is not None
    request.transport.write(ANSWER)
    return SENT


async def answer_late(request: web.BaseRequest) -> web.StreamResponse:
    await asyncio.sleep(IDLE_TIMEOUT_S * 3)
    return await answer(request)


async def answer_never(request: web.BaseRequest) -> web.StreamResponse:
    await asyncio.sleep(60)
    return SENT


@asynccontextmanager
async def connected(
    server: Server,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*listener.sockets[0].getsockname())
    try:
        async with asyncio.timeout(WITHIN_S):
            yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        listener.close()
        await server.drain(WITHIN_S)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"GET / HT", id="half a request line"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\nX: ", id="half its headers"),
        pytest.param(GET, id="nothing after an answer"),
        pytest.param(GET + b"GET / HTTP/1.1\r\nHo", id="half a second request"),
    ],
)
async def test_an_idle_connection_is_closed(sent: bytes) -> None:
    async with connected(Server(answer, idle_timeout_s=IDLE_TIMEOUT_S)) as (reader, writer):
        began = asyncio.get_running_loop().time()
        writer.write(sent)
        answered = await reader.read()
        assert answered in (b"", ANSWER)
        assert asyncio.get_running_loop().time() - began >= IDLE_TIMEOUT_S * 0.9


async def test_slow_headers_do_not_extend_the_idle_timeout() -> None:
    async with connected(Server(answer, idle_timeout_s=IDLE_TIMEOUT_S)) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\n")
        closed = asyncio.create_task(reader.read())
        for number in range(1000):
            writer.write(b"X-%d: y\r\n" % number)
            if closed.done():
                break
            await asyncio.sleep(IDLE_TIMEOUT_S / 10)
        assert await closed == b""
        assert number < 50


async def test_a_connection_with_a_request_in_flight_is_not_idle() -> None:
    async with connected(Server(answer_late, idle_timeout_s=IDLE_TIMEOUT_S)) as (reader, writer):
        writer.write(GET)
        assert await reader.readexactly(len(ANSWER)) == ANSWER


async def test_a_client_that_does_not_read_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is answered, also before anybody knows who asks."""
    monkeypatch.setattr("apiserver.endpoints.connection.STALLED_S", 0.2)
    ended: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    async def answer_at_length(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        try:
            while True:
                request.transport.write(b"x" * 1_000_000)
                await cast(Connection, request.protocol).drain()
        except ConnectionResetError as error:
            ended.set_result(error)
            raise

    async with connected(Server(answer_at_length)) as (_, writer):
        writer.write(GET)
        assert str(await ended) == "the client takes nothing"


async def test_draining_waits_for_responses_only() -> None:
    server = Server(answer_late)
    async with connected(server) as (reader, writer):
        writer.write(GET)
        while not any(getattr(each, "is_answering", False) for each in server.connections):
            await asyncio.sleep(0.001)
        await server.drain(WITHIN_S)
        assert await reader.read() == ANSWER


async def test_draining_has_a_timeout() -> None:
    server = Server(answer_never)
    async with connected(server) as (reader, writer):
        writer.write(GET)
        while not any(getattr(each, "is_answering", False) for each in server.connections):
            await asyncio.sleep(0.001)
        await server.drain(0.01)
        assert await reader.read() == b""
