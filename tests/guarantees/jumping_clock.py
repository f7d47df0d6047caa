"""`python -m tests.guarantees.jumping_clock FLAGS`: the server on a machine whose clock is set while it runs.

SIGUSR1 sets the clock an hour forward, SIGUSR2 an hour back. It is the wall clock as Python's `time.time`
returns it; the monotonic clock is not affected, as on a real machine.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Final

JUMP_S: Final = 3600.0


class JumpingClock:
    """A wall clock that signals set."""

    def __init__(self, real_time: Callable[[], float]) -> None:
        self._real_time = real_time
        self._offset_s = 0.0

    def time(self) -> float:
        return self._real_time() + self._offset_s

    def jump(self, number: int, frame: FrameType | None) -> None:
        """Handles a signal."""
        self._offset_s += JUMP_S if number == signal.SIGUSR1 else -JUMP_S


if __name__ == "__main__":
    # Before anything of the server is imported, so that all of it gets this clock. The process stands for a
    # machine: no parameter of the server could set the clock of every library.
    clock = JumpingClock(time.time)
    time.time = clock.time
    signal.signal(signal.SIGUSR1, clock.jump)
    signal.signal(signal.SIGUSR2, clock.jump)
    from apiserver.__main__ import main

    sys.exit(main())
