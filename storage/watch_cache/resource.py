"""One resource in memory: its state, its history and its watchers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Generic, NamedTuple, TypeVar

from storage.interface import Event, KeyRange, Stored
from storage.watch_cache.events import Change
from storage.watch_cache.fanout import Fanout, Scope
from storage.watch_cache.history import EVICTION_BATCH_MAX, History, HistoryLimits
from storage.watch_cache.snapshots import KeyVersion, Snapshots
from storage.watch_cache.watcher import Watcher

T = TypeVar("T")

# Counting at an older revision looks at all changes since; beyond so many it is not told (row L10).
COUNTED_EVENTS_MAX: Final = 10_000


class Walk(NamedTuple, Generic[T]):
    """Some versions of a range, and the last key that was looked at; None if there are no more."""

    versions: list[KeyVersion[T]]
    last_key: str | None


class ResourceCache(Generic[T]):
    """Keeps state, history and watchers in step; everything here happens between two awaits."""

    def __init__(
        self,
        *,
        decode: Callable[[Stored], T],
        weigh: Callable[[T], int],
        limits: HistoryLimits,
        clock: Callable[[], float],
        floor: int,
    ) -> None:
        self._decode = decode
        self._size_of = weigh
        self._limits = limits
        self._clock = clock
        self.snapshots: Snapshots[T] = Snapshots()
        self.history = self._new_history(floor)
        self.fanout: Fanout[T] = Fanout()
        self.events_total = 0
        self._released_bytes = 0  # by history, since late watchers were looked for
        self._released_before = 0  # the revision up to which it had let go when they were

    def fill(self, snapshots: Snapshots[T], revision: int) -> None:
        """Begin again from the state at `revision`: what changed until then is not known one by one.

        Watchers that may have missed something are ended.
        """
        self.snapshots = snapshots
        self.history = self._new_history(revision)
        self._released_before = 0
        self.fanout.end_all()

    def apply(self, events: Iterable[Event]) -> None:
        """Take changes in order, and hand them to the watchers they concern."""
        changes = []
        for event in events:
            version = self._version(event)
            if version is not None:
                change = Change(version)
                self.history.append(change)
                changes.append(change)
        self.events_total += len(changes)
        self.fanout.deliver(changes)
        self.evict()

    def evict(self, *, bytes_max: int | None = None) -> bool:
        """Let go of what the history's bounds no longer allow; True if there may be more of it.

        bytes_max: a tighter bound on what history keeps.
        """
        before = self.history.bytes
        evicted = self.history.evict(bytes_max=bytes_max)
        for change in evicted:
            self.snapshots.forget_before(change.version)
        self._released_bytes += before - self.history.bytes
        return len(evicted) >= EVICTION_BATCH_MAX

    def has_released_much(self) -> bool:
        """Whether late watchers could keep alive as much as history itself may."""
        return self._released_bytes > self._limits.bytes_max

    def drop_late_watchers(self) -> None:
        """End those that wait for what history had let go of when they were last looked for.

        What it has let go of since may have been handed out a moment ago, where it is kept short.
        """
        self.fanout.drop_late(self._released_before)
        self._released_bytes = 0
        self._released_before = self.history.floor

    def walk(self, keys: KeyRange, revision: int, *, count: int) -> Walk[T]:
        """The versions of the first `count` keys of a range as of `revision`, in key order.

        Raises RevisionCompacted when history does not reach back to `revision`.
        """
        self.history.require(revision)
        if self.history.newest <= revision:
            versions = self.snapshots.newest_in(keys, count)
            return Walk(versions, versions[-1].key if len(versions) == count else None)
        looked_at = self.snapshots.all_in(keys, count)
        versions = [version for newest in looked_at if (version := newest.at(revision)) is not None]
        return Walk(versions, looked_at[-1].key if len(looked_at) == count else None)

    def count(self, keys: KeyRange, revision: int) -> int | None:
        """How many keys of the range had a value at `revision`, which history reaches back to.

        Costs as much as there were changes since, however many keys there are; None if that is too much.
        """
        if self.history.count_after(revision) > COUNTED_EVENTS_MAX:
            return None
        total = self.snapshots.count_newest(keys)
        changed = {change.version.key for change in self.history.after(revision)}
        for key in changed:
            if key in keys:
                total += (self.snapshots.get(key, revision) is not None) - (
                    self.snapshots.newest(key) is not None
                )
        return total

    def watch(self, watcher: Watcher[T], scope: Scope) -> None:
        """Give `watcher` the kept changes it is owed, and all that come.

        Raises RevisionCompacted when some of those it is owed are gone.
        """
        watcher.catch_up(self.history, scope.includes)
        self.fanout.add(watcher, scope)

    def _new_history(self, floor: int) -> History[T]:
        return History(floor, limits=self._limits, weigh=self._size_of, clock=self._clock)

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
