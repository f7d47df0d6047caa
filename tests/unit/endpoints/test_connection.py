"""Connections that no request comes on, or comes too slowly: they are closed, others are not touched."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final, cast

import pytest
from aiohttp import web

from apiserver.endpoints.connection import SENT, Connection, Server
from apiserver.load.unread_answers import UnreadAnswers
from tests.support.eventually import WITHIN_S, eventually
from tests.unit.endpoints.connections import connected

IDLE_TIMEOUT_S: Final = 0.2
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
    await asyncio.Event().wait()
    return SENT


# What the client has sent, and what it gets before the connection is closed.
IDLE: Final = {
    "nothing": (b"", b""),
    "half a request line": (b"GET / HT", b""),
    "half its headers": (b"GET / HTTP/1.1\r\nHost: x\r\nX: ", b""),
    "nothing after an answer": (GET, ANSWER),
    "half a second request": (GET + b"GET / HTTP/1.1\r\nHo", ANSWER),
}


@pytest.mark.parametrize(("sent", "answered"), IDLE.values(), ids=IDLE)
async def test_an_idle_connection_is_closed(sent: bytes, answered: bytes) -> None:
    async with connected(Server(answer, idle_timeout_s=IDLE_TIMEOUT_S)) as (reader, writer):
        began = asyncio.get_running_loop().time()
        writer.write(sent)
        assert await reader.read() == answered
        assert asyncio.get_running_loop().time() - began >= IDLE_TIMEOUT_S * 0.9


async def test_a_client_that_is_gone_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever breaks off answers would fill the log."""

    async def answer_nobody(request: web.BaseRequest) -> web.StreamResponse:
        raise ConnectionResetError("the client is gone")

    async with connected(Server(answer_nobody)) as (reader, writer):
        writer.write(GET)
        assert await reader.read() == b""
    assert caplog.records == []


async def read_until_closed(reader: asyncio.StreamReader) -> bytes:
    """What comes before the connection is closed; with a reset if the server has not read all that came."""
    with contextlib.suppress(ConnectionResetError):
        return await reader.read()
    return b""


async def test_slow_headers_do_not_extend_the_idle_timeout() -> None:
    async with connected(Server(answer, idle_timeout_s=IDLE_TIMEOUT_S)) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\n")
        closed = asyncio.create_task(read_until_closed(reader))
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


async def test_a_client_that_does_not_read_is_disconnected() -> None:
    """Whatever is answered, also before anybody knows who asks."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def answer_at_length(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        try:
            while True:
                request.transport.write(b"x" * 1_000_000)
                await cast(Connection, request.protocol).drain()
        finally:
            ended.set_result(None)

    unread = UnreadAnswers(asyncio.get_running_loop(), stalled_s=0.2)
    async with connected(Server(answer_at_length, unread_answers=unread)) as (_, writer):
        writer.write(GET)
        await ended


def is_answering(server: Server) -> bool:
    return any(getattr(each, "is_answering", False) for each in server.connections)


async def test_draining_waits_for_responses_only() -> None:
    server = Server(answer_late)
    async with connected(server) as (reader, writer):
        writer.write(GET)
        await eventually(lambda: is_answering(server))
        await server.drain(WITHIN_S)
        assert await reader.read() == ANSWER


async def test_draining_has_a_timeout() -> None:
    server = Server(answer_never)
    async with connected(server) as (reader, writer):
        writer.write(GET)
        await eventually(lambda: is_answering(server))
        await server.drain(0.01)
        assert await reader.read() == b""
