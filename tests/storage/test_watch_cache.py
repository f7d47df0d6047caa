"""The watch cache beyond the contract: failures of the store, comparisons with it, and its life.

Watchers are in test_watch_cache_watchers, the history in test_watch_cache_history.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from apiserver.load.tracked_objects import tracked_count
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.errors import RevisionCompacted, RevisionTooLarge, StorageUnavailable
from apiserver.storage.event_loop_turns import TURN_S
from apiserver.storage.interface import MOST_RECENT, EventBatch, KeyRange, ReadAt, Storage, Stored, Watch
from apiserver.storage.watch_cache import WatchCache, WatchCacheOptions, WatchScope
from apiserver.storage.watch_cache.reflector import PAGE_KEYS, PART_BYTES
from apiserver.storage.watch_cache.snapshots import Snapshots
from tests.support.cache_as_storage import PREFIX, UNCHECKED, CacheAsStorage, watched
from tests.support.eventually import eventually
from tests.support.resource_cache import ALL, P, no_history

# ---- over a store that fails


class FlakyStore:
    """A store whose watches can be broken and whose history can be compacted."""

    def __init__(self, store: Storage) -> None:
        self.store = store
        self.watches: list[FlakyWatch] = []
        self.is_down = False
        self.lists = 0
        self.fails_at_list = 0  # the number of the list that breaks off
        self.may_list = asyncio.Event()
        self.may_list.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def list(self, *args: object, **options: object) -> object:
        self.lists += 1
        self._check()
        if self.lists == self.fails_at_list:
            raise StorageUnavailable("broken off")
        await self.may_list.wait()
        return await self.store.list(*args, **options)  # type: ignore[arg-type]

    async def current_revision(self) -> int:
        self._check()
        return await self.store.current_revision()

    def watch(self, keys: KeyRange, *, after: int) -> Watch:
        self._check()
        watch = FlakyWatch(self.store.watch(keys, after=after))
        self.watches.append(watch)
        return watch

    def _check(self) -> None:
        if self.is_down:
            raise StorageUnavailable("down")


class FlakyWatch:
    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.progress_requests = 0

    def __aiter__(self) -> AsyncIterator[EventBatch]:
        return aiter(self.watch)

    async def request_progress(self) -> None:
        self.progress_requests += 1

    async def close(self) -> None:
        await self.watch.close()


@pytest.fixture
async def store(tmp_path: Path) -> FlakyStore:
    return FlakyStore(await EmbeddedStore.open(tmp_path / "data", durable=False))


@pytest.fixture
async def cached(store: FlakyStore) -> AsyncIterator[CacheAsStorage]:
    cached = CacheAsStorage(store)  # type: ignore[arg-type]
    await cached.start()
    yield cached
    store.is_down = False
    await cached.close()


async def test_a_broken_watch_is_resumed_without_missing_events(
    store: FlakyStore, cached: CacheAsStorage
) -> None:
    seen: list[int] = []
    watcher = watched(
        cached.cache, cached.cache.revision, lambda: seen.extend(d.event.revision for d in watcher.take())
    )
    written = []
    for round_ in range(5):
        await eventually(lambda: len(store.watches) == round_ + 1)  # noqa: B023
        written += [await store.create(f"{P}{round_}-{n}", b"") for n in range(5)]
        await store.watches[-1].close()
        written += [await store.create(f"{P}{round_}-{n}", b"") for n in range(5, 10)]
    await eventually(lambda: len(seen) >= len(written))
    assert seen == written
    # What a watch was reading when it was closed may have had the last events already.
    await eventually(lambda: len(store.watches) == 6)
    assert store.lists == 1, "resumed, not listed again"
    assert not watcher.is_ended


async def test_when_a_watch_cannot_resume_everything_is_listed_and_watchers_end(
    store: FlakyStore, cached: CacheAsStorage
) -> None:
    watcher = watched(cached.cache, cached.cache.revision)
    await store.create(P + "a", b"")
    await eventually(lambda: len(watcher) == 1)
    store.is_down = True
    await store.watches[-1].close()
    revision = await store.store.create(P + "b", b"")
    last = await store.store.compare_and_delete(P + "b", expected=revision)
    await store.store.compact(last)
    store.is_down = False
    await eventually(lambda: watcher.is_ended)
    assert [v.key for v in (await cached.cache.list(ALL)).versions] == [P + "a"]
    assert cached.cache.fills_total == 2
    with pytest.raises(RevisionCompacted):
        watched(cached.cache, revision - 1)


async def test_a_cache_begins_with_what_another_one_held(store: FlakyStore, cached: CacheAsStorage) -> None:
    """Without a list; then it follows its own store alone."""
    for name in "abc":
        await store.create(P + name, name.encode())
    revision = await store.compare_and_delete(P + "b", expected=await store.current_revision() - 1)
    copied = FlakyStore(EmbeddedStore(await store.copy()))
    await store.create(P + "later", b"")  # The copy does not have it.
    await cached.cache.get(P + "later")
    state = await cached.cache.state_at(revision)
    assert state is not None
    other = CacheAsStorage(copied)  # type: ignore[arg-type]
    other.cache.begin_with(state, await copied.current_revision(), Stored._replace)
    assert other.cache.is_filled
    await other.start()
    listing = await other.cache.list(ALL)
    found = [(each.key, each.revision, each.create_revision) for each in listing.versions]
    assert found == [
        (item.key, item.mod_revision, item.create_revision) for item in (await copied.store.list(ALL)).items
    ]
    with pytest.raises(RevisionCompacted):
        watched(other.cache, revision - 1)
    seen: list[str] = []
    watcher = watched(other.cache, revision, lambda: seen.extend(d.event.version.key for d in watcher.take()))
    await copied.create(P + "d", b"")
    await eventually(lambda: seen == [P + "d"])
    assert [v.key[len(P) :] for v in (await cached.cache.list(ALL)).versions] == ["a", "c", "later"]
    assert copied.lists == 0
    assert await other.cache.checks.check(P)
    assert await cached.cache.checks.check(P)
    await other.close()


async def test_a_state_that_the_cache_has_left_behind_is_not_told(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path / "data", durable=False)
    cached = CacheAsStorage(store, UNCHECKED._replace(limits_of=no_history))
    await cached.start()
    revision = await store.create(P + "a", b"")
    await store.create(P + "b", b"")
    await cached.cache.get(P + "b")
    assert await cached.cache.state_at(revision) is None
    assert await cached.cache.state_at(await store.current_revision()) is not None
    await cached.close()


async def test_a_list_that_fails_half_way_leaves_nothing_behind(tmp_path: Path) -> None:
    """What is deleted between the failed list and the next must not stay in the cache."""
    store = FlakyStore(await EmbeddedStore.open(tmp_path / "data", durable=False))
    for n in range(PAGE_KEYS + 10):
        await store.create(f"{P}{n:05}", b"")
    store.fails_at_list = 2
    cached = CacheAsStorage(store)  # type: ignore[arg-type]
    starting = asyncio.create_task(cached.start())
    await eventually(lambda: store.lists == 2)
    first = (await store.store.get(f"{P}00000")).stored
    assert first is not None
    await store.compare_and_delete(first.key, expected=first.mod_revision)
    await starting
    # A consistent read: on a busy machine, the next list may have come before the deletion.
    assert await cached.cache.get(first.key) is None
    assert len((await cached.cache.list(ALL)).versions) == PAGE_KEYS + 9
    await cached.close()


async def test_who_asks_for_a_list_during_another_gets_one(store: FlakyStore, cached: CacheAsStorage) -> None:
    """What is read again may have been read by the list under way before it could be read well."""
    store.may_list.clear()
    await cached.cache.refill()
    await eventually(lambda: store.lists == 2)
    await cached.cache.refill()
    store.may_list.set()
    await eventually(lambda: cached.cache.fills_total == 3)
    await store.create(P + "a", b"")
    assert (await cached.get(P + "a", MOST_RECENT)).stored is not None, "it is watched again"
    assert store.lists == 3


async def test_no_progress_is_requested_for_a_revision_that_does_not_exist(tmp_path: Path) -> None:
    """Row K37. With older etcd a request for progress writes, and would itself make the revision exist."""
    store = FlakyStore(await EmbeddedStore.open(tmp_path / "data", durable=False))
    cached = CacheAsStorage(store, UNCHECKED._replace(future_revision_wait_s=0.5))  # type: ignore[arg-type]
    await cached.start()
    revision = await store.current_revision()
    with pytest.raises(RevisionTooLarge) as refused:
        await cached.cache.get(P + "a", ReadAt.not_older_than(revision + 1))
    assert (refused.value.requested, refused.value.current) == (revision + 1, revision)
    assert [watch.progress_requests for watch in store.watches] == [0]
    await cached.close()


async def test_a_read_waits_for_a_revision_that_comes_into_being(
    store: FlakyStore, cached: CacheAsStorage
) -> None:
    revision = await store.current_revision()
    waiting = asyncio.create_task(cached.cache.get(P + "a", ReadAt.not_older_than(revision + 1)))
    await asyncio.sleep(0)
    await store.create(P + "a", b"")
    assert await waiting is not None


async def test_while_the_store_is_down_stale_reads_work_and_consistent_reads_fail(
    store: FlakyStore, cached: CacheAsStorage
) -> None:
    await store.create(P + "a", b"1")
    await cached.get(P + "a")
    store.is_down = True
    await store.watches[-1].close()
    assert cached.cache.get_cached(P + "a") is not None
    with pytest.raises(StorageUnavailable):
        await cached.get(P + "a", MOST_RECENT)
    await eventually(lambda: cached.cache.failure is not None)
    store.is_down = False
    await eventually(lambda: cached.cache.failure is None)
    assert (await cached.get(P + "a", MOST_RECENT)).stored is not None


# ---- comparing the cache with the store


async def test_a_correct_cache_is_not_refilled(store: FlakyStore, cached: CacheAsStorage) -> None:
    revision = 0
    for n in range(20):
        revision = await store.create(f"{P}{n}", b"")
    await store.compare_and_delete(f"{P}19", expected=revision)
    await cached.get(P + "0")
    assert await cached.cache.checks.check(P)
    assert dict(cached.cache.checks.totals) == {(P, "success"): 1}
    assert (cached.cache.fills_total, store.lists) == (1, 2)


async def damage_lost(snapshots: Snapshots[Stored], store: FlakyStore) -> None:
    snapshots.delete(P + "a", revision=2)


async def damage_ghost(snapshots: Snapshots[Stored], store: FlakyStore) -> None:
    snapshots.put(P + "ghost", Stored(P + "ghost", b"", 2, 2), revision=2, create_revision=2)


async def damage_stale(snapshots: Snapshots[Stored], store: FlakyStore) -> None:
    newest = snapshots.newest(P + "a")
    assert newest is not None
    newest.revision -= 1


@pytest.mark.parametrize("damage", [damage_lost, damage_ghost, damage_stale])
async def test_a_wrong_cache_is_detected_and_refilled(
    store: FlakyStore,
    cached: CacheAsStorage,
    damage: Callable[[Snapshots[Stored], FlakyStore], Awaitable[None]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A missing, surplus or stale object is logged and counted; the cache is refilled and watchers end."""
    for name in "abc":
        await store.create(P + name, name.encode())
    await cached.get(P + "a")
    watcher = watched(cached.cache, cached.cache.revision)
    await damage(cached.cache.resources[P].snapshots, store)
    assert not await cached.cache.checks.check(P)
    assert dict(cached.cache.checks.totals) == {(P, "failure"): 1}
    assert "differs from the store" in caplog.text
    await eventually(lambda: cached.cache.fills_total == 2)
    assert watcher.is_ended
    assert [v.key for v in (await cached.cache.list(ALL)).versions] == [P + "a", P + "b", P + "c"]
    assert await cached.cache.checks.check(P)


