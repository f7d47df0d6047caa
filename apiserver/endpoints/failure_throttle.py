"""How fast requests whose credentials nobody accepts are answered.

To find a signed token bad takes as long as a read from the cache. A client that sends one after the other, on
many connections, would take most of the event loop's time from those who may be here; one whose token has
expired asks a few times, and gets its answers at once.
"""

from __future__ import annotations

import asyncio
from typing import Final

# Beyond a burst, the answers of a second: together they take some tenth of a processor.
FAILURES_PER_S: Final = 200
BURST: Final = 100
# No answer waits for longer: a connection costs more than the request.
DELAY_S_MAX: Final = 1.0


class FailureThrottle:
    """A token bucket, whose debt is waited for."""

    def __init__(self) -> None:
        self._next_at = 0.0

    def delay_s(self, now: float) -> float:
        """Count a failure at `now`, in seconds of a clock that never goes back; returns how long to wait."""
        earliest = now - BURST / FAILURES_PER_S
        self._next_at = min(max(self._next_at, earliest) + 1 / FAILURES_PER_S, now + DELAY_S_MAX)
        return max(0.0, self._next_at - now)

    async def wait(self) -> None:
        """Wait before a failure is answered."""
        delay_s = self.delay_s(asyncio.get_running_loop().time())
        if delay_s:
            await asyncio.sleep(delay_s)
