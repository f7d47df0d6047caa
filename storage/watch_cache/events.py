"""The events that watchers get: a write of a key, together with the version it replaced."""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from apiserver.storage.watch_cache.snapshots import KeyVersion

T = TypeVar("T")

# Equal predicates select the same. Functions are equal to themselves alone.
Predicate = Callable[[T], bool]

# The result of a trigger's index if it is unknown: every predicate has to be tested.
ANY_VALUE: Final = object()


@dataclass(frozen=True, slots=True)
class Trigger(Generic[T]):
    """A property that all values that a predicate selects share, so that other events need not be tested by
    it.

    index: returns the compared property, as the value of one label; ANY_VALUE if unknown. Must not raise.
        Triggers with equal indexes are looked up together.
    value: the result of `index` for each value that the predicate selects.
    """

    index: Callable[[T], object]
    value: Hashable


class EventType(enum.Enum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class CacheEvent(Generic[T]):
    """A write or deletion of one key, shared by all watchers.

    version: the version that the write made; a deletion has no value.
    previous: the version that it replaced, if any.
    """

    __slots__ = ("_encodings", "_shares_encodings", "previous", "revision", "type", "version")

    def __init__(self, version: KeyVersion[T]) -> None:
        self.version = version
        self.revision = version.revision
        # Held here as well: the history may drop it before the last watcher has taken the event.
        self.previous = version.previous
        self._encodings: dict[object, bytes] | None = None  # until it is asked for: few events are watched
        self._shares_encodings = True
        if version.value is None:
            self.type = EventType.DELETED
        elif self.previous is None or self.previous.value is None:
            self.type = EventType.ADDED
        else:
            self.type = EventType.MODIFIED

    @property
    def encodings(self) -> dict[object, bytes]:
        """The encodings of this event on the wire, by any key that identifies a form.

        The first watcher that needs a form stores it for the others; `forget_encodings` ends that.
        """
        if self._encodings is not None:
            return self._encodings
        encodings: dict[object, bytes] = {}
        if self._shares_encodings:
            self._encodings = encodings
        return encodings

    def forget_encodings(self) -> None:
        """Drops the shared encodings, and shares no more, as few watchers will need them."""
        self._shares_encodings = False
        self._encodings = None

    def type_for(self, predicate: Predicate[T]) -> EventType | None:
        """Returns the type of the event for a watcher with `predicate`; None if it gets no event."""
        value, before = self.version.value, self.previous.value if self.previous else None
        is_selected = value is not None and predicate(value)
        was_selected = before is not None and predicate(before)
        if is_selected:
            return EventType.MODIFIED if was_selected else EventType.ADDED
        return EventType.DELETED if was_selected else None


class WatcherEvent(NamedTuple, Generic[T]):
    """An event with the type that it has for one watcher.

    For DELETED the object to send is that of `event.previous`, at the event's revision.
    """

    type: EventType
    event: CacheEvent[T]
