"""Remembers values that this server has written, until they return from the store by the cache's watch.

They are known to be objects, so that they need not be parsed again to verify that, which would be a tenth of
the work of a write.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Protocol

# Of values that never come back, because their transaction failed, no more are kept.
VALUES_MAX: Final = 1024
BYTES_MAX: Final = 8 * 1024 * 1024


class KnownValues(Protocol):
    """Values of which it is known that they are objects of the kind that their key names."""

    def take(self, key: str, value: bytes) -> bool:
        """Returns whether a value under a key is one of them, and may forget it."""
        ...


class OwnWrites:
    """Written values by key, each the last one of its key."""

    def __init__(self) -> None:
        self._values: OrderedDict[str, bytes] = OrderedDict()  # those written last at the end
        self._bytes = 0

    def add(self, key: str, value: bytes) -> None:
        """Remember a value that is about to be written, and forget the oldest ones beyond the limit."""
        before = self._values.pop(key, b"")
        self._values[key] = value
        self._bytes += len(value) - len(before)
        while len(self._values) > VALUES_MAX or self._bytes > BYTES_MAX:
            _, oldest = self._values.popitem(last=False)
            self._bytes -= len(oldest)

    def take(self, key: str, value: bytes) -> bool:
        """Returns whether exactly this value was written under the key, and forgets it."""
        if self._values.get(key) != value:
            return False
        del self._values[key]
        self._bytes -= len(value)
        return True
