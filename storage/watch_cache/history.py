"""The latest changes of one resource in revision order, within bounds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Generic, TypeVar

from storage.errors import RevisionCompacted
from storage.watch_cache.snapshots import Version

T = TypeVar("T")

_revision = attrgetter("revision")


@dataclass(frozen=True, slots=True)
class HistoryLimits:
    """How much history each resource keeps in memory."""

    # As long as etcd keeps it by default. Watches are promised five minutes, exact reads 75 s.
    window_s: float = 300.0
    # The most that kube-apiserver keeps for a resource.
    changes_max: int = 102_400
    # What obsolete versions may weigh. Beyond it history gets shorter, and watchers that were away for
    # long list again; memory does not run out.
    bytes_max: int = 64 * 1024 * 1024


class History(Generic[T]):
    """A ring of changes.

    floor: every change above it is here. A watch may start and a snapshot may be read at it or later.
    weigh: the bytes that a value holds on to.
    """

    def __init__(
        self,
        floor: int,
        *,
        limits: HistoryLimits,
        weigh: Callable[[T], int],
        clock: Callable[[], float],
    ) -> None:
        self.floor = floor
        self._limits = limits
        self._weigh = weigh
        self._clock = clock
        self._changes: list[Version[T]] = []
        self._seen_at: list[float] = []
        self._start = 0  # what is before it has been evicted and awaits `_shrink`
        self.bytes = 0  # of the obsolete values that the changes keep

    def __len__(self) -> int:
        return len(self._changes) - self._start

    @property
    def newest(self) -> int:
        """The revision of the last change; of what was there before any, at most."""
        return self._changes[-1].revision if self._changes else self.floor

    def require(self, revision: int) -> None:
        """Raises RevisionCompacted when changes above `revision` are gone."""
        if revision < self.floor:
            raise RevisionCompacted(requested=revision, oldest=self.floor)

    def append(self, change: Version[T]) -> None:
        """Take a change; its revision is not below the last one's."""
        self._changes.append(change)
        self._seen_at.append(self._clock())
        self.bytes += self._weight(change)

    def after(self, revision: int) -> Sequence[Version[T]]:
        """All changes above `revision`, oldest first.

        Raises RevisionCompacted when some of them are gone.
        """
        self.require(revision)
        return self._changes[bisect_right(self._changes, revision, lo=self._start, key=_revision) :]

    def evict(self) -> list[Version[T]]:
        """Let go of what the bounds no longer allow, whole revisions at a time; returns it."""
        oldest_allowed = self._clock() - self._limits.window_s
        first = end = self._start
        while end < len(self._changes) and (
            self._seen_at[end] < oldest_allowed
            or len(self._changes) - end > self._limits.changes_max
            or self.bytes > self._limits.bytes_max
            or self._changes[end].revision == self.floor
        ):
            self.bytes -= self._weight(self._changes[end])
            self.floor = self._changes[end].revision
            end += 1
        evicted = self._changes[first:end]
        self._start = end
        if self._start > len(self._changes) // 2:
            del self._changes[: self._start], self._seen_at[: self._start]
            self._start = 0
        return evicted

    def _weight(self, change: Version[T]) -> int:
        previous = change.previous
        return self._weigh(previous.value) if previous is not None and previous.value is not None else 0
