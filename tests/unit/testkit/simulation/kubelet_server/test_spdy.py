"""The server's end of SPDY: what is kept of a client that sends more than anybody reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from apiserver.endpoints.reverse_proxy.spdy import SpdyClient
from apiserver.testkit.simulation.kubelet_server.spdy import HEADER_BYTES_MAX, STREAMS_MAX, SpdySession
from tests.support.eventually import WITHIN_S


@asynccontextmanager
async def session() -> AsyncIterator[tuple[SpdyClient, SpdySession, asyncio.Task[None]]]:
    """Both ends of a connection, and what reads the server's."""
    accepted: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Future()
    server = await asyncio.start_server(lambda *ends: accepted.set_result(ends), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    ours, back = await accepted

    async def write(data: bytes) -> None:
        back.write(data)
        await back.drain()

    found = SpdySession(ours, write)
    running = asyncio.create_task(found.run())
    try:
        async with asyncio.timeout(WITHIN_S):
            yield SpdyClient(reader, writer), found, running
    finally:
        running.cancel()
        await asyncio.wait((running,))
        for each in (writer, back):
            each.close()
        server.close()


async def test_what_a_stream_carries() -> None:
    async with session() as (client, server, _):
        number = await client.open({"streamType": "stdin", "Port": "80"})
        stream = await server.opened.get()
        assert (stream.number, stream.headers) == (number, {"streamtype": "stdin", "port": "80"})
        await client.send(number, b"a")
        await client.send(number, b"b", is_last=True)
        assert [await stream.read() for _ in range(4)] == [b"a", b"b", b"", b""]
        await stream.write(b"x" * 200_000)
        await stream.close()
        received = b""
        async for arrived in client.arrivals():
            received += arrived.data
            if arrived.is_last:
                break
        assert received == b"x" * 200_000


async def test_a_client_is_not_read_on_before_there_is_room() -> None:
    async with session() as (client, server, _):
        number = await client.open({"streamtype": "stdin"})
        stream = await server.opened.get()
        for _ in range(5):
            await client.send(number, b"a")
        second = await client.open({"streamtype": "other"})
        await asyncio.sleep(0)
        assert server.opened.empty()
        await stream.close()  # What nobody reads any more is dropped.
        assert (await server.opened.get()).number == second


async def test_streams_are_bounded() -> None:
    async with session() as (client, _, __):
        for _ in range(STREAMS_MAX):
            await client.open({"streamtype": "data"})
        refused = await client.open({"streamtype": "data"})
        async for arrived in client.arrivals():
            assert (arrived.number, arrived.is_last) == (refused, True)
            break


async def test_headers_are_bounded() -> None:
    """Also where they are compressed to almost nothing."""
    async with session() as (client, _, running):
        await client.open({"streamtype": "x" * HEADER_BYTES_MAX})
        await running
