"""Values that all servers of a process share, in any of its threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


class SharedValues(Generic[_K, _V]):
    """Values by key. Beyond `kept_max` the oldest one is dropped; its users keep it."""

    def __init__(self, kept_max: int) -> None:
        self._kept_max = kept_max
        self._lock = threading.Lock()
        self._values: dict[_K, _V] = {}

    def get(self, key: _K, make: Callable[[], _V]) -> _V:
        """Returns the value of a key, which one thread makes while others wait. Raises the exceptions of
        `make`.
        """
        with self._lock:
            if key in self._values:
                return self._values[key]
            made = make()
            while len(self._values) >= self._kept_max:
                del self._values[next(iter(self._values))]
            self._values[key] = made
            return made
