"""Shortens the switch interval of the interpreter while threads compute beside the event loop.

A thread that runs Python keeps the interpreter, while another one waits for it, for the *switch interval*: 5
ms by default. The event loop takes the interpreter again for each of its callbacks, a dozen times for a
request. So while a thread processes a large body, every other request takes 50 ms and more; with a shorter
interval it takes a few.

The interval is shorter only while a thread computes. It is a setting of the interpreter, so all threads share
one context.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

# To hand over costs some 10 us, a twentieth of this.
SWITCH_INTERVAL_S: Final = 0.0002


class _ShortSwitchInterval:
    """A context in which the interpreter's switch interval is short; several threads may be in it at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads = 0
        self._usual_s = sys.getswitchinterval()

    @property
    def is_entered(self) -> bool:
        """Whether any thread is in the context now."""
        return self._threads > 0

    def __enter__(self) -> None:
        with self._lock:
            self._threads += 1
            if self._threads == 1:
                self._usual_s = sys.getswitchinterval()
                sys.setswitchinterval(SWITCH_INTERVAL_S)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._threads -= 1
            if not self._threads:
                sys.setswitchinterval(self._usual_s)


# Threads beside the event loop compute in this context what may take long.
SHORT_SWITCH_INTERVAL: Final = _ShortSwitchInterval()


async def compute_in_thread(work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Runs work that is mostly Python in a thread, as `asyncio.to_thread` does."""

    def computed() -> _T:
        with SHORT_SWITCH_INTERVAL:
            return work(*args, **kwargs)

    return await asyncio.to_thread(computed)
