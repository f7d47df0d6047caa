"""The clock of a server for tests, which can be advanced."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from apiserver.testing.errors import ClockNotAdvanced
from apiserver.testing.server_time import ServerTime

# Times in objects have four digits for the year, and what a server issues may last for long.
AHEAD_MAX: Final = timedelta(days=1_000 * 365)


class Clock:
    """A server's clock.

    A new server's clock starts at the computer's current time. A fork's clock starts at the original
    server's current time.
    """

    def __init__(self, time: ServerTime, put_forward: Callable[[float], None]) -> None:
        """put_forward: advances the clock by a number of seconds."""
        self._time, self._put_forward = time, put_forward

    def now(self) -> datetime:
        """Returns the server's current time in UTC."""
        return datetime.fromtimestamp(self._time.clock.time(), UTC)

    def advance(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        milliseconds: float = 0,
    ) -> datetime:
        """Advances the clock by the sum of the arguments. The method waits until every task that became due
        has started, and then returns the server's new time.

        The clock jumps directly to the new time. For example, if you advance the clock by an hour, a task
        that runs every minute runs only once, just as it does on a computer that wakes from sleep.
        Raises ClockNotAdvanced if the clock cannot be advanced by the given time, and ServerStopped if the
        server is not running.
        """
        parts = {"days": days, "hours": hours, "minutes": minutes}
        step_s = step_of(self._time.ahead_s, **parts, seconds=seconds, milliseconds=milliseconds)
        self._put_forward(step_s)
        return self.now()


def step_of(ahead_s: float, **parts: float) -> float:
    """Returns by how many seconds a clock is advanced. ahead_s: of the computer's, before. parts: as of a
    `timedelta`.

    Raises ClockNotAdvanced if it cannot be.
    """
    try:
        step = timedelta(**parts)
    except (OverflowError, ValueError):  # too large, or no number
        step = AHEAD_MAX + timedelta.resolution
    if step < timedelta():
        raise ClockNotAdvanced(f"a server's clock cannot be advanced by {step}")
    if timedelta(seconds=ahead_s) + step > AHEAD_MAX:
        raise ClockNotAdvanced(
            f"a server's clock can be at most {AHEAD_MAX.days // 365} years ahead of the computer's"
        )
    return step.total_seconds()
