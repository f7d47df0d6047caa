"""Whether the interpreter collects garbage meanwhile."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# Python 3.12 puts its immortal objects, some 400, where frozen ones are. Whoever freezes has thousands.
_IMMORTAL_OBJECTS_MAX: Final = 1_000


class CollectionPause:
    """Has no garbage collected while something else is under way, in whichever threads.

    A server is made of tens of thousands of objects, and its modules of hundreds of thousands, nearly all of
    which stay until the end. To look at them while they are made, and at all others of the process, takes a
    seventh of the time of a fork, and 40 ms of an import.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way = 0
        self._was_enabled = False

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Pause. Collections go on with the last of those that have paused, if there were any before."""
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
    """Have no garbage collected while modules are imported, and what they consist of taken for old.

    What is young would be looked at twice before it is taken for old: 90 ms for a whole server. A full
    collection looks at it as at everything else.
    """
    with CollectionPause()():
        try:
            yield
        finally:
            if gc.get_freeze_count() <= _IMMORTAL_OBJECTS_MAX:  # what others have frozen stays so
                gc.freeze()
                gc.unfreeze()
