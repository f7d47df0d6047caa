"""The cache of one resource: its state, its history and its watchers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from apiserver.storage.interface import Event, KeyRange, Stored
from apiserver.storage.keys import prefix_range
from apiserver.storage.watch_cache.events import CacheEvent
from apiserver.storage.watch_cache.fanout import Fanout, WatchScope
from apiserver.storage.watch_cache.history import EVICTION_BATCH_MAX, History, HistoryLimits
from apiserver.storage.watch_cache.snapshots import KeyVersion, Snapshots
from apiserver.storage.watch_cache.state import CachedValue, ResourceState
from apiserver.storage.watch_cache.watcher import Watcher

T = TypeVar("T")

# Counting at an older revision looks at all events since; with more than these no count is given (row L10).
COUNTED_EVENTS_MAX: Final = 10_000


class ScanResult(NamedTuple, Generic[T]):
    """A part of a range: its versions, and the last key that was visited, or None at the range's end."""

    versions: list[KeyVersion[T]]
    last_key: str | None


class ResourceCache(Generic[T]):
    """Keeps state, history and watchers consistent; no method awaits, so that changes are atomic."""

    def __init__(
        self,
        *,
        decode: Callable[[Stored], T],
        size_of: Callable[[T], int],
        limits: HistoryLimits,
        clock: Callable[[], float],
        floor: int,
    ) -> None:
        self._decode = decode
        self._size_of = size_of
        self._limits = limits
        self._clock = clock
        self.snapshots: Snapshots[T] = Snapshots()
        self.history = self._new_history(floor)
        self.fanout: Fanout[T] = Fanout()
        self.events_total = 0
        # Lists from memory: how many, of how many versions that were looked at, and that were returned.
        self.lists_total = self.scanned_total = self.listed_total = 0
        # Lists of the newest state: those that found the cache up to date, and those that failed because the
        # newest revision was not known.
        self.consistent_lists_total = self.failed_lists_total = 0
        # Those for which the cache was too late: that the store has answered, or that have failed then.
        self.late_lists_total = self.failed_late_lists_total = 0
        # Lists from the store instead: how many versions were tested, and how many were returned.
        self.store_tested_total = self.store_listed_total = 0
        # Events that watches began with: those of the history, and those for the state at their start.
        self.initial_events_total = 0
        self._released_bytes = 0  # evicted by the history since `drop_late_watchers`
        self._released_before = 0  # the revision up to which it had evicted then

    def fill(self, snapshots: Snapshots[T], revision: int, live_bytes: int = 0) -> None:
        """Replace the resource by its state at `revision`, and end all watchers.

        The individual events up to there are unknown, so watchers may have missed some.
        live_bytes: the sizes of the values.
        """
        self.snapshots = snapshots
        self.history = self._new_history(revision, live_bytes)
        self._released_before = 0
        self.fanout.end_all()

    def apply(self, events: Iterable[Event]) -> Sequence[CacheEvent[T]]:
        """Apply events in order, and deliver them to the watchers they concern. Returns what changed.

        Late watchers, which could keep as much in memory as the history itself may, are dropped before:
        earlier events were delivered in an earlier iteration of the event loop.
        """
        if self._released_bytes > self._limits.bytes_max:
            self.drop_late_watchers()
        cache_events = []
        for event in events:
            version = self._version(event)
            if version is not None:
                cache_event = CacheEvent(version)
                self.history.append(cache_event)
                cache_events.append(cache_event)
        self.events_total += len(cache_events)
        self.fanout.deliver(cache_events)
        self.evict()
        return cache_events

    def evict(self, *, bytes_max: int | None = None) -> bool:
        """Drop the events beyond the history's bounds; returns True if there may be more to drop.

        bytes_max: a tighter bound on the size of the history.
        """
        before = self.history.bytes
        evicted = self.history.evict(bytes_max=bytes_max)
        for event in evicted:
            self.snapshots.forget_before(event.version)
        self._released_bytes += before - self.history.bytes
        return len(evicted) >= EVICTION_BATCH_MAX

    def drop_late_watchers(self) -> None:
        """End the watchers that still need events evicted before the last call of this method.

        Events evicted since then may have been delivered a moment ago, where the history is short.
        """
        self.fanout.drop_late(self._released_before)
        self._released_bytes = 0
        self._released_before = self.history.floor

    def scan(self, keys: KeyRange, revision: int, *, count: int) -> ScanResult[T]:
        """Returns the versions of the first `count` keys of a range as of `revision`, in key order.

        Raises RevisionCompacted when the history does not reach back to `revision`.
        """
        if not self.history.has_after(revision):
            versions = self.snapshots.newest_in(keys, count)
            return ScanResult(versions, versions[-1].key if len(versions) == count else None)
        looked_at = self.snapshots.all_in(keys, count)
        versions = [version for newest in looked_at if (version := newest.at(revision)) is not None]
        return ScanResult(versions, looked_at[-1].key if len(looked_at) == count else None)

    def state_at(self, prefix: str, revision: int) -> ResourceState[T]:
        """Returns the resource as of `revision`. prefix: that of its keys.

        Raises RevisionCompacted when the history does not reach back to `revision`.
        """
        every = len(self.snapshots) + len(self.history)
        held = [
            CachedValue(each.key, each.value, each.revision, each.create_revision)
            for each in self.scan(prefix_range(prefix), revision, count=every + 1).versions
            if each.value is not None
        ]
        return ResourceState(held, sum(self._size_of(each.value) for each in held))

    def count(self, keys: KeyRange, revision: int) -> int | None:
        """Returns the number of keys of the range that had a value at `revision`, which the history still
        covers.

        The cost grows with the events since then, not with the keys; None if these are too many.
        """
        total = self.snapshots.count_newest(keys)
        if not self.history.has_after(revision):
            return total
        if self.history.count_after(revision) > COUNTED_EVENTS_MAX:
            return None
        changed = {event.version.key for event in self.history.after(revision)}
        for key in changed:
            if key in keys:
                total += (self.snapshots.get(key, revision) is not None) - (
                    self.snapshots.newest(key) is not None
                )
        return total

    def watch(self, watcher: Watcher[T], scope: WatchScope) -> None:
        """Gives `watcher` the events above its start, past and future.

        Raises RevisionCompacted when some of them have been evicted.
        """
        watcher.catch_up(self.history, scope.includes)
        if watcher.is_behind:
            self.initial_events_total += self.history.count_after(watcher.after)
        self.fanout.add(watcher, scope)

    def _new_history(self, floor: int, live_bytes: int = 0) -> History[T]:
        return History(
            floor, limits=self._limits, size_of=self._size_of, clock=self._clock, live_bytes=live_bytes
        )

    def _version(self, event: Event) -> KeyVersion[T] | None:
        if event.value is None:
            return self.snapshots.delete(event.key, revision=event.mod_revision)
        stored = Stored(event.key, event.value, event.create_revision, event.mod_revision, event.lease)
        return self.snapshots.put(
            event.key,
            self._decode(stored),
            revision=event.mod_revision,
            create_revision=event.create_revision,
        )