async def test_a_failed_comparison_does_not_refill_the_cache(
    store: FlakyStore, cached: CacheAsStorage
) -> None:
    revision = await store.create(P + "a", b"")
    await cached.get(P + "a")
    store.is_down = True
    assert await cached.cache.checks.check(P)
    store.is_down = False
    await store.compact(await store.compare_and_put(P + "a", b"", expected=revision))
    assert dict(cached.cache.checks.totals) == {(P, "error"): 1}
    assert cached.cache.fills_total == 1


async def test_the_cache_is_compared_periodically(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path / "data", durable=False)
    await store.create(P + "a", b"")
    cached = CacheAsStorage(store, WatchCacheOptions(check_interval_s=0.02))
    await cached.start()
    await eventually(lambda: cached.cache.checks.totals[P, "success"] >= 2)
    await cached.close()


async def test_a_store_restored_to_an_earlier_state_is_detected(
    store: FlakyStore, cached: CacheAsStorage, tmp_path: Path
) -> None:
    """Its watch would wait silently until the old revisions are used again, for other events."""
    for n in range(20):
        await store.create(f"{P}{n}", b"")
    await cached.get(P + "0")
    other = await EmbeddedStore.open(tmp_path / "restored", durable=False)
    await other.create(P + "only", b"")
    before, store.store = store.store, other
    await store.watches[-1].close()
    await eventually(lambda: cached.cache.fills_total == 2)
    assert [v.key for v in (await cached.cache.list(ALL)).versions] == [P + "only"]
    await before.close()


