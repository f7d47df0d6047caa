"""One client's part of the changes: what concerns it, in a queue with a bound."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Generic, NamedTuple, TypeVar

from storage.watch_cache.snapshots import Version

T = TypeVar("T")

# Changes that may wait for one watcher. They are references to versions shared by all, so a full queue
# holds some 100 KB of its own; a client that is further behind has stopped reading.
QUEUED_CHANGES_MAX: Final = 8_192

Predicate = Callable[[T], bool]


class EventType(enum.Enum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Change(Generic[T]):
    """One change on its way to watchers.

    encodings: what this change looks like on the wire, by whatever tells two forms apart. Made by whoever
        needs a form first, shared by all, and gone with the change once everybody has had it.
    """

    __slots__ = ("encodings", "previous", "type", "version")

    def __init__(self, version: Version[T]) -> None:
        self.version = version
        # Held here as well: history may let go of it before the last watcher has seen the change.
        self.previous = version.previous
        self.encodings: dict[object, bytes] = {}
        if version.value is None:
            self.type = EventType.DELETED
        elif self.previous is None or self.previous.value is None:
            self.type = EventType.ADDED
        else:
            self.type = EventType.MODIFIED

    @property
    def revision(self) -> int:
        return self.version.revision

    def type_for(self, predicate: Predicate[T]) -> EventType | None:
        """What the change is to somebody who sees only what `predicate` selects; None: nothing."""
        value, before = self.version.value, self.previous.value if self.previous else None
        is_selected = value is not None and predicate(value)
        was_selected = before is not None and predicate(before)
        if is_selected:
            return EventType.MODIFIED if was_selected else EventType.ADDED
        return EventType.DELETED if was_selected else None


class Delivery(NamedTuple, Generic[T]):
    """A change as one watcher sees it.

    For DELETED the object to show is the one before the change, at the change's revision.
    """

    type: EventType
    change: Change[T]


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
        queued_max: int = QUEUED_CHANGES_MAX,
    ) -> None:
        self.after = after
        self._predicate = predicate
        self._on_event = on_event
        self._queued_max = queued_max
        self._owed: list[Delivery[T]] = []
        self._queue: deque[Delivery[T]] = deque()
        self.is_overrun = False  # it did not keep up
        self.is_ended = False  # no more will come; what is queued may still be taken

    def __len__(self) -> int:
        return len(self._owed) + len(self._queue)

    def owe(self, changes: Iterable[Change[T]]) -> None:
        """Queue what happened before the watch began. The history's bound holds for it, not the queue's."""
        for change in changes:
            if (kind := self._concern(change)) is not None:
                self._owed.append(Delivery(kind, change))

    def offer(self, change: Change[T]) -> bool:
        """Queue `change` if it concerns this watcher; False if it does and there is no room."""
        kind = self._concern(change)
        if kind is None:
            return True
        if len(self._queue) >= self._queued_max:
            self.is_overrun = True
            return False
        self._queue.append(Delivery(kind, change))
        return True

    def take(self) -> list[Delivery[T]]:
        """All that waits, in order."""
        taken = [*self._owed, *self._queue]
        self._owed.clear()
        self._queue.clear()
        return taken

    def notify(self) -> None:
        """Say that there is something to take."""
        self._on_event()

    def end(self) -> None:
        """No more changes will come."""
        if not self.is_ended:
            self.is_ended = True
            self._on_event()

    def _concern(self, change: Change[T]) -> EventType | None:
        if change.version.revision <= self.after:
            return None
        return change.type if self._predicate is None else change.type_for(self._predicate)
