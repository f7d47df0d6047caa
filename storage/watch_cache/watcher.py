"""Holds the events for one client: first those of the history, then new ones in a bounded queue."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from apiserver.storage.errors import RevisionCompacted
from apiserver.storage.watch_cache.events import CacheEvent, EventType, Predicate, Trigger, WatcherEvent
from apiserver.storage.watch_cache.history import History

T = TypeVar("T")

# How many events may wait for one watcher. They are references to versions shared by all, so a full queue
# holds some 100 KB; a client that is further behind has stopped reading.
QUEUED_EVENTS_MAX: Final = 8_192

# Events of the history that one `take` looks at, and for how long: the predicate may take long.
CATCH_UP_EVENTS_MAX: Final = 1_000
CATCH_UP_TURN_S: Final = 0.002


class Watcher(Generic[T]):
    """Collects the events that concern one client until the client takes them.

    after: events up to this revision are left out; it may be ahead of the cache.
    trigger: a property that all selected values share, if there is one.
    tests_late: whether the predicate is so slow that many like it must not test an event when it happens:
        events then stay in the history, and are tested as they are taken.
    on_ready: called, in the loop, when events, or the end, become available after there were none.
    """

    def __init__(
        self,
        *,
        after: int,
        on_ready: Callable[[], None],
        predicate: Predicate[T] | None = None,
        trigger: Trigger[T] | None = None,
        tests_late: bool = False,
        queued_events_max: int = QUEUED_EVENTS_MAX,
    ) -> None:
        self.after = after
        self.predicate = predicate
        self.trigger = trigger
        self.tests_late = tests_late
        self.on_ready = on_ready
        self._queued_max = queued_events_max
        # While it is behind: the history to read, which keys concern it, and the revision read up to.
        self._history: History[T] | None = None
        self._source: History[T] | None = None
        self._is_in_scope: Callable[[str], bool] | None = None
        self._reached = after
        self._queue: deque[WatcherEvent[T]] = deque()
        self.is_overrun = False  # it did not keep up, and has lost events
        self.is_ended = False  # no more events will come; what is queued may still be taken

    def __len__(self) -> int:
        """Returns the number of waiting events, where the unread part of the history counts as one."""
        return len(self._queue) + self.is_behind

    @property
    def is_behind(self) -> bool:
        """Whether events remain to be read from the history, of which `take` returns a part at a time."""
        return self._history is not None

    def catch_up(self, history: History[T], is_in_scope: Callable[[str], bool]) -> None:
        """Begin with the events of `history`, which do not count towards the queue's bound.

        Raises RevisionCompacted.
        """
        self._history = history if history.has_after(self.after) else None
        self._source, self._is_in_scope = history, is_in_scope

    def offer(self, found: WatcherEvent[T]) -> bool:
        """Queue an event that the predicate selects; returns True if the queue was empty.

        If the queue is full, the watcher is overrun.
        """
        if self._history is not None or found.event.version.revision <= self.after:
            return False  # It will be read from the history, or comes before the start.
        queue = self._queue
        if len(queue) >= self._queued_max:
            self.is_overrun = True
            return False
        queue.append(found)
        return len(queue) == 1

    def note_event(self, event: CacheEvent[T]) -> bool:
        """Note that the history has an event to be tested; returns True if there was nothing to take
        before.
        """
        if self._history is not None or event.revision <= self.after:
            return False
        # Events between the last one that was read and this one are not in scope. The history may have lost
        # them meanwhile.
        self._history, self._reached = self._source, event.revision - 1
        return not self._queue

    def take(self, count: int | None = None) -> list[WatcherEvent[T]]:
        """Returns the waiting events in order, or the first `count`; `len` shows whether there are more.

        While the watcher is behind, this reads the next part of the history, and returns nothing if no event
        of that part concerns the watcher.
        """
        queue = self._queue
        if self._history is not None and not queue:
            self._queue_from_history(self._history)
        if count is None or count >= len(queue):
            taken = list(queue)
            queue.clear()
            return taken
        return [queue.popleft() for _ in range(count)]

    def needs_events_up_to(self, revision: int) -> bool:
        """Whether the watcher still needs events up to `revision`."""
        if self._queue:
            return self._queue[0].event.revision <= revision
        return self._history is not None and self._reached < revision

    def overrun(self) -> None:
        """End the watcher because it is too far behind, and drop its events."""
        self.is_overrun = True
        self._queue.clear()
        self._history = None
        self.end()

    def end(self) -> None:
        """Note that no more events will come."""
        if not self.is_ended:
            self.is_ended = True
            self.on_ready()

    def _queue_from_history(self, history: History[T]) -> None:
        try:
            events = history.after(self._reached, CATCH_UP_EVENTS_MAX)
        except RevisionCompacted:
            self.overrun()
            return
        is_last = len(events) < CATCH_UP_EVENTS_MAX
        # Otherwise the last revision may have more events behind the cut, and is left for the next part. It
        # is not the only one: a transaction writes far less.
        end = math.inf if is_last else events[-1].revision
        assert self._is_in_scope is not None
        turn_ends = history.clock() + CATCH_UP_TURN_S
        revision = self._reached
        for event in events:
            if event.revision > revision > self._reached:
                self._reached = revision
                if self.predicate is not None and history.clock() > turn_ends:
                    return
            revision = event.revision
            if revision == end:
                return
            if self._is_in_scope(event.version.key) and (kind := self._type_for_watcher(event)) is not None:
                self._queue.append(WatcherEvent(kind, event))
        self._reached, self._history = revision, None

    def _type_for_watcher(self, event: CacheEvent[T]) -> EventType | None:
        return event.type if self.predicate is None else event.type_for(self.predicate)
