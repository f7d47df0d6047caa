"""One client's part of the changes: from the history first, then in a queue with a bound."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from storage.errors import RevisionCompacted
from storage.watch_cache.events import Change, Delivery, EventType, Predicate
from storage.watch_cache.history import History

T = TypeVar("T")

# Changes that may wait for one watcher. They are references to versions shared by all, so a full queue
# holds some 100 KB of its own; a client that is further behind has stopped reading.
QUEUED_EVENTS_MAX: Final = 8_192

# Changes of the history that are looked at in one go.
CATCH_UP_EVENTS_MAX: Final = 1_000


class Watcher(Generic[T]):
    """Collects the changes that concern one client until it takes them.

    after: changes up to this revision are none of its business; it may lie ahead.
    on_event: called, in the loop, when something is there to take after nothing was: changes, or the end.
    """

    def __init__(
        self,
        *,
        after: int,
        predicate: Predicate[T] | None,
        on_event: Callable[[], None],
        queued_events_max: int = QUEUED_EVENTS_MAX,
    ) -> None:
        self.after = after
        self._predicate = predicate
        self._on_event = on_event
        self._queued_max = queued_events_max
        # While it is behind: where its changes are, which of them to look at, and how far it has come.
        self._history: History[T] | None = None
        self._is_in_scope: Callable[[str], bool] | None = None
        self._reached = after
        self._queue: deque[Delivery[T]] = deque()
        self.is_overrun = False  # it did not keep up
        self.is_ended = False  # no more will come; what is queued may still be taken

    def __len__(self) -> int:
        """How much waits, as far as it is known: a watcher that is behind has something to take."""
        return len(self._queue) + self.is_behind

    @property
    def is_behind(self) -> bool:
        """What comes after the queue is in the history; `take` gives a part of it at a time."""
        return self._history is not None

    def catch_up(self, history: History[T], is_in_scope: Callable[[str], bool]) -> None:
        """Begin with what happened before the watch did. The history's bounds hold for it, not the queue's.

        Raises RevisionCompacted.
        """
        history.require(self.after)
        if history.newest > self.after:
            self._history, self._is_in_scope = history, is_in_scope

    def offer(self, delivery: Delivery[T]) -> bool:
        """Queue a change if it concerns this watcher; True if there is something to take after nothing was.

        delivery: what the change is to all who see everything. If there is no room, the watcher is overrun.
        """
        change = delivery.change
        if self._history is not None or change.version.revision <= self.after:
            return False  # It will be found there, or is none of its business.
        if self._predicate is not None:
            kind = change.type_for(self._predicate)
            if kind is None:
                return False
            delivery = Delivery(kind, change)
        queue = self._queue
        if len(queue) >= self._queued_max:
            self.is_overrun = True
            return False
        queue.append(delivery)
        return len(queue) == 1

    def take(self, count: int | None = None) -> list[Delivery[T]]:
        """What waits, in order, or the first `count` of it; `len` tells whether there is more.

        Of a history the next part only, of which nothing may concern the watcher.
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
        """Whether it still needs what history has let go of up to `revision`."""
        if self._queue:
            return self._queue[0].change.revision <= revision
        return self._history is not None and self._reached < revision

    def overrun(self) -> None:
        """It is too far behind: what it has not taken is of no use to it."""
        self.is_overrun = True
        self._queue.clear()
        self._history = None
        self.end()

    def notify(self) -> None:
        """Say that there is something to take."""
        self._on_event()

    def end(self) -> None:
        """No more changes will come."""
        if not self.is_ended:
            self.is_ended = True
            self._on_event()

    def _queue_from_history(self, history: History[T]) -> None:
        try:
            changes = history.after(self._reached, CATCH_UP_EVENTS_MAX)
        except RevisionCompacted:
            self.overrun()
            return
        if len(changes) == CATCH_UP_EVENTS_MAX:
            # The last revision may go on behind the cut. It begins behind the first change: a transaction
            # writes far less.
            cut_off = changes[-1].revision
            changes = [change for change in changes if change.revision < cut_off]
            self._reached = changes[-1].revision
        else:
            self._history = None
        assert self._is_in_scope is not None
        self._queue.extend(
            Delivery(kind, change)
            for change in changes
            if self._is_in_scope(change.version.key) and (kind := self._type_for_watcher(change)) is not None
        )

    def _type_for_watcher(self, change: Change[T]) -> EventType | None:
        return change.type if self._predicate is None else change.type_for(self._predicate)