async def test_a_consistent_read_sees_every_write_answered_before(
    store: FlakyStore, cached: CacheAsStorage
) -> None:

    async def write_and_read(worker: int) -> None:
        for n in range(20):
            revision = await store.create(f"{P}{worker}-{n}", b"")
            version = await cached.cache.get(f"{P}{worker}-{n}")
            assert version is not None
            assert version.revision == revision
            listing = await cached.cache.list(ALL)
            assert listing.revision >= revision

    await asyncio.gather(*(write_and_read(worker) for worker in range(10)))


async def test_exact_reads_of_evicted_revisions_go_to_the_store(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path / "data", durable=False)
    cached = CacheAsStorage(store, UNCHECKED._replace(limits_of=no_history))
    await cached.start()
    revisions = [await store.create(P + name, name.encode()) for name in "abcdef"]
    await store.compare_and_delete(P + "a", expected=revisions[0])
    listing = await cached.cache.list(ALL, ReadAt.exactly(revisions[3]), limit=2)
    assert [v.key[-1] for v in listing.versions] == ["a", "b"]
    assert (listing.remaining, listing.revision) == (2, revisions[3])
    assert listing.next_key is not None
    rest = await cached.cache.list(KeyRange(listing.next_key, ALL.end), ReadAt.exactly(revisions[3]))
    assert [v.key[-1] for v in rest.versions] == ["c", "d"]
    selected = await cached.cache.list(
        ALL, ReadAt.exactly(revisions[5]), limit=1, predicate=lambda stored: stored.value in (b"b", b"f")
    )
    assert [v.key[-1] for v in selected.versions] == ["b"]
    assert (selected.next_key is not None, selected.remaining) == (True, None)
    await cached.close()


