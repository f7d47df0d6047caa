"""Sets of values by the language's equality, hashed where possible."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Final

from apiserver.cel.values import Duration, Timestamp, UInt, equal

# Classes whose values are equal in CEL if they are in Python, with the same hash; numbers are equal across
# their types.
_NUMBERS: Final = frozenset({int, UInt, float})
_PLAIN: Final = frozenset({str, bytes, type(None)})
_OWN_KIND: Final = frozenset({bool, Timestamp, Duration})


class ValueSet:
    """A set of values of any types."""

    __slots__ = ("_others", "_plain")

    def __init__(self, items: Iterable[Any] = ()) -> None:
        self._plain: set[Hashable] = set()
        self._others: list[Any] = []
        for item in items:
            self.add(item)

    def add(self, item: Any) -> bool:
        """Add an item. Returns whether it is new."""
        key = _key(item)
        if key is None:
            if any(equal(item, other) for other in self._others):
                return False
            self._others.append(item)
            return True
        if key in self._plain:
            return False
        # NaN is equal to nothing, not even itself.
        self._plain.add(object() if item != item else key)
        return True

    def __contains__(self, item: Any) -> bool:
        key = _key(item)
        if key is None:
            return any(equal(item, other) for other in self._others)
        return key in self._plain and item == item


def _key(item: Any) -> Hashable | None:
    """Returns a key that is equal for equal values; None for values that contain others."""
    kind = type(item)
    if kind in _PLAIN:
        return (kind, item)
    if kind in _NUMBERS:
        return (int, item)
    if kind in _OWN_KIND:
        return (kind, item)
    return None
