"""Several servers compact one store; its history always reaches back an interval. Rows Q01, K31."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from apiserver.storage.auto_compaction import AutoCompactor
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.errors import RevisionCompacted, StorageUnavailable
from apiserver.storage.interface import ReadAt, Storage
from tests.support.eventually import WITHIN_S

P: Final = "/registry/core/configmaps/"
INTERVAL_S: Final = 300.0


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[EmbeddedStore]:
    store = await EmbeddedStore.open(tmp_path, durable=False)
    yield store
    await store.close()


def compactor(store: Storage, prefix: str = "/registry") -> AutoCompactor:
    return AutoCompactor(store, prefix=prefix, interval_s=INTERVAL_S)


async def is_readable(store: Storage, revision: int) -> bool:
    try:
        await store.get(P + "a", ReadAt.exactly(revision))
    except RevisionCompacted:
        return False
    return True


class Writes:
    """Writes one key again and again."""

    def __init__(self, store: Storage) -> None:
        self._store, self._last = store, 0

    async def one(self) -> int:
        if self._last:
            self._last = await self._store.compare_and_put(P + "a", b"", expected=self._last)
        else:
            self._last = await self._store.create(P + "a", b"")
        return self._last


async def test_compaction_keeps_the_history_of_one_interval(store: EmbeddedStore) -> None:
    writes, server = Writes(store), compactor(store)
    before = [await writes.one() for _ in range(3)]
    assert not await server.compact_once(), "nobody knows yet how old what is there is"
    assert all([await is_readable(store, revision) for revision in before])
    first = [await writes.one() for _ in range(3)]
    assert await server.compact_once()
    assert not any([await is_readable(store, revision) for revision in before])
    assert all([await is_readable(store, revision) for revision in first])
    second = [await writes.one() for _ in range(3)]
    assert await server.compact_once()
    assert not any([await is_readable(store, revision) for revision in first])
    assert all([await is_readable(store, revision) for revision in second])


@pytest.mark.parametrize("servers", [2, 3, 5])
async def test_one_of_many_servers_compacts_in_an_interval(store: EmbeddedStore, servers: int) -> None:
    """None of them compacts the history of the last interval."""
    writes, compactors = Writes(store), [compactor(store) for _ in range(servers)]
    recent = [await writes.one()]
    done = []
    for _ in range(6):
        results = await asyncio.gather(*(each.compact_once() for each in compactors))
        assert sum(results) <= 1
        done.append(any(results))
        assert all([await is_readable(store, revision) for revision in recent])
        recent = [await writes.one() for _ in range(3)]
    assert done[2:] == [True] * 4, "once all have looked, every interval has its compaction"
    assert not await is_readable(store, 2)


async def test_a_server_that_starts_later_waits_an_interval(store: EmbeddedStore) -> None:
    writes, old = Writes(store), compactor(store)
    await old.compact_once()
    await writes.one()
    await old.compact_once()
    recent = await writes.one()
    new = compactor(store)
    assert not await new.compact_once()
    assert await is_readable(store, recent)
    last = await writes.one()
    assert await new.compact_once(), "the old one has gone, so this one takes over"
    assert not await is_readable(store, recent - 1)
    assert await is_readable(store, last)


@pytest.mark.parametrize("servers", [1, 2, 3])
async def test_a_quiet_store_is_left_alone(store: EmbeddedStore, servers: int) -> None:
    """What was written before it became quiet is compacted; then nobody writes any more, until others do."""
    writes, compactors = Writes(store), [compactor(store) for _ in range(servers)]

    async def an_interval() -> None:
        await asyncio.gather(*(each.compact_once() for each in compactors))

    for _ in range(2):
        await writes.one()
        await an_interval()
    last = await writes.one()
    for _ in range(3):
        await an_interval()
    quiet_at = await store.current_revision()
    assert not await is_readable(store, last)
    for _ in range(5):
        await an_interval()
    assert await store.current_revision() == quiet_at
    recent = await writes.one()
    await an_interval()
    assert await is_readable(store, recent)
    for _ in range(2):
        await writes.one()
        await an_interval()
    assert not await is_readable(store, recent)


async def test_the_key_is_below_the_prefix_and_not_of_an_object(store: EmbeddedStore) -> None:
    await compactor(store, "/tenants/blue").compact_once()
    read = await store.get("/tenants/blue/-/compaction/latest")
    assert read.stored is not None


class Intervals:
    """Sleeps that the test ends."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self._asleep, self._over = asyncio.Event(), asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.asked.append(seconds)
        self._asleep.set()
        await self._over.wait()
        self._over.clear()

    async def until_asleep(self) -> None:
        async with asyncio.timeout(WITHIN_S):
            await self._asleep.wait()
        self._asleep.clear()

    async def one(self) -> None:
        """Let an interval pass, and wait until the compactor sleeps again."""
        self._over.set()
        await self.until_asleep()


async def test_it_runs_every_interval_even_after_the_store_failed(
    store: EmbeddedStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writes, intervals = Writes(store), Intervals()
    other = AutoCompactor(store, prefix="/registry", interval_s=INTERVAL_S, sleep=intervals.sleep)
    task = asyncio.create_task(other.run())
    await intervals.until_asleep()
    assert await store.current_revision() == 1, "nothing is done before the first interval has passed"
    before = await writes.one()
    await intervals.one()
    after = await writes.one()
    await intervals.one()
    assert not await is_readable(store, before)
    assert await is_readable(store, after)
    await store.close()
    with caplog.at_level(logging.WARNING):
        await intervals.one()
        await intervals.one()
    assert len([r for r in caplog.records if "retrying" in r.getMessage()]) == 2
    assert intervals.asked == [INTERVAL_S] * 5
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_compact_once_raises_the_error_of_the_store(store: EmbeddedStore) -> None:
    await store.close()
    with pytest.raises(StorageUnavailable):
        await compactor(store).compact_once()
