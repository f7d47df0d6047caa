"""Watches end gradually: when the server stops, and when another server has joined."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from apiserver.app.watch_balance import WatchBalance
from tests.support.eventually import eventually
from tests.unit.endpoints.test_revoked_watches import Watches

COUNT = 5
SPREAD_S = 0.5


@asynccontextmanager
async def watching(watches: Watches) -> AsyncIterator[list[asyncio.StreamReader]]:
    """Some open watches."""
    async with AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(watches.watching("bob", "a")) for _ in range(COUNT)]
        for reader in readers:
            await reader.readuntil(b"\r\n\r\n")
        yield readers


async def test_watches_end_one_after_the_other() -> None:
    watches = Watches()
    async with watching(watches) as readers:
        began, ended = watches.loop.time(), list[float]()

        async def read(reader: asyncio.StreamReader) -> None:
            assert await reader.read() == b"", "its connection is closed"
            ended.append(watches.loop.time() - began)

        async with asyncio.TaskGroup() as group:
            for reader in readers:
                group.create_task(read(reader))
            group.create_task(watches.streams.end_gradually(SPREAD_S))
    for number, at in enumerate(ended, 1):
        assert at >= SPREAD_S * number / COUNT


async def test_a_watch_that_begins_meanwhile_is_left_alone() -> None:
    watches = Watches()
    async with watching(watches):
        ending = asyncio.create_task(watches.streams.end_gradually(SPREAD_S))
        await asyncio.sleep(0)
        async with watches.watching("bob", "a") as later:
            await later.readuntil(b"\r\n\r\n")
            await ending
            await eventually(lambda: watches.streams.open_count == 1)


async def test_watches_are_spread_again_when_another_server_has_joined() -> None:
    watches = Watches()
    balance = WatchBalance(watches.streams, spread_s=0.01)
    running = asyncio.create_task(balance.run())
    async with watching(watches) as readers:
        balance.note_join()
        for reader in readers:
            assert await reader.read() == b""
        async with watches.watching("bob", "a") as later:
            await later.readuntil(b"\r\n\r\n")
            assert watches.streams.open_count == 1
            balance.note_join()
            assert await later.read() == b"", "after each join"
    running.cancel()
