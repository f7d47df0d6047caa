"""What happened to a key, as those who watch are told."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from storage.watch_cache.snapshots import KeyVersion

T = TypeVar("T")

Predicate = Callable[[T], bool]


class EventType(enum.Enum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Change(Generic[T]):
    """One change on its way to watchers.

    encodings: what this change looks like on the wire, by whatever tells two forms apart. Made by whoever
        needs a form first, and shared by all who come soon enough.
    """

    __slots__ = ("_encodings", "previous", "type", "version")

    def __init__(self, version: KeyVersion[T]) -> None:
        self.version = version
        # Held here as well: history may let go of it before the last watcher has seen the change.
        self.previous = version.previous
        self._encodings: dict[object, bytes] | None = {}
        if version.value is None:
            self.type = EventType.DELETED
        elif self.previous is None or self.previous.value is None:
            self.type = EventType.ADDED
        else:
            self.type = EventType.MODIFIED

    @property
    def encodings(self) -> dict[object, bytes]:
        return self._encodings if self._encodings is not None else {}

    def forget_encodings(self) -> None:
        """Keep none from now on: few will want them, and there are many changes."""
        self._encodings = None

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
