"""The proxy that simulates network faults does so: faults that do not happen would prove nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from tests.guarantees.proxy import Proxy
from tests.support.eventually import WITHIN_S

GREETING = bytes(range(256)) * 4


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    """A proxy in front of a server that sends a greeting, and then echoes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GREETING)
        while piece := await reader.read(100):
            writer.write(piece)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, Proxy(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as proxy:
        yield proxy


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer

    async def read(self, count: int) -> bytes:
        """Reads `count` bytes, or fewer if the connection ends before."""
        async with asyncio.timeout(WITHIN_S):
            try:
                return await self._reader.readexactly(count)
            except asyncio.IncompleteReadError as end:
                return end.partial
            except ConnectionError:
                return b""


async def connect(proxy: Proxy) -> Client:
    return Client(*await asyncio.open_connection("127.0.0.1", int(proxy.url.rsplit(":", 1)[1])))


async def test_bytes_pass_both_ways(proxy: Proxy) -> None:
    client = await connect(proxy)
    assert await client.read(len(GREETING)) == GREETING
    client.writer.write(b"hello")
    assert await client.read(5) == b"hello"
    client.writer.close()


async def test_a_cut_ends_connections_and_refuses_new_ones_until_healed(proxy: Proxy) -> None:
    client = await connect(proxy)
    await client.read(len(GREETING))
    await proxy.cut()
    assert await client.read(1) == b""
    refused = await connect(proxy)
    assert await refused.read(1) == b""
    proxy.heal()
    again = await connect(proxy)
    assert await again.read(len(GREETING)) == GREETING
    for each in (client, refused, again):
        each.writer.close()


@pytest.mark.parametrize("count", [0, 1, 1000, 1023])
async def test_it_cuts_at_the_byte(proxy: Proxy, count: int) -> None:
    proxy.cut_after(count)
    client = await connect(proxy)
    assert await client.read(len(GREETING)) == GREETING[:count]
    again = await connect(proxy)
    assert await again.read(len(GREETING)) == GREETING
    client.writer.close()
    again.writer.close()


async def test_stalled_bytes_come_later(proxy: Proxy) -> None:
    client = await connect(proxy)
    await client.read(len(GREETING))
    proxy.stall()
    client.writer.write(b"hello")
    answer = asyncio.create_task(client.read(5))
    done, _ = await asyncio.wait([answer], timeout=0.05)
    assert not done
    proxy.heal()
    assert await answer == b"hello"
    client.writer.close()


async def test_delayed_bytes_arrive_later(proxy: Proxy) -> None:
    client = await connect(proxy)
    await client.read(len(GREETING))
    proxy.delay(0.05)
    began = time.monotonic()
    client.writer.write(b"hello")
    assert await client.read(5) == b"hello"
    assert time.monotonic() - began >= 0.1, "once each way"
    client.writer.close()