async def test_values_that_take_long_to_decode_leave_room_for_others(tmp_path: Path) -> None:
    """When the cache fills, and when an old state is read from the store."""
    turn = 0
    decoded_in: list[int] = []

    def decode(stored: Stored) -> Stored:
        decoded_in.append(turn)
        ends = monotonic() + TURN_S
        while monotonic() <= ends:
            pass
        return stored

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    store = await EmbeddedStore.open(tmp_path / "data", durable=False)
    values = 10
    revisions = [await store.create(f"{P}{n}", b"x" * PART_BYTES) for n in range(values)]
    cache: WatchCache[Stored] = WatchCache(
        store,
        prefix=PREFIX,
        decode=decode,
        size_of=lambda stored: len(stored.value),
        options=WatchCacheOptions(limits_of=no_history),
    )
    counting, running = asyncio.create_task(count_turns()), asyncio.create_task(cache.run())
    await cache.wait_until_filled()
    assert len(set(decoded_in)) == values
    decoded_in.clear()
    await store.create(f"{P}later", b"")
    await eventually(lambda: len(decoded_in) == 1)
    decoded_in.clear()
    listing = await cache.list(ALL, ReadAt.exactly(revisions[-1]))
    assert len(listing.versions) == len(set(decoded_in)) == values
    for task in (counting, running):
        task.cancel()
    await asyncio.gather(counting, running, return_exceptions=True)
    await store.close()


async def test_keys_that_are_not_of_objects_are_ignored(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path / "data", durable=False)
    await store.create("/registry/stray", b"")
    cached = CacheAsStorage(store)
    await cached.start()
    await store.create("/registry/core/also-stray", b"")
    await store.create("/registry/-/etcd/fence", b"")
    await store.create(P + "a", b"")
    assert (await cached.get(P + "a")).stored is not None
    assert list(cached.cache.resources) == [P]
    await cached.close()


async def test_an_empty_resource_is_known_without_a_list(tmp_path: Path) -> None:
    """Of a resource and of a namespace in it; deleted objects do not count, though older reads see them."""
    store = await EmbeddedStore.open(tmp_path / "data", durable=False)
    revision = await store.create(P + "here/a", b"")
    cached = CacheAsStorage(store)
    assert not cached.cache.is_empty("/registry/core/secrets/")  # not filled: nobody knows
    await cached.start()
    cache = cached.cache
    assert cache.is_empty("/registry/core/secrets/")
    assert cache.is_empty("/registry/core/secrets/", "here")
    assert not cache.is_empty(P)
    assert [cache.is_empty(P, namespace) for namespace in ("here", "her", "here-too", "there")] == [
        *(False, True, True, True)
    ]
    deleted = await store.compare_and_delete(P + "here/a", expected=revision)
    assert (await cached.list(ALL)).items == []
    assert len((await cache.list(ALL, ReadAt.exactly(deleted - 1))).versions) == 1
    assert cache.is_empty(P)
    assert cache.is_empty(P, "here")
    await cached.close()


