"""Checks that are shared by all who ask at the same time."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from apiserver.endpoints.health import SharedCheck, StoreCheck, Unhealthy
from apiserver.storage.errors import StorageFull, StorageUnavailable

FULL: Final = "warn: the store is full and refuses writes"


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


async def test_a_full_store_passes_with_a_note(caplog: pytest.LogCaptureFixture) -> None:
    """Reads work, and deletions, which free it, have to get there."""
    failures: list[Exception | None] = [None, StorageFull("no room"), StorageFull("no room"), None]

    async def storage() -> None:
        if failure := failures.pop(0):
            raise failure

    check, notes = StoreCheck(storage), []
    with caplog.at_level("INFO"):
        for _ in range(4):
            await check()
            notes.append(list(check.notes))
    assert notes == [[], [FULL], [FULL], []]
    # Once each, and only the log says why: anyone may read the notes.
    assert [record.getMessage() for record in caplog.records] == [
        "the store is full and refuses writes: no room",
        "the store has space again and accepts writes",
    ]


async def test_a_full_store_that_becomes_unreachable_is_not_called_full(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failures = [StorageFull("no room"), StorageUnavailable("away"), StorageFull("no room")]

    async def storage() -> None:
        raise failures.pop(0)

    check = StoreCheck(storage)
    await check()
    with pytest.raises(StorageUnavailable):
        await check()
    assert list(check.notes) == []
    await check()
    assert list(check.notes) == [FULL]
    assert len(caplog.records) == 1  # It never had space again.


async def test_a_store_that_cannot_be_read_fails() -> None:
    async def storage() -> None:
        raise StorageUnavailable("away")

    with pytest.raises(StorageUnavailable):
        await StoreCheck(storage)()
