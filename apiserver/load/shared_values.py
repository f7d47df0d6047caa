"""Values that are made once for all servers of a process, whichever threads these are in."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


class SharedValues(Generic[_K, _V]):
    """Values by keys. Of more than `kept_max` the first one is dropped; who has it keeps it."""

    def __init__(self, kept_max: int) -> None:
        self._kept_max = kept_max
        self._lock = threading.Lock()
        self._values: dict[_K, _V] = {}

    def get(self, key: _K, make: Callable[[], _V]) -> _V:
        """Returns the value of a key, which one thread makes while others wait. Raises what `make` does."""
        with self._lock:
            if key in self._values:
                return self._values[key]
            made = make()
            while len(self._values) >= self._kept_max:
                del self._values[next(iter(self._values))]
            self._values[key] = made
            return made
