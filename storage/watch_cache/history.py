"""The latest changes of one resource in revision order, within bounds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, Generic, TypeVar

from storage.errors import RevisionCompacted
from storage.watch_cache.events import Change

T = TypeVar("T")

_revision = attrgetter("revision")


@dataclass(frozen=True, slots=True)
class HistoryLimits:
    """How much history each resource keeps in memory."""

    # As long as etcd keeps it by default. Watches are promised five minutes, exact reads 75 s.
    window_s: float = 300.0
    # The most that kube-apiserver keeps for a resource.
    events_max: int = 102_400
    # What obsolete versions may weigh. Beyond it history gets shorter, and watchers that were away for
    # long list again; memory does not run out.
    bytes_max: int = 64 * 1024 * 1024


# Beside eviction the loop has other things to do: so many changes take a millisecond or two.
EVICTION_BATCH_MAX: Final = 2_000
# Changes whose encodings are kept for whoever else wants them in the same form: enough for watchers that are
# a little apart, and for a crowd that comes back after a short break. Of large objects fewer: to make their
# events is to copy bytes.
ENCODED_MAX: Final = 1_000
ENCODED_BYTES_MAX: Final = 8 * 1024 * 1024
# Evicted changes leave the ring once they are this part of it: what they hold counts for nothing.
RING_TRIM_DIVISOR: Final = 16


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
        self.limits = limits
        self._size_of = weigh
        self._clock = clock
        self._changes: list[Change[T]] = []
        self._seen_at: list[float] = []
        self._start = 0  # what is before it has been evicted
        self._encoded_start = 0  # what is before it keeps no encodings
        self._encoded_bytes = 0  # of the objects that have changed since
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

    def append(self, change: Change[T]) -> None:
        """Take a change; its revision is not below the last one's."""
        self._changes.append(change)
        self._seen_at.append(self._clock())
        self.bytes += self._weight(change)
        self._encoded_bytes += self._event_bytes(change)
        while (
            len(self._changes) - self._encoded_start > ENCODED_MAX or self._encoded_bytes > ENCODED_BYTES_MAX
        ):
            self._forget_oldest_encodings()

    def after(self, revision: int, count: int | None = None) -> Sequence[Change[T]]:
        """The changes above `revision`, oldest first: all, or the first `count`.

        Raises RevisionCompacted when some of them are gone.
        """
        self.require(revision)
        first = bisect_right(self._changes, revision, lo=self._start, key=_revision)
        return self._changes[first : None if count is None else first + count]

    def count_after(self, revision: int) -> int:
        """How many changes there are above `revision`."""
        return len(self._changes) - bisect_right(self._changes, revision, lo=self._start, key=_revision)

    def evict(self, *, bytes_max: int | None = None) -> list[Change[T]]:
        """Let go of what the bounds no longer allow, whole revisions at a time; returns it.

        At most some EVICTED_AT_ONCE_MAX changes: what is left goes the next time. bytes_max: a tighter bound
        than the history's own.
        """
        oldest_allowed = self._clock() - self.limits.window_s
        if bytes_max is None:
            bytes_max = self.limits.bytes_max
        first = end = self._start
        while end < len(self._changes) and (
            self._changes[end].revision == self.floor
            or (
                end - first < EVICTION_BATCH_MAX
                and (
                    self._seen_at[end] < oldest_allowed
                    or len(self._changes) - end > self.limits.events_max
                    or self.bytes > bytes_max
                )
            )
        ):
            self.bytes -= self._weight(self._changes[end])
            self.floor = self._changes[end].revision
            end += 1
        evicted = self._changes[first:end]
        self._start = end
        while self._encoded_start < end:
            self._forget_oldest_encodings()
        if self._start * RING_TRIM_DIVISOR > len(self._changes):
            del self._changes[: self._start], self._seen_at[: self._start]
            self._encoded_start -= self._start
            self._start = 0
        return evicted

    def _forget_oldest_encodings(self) -> None:
        change = self._changes[self._encoded_start]
        change.forget_encodings()
        self._encoded_bytes -= self._event_bytes(change)
        self._encoded_start += 1

    def _event_bytes(self, change: Change[T]) -> int:
        """Of the object that an event of the change shows: about as much as its encoding."""
        value = change.version.value
        return self._weight(change) if value is None else self._size_of(value)

    def _weight(self, change: Change[T]) -> int:
        previous = change.previous
        return self._size_of(previous.value) if previous is not None and previous.value is not None else 0
