"""The watch cache, made of the parts of this package."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from storage.auto_compaction import compaction_key
from storage.errors import RevisionCompacted, RevisionTooLarge, StorageError, StorageUnavailable
from storage.interface import (
    MOST_RECENT,
    Consistency,
    Event,
    KeyRange,
    ReadAt,
    Storage,
    Stored,
)
from storage.keys import after as after_key
from storage.keys import prefix_range, resource_of
from storage.turns import Turn
from storage.watch_cache.consistency import differs
from storage.watch_cache.events import Predicate
from storage.watch_cache.fanout import Scope
from storage.watch_cache.options import WatchCacheOptions
from storage.watch_cache.progress import Progress
from storage.watch_cache.reflector import Reflector, ReflectorCallbacks
from storage.watch_cache.resource import ResourceCache
from storage.watch_cache.snapshots import KeyVersion, Snapshots
from storage.watch_cache.state import CacheState
from storage.watch_cache.watcher import Watcher

log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

EVICTION_INTERVAL_S: Final = 5.0
# Keys that a list looks at before it yields to the event loop: less than a millisecond.
LIST_BATCH_KEYS: Final = 1_000
# Objects tested before the clock is looked at, if those before took little time. A test of one that is large,
# and not decoded yet, takes some milliseconds.
TESTS_AT_ONCE: Final = 16
# How often the total is computed while the histories grow by the whole budget.
BUDGET_CHECKS: Final = 16
# What a comparison of the cache with the store has found, by whether they differ.
CHECK_OUTCOMES: Final[Mapping[bool | None, str]] = {None: "error", True: "failure", False: "success"}
# Keys read from the store at a time when a selective list has to go there.
STORE_PAGE_KEYS: Final = 500


class Listing(NamedTuple, Generic[T]):
    """The answer to `WatchCache.list`."""

    versions: Sequence[KeyVersion[T]]
    revision: int
    next_key: str | None  # where the next page starts; None when this was the last one
    remaining: int | None  # how many come after this page; None for the last, or when only some are selected


class ListRevision(NamedTuple):
    """The answer to `WatchCache.revision_for_list`.

    is_late: the cache has not reached the newest state in time. Who lists then awaits `count_late_list`.
    """

    revision: int
    is_late: bool


class _Page(NamedTuple, Generic[T]):
    """Which objects of a range are listed: see `WatchCache.list`."""

    limit: int
    predicate: Predicate[T] | None
    counts_rest: bool


@dataclass(slots=True)
class _Filling(Generic[T]):
    """What is known of a resource while everything is listed, and the sizes of its values."""

    snapshots: Snapshots[T]
    bytes: int = 0


class OtherKeys(Protocol):
    """Is told which keys there are that are of no object, as the cache hears of them. Must not raise."""

    def clear(self) -> None:
        """Forget all: those that there are follow."""
        ...

    def keys(self) -> Sequence[str]:
        """Returns those that another cache has to know, to begin with what this one has."""
        ...

    def put(self, key: str) -> None: ...

    def delete(self, key: str) -> None: ...


class WatchCache(Generic[T]):
    """Serves reads and watches from memory, in front of a store. Writes go to the store directly.

    decode: makes what readers get of a stored value; called once for each version, must not raise.
    size_of: returns the bytes that a decoded value keeps in memory.
    """

    def __init__(
        self,
        store: Storage,
        *,
        prefix: str,
        decode: Callable[[Stored], T],
        size_of: Callable[[T], int],
        options: WatchCacheOptions = WatchCacheOptions(),  # noqa: B008  immutable
        others: OtherKeys | None = None,
    ) -> None:
        """prefix: all keys begin with it and a slash, as in `/registry`."""
        self._store = store
        self._prefix = prefix
        self._decode = decode
        self._options = options
        self._progress = Progress()
        # The floor of a resource that has no cache yet: the revision of the last list, or of a dropped cache.
        self._floor = 0
        self._retired: set[str] = set()
        self._compaction_key = compaction_key(prefix)
        self._compacted = 0  # the store no longer has, or is about to drop, what is before this revision
        self._new_resource: Callable[[str], ResourceCache[T]] = lambda resource_prefix: ResourceCache(
            decode=decode,
            size_of=size_of,
            limits=options.limits_of(resource_prefix),
            clock=options.clock,
            floor=self._floor,
        )
        self.history_bytes_max = options.history_bytes_max
        # By resource prefix and outcome: success, failure (they differ) or error (it could not be compared).
        self.checks_total: Counter[tuple[str, str]] = Counter()
        self._others = others
        self._growth_bytes = 0  # of all histories, since the budget was enforced
        self._size_of = size_of
        # The bytes of obsolete versions that were dropped because of their age, not for newer ones.
        self.expired_bytes = 0
        self._resources: dict[str, ResourceCache[T]] = {}
        self._filling: dict[str, _Filling[T]] = {}
        self._on_change: dict[str, list[Callable[[], None]]] = {}  # by resource prefix
        self._reflector = Reflector(
            store,
            prefix_range(prefix + "/"),
            self._progress,
            ReflectorCallbacks(
                on_list=self._begin_filling,
                on_page=self._add,
                on_listed=self._fill,
                on_events=self._apply,
            ),
        )

    # ---- running

    async def run(self) -> None:
        """Keep the cache up to date until cancelled, and end every watcher then."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._reflector.run(), name="watch-cache-reflector")
                tasks.create_task(self._evict_periodically(), name="watch-cache-eviction")
                if self._options.check_interval_s:
                    tasks.create_task(self._check_periodically(), name="watch-cache-check")
        finally:
            for resource in self._resources.values():
                resource.fanout.end_all()

    async def state_at(self, revision: int) -> CacheState[T] | None:
        """Returns all that is stored at a revision that the store has reached.

        None if that cannot be told from memory: the cache does not catch up, or has left the revision behind.
        """
        if not (self.is_filled and await self._progress.wait_for(revision, self._options.catch_up_wait_s)):
            return None
        try:
            return CacheState(
                {
                    prefix: state
                    for prefix, each in self._resources.items()
                    if (state := each.state_at(prefix, revision)).held
                },
                self._compacted,
                () if self._others is None else self._others.keys(),
            )
        except RevisionCompacted:
            return None

    def begin_with(self, state: CacheState[T], revision: int, copy: Callable[[T], T]) -> None:
        """Be filled with what another cache held, in place of a list; to be called before `run`.

        revision: at which the store held the same, and no more. copy: makes a value for this cache.
        """
        self._compacted = state.compacted
        if self._others is not None:
            for other in state.others:
                self._others.put(other)
        for prefix, resource in state.resources.items():
            snapshots: Snapshots[T] = Snapshots()
            snapshots.add_all(
                [
                    KeyVersion(key, copy(value), revision=changed, create_revision=created)
                    for key, value, changed, created in resource.held
                ]
            )
            self._filling[prefix] = _Filling(snapshots, resource.bytes)
        self._fill(revision)
        self._reflector.begin_at(revision)

    async def wait_until_filled(self) -> None:
        """Wait until reads can be answered from memory."""
        await self._reflector.is_filled.wait()

    # ---- state of the cache itself

    @property
    def revision(self) -> int:
        """Everything up to this revision is in the cache."""
        return self._progress.revision

    @property
    def is_filled(self) -> bool:
        return self._reflector.is_filled.is_set()

    @property
    def serves_snapshots(self) -> bool:
        """Whether exact reads may be answered from memory now."""
        return self._options.serve_snapshots and self.is_filled

    @property
    def failure(self) -> StorageError | None:
        """Why the cache cannot be kept up to date at present, if so."""
        return self._reflector.failure

    @property
    def fills_total(self) -> int:
        """How often everything was listed: at the start, and whenever the watch could not be resumed."""
        return self._reflector.fills_total

    @property
    def history_bytes(self) -> int:
        """The bytes that the obsolete versions of all resources take."""
        return sum(resource.history.bytes for resource in self._resources.values())

    @property
    def version_count(self) -> int:
        """How many versions of objects there are: current ones, and obsolete ones that the histories keep."""
        return sum(len(each.snapshots) + len(each.history) for each in self._resources.values())

    @property
    def resources(self) -> Mapping[str, ResourceCache[T]]:
        """The caches by resource prefix, for metrics."""
        return self._resources

    # ---- reads

    def get_cached(self, key: str) -> KeyVersion[T] | None:
        """The newest cached version of `key`, if it has a value; None means nothing before `is_filled`."""
        resource = self._resources.get(resource_of(self._prefix, key) or "")
        return resource.snapshots.newest(key) if resource is not None else None

    def is_empty(self, resource_prefix: str, namespace: str = "") -> bool:
        """Whether a resource has no objects, or none in one namespace, as far as the cache knows.

        A list of any revision (ANY) would find nothing either, and costs more. False means nothing before
        `is_filled`.
        """
        if not self.is_filled:
            return False
        resource = self._resources.get(resource_prefix)
        if resource is None or not len(resource.snapshots):
            return True
        return bool(namespace) and not resource.snapshots.count_newest(
            prefix_range(f"{resource_prefix}{namespace}/")
        )

    def version_stamp(self, resource_prefix: str) -> tuple[int, int]:
        """Returns a value that changes whenever the resource does; it means nothing before `is_filled`."""
        resource = self._resources.get(resource_prefix)
        return self.fills_total, resource.history.newest if resource is not None else 0

    def on_change(self, resource_prefix: str, changed: Callable[[], None]) -> Callable[[], None]:
        """Have `changed` called whenever a resource has changed, or may have: the cache was filled anew.

        It is called when reads see the change, before any other task runs. It must not raise.
        Returns what ends that, to be called once, and not by `changed`.
        """
        self._on_change.setdefault(resource_prefix, []).append(changed)
        return partial(self._end_on_change, resource_prefix, changed)

    def _end_on_change(self, resource_prefix: str, changed: Callable[[], None]) -> None:
        called = self._on_change[resource_prefix]
        called.remove(changed)
        if not called:  # Resources come and go.
            del self._on_change[resource_prefix]

    async def revision_at(self, at: ReadAt = MOST_RECENT) -> int:
        """The revision at which a read would be answered. Raises as `get` does."""
        return self.revision if await self._wait_until_fresh(at) else await self._store.current_revision()

    async def revision_for_list(self, at: ReadAt, start: str) -> ListRevision:
        """The revision at which a list would be answered, which is counted. Raises as `get` does.

        start: of the range that will be listed, exactly at that revision.
        """
        is_counted = self._counts(at)
        if await self._begin_list(at, start, is_counted):
            return ListRevision(self.revision, is_late=False)
        try:
            return ListRevision(await self._store.current_revision(), is_late=is_counted)
        except StorageError:
            if is_counted:
                self._resource_for(start).failed_late_lists_total += 1
            raise

    async def count_late_list(self, start: str, answer: Awaitable[R]) -> R:
        """Counts a list for which the cache was late, once it is answered or has failed; returns its answer.

        start: of the range that is listed.
        """
        try:
            answered = await answer
        except Exception:
            self._resource_for(start).failed_late_lists_total += 1
            raise
        self._resource_for(start).late_lists_total += 1
        return answered

    async def get(self, key: str, at: ReadAt = MOST_RECENT) -> KeyVersion[T] | None:
        """The version of `key`, if it has a value.

        Raises RevisionTooLarge (for NOT_OLDER_THAN, after a wait), RevisionCompacted, StorageUnavailable.
        """
        if not await self._wait_until_fresh(at, key):
            return await self._get_from_store(key, at)
        if at.consistency is not Consistency.EXACT:
            return self.get_cached(key)
        resource = self._resource_with(key, at.revision)
        if resource is None:
            return await self._get_from_store(key, at)
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
        """The versions in `keys`, which lie within one resource, in key order and of one revision.

        At most `limit` of them (0: all), counting those that `predicate` selects.
        counts_rest: whether to tell how many `remaining` there are. It takes up to 10 ms, or a call of the
            store, at a revision that many changes have followed.
        Raises as `get` does.
        """
        wanted = _Page(limit, predicate, counts_rest and predicate is None)
        is_counted = self._counts(at)
        if not await self._begin_list(at, keys.start, is_counted):
            answer = self._list_from_store(keys, at, wanted)
            return await (self.count_late_list(keys.start, answer) if is_counted else answer)
        is_exact = at.consistency is Consistency.EXACT
        if is_exact and not (self._options.serve_snapshots and at.revision >= self._compacted):
            return await self._list_from_store(keys, at, wanted)
        revision = at.revision if is_exact else self.revision
        try:
            return await self._list_from_memory(keys, revision, wanted)
        except RevisionCompacted:
            # The store keeps old revisions for longer than memory.
            return await self._list_from_store(keys, ReadAt.exactly(revision), wanted)

    # ---- watches

    def watch(self, resource_prefix: str, watcher: Watcher[T], scope: Scope) -> None:
        """Have a watcher of one resource get every event above its start, past and to come.

        Past events can be taken at once. Call `unwatch` with the same when done. Raises RevisionCompacted.
        """
        self._resource(resource_prefix).watch(watcher, scope)

    def count_initial_events(self, resource_prefix: str, count: int) -> None:
        """Count events by which a watch tells of the state at its start, which it has listed."""
        if (resource := self._resources.get(resource_prefix)) is not None:
            resource.initial_events_total += count

    def unwatch(self, resource_prefix: str, watcher: Watcher[T], scope: Scope) -> None:
        if (resource := self._resources.get(resource_prefix)) is not None:
            resource.fanout.remove(watcher, scope)

    async def compact(self) -> int:
        """Have store and cache forget all history up to now; returns which revision that is.

        Who asks for what was before, or watches from there on, gets RevisionCompacted. Open watches go on.
        Raises StorageUnavailable.
        """
        revision = await self._store.current_revision()
        if not await self._progress.wait_for(revision, self._options.catch_up_wait_s):
            raise StorageUnavailable("the watch cache has not caught up with the store")
        await self._store.compact(revision)
        self._compacted = max(self._compacted, revision)
        self._floor = max(self._floor, revision)
        for resource in list(self._resources.values()):
            resource.history.forget(revision)
            while resource.evict():  # noqa: ASYNC110  yields, does not poll
                await asyncio.sleep(0)
        return revision

    # ---- resources that come and go

    def retire(self, resource_prefix: str) -> None:
        """Drop all that is kept of a resource that is not served any more, once nobody watches it.

        If it comes back, its watches start with what comes then: what was before is not known any more.
        """
        self._retired.add(resource_prefix)

    def drop_retired(self) -> None:
        """Drop the retired resources that nobody watches any more. Called at intervals."""
        for prefix in list(self._retired):
            resource = self._resources.get(prefix)
            if resource is not None and len(resource.fanout):
                continue  # They are about to be told.
            self._retired.discard(prefix)
            if resource is None or len(resource.snapshots):
                continue  # It has come back.
            self._floor = max(self._floor, resource.history.newest)
            del self._resources[prefix]
            for outcome in CHECK_OUTCOMES.values():
                self.checks_total.pop((prefix, outcome), None)

    # ---- internals

    async def _wait_until_fresh(self, at: ReadAt, key: str = "") -> bool:
        """Wait until the cache can answer a read; False if the store should, because that takes too long.

        key: what is read, or where its range starts; empty for what is not counted.
        """
        if not self.is_filled:
            return False
        match at.consistency:
            case Consistency.ANY:
                return True
            case Consistency.MOST_RECENT:
                current = await self._store.current_revision()
                # Most reads need not wait, and are not to pay for two more coroutines.
                return current <= self._progress.revision or await self._wait_for(
                    current, self._options.catch_up_wait_s, key
                )
            case Consistency.NOT_OLDER_THAN:
                if at.revision <= self.revision:
                    return True
                exists = at.revision <= await self._store.current_revision()
                wait_s = self._options.future_revision_wait_s
                if not await self._wait_for(at.revision, wait_s, key, exists=exists):
                    raise RevisionTooLarge(requested=at.revision, current=self.revision)
                return True
            case Consistency.EXACT:
                if at.revision > self.revision:
                    current = await self._store.current_revision()
                    if at.revision > current:
                        raise RevisionTooLarge(requested=at.revision, current=current)
                return await self._wait_for(at.revision, self._options.catch_up_wait_s, key)

    async def _wait_for(self, revision: int, timeout_s: float, key: str, *, exists: bool = True) -> bool:
        """As `Progress.wait_for`, and tells how long it took if it was not there at once."""
        on_wait = self._options.on_wait
        if on_wait is None or not key or revision <= self._progress.revision:
            return await self._progress.wait_for(revision, timeout_s, exists=exists)
        began = time.perf_counter()
        try:
            return await self._progress.wait_for(revision, timeout_s, exists=exists)
        finally:
            on_wait(key, time.perf_counter() - began)

    def _resource_with(self, key: str, revision: int) -> ResourceCache[T] | None:
        """The cache of the key's resource, if it still has the state at `revision` and may serve it."""
        resource = self._resource_for(key)
        kept_since = max(resource.history.floor, self._compacted)
        return resource if self._options.serve_snapshots and revision >= kept_since else None

    async def _get_from_store(self, key: str, at: ReadAt) -> KeyVersion[T] | None:
        stored = (await self._store.get(key, at)).stored
        return _version(stored, self._decode) if stored is not None else None

    def _counts(self, at: ReadAt) -> bool:
        """Whether a list is counted: one of the newest state, which the cache could answer."""
        return at.consistency is Consistency.MOST_RECENT and self.is_filled

    async def _begin_list(self, at: ReadAt, start: str, is_counted: bool) -> bool:
        """As `_wait_until_fresh`. Counts the list, unless the cache is late: the store may fail yet.

        start: of the range that is listed.
        """
        try:
            is_fresh = await self._wait_until_fresh(at, start)
        except StorageError:
            if is_counted:
                self._resource_for(start).failed_lists_total += 1
            raise
        if is_counted and is_fresh:
            self._resource_for(start).consistent_lists_total += 1
        return is_fresh

    async def _list_from_memory(self, keys: KeyRange, revision: int, wanted: _Page[T]) -> Listing[T]:
        """Raises RevisionCompacted when the history does not reach back to `revision`, or no longer does."""
        limit, predicate, counts_rest = wanted
        resource = self._resource_for(keys.start)
        resource.lists_total += 1
        found: list[KeyVersion[T]] = []
        rest, turn = keys, Turn()
        # One more than asked for, to know whether there is more.
        batch_keys = min(limit + 1, LIST_BATCH_KEYS) if limit and predicate is None else LIST_BATCH_KEYS
        while True:
            # Also before the first: many that waited for one revision go on in one round.
            if turn.is_over():
                await turn.next()
            versions, last_key = resource.scan(rest, revision, count=batch_keys)
            resource.scanned_total += len(versions)
            if predicate is None:
                found += versions
            else:
                await _add_selected(found, versions, predicate, turn)
            if limit and len(found) > limit:
                break
            if last_key is None:
                resource.listed_total += len(found)
                return Listing(found, revision, None, None)
            rest = KeyRange(after_key(last_key), keys.end)
        del found[limit:]
        resource.listed_total += len(found)
        next_key = after_key(found[-1].key)
        remaining = resource.count(KeyRange(next_key, keys.end), revision) if counts_rest else None
        return Listing(found, revision, next_key, remaining)

    async def _list_from_store(self, keys: KeyRange, at: ReadAt, wanted: _Page[T]) -> Listing[T]:
        limit, predicate, counts_rest = wanted
        versions: list[KeyVersion[T]] = []
        tested = 0
        turn = Turn()
        # One more than asked for, to know whether there is more; with a predicate their number is unknown.
        page_keys = min(limit + 1, STORE_PAGE_KEYS) if limit and predicate is None else STORE_PAGE_KEYS
        while True:
            page = await self._store.list(keys, at, limit=page_keys)
            at = ReadAt.exactly(page.revision)
            decoded = await self._decoded(page.items)
            tested += len(decoded)
            if predicate is None:
                versions += decoded
            else:
                await _add_selected(versions, decoded, predicate, turn)
            if not page.more or (limit and len(versions) > limit):
                break
            keys = KeyRange(after_key(page.items[-1].key), keys.end)
        resource = self._resource_for(keys.start)
        resource.store_tested_total += tested
        resource.store_listed_total += min(len(versions), limit or len(versions))
        if not limit or len(versions) <= limit:
            return Listing(versions, page.revision, None, None)
        del versions[limit:]
        next_key = after_key(versions[-1].key)
        remaining = await self._store.count(KeyRange(next_key, keys.end), at) if counts_rest else None
        return Listing(versions, page.revision, next_key, remaining)

    async def _decoded(self, items: Sequence[Stored]) -> Sequence[KeyVersion[T]]:
        """Returns the versions in a page; other tasks have their turns meanwhile."""
        versions = []
        turn = Turn()
        for item in items:
            if turn.is_over():
                await turn.next()
            versions.append(_version(item, self._decode))
        return versions

    def _begin_filling(self) -> None:
        self._filling.clear()
        if self._others is not None:
            self._others.clear()

    def _add(self, items: Sequence[Stored]) -> None:
        by_resource: dict[str, list[KeyVersion[T]]] = {}
        for item in items:
            prefix = resource_of(self._prefix, item.key)
            if prefix is not None:
                by_resource.setdefault(prefix, []).append(_version(item, self._decode))
            elif item.key == self._compaction_key:
                self._note_compaction(item.value)
            elif self._others is not None:
                self._others.put(item.key)
        for prefix, versions in by_resource.items():
            filling = self._filling.get(prefix)
            if filling is None:
                filling = self._filling[prefix] = _Filling(Snapshots())
            filling.snapshots.add_all(versions)
            filling.bytes += sum(
                self._size_of(version.value) for version in versions if version.value is not None
            )

    def _fill(self, revision: int) -> None:
        self._floor = revision
        for prefix in self._resources.keys() | self._filling.keys():
            filling = self._filling.get(prefix) or _Filling(Snapshots())
            self._resource(prefix).fill(filling.snapshots, revision, filling.bytes)
        self._filling.clear()
        for changed in chain.from_iterable(self._on_change.values()):
            changed()

    def _apply(self, events: Sequence[Event]) -> None:
        by_resource: dict[str, list[Event]] = {}
        for event in events:
            prefix = resource_of(self._prefix, event.key)
            if prefix is not None:
                by_resource.setdefault(prefix, []).append(event)
            elif event.key == self._compaction_key:
                if event.value is not None:
                    self._note_compaction(event.value)
            elif self._others is not None:
                (self._others.delete if event.value is None else self._others.put)(event.key)
        for prefix, group in by_resource.items():
            resource = self._resource(prefix)
            # Before new events: earlier ones were delivered in an earlier iteration of the event loop.
            if resource.has_released_much():
                resource.drop_late_watchers()
            before = resource.history.bytes
            resource.apply(group)
            for changed in self._on_change.get(prefix, ()):
                changed()
            self._growth_bytes += max(0, resource.history.bytes - before)
        # Adding up all resources for every event would cost too much.
        if self._growth_bytes > self.history_bytes_max // BUDGET_CHECKS:
            self._enforce_budget()

    def _note_compaction(self, value: bytes) -> None:
        """Do not serve revisions that the store has compacted: replicas must agree (row K32)."""
        if value.isdigit():
            self._compacted = int(value)

    def _resource_for(self, key: str) -> ResourceCache[T]:
        prefix = resource_of(self._prefix, key)
        if prefix is None:
            raise ValueError(f"{key!r} is not the key of an object below {self._prefix}")
        return self._resource(prefix)

    def _resource(self, prefix: str) -> ResourceCache[T]:
        resource = self._resources.get(prefix)
        if resource is None:
            resource = self._resources[prefix] = self._new_resource(prefix)
        return resource

    async def _evict_periodically(self) -> None:
        """Evict from resources without new events, whose old ones expire, too."""
        while True:
            await asyncio.sleep(EVICTION_INTERVAL_S)
            for resource in list(self._resources.values()):
                before = resource.history.bytes
                while resource.evict():  # noqa: ASYNC110  yields, does not poll
                    await asyncio.sleep(0)
                self.expired_bytes += max(0, before - resource.history.bytes)
                resource.drop_late_watchers()
            self.drop_retired()

    async def _check_periodically(self) -> None:
        while True:
            await asyncio.sleep(self._options.check_interval_s)
            for prefix in list(self._resources):
                await self.check(prefix)

    async def check(self, prefix: str) -> bool:
        """Compare one resource with the store; if they differ, fill the cache again and return False.

        Does not raise: if the store cannot be read, nothing is known to be wrong.
        """
        if not self.is_filled:
            return True
        revision, fills = self.revision, self.fills_total
        try:
            is_different = await differs(
                self._store, self._revisions, prefix_range(prefix), revision=revision
            )
        except StorageError as error:
            log.info("the watch cache of %s could not be compared with the store: %s", prefix, error)
            is_different = None
        if self.fills_total != fills:
            is_different = None  # The cache was filled again meanwhile, so this compared nothing.
        outcome = CHECK_OUTCOMES[is_different]
        self.checks_total[prefix, outcome] += 1
        if is_different:
            message = "the watch cache of %s differs from the store at revision %d; it is filled again"
            log.error(message, prefix, revision)
            await self._reflector.relist()
        return not is_different

    async def refill(self) -> None:
        """Read everything from the store again: values may be decoded otherwise. All watchers are ended."""
        await self._reflector.relist()

    async def _revisions(self, keys: KeyRange, revision: int) -> AsyncIterator[Sequence[tuple[str, int]]]:
        """Yields keys and revisions of a range by pages, letting other tasks run in between.

        Raises RevisionCompacted.
        """
        resource = self._resource_for(keys.start)
        last_key: str | None = keys.start
        while last_key is not None:
            versions, last_key = resource.scan(keys, revision, count=LIST_BATCH_KEYS)
            yield [(version.key, version.revision) for version in versions]
            if last_key is not None:
                keys = KeyRange(after_key(last_key), keys.end)
            await asyncio.sleep(0)

    def _enforce_budget(self) -> None:
        """Shorten the largest histories until all of them together are within the budget."""
        self._growth_bytes = 0
        while (over := self.history_bytes - self.history_bytes_max) > 0:
            largest = max(self._resources.values(), key=lambda resource: resource.history.bytes)
            largest.evict(bytes_max=max(0, largest.history.bytes - over))


async def _add_selected(
    found: list[KeyVersion[T]], versions: Sequence[KeyVersion[T]], predicate: Predicate[T], turn: Turn
) -> None:
    """Add the versions that a predicate selects; other tasks have their turns meanwhile."""
    start, count = 0, 1
    while start < len(versions):
        if turn.is_over():
            await turn.next()
            count = 1
        found += [
            version
            for version in versions[start : start + count]
            if version.value is not None and predicate(version.value)
        ]
        start += count
        count = min(2 * count, TESTS_AT_ONCE)


def _version(stored: Stored, decode: Callable[[Stored], T]) -> KeyVersion[T]:
    return KeyVersion(
        stored.key, decode(stored), revision=stored.mod_revision, create_revision=stored.create_revision
    )
