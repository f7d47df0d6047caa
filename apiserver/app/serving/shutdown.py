"""Why a server stops, and how long it takes."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable


class Shutdown:
    """A shutdown that has begun now. number: that of the signal. clock: seconds, monotonic."""

    def __init__(self, number: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._signal, self._clock, self._began = signal.Signals(number).name, clock, clock()

    def __str__(self) -> str:
        """The line for the log at its end."""
        return f"stopped {self._clock() - self._began:.1f} s after {self._signal}"
