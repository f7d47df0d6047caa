"""UIDs of new objects."""

from __future__ import annotations

import os
from typing import Final
from weakref import WeakSet

# Asking the system for randomness lets go of the interpreter's lock, which a busy writer then holds: 10 us
# for each object. So it is asked for many at a time.
_FETCHED: Final = 256
_BYTES: Final = 16
_VERSION_4: Final = 0x4 << 76
_VARIANT: Final = 0x2 << 62
_RANDOM_BITS: Final = ~(0xF << 76 | 0x3 << 62)


class UidSource:
    """Makes random UUIDs (RFC 9562, version 4)."""

    def __init__(self) -> None:
        self._unused: list[bytes] = []
        _SOURCES.add(self)

    def forget_unused(self) -> None:
        """Drops the random bytes that are left, so that the next UID is made of new ones."""
        self._unused.clear()

    def __call__(self) -> str:
        if not self._unused:
            fetched = os.urandom(_FETCHED * _BYTES)
            self._unused += (fetched[at : at + _BYTES] for at in range(0, len(fetched), _BYTES))
        number = int.from_bytes(self._unused.pop()) & _RANDOM_BITS | _VERSION_4 | _VARIANT
        text = f"{number:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


# What is called after a fork is called for ever: once for all, so that sources that nobody uses any more go.
_SOURCES: Final[WeakSet[UidSource]] = WeakSet()


def _forget_unused() -> None:
    """Two processes must never go on with the same bytes."""
    for source in list(_SOURCES):
        source.forget_unused()


os.register_at_fork(after_in_child=_forget_unused)
