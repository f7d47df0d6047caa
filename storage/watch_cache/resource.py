"""One resource in memory: its state, its history and its watchers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from storage.interface import Event, KeyRange, Stored
from storage.watch_cache.fanout import Fanout, Scope, scopes_of
from storage.watch_cache.history import History, HistoryLimits
from storage.watch_cache.snapshots import Snapshots, Version
from storage.watch_cache.watcher import Change, Watcher

T = TypeVar("T")


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
        self._weigh = weigh
        self._limits = limits
        self._clock = clock
        self.snapshots: Snapshots[T] = Snapshots()
        self.history = self._new_history(floor)
        self.fanout: Fanout[T] = Fanout()
        self.changes_total = 0

    def fill(self, versions: Iterable[Version[T]], revision: int) -> None:
        """Begin again from a list: what changed up to `revision` is not known one by one.

        Watchers that may have missed something are ended.
        """
        self.snapshots = Snapshots(versions)
        self.history = self._new_history(revision)
        self.fanout.end_all()

    def apply(self, events: Iterable[Event]) -> None:
        """Take changes in order, and hand them to the watchers they concern."""
        changes = []
        for event in events:
            version = self._version(event)
            if version is not None:
                self.history.append(version)
                changes.append(Change(version))
        self.changes_total += len(changes)
        self.fanout.deliver(changes)
        self.evict()

    def evict(self) -> None:
        """Let go of what the history's bounds no longer allow."""
        for version in self.history.evict():
            self.snapshots.forget_before(version)

    def versions_in(self, keys: KeyRange, revision: int, *, count: int) -> list[Version[T]]:
        """The first `count` versions in `keys` as of `revision`, in key order.

        Raises RevisionCompacted when history does not reach back to `revision`.
        """
        self.history.require(revision)
        if self.history.newest <= revision:
            found = self.snapshots.newest_in(keys)
        else:
            found = self.snapshots.versions_in(keys, revision)
        return list(itertools.islice(found, count))

    def count(self, keys: KeyRange, revision: int) -> int:
        """How many keys of the range had a value at `revision`, which history reaches back to.

        Costs as much as there were changes since, however many keys there are.
        """
        total = self.snapshots.count_newest(keys)
        for key in {change.key for change in self.history.after(revision) if change.key in keys}:
            total += (self.snapshots.get(key, revision) is not None) - (
                self.snapshots.newest(key) is not None
            )
        return total

    def watch(self, watcher: Watcher[T], scope: Scope) -> None:
        """Give `watcher` the kept changes it is owed, and all that come.

        Raises RevisionCompacted when some of those it is owed are gone.
        """
        owed = self.history.after(watcher.after)
        watcher.owe(Change(version) for version in owed if scope in scopes_of(version.key))
        self.fanout.add(watcher, scope)

    def _new_history(self, floor: int) -> History[T]:
        return History(floor, limits=self._limits, weigh=self._weigh, clock=self._clock)

    def _version(self, event: Event) -> Version[T] | None:
        if event.value is None:
            return self.snapshots.delete(event.key, revision=event.mod_revision)
        stored = Stored(event.key, event.value, event.create_revision, event.mod_revision, event.lease)
        return self.snapshots.put(
            event.key,
            self._decode(stored),
            revision=event.mod_revision,
            create_revision=event.create_revision,
        )
