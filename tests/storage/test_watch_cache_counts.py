"""What the watch cache counts for metrics: lists of the newest state, waits, and how watches begin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.errors import StorageUnavailable
from apiserver.storage.interface import ANY, MOST_RECENT, KeyRange, Page, ReadAt, Storage, Stored
from apiserver.storage.watch_cache import EVERYTHING, WatchCache, WatchCacheOptions
from tests.support.cache_as_storage import PREFIX, UNCHECKED, watched
from tests.support.resource_cache import ALL, P, no_history


class AheadStore:
    """A store that says that it is some revisions ahead of what its watches tell, or is down.

    ahead_once: only who asks first is told so. is_down: it does not even tell its revision; has_told: it has.
    may_list: lists wait until it is set.
    """

    def __init__(self, store: Storage) -> None:
        self._store = store
        self.ahead = 0
        self.ahead_once = self.is_down = self.fails_lists = False
        self.may_list, self.is_listing, self.has_told = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.may_list.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def current_revision(self) -> int:
        if self.is_down:
            raise StorageUnavailable("down")
        ahead = self.ahead
        if self.ahead_once:
            self.ahead = 0
        self.has_told.set()
        return await self._store.current_revision() + ahead

    async def list(self, keys: KeyRange, at: ReadAt = MOST_RECENT, *, limit: int = 0) -> Page:
        self.is_listing.set()
        await self.may_list.wait()
        if self.fails_lists:
            raise StorageUnavailable("down")
        return await self._store.list(keys, at, limit=limit)


@asynccontextmanager
async def running(
    store: Any, waits: list[tuple[str, float]], options: WatchCacheOptions = UNCHECKED
) -> AsyncIterator[WatchCache[Stored]]:
    """waits: gets what the cache tells of reads that had to wait."""
    cache: WatchCache[Stored] = WatchCache(
        store,
        prefix=PREFIX,
        decode=lambda stored: stored,
        size_of=lambda stored: len(stored.value),
        options=options._replace(on_wait=lambda key, seconds: waits.append((key, seconds))),
    )
    run = asyncio.create_task(cache.run())
    await cache.wait_until_filled()
    yield cache
    run.cancel()
    await asyncio.wait([run])
    await store.close()


# What is read, by how much the store is ahead of the cache, whether it is down, and how many lists found the
# cache up to date, how many found it late, and how many failed.
LISTS: Final[dict[str, tuple[ReadAt, int, bool, tuple[int, int, int]]]] = {
    "the newest state": (MOST_RECENT, 0, False, (1, 0, 0)),
    "which the cache has not reached in time": (MOST_RECENT, 1, False, (0, 1, 0)),
    "of a store that is down": (MOST_RECENT, 0, True, (0, 0, 1)),
    "any state": (ANY, 1, True, (0, 0, 0)),
    "an older one": (ReadAt.exactly(1), 1, True, (0, 0, 0)),
}


def counted(cache: WatchCache[Stored]) -> tuple[int, int, int, int]:
    """Returns how many lists found the cache up to date, or late, or failed then, or failed before."""
    found = cache.resources[P]
    return (
        found.consistent_lists_total,
        found.late_lists_total,
        found.failed_late_lists_total,
        found.failed_lists_total,
    )


async def list_at(cache: WatchCache[Stored], at: ReadAt) -> None:
    await cache.list(ALL, at)


async def list_at_its_revision(cache: WatchCache[Stored], at: ReadAt) -> None:
    """As the handler of lists does, whose calls share an answer at one revision."""
    revision, is_late = await cache.revision_for_list(at, ALL.start)
    answer = cache.list(ALL, ReadAt.exactly(revision))
    await (cache.count_late_list(ALL.start, answer) if is_late else answer)


BOTH_WAYS: Final = pytest.mark.parametrize(
    "read", [list_at, list_at_its_revision], ids=["at once", "by its revision"]
)
Read = Callable[[WatchCache[Stored], ReadAt], Coroutine[Any, Any, None]]


@BOTH_WAYS
@pytest.mark.parametrize(("at", "ahead", "is_down", "counts"), LISTS.values(), ids=LISTS)
async def test_lists_of_the_newest_state_are_counted(
    tmp_path: Path, at: ReadAt, ahead: int, is_down: bool, counts: tuple[int, int, int], read: Read
) -> None:
    store = AheadStore(await EmbeddedStore.open(tmp_path / "data", durable=False))
    await store.create(P + "a", b"")
    async with running(store, [], UNCHECKED._replace(catch_up_wait_s=0.01)) as cache:
        store.ahead, store.is_down = ahead, is_down
        store.ahead_once = True
        try:
            await read(cache, at)
        except StorageUnavailable:
            assert is_down
        up_to_date, late, failed_late, failed = counted(cache)
        assert (up_to_date, late + failed_late, failed) == counts


@BOTH_WAYS
@pytest.mark.parametrize("fails", [False, True], ids=["answers", "fails"])
async def test_a_late_list_is_counted_when_the_store_has_answered_it(
    tmp_path: Path, fails: bool, read: Read
) -> None:
    """Source: k8s.io/apiserver, pkg/storage/cacher/delegator.go, GetList."""
    store = AheadStore(await EmbeddedStore.open(tmp_path / "data", durable=False))
    await store.create(P + "a", b"")
    options = UNCHECKED._replace(catch_up_wait_s=0.01, serve_snapshots=False)
    async with running(store, [], options) as cache:
        store.may_list.clear()
        store.is_listing.clear()
        store.ahead, store.ahead_once = 1, True
        reading = asyncio.create_task(read(cache, MOST_RECENT))
        await store.is_listing.wait()
        assert counted(cache) == (0, 0, 0, 0)
        store.fails_lists = fails
        store.may_list.set()
        if fails:
            with pytest.raises(StorageUnavailable):
                await reading
        else:
            await reading
        assert counted(cache) == (0, 0, 1, 0) if fails else (0, 1, 0, 0)


async def test_a_late_list_fails_with_a_store_that_does_not_tell_its_revision(tmp_path: Path) -> None:
    store = AheadStore(await EmbeddedStore.open(tmp_path / "data", durable=False))
    await store.create(P + "a", b"")
    async with running(store, [], UNCHECKED._replace(catch_up_wait_s=0.01)) as cache:
        store.ahead = 1
        store.has_told.clear()
        asking = asyncio.create_task(cache.revision_for_list(MOST_RECENT, ALL.start))
        await store.has_told.wait()
        store.is_down = True
        with pytest.raises(StorageUnavailable):
            await asking
        assert counted(cache) == (0, 0, 1, 0)


async def test_reads_that_wait_tell_for_how_long(tmp_path: Path) -> None:
    """Not those that need not, and not who asks for the revision alone, which is of no resource."""
    store = AheadStore(await EmbeddedStore.open(tmp_path / "data", durable=False))
    await store.create(P + "a", b"")
    waits: list[tuple[str, float]] = []
    options = UNCHECKED._replace(catch_up_wait_s=0.01, future_revision_wait_s=0.01)
    async with running(store, waits, options) as cache:
        await cache.list(ALL)
        await cache.get(P + "a")
        await cache.get(P + "a", ANY)
        assert waits == []
        store.ahead = 1
        await cache.list(ALL)
        await cache.get(P + "a")
        await cache.get(P + "a", ReadAt.not_older_than(1))
        await cache.revision_at()
        assert [key for key, _ in waits] == [ALL.start, P + "a"]
        assert all(0.005 < seconds < 10 for _, seconds in waits)


async def test_the_events_that_watches_begin_with_are_counted(tmp_path: Path) -> None:
    """What they have missed, and what tells of the state at their start; not what comes later."""
    store = await EmbeddedStore.open(tmp_path / "data", durable=False)
    start = await store.current_revision()
    async with running(store, []) as cache:
        revisions = [await store.create(P + name, b"") for name in "abc"]
        await cache.get(P + "a")

        def initial_events(after: int) -> int:
            before = cache.resources[P].initial_events_total
            watcher = watched(cache, after)
            cache.unwatch(P, watcher, EVERYTHING)
            return cache.resources[P].initial_events_total - before

        assert [initial_events(each) for each in (start, *revisions)] == [3, 2, 1, 0]
        cache.count_initial_events(P, 3)
        cache.count_initial_events("/registry/core/nothing/", 3)
        assert cache.resources[P].initial_events_total == 9


async def test_what_lists_from_the_store_do_is_counted(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path / "data", durable=False)
    revisions = [await store.create(P + name, b"") for name in "abcd"]
    async with running(store, [], UNCHECKED._replace(limits_of=no_history, serve_snapshots=False)) as cache:
        at = ReadAt.exactly(revisions[-1])
        await cache.list(ALL, at)
        found = cache.resources[P]
        assert (found.store_tested_total, found.store_listed_total) == (4, 4)
        await cache.list(ALL, at, limit=1, predicate=lambda stored: stored.key > P + "b")
        assert (found.store_tested_total, found.store_listed_total) == (8, 5)
