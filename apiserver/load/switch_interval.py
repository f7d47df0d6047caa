"""Has threads that compute beside the event loop hand the interpreter over sooner.

A thread that runs Python keeps the interpreter, while another one waits for it, for the *switch interval*:
5 ms by default. The event loop takes the interpreter anew for each of its callbacks, a dozen times for a
request, so that while a thread works on a large body every other request takes 50 ms and more: with a
shorter interval a few.

Only while a thread computes is it shorter. The setting is the interpreter's: all threads share this context.
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
    """A context in which the interpreter's switch interval is short; threads may be in it together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads = 0
        self._usual_s = sys.getswitchinterval()

    @property
    def is_entered(self) -> bool:
        """Whether a thread computes now."""
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


# What is computed in a thread beside the event loop, and may take long, is computed in this context.
SHORT_SWITCH_INTERVAL: Final = _ShortSwitchInterval()


async def compute_in_thread(work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Run work that is mostly Python in a thread, as `asyncio.to_thread` does."""

    def computed() -> _T:
        with SHORT_SWITCH_INTERVAL:
            return work(*args, **kwargs)

    return await asyncio.to_thread(computed)
