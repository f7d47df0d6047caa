"""Pauses garbage collection while many lasting objects are made."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# Python 3.12 counts its immortal objects, some 400, as frozen. A server that is ready freezes thousands.
_IMMORTAL_OBJECTS_MAX: Final = 1_000


class CollectionPause:
    """A context in which no garbage is collected; several threads may be in it at once.

    A server consists of tens of thousands of objects, and its modules of hundreds of thousands, nearly all of
    which stay until the end. Collections that visit them while they are made would take a seventh of the time
    of a fork, and 40 ms of an import.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way = 0
        self._was_enabled = False

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Pause collections until the last pause ends, if they were enabled before the first."""
        with self._lock:
            if not self._under_way:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1
                if self._was_enabled and not self._under_way:
                    gc.enable()


@contextmanager
def lasting_imports() -> Iterator[None]:
    """A context for imports, in which no garbage is collected, and after which all objects count as old.

    Young objects would be visited twice before they count as old: 90 ms for a whole server. A full collection
    visits them like all others.
    """
    with CollectionPause()():
        try:
            yield
        finally:
            if gc.get_freeze_count() <= _IMMORTAL_OBJECTS_MAX:  # what others have frozen stays so
                gc.freeze()
                gc.unfreeze()