async def test_the_version_stamp_changes_with_every_event(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path / "data", durable=False)
    cached = CacheAsStorage(store)
    await cached.start()
    cache = cached.cache
    states: list[tuple[int, int]] = []

    async def look() -> None:
        await cached.list(ALL)
        states.append(cache.version_stamp(P))

    await look()
    revision = await store.create(P + "a", b"1")
    await look()
    revision = await store.compare_and_put(P + "a", b"2", expected=revision)
    await look()
    await store.compare_and_delete(P + "a", expected=revision)
    await look()
    assert len(set(states)) == 4
    await store.create("/registry/core/secrets/a", b"")
    await look()
    assert states[4] == states[3]  # of another resource
    await cached.close()


async def test_a_change_is_told_when_reads_see_it(store: FlakyStore, cached: CacheAsStorage) -> None:
    """A cache that is filled anew may have missed one."""
    seen: list[int] = []
    cached.cache.on_change(P, lambda: seen.append(0 if cached.cache.is_empty(P) else 1))
    revision = await store.create(P + "a", b"1")
    await cached.list(ALL)  # events that arrive together are told once
    await store.create("/registry/core/secrets/a", b"")
    await store.store.compare_and_delete(P + "a", expected=revision)
    await cached.list(ALL)
    assert seen == [1, 0]
    store.is_down = True
    await store.watches[-1].close()
    await store.store.compact(await store.store.create(P + "b", b""))
    store.is_down = False
    await eventually(lambda: cached.cache.fills_total == 2)
    assert seen == [1, 0, 1]


def test_who_need_not_be_told_of_changes_any_more_leaves_nothing_behind() -> None:
    """Resources come and go for years, each with another name."""

    def changed() -> None:
        raise AssertionError("nothing changes")

    store: Any = None  # Nothing is read.
    cache = CacheAsStorage(store).cache
    before = tracked_count()
    for number in range(1_000):
        ends = [cache.on_change(f"{P}{number}/", changed) for _ in range(2)]
        for end in ends:
            end()
    assert tracked_count() - before < 100


async def test_what_is_kept_of_a_retired_resource_goes_with_its_last_watcher(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path / "data", durable=False)
    cached = CacheAsStorage(store)
    await cached.start()
    cache = cached.cache
    watcher = watched(cache, cache.revision)
    revision = await store.create(P + "a", b"")
    await cached.list(ALL)
    await cache.checks.check(P)
    cache.retire(P)
    cache.drop_retired()
    assert P in cache.resources  # It has a watcher,
    cache.unwatch(P, watcher, WatchScope())
    cache.drop_retired()
    assert P in cache.resources  # and then an object: somebody made it again.
    deleted = await store.compare_and_delete(P + "a", expected=revision)
    await cached.list(ALL)
    cache.drop_retired()
    assert P in cache.resources  # It is not retired any more.
    cache.retire(P)
    cache.drop_retired()
    assert P not in cache.resources
    assert not cache.checks.totals
    cache.unwatch(P, watcher, WatchScope())
    assert P not in cache.resources
    # If it comes back, nobody misses the events that have been dropped.
    with pytest.raises(RevisionCompacted):
        watched(cache, deleted - 1)
    assert (await cached.list(ALL)).items == []
    watcher = watched(cache, deleted)
    await store.create(P + "b", b"")
    await cached.list(ALL)
    assert [each.event.version.key for each in watcher.take()] == [P + "b"]
    await cached.close()


async def test_a_resource_that_is_dropped_while_it_is_compared_stays_dropped(tmp_path: Path) -> None:
    store = FlakyStore(await EmbeddedStore.open(tmp_path / "data", durable=False))
    cached = CacheAsStorage(store)  # type: ignore[arg-type]
    await cached.start()
    cache = cached.cache
    await cached.list(ALL)
    store.may_list.clear()
    checking = asyncio.create_task(cache.checks.check(P))
    lists = store.lists
    await eventually(lambda: store.lists > lists)
    cache.retire(P)
    cache.drop_retired()
    store.may_list.set()
    assert await checking
    assert await cache.checks.check(P), "and when its turn has come"
    assert P not in cache.resources
    assert not cache.checks.totals
    await cached.close()


async def test_closing_the_cache_ends_its_watchers(tmp_path: Path) -> None:
    cached = CacheAsStorage(await EmbeddedStore.open(tmp_path / "data", durable=False))
    await cached.start()
    watcher = watched(cached.cache, 1)
    with contextlib.suppress(StorageUnavailable):
        await cached.close()
    assert watcher.is_ended
