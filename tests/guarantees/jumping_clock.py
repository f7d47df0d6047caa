"""`python -m tests.guarantees.jumping_clock FLAGS`: the server on a machine whose clock somebody sets.

SIGUSR1 sets it an hour forward, SIGUSR2 an hour back. It is the wall clock as Python's `time.time` tells
it; the monotonic clock goes on, as it does on a real machine.
"""

from __future__ import annotations

import signal
import sys
import time
from types import FrameType
from typing import Final

JUMP_S: Final = 3600.0

_real_time: Final = time.time
_offset_s = 0.0


def _time() -> float:
    return _real_time() + _offset_s


def _jump(number: int, frame: FrameType | None) -> None:
    global _offset_s
    _offset_s += JUMP_S if number == signal.SIGUSR1 else -JUMP_S


if __name__ == "__main__":
    # Before anything of the server is imported, so that all of it gets this clock.
    time.time = _time
    signal.signal(signal.SIGUSR1, _jump)
    signal.signal(signal.SIGUSR2, _jump)
    from apiserver.__main__ import main

    sys.exit(main())
