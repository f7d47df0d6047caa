"""The latest events of one resource in revision order, within bounds."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Final, Generic, NamedTuple, TypeVar

from apiserver.storage.errors import RevisionCompacted
from apiserver.storage.watch_cache.events import CacheEvent

T = TypeVar("T")

_revision = attrgetter("revision")


class HistoryLimits(NamedTuple):
    """The bounds on the history that each resource keeps in memory."""

    # As long as etcd keeps it by default. Watches are promised five minutes, exact reads 75 s.
    window_s: float = 300.0
    # The most that kube-apiserver keeps for a resource.
    events_max: int = 102_400
    # The bytes that obsolete versions may take. Beyond that the history gets shorter: watchers that were away
    # for long have to list again, but memory does not run out.
    bytes_max: int = 64 * 1024 * 1024
    # So old are watchers that come back after a short break; kube-apiserver calls what is younger fresh (row
    # Q01).
    fresh_s: float = 75.0
    # How many bytes older obsolete versions may take, unless the objects themselves take more: a client that
    # has missed more than that gets the objects sooner by a list.
    old_bytes_max: int = 8 * 1024 * 1024


# Events evicted in one call: they take a millisecond or two, and then the loop gets to do other things.
EVICTION_BATCH_MAX: Final = 2_000
# Events whose encodings are kept for other watchers that want the same form: enough for watchers that are a
# little apart, and for many that come back after a short break. Of large objects fewer: encoding their events
# is mostly copying bytes, which costs little. And of none that are not fresh any more.
ENCODED_MAX: Final = 1_000
ENCODED_BYTES_MAX: Final = 8 * 1024 * 1024
# Evicted events leave the list once they are one part in so many of it; until then they are not counted.
RING_TRIM_DIVISOR: Final = 16


class History(Generic[T]):
    """A bounded list of events.

    floor: the history has every event above this revision. Watches may start, and snapshots be read, at it or
        later.
    size_of: returns the bytes that a value keeps in memory. clock: seconds.
    live_bytes: the sizes of the values that are not obsolete.
    """

    def __init__(
        self,
        floor: int,
        *,
        limits: HistoryLimits,
        size_of: Callable[[T], int],
        clock: Callable[[], float],
        live_bytes: int = 0,
    ) -> None:
        self.floor = floor
        self.live_bytes = live_bytes
        self.limits = limits
        self._size_of = size_of
        self.clock = clock
        self._events: list[CacheEvent[T]] = []
        self._seen_at = array("d")
        self._start = 0  # the first event that is not evicted
        self._encoded_start = 0  # the first event that keeps its encodings
        self._forgotten = 0
        self._encoded_bytes = 0  # the sizes of the objects in the events that keep their encodings
        self.bytes = 0  # the sizes of the obsolete values that the events keep in memory

    def __len__(self) -> int:
        return len(self._events) - self._start

    @property
    def newest(self) -> int:
        """The revision of the last event; `floor` if there is none."""
        return self._events[-1].revision if self._events else self.floor

    def has_after(self, revision: int) -> bool:
        """Whether there are events above `revision`. Raises RevisionCompacted if some were evicted."""
        if revision < self.floor:
            raise RevisionCompacted(requested=revision, oldest=self.floor)
        return bool(self._events) and self._events[-1].revision > revision

    def append(self, event: CacheEvent[T]) -> None:
        """Add an event; its revision is not below the last one's."""
        self._events.append(event)
        self._seen_at.append(self.clock())
        value = event.version.value
        previous_bytes = 0 if event.previous is None else self._previous_bytes(event)
        value_bytes = self._size_of(value) if value is not None else 0
        self.live_bytes += value_bytes - previous_bytes
        self.bytes += previous_bytes
        self._encoded_bytes += value_bytes if value is not None else previous_bytes
        while (
            len(self._events) - self._encoded_start > ENCODED_MAX or self._encoded_bytes > ENCODED_BYTES_MAX
        ):
            self._forget_oldest_encodings()

    def after(self, revision: int, count: int | None = None) -> Sequence[CacheEvent[T]]:
        """Returns the events above `revision`, oldest first: all, or the first `count`.

        Raises RevisionCompacted when some of them have been evicted.
        """
        if not self.has_after(revision):
            return []
        first = bisect_right(self._events, revision, lo=self._start, key=_revision)
        return self._events[first : None if count is None else first + count]

    def count_after(self, revision: int) -> int:
        """Returns the number of events above `revision`."""
        return len(self._events) - bisect_right(self._events, revision, lo=self._start, key=_revision)

    def forget(self, revision: int) -> None:
        """Marks the events up to a revision as obsolete, so that `evict` drops them next."""
        self._forgotten = max(self._forgotten, revision)

    def evict(self, *, bytes_max: int | None = None) -> list[CacheEvent[T]]:
        """Drop the events beyond the bounds, whole revisions at a time, and return them.

        Drops at most EVICTION_BATCH_MAX events, and the rest of their last revision; the next call drops
        more.
        bytes_max: a tighter bound than the history's own.
        """
        now, limits = self.clock(), self.limits
        oldest_allowed, oldest_fresh = now - limits.window_s, now - limits.fresh_s
        old_bytes_max = max(limits.old_bytes_max, self.live_bytes)
        if bytes_max is None:
            bytes_max = limits.bytes_max
        first = end = self._start
        while end < len(self._events) and (
            self._events[end].revision == self.floor
            or (
                end - first < EVICTION_BATCH_MAX
                and (
                    self._seen_at[end] < oldest_allowed
                    or self._events[end].revision <= self._forgotten
                    or len(self._events) - end > limits.events_max
                    or self.bytes > bytes_max
                    or (self._seen_at[end] < oldest_fresh and self.bytes > old_bytes_max)
                )
            )
        ):
            self.bytes -= self._previous_bytes(self._events[end])
            self.floor = self._events[end].revision
            end += 1
        evicted = self._events[first:end]
        self._start = end
        if end - first < EVICTION_BATCH_MAX:
            # Also where there were no events, since the cache cannot know that for earlier revisions.
            self.floor = max(self.floor, self._forgotten)
        while self._encoded_start < end or (
            self._encoded_start < len(self._events) and self._seen_at[self._encoded_start] < oldest_fresh
        ):
            self._forget_oldest_encodings()
        if self._start * RING_TRIM_DIVISOR > len(self._events):
            del self._events[: self._start], self._seen_at[: self._start]
            self._encoded_start -= self._start
            self._start = 0
        return evicted

    def _forget_oldest_encodings(self) -> None:
        event = self._events[self._encoded_start]
        event.forget_encodings()
        self._encoded_bytes -= self._event_bytes(event)
        self._encoded_start += 1

    def _event_bytes(self, event: CacheEvent[T]) -> int:
        """Returns the size of the object in the event, which is about the size of an encoding."""
        value = event.version.value
        return self._previous_bytes(event) if value is None else self._size_of(value)

    def _previous_bytes(self, event: CacheEvent[T]) -> int:
        previous = event.previous
        return self._size_of(previous.value) if previous is not None and previous.value is not None else 0
