"""Notices calls that take long, with one timer for all of them.

`asyncio.timeout` takes 7 µs of processor time for a call, a quarter of that of a read.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Final

# A distant etcd responds within this time. See `CallTimeouts`.
TICK_S: Final = 0.1


class CallTimeouts:
    """Calls with the time that each may take, and a callback for those that take longer.

    A call is late at the second tick after its time. If the event loop continues after a long turn, requests
    are sent and responses are read between the two: the turn alone makes no call late.
    """

    def __init__(self) -> None:
        # When the time of each call is over, by the clock of the event loop, and what is done then.
        self._calls: dict[int, tuple[float, Callable[[], None]]] = {}
        self._last = 0
        self._ticked_at = -math.inf
        self._is_ticking = False

    def add(self, time_s: float, on_late: Callable[[], None]) -> int:
        """Add a call that begins now. Returns its number.

        on_late: called once if it takes longer than `time_s`, and up to two ticks more.
        """
        loop = asyncio.get_running_loop()
        self._last += 1
        self._calls[self._last] = (loop.time() + time_s, on_late)
        if not self._is_ticking:
            self._is_ticking = True
            loop.call_later(TICK_S, self._tick)
        return self._last

    def discard(self, number: int) -> None:
        """Remove a call, which may have been late."""
        self._calls.pop(number, None)

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        for number in [each for each, (ends_at, _) in self._calls.items() if ends_at <= self._ticked_at]:
            self._calls.pop(number)[1]()
        self._ticked_at = loop.time()
        self._is_ticking = bool(self._calls)
        if self._is_ticking:
            loop.call_later(TICK_S, self._tick)
