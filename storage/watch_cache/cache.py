"""The watch cache, made of the parts of this package."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

from apiserver.storage.errors import RevisionCompacted, StorageError, StorageUnavailable
from apiserver.storage.interface import ANY, MOST_RECENT, Consistency, KeyRange, ReadAt, Storage, Stored
from apiserver.storage.keys import prefix_range, resource_of
from apiserver.storage.watch_cache.cache_updater import CacheUpdater, ChangeFollower, NonObjectKeys
from apiserver.storage.watch_cache.consistency import ConsistencyChecks
from apiserver.storage.watch_cache.events import Predicate
from apiserver.storage.watch_cache.fanout import WatchScope
from apiserver.storage.watch_cache.freshness import Freshness
from apiserver.storage.watch_cache.lists import Listing, PageOptions, StoreReader, list_memory
from apiserver.storage.watch_cache.options import WatchCacheOptions
from apiserver.storage.watch_cache.progress import Progress
from apiserver.storage.watch_cache.reflector import Reflector
from apiserver.storage.watch_cache.resource import ResourceCache
from apiserver.storage.watch_cache.resources import CachedResources
from apiserver.storage.watch_cache.snapshots import KeyVersion
from apiserver.storage.watch_cache.state import CacheState
from apiserver.storage.watch_cache.watcher import Watcher

T = TypeVar("T")
R = TypeVar("R")


class ListRevision(NamedTuple):
    """The result of `WatchCache.revision_for_list`.

    is_late: whether the cache has not reached the newest state in time; the caller then awaits
        `count_late_list`.
    """

    revision: int
    is_late: bool


class WatchCache(Generic[T]):
    """Serves reads and watches from memory, in front of a store, while writes go to the store directly.

    decode: decodes a stored value for readers; called once for each version, must not raise.
    size_of: returns the bytes that a decoded value keeps in memory.
    checks: compare the cache with the store.
    """

    def __init__(
        self,
        store: Storage,
        *,
        prefix: str,
        decode: Callable[[Stored], T],
        size_of: Callable[[T], int],
        options: WatchCacheOptions = WatchCacheOptions(),  # noqa: B008  immutable
        others: NonObjectKeys | None = None,
    ) -> None:
        """prefix: all keys begin with it and a slash, as in `/registry`."""
        self._store, self._prefix, self._options = store, prefix, options
        self._progress = Progress()
        self._freshness = Freshness(store, self._progress, options)
        self._store_reader = StoreReader(store, decode)

        def new_resource(resource_prefix: str, floor: int) -> ResourceCache[T]:
            return ResourceCache(
                decode=decode,
                size_of=size_of,
                limits=options.limits_of(resource_prefix),
                clock=options.clock,
                floor=floor,
            )

        self._resources: CachedResources[T] = CachedResources(
            prefix,
            new_resource,
            history_bytes_max=options.history_bytes_max,
            on_drop=lambda dropped: self.checks.forget(dropped),
        )
        self._updater = CacheUpdater(prefix, self._resources, self._store_reader.version, size_of, others)
        self._reflector = Reflector(
            store, prefix_range(prefix + "/"), self._progress, self._updater.callbacks
        )
        self.checks = ConsistencyChecks(store, self._resources, self._reflector, self._progress)

    # ---- running

    async def run(self) -> None:
        """Keep the cache up to date until cancelled, and end every watcher then."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._reflector.run(), name="watch-cache-reflector")
                tasks.create_task(self._resources.evict_periodically(), name="watch-cache-eviction")
                if interval_s := self._options.check_interval_s:
                    tasks.create_task(self.checks.run(interval_s), name="watch-cache-check")
        finally:
            for resource in self._resources.by_prefix.values():
                resource.fanout.end_all()

    async def state_at(self, revision: int) -> CacheState[T] | None:
        """Returns the state of the cache at a revision that the store has reached.

        Returns None if memory does not have it: the cache does not catch up, or has evicted the revision.
        """
        if not (self.is_filled and await self._freshness.has_reached(revision)):
            return None
        try:
            return CacheState(
                {
                    prefix: state
                    for prefix, each in self.resources.items()
                    if (state := each.state_at(prefix, revision)).held
                },
                self._updater.compacted,
                self._updater.other_keys,
            )
        except RevisionCompacted:
            return None

    def follow(self, follower: ChangeFollower[T]) -> None:
        """Calls a follower for everything that happens. To be called before the cache is filled."""
        self._updater.follower = follower

    def begin_with(self, state: CacheState[T], revision: int, copy: Callable[[T], T]) -> None:
        """Fills the cache with the state of another one, instead of a list, before `run` is called.

        revision: at which the store held exactly the same. copy: copies a value for this cache.
        """
        self._updater.begin_with(state, revision, copy)
        self._reflector.begin_at(revision)

    async def wait_until_filled(self) -> None:
        """Wait until reads can be answered from memory."""
        await self._reflector.is_filled.wait()

    async def has_reached(self, revision: int) -> bool:
        """Wait until the cache has a revision of the store; returns False if that takes too long."""
        return await self._freshness.has_reached(revision)

    async def refill(self) -> None:
        """Read everything from the store again, since values may be decoded differently, and end all
        watchers.
        """
        await self._reflector.relist()

    # ---- state of the cache itself

    @property
    def revision(self) -> int:
        """The revision up to which the cache is complete."""
        return self._progress.revision

    @property
    def is_filled(self) -> bool:
        return self._reflector.fills_total > 0

    @property
    def serves_snapshots(self) -> bool:
        """Whether exact reads may be answered from memory now."""
        return self._options.serve_snapshots and self.is_filled

    @property
    def failure(self) -> StorageError | None:
        """The error that keeps the cache from being up to date at present, if there is one."""
        return self._reflector.failure

    @property
    def fills_total(self) -> int:
        """The number of full lists: at the start, and whenever the watch could not be resumed."""
        return self._reflector.fills_total

    @property
    def history_bytes(self) -> int:
        """The size of the obsolete versions of all resources, in bytes."""
        return self._resources.history_bytes

    @property
    def history_bytes_max(self) -> int:
        return self._resources.history_bytes_max

    @property
    def version_count(self) -> int:
        """The number of versions of objects: current ones, and obsolete ones that the histories keep."""
        return self._resources.version_count

    @property
    def expired_bytes(self) -> int:
        """The size of the obsolete versions that were dropped because of their age, in bytes."""
        return self._resources.expired_bytes

    @property
    def resources(self) -> Mapping[str, ResourceCache[T]]:
        """The caches by resource prefix, for metrics."""
        return self._resources.by_prefix

    # ---- reads

    def get_cached(self, key: str) -> KeyVersion[T] | None:
        """Returns the newest cached version of `key`, if it has a value; None has no meaning before
        `is_filled`.
        """
        resource = self._resources.by_prefix.get(resource_of(self._prefix, key) or "")
        return resource.snapshots.live.get(key) if resource is not None else None

    def is_empty(self, resource_prefix: str, namespace: str = "") -> bool:
        """Whether a resource, or one namespace of it, has no objects, as far as the cache knows.

        A list at any revision (ANY) would find nothing either, and costs more. False has no meaning before
        `is_filled`.
        """
        if not self._reflector.fills_total:
            return False
        resource = self._resources.by_prefix.get(resource_prefix)
        if resource is None or not resource.snapshots.live:
            return True
        return bool(namespace) and not resource.snapshots.count_newest(
            prefix_range(f"{resource_prefix}{namespace}/")
        )

    def version_stamp(self, resource_prefix: str) -> tuple[int, int]:
        """Returns a value that changes whenever the resource does; it has no meaning before `is_filled`."""
        resource = self.resources.get(resource_prefix)
        return self.fills_total, resource.history.newest if resource is not None else 0

    def on_change(self, resource_prefix: str, changed: Callable[[], None]) -> Callable[[], None]:
        """Calls `changed` whenever a resource has changed, or may have because the cache was filled again.

        It is called when reads see the change, before any other task runs. It must not raise.
        Returns a function that unsubscribes, to be called once, and not by `changed`.
        """
        return self._updater.subscribe(resource_prefix, changed)

    async def revision_at(self, at: ReadAt = MOST_RECENT) -> int:
        """Returns the revision at which a read would be answered. Raises as `get` does."""
        is_fresh = self.is_filled and await self._freshness.wait(at)
        return self.revision if is_fresh else await self._store.current_revision()

    async def revision_for_list(self, at: ReadAt, start: str) -> ListRevision:
        """Returns the revision at which a list would be answered, and counts the list. Raises as `get` does.

        start: that of the range that will be listed, exactly at that revision.
        """
        is_counted = self._counts(at)
        if await self._begin_list(at, start, is_counted) is not None:
            return ListRevision(self._progress.revision, is_late=False)
        try:
            return ListRevision(await self._store.current_revision(), is_late=is_counted)
        except StorageError:
            if is_counted:
                self._resources.of_key(start).failed_late_lists_total += 1
            raise

    async def count_late_list(self, start: str, answer: Awaitable[R]) -> R:
        """Counts a list for which the cache was late, once it has ended; returns its result.

        start: that of the listed range.
        """
        try:
            answered = await answer
        except Exception:
            self._resources.of_key(start).failed_late_lists_total += 1
            raise
        self._resources.of_key(start).late_lists_total += 1
        return answered

    async def get(self, key: str, at: ReadAt = MOST_RECENT) -> KeyVersion[T] | None:
        """Returns the version of `key`, if it has a value.

        Raises RevisionTooLarge (for NOT_OLDER_THAN, after a wait), RevisionCompacted, StorageUnavailable.
        """
        if not self._reflector.fills_total:
            return await self._store_reader.get(key, at)
        if at is ANY:
            return self.get_cached(key)
        if not await self._freshness.wait(at, key):
            return await self._store_reader.get(key, at)
        if at.consistency is not Consistency.EXACT:
            return self.get_cached(key)
        resource = self._resources.of_key(key)
        kept_since = max(resource.history.floor, self._updater.compacted)
        if not self._options.serve_snapshots or at.revision < kept_since:
            return await self._store_reader.get(key, at)
        return resource.snapshots.get(key, at.revision)

    async def list(
        self,
        keys: KeyRange,
        at: ReadAt = MOST_RECENT,
        *,
        limit: int = 0,
        predicate: Predicate[T] | None = None,
        counts_rest: bool = True,
    ) -> Listing[T]:
        """Returns the versions in `keys`, which are of one resource, in key order and of one revision.

        At most `limit` of them (0: all), counting those that `predicate` selects.
        counts_rest: whether to count the `remaining` ones. This takes up to 10 ms, or a call of the store, at
            a revision that many changes have followed.
        Raises as `get` does.
        """
        page = PageOptions(limit, predicate, counts_rest and predicate is None)
        is_counted = self._counts(at)
        is_exact = at.consistency is Consistency.EXACT
        resource: ResourceCache[T] | None
        if is_exact and self.is_filled and at.revision <= self._progress.revision:
            resource = self._resources.of_key(keys.start)  # So is the list of `revision_for_list`.
        else:
            resource = await self._begin_list(at, keys.start, is_counted)
        if resource is None:
            answer = self._list_store(keys, at, page)
            return await (self.count_late_list(keys.start, answer) if is_counted else answer)
        if is_exact and not (self._options.serve_snapshots and at.revision >= self._updater.compacted):
            return await self._list_store(keys, at, page)
        revision = at.revision if is_exact else self.revision
        try:
            return await list_memory(resource, keys, revision, page)
        except RevisionCompacted:
            # The store keeps old revisions for longer than memory.
            return await self._list_store(keys, ReadAt.exactly(revision), page)

    async def _list_store(self, keys: KeyRange, at: ReadAt, page: PageOptions[T]) -> Listing[T]:
        found, tested = await self._store_reader.list(keys, at, page)
        # Not before: it may be dropped, or come, while the store is read.
        if (resource := self._resources.find(keys.start)) is not None:
            resource.store_tested_total += tested
            resource.store_listed_total += len(found.versions)
        return found

    def _counts(self, at: ReadAt) -> bool:
        """Whether a list is counted: one of the newest state that the cache could answer."""
        return at.consistency is Consistency.MOST_RECENT and self.is_filled

    async def _begin_list(self, at: ReadAt, start: str, is_counted: bool) -> ResourceCache[T] | None:
        """Wait until the cache can answer a list, which is counted then; without the cache the store may fail
        yet.

        start: that of the listed range. Returns the cache of its resource; None if the store has to answer.
        """
        try:
            is_fresh = self.is_filled and (at is ANY or await self._freshness.wait(at, start))
        except StorageError:
            if is_counted:
                self._resources.of_key(start).failed_lists_total += 1
            raise
        if not is_fresh:
            return None
        resource = self._resources.of_key(start)
        resource.consistent_lists_total += is_counted
        return resource

    # ---- watches

    def watch(self, resource_prefix: str, watcher: Watcher[T], scope: WatchScope) -> None:
        """Gives a watcher of one resource every event above its start, past and future.

        Past events are available immediately. Call `unwatch` with the same arguments when done. Raises
        RevisionCompacted.
        """
        self._resources.of(resource_prefix).watch(watcher, scope)

    def count_initial_events(self, resource_prefix: str, count: int) -> None:
        """Counts the initial events of a watch, which the watch has listed."""
        if (resource := self.resources.get(resource_prefix)) is not None:
            resource.initial_events_total += count

    def unwatch(self, resource_prefix: str, watcher: Watcher[T], scope: WatchScope) -> None:
        if (resource := self.resources.get(resource_prefix)) is not None:
            resource.fanout.remove(watcher, scope)

    async def compact(self) -> int:
        """Compacts the history of store and cache up to now, and returns the revision.

        Reads and watches from earlier revisions then raise RevisionCompacted. Open watches continue.
        Raises StorageUnavailable.
        """
        revision = await self._store.current_revision()
        if not await self._freshness.has_reached(revision):
            raise StorageUnavailable("the watch cache has not caught up with the store")
        await self._store.compact(revision)
        self._updater.note_compaction(revision)
        await self._resources.forget_before(revision)
        return revision

    # ---- resources that come and go

    def retire(self, resource_prefix: str) -> None:
        """Drop a resource once nothing watches it: see `CachedResources.retire`."""
        self._resources.retire(resource_prefix)

    def drop_retired(self) -> None:
        """Drop the retired resources without watchers: see `CachedResources.drop_retired`."""
        self._resources.drop_retired()
