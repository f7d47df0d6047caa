"""Checks that are shared by all who ask at the same time."""

from __future__ import annotations

import asyncio

import pytest

from apiserver.endpoints.health import SharedCheck, Unhealthy


class Store:
    """A store that answers when it is told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.answers = asyncio.Event()
        self.failure = ""

    async def check(self) -> None:
        self.asked += 1
        await self.answers.wait()
        if self.failure:
            raise Unhealthy(self.failure)


async def test_many_probes_ask_the_store_once() -> None:
    store = Store()
    check = SharedCheck(store.check)
    probes = [asyncio.create_task(check()) for _ in range(100)]
    await asyncio.sleep(0)
    store.answers.set()
    await asyncio.gather(*probes)
    assert store.asked == 1
    await check()  # Nobody asks now: what was found then may be true no more.
    assert store.asked == 2


async def test_all_hear_of_a_failure() -> None:
    store = Store()
    store.failure = "the disk is full"
    check = SharedCheck(store.check)
    probes = [asyncio.create_task(check()) for _ in range(3)]
    store.answers.set()
    found = await asyncio.gather(*probes, return_exceptions=True)
    assert [str(each) for each in found] == [store.failure] * 3
    store.failure = ""
    await check()


async def test_a_probe_that_gives_up_leaves_the_check_to_the_others() -> None:
    store = Store()
    check = SharedCheck(store.check)
    first, second = asyncio.create_task(check()), asyncio.create_task(check())
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    store.answers.set()
    await second
    assert store.asked == 1
