"""The memory limit of the process, and the memory pressure.

Work that takes much memory reads `MemoryBudget.pressure` before it begins, and is refused with 429 while
memory is short. So a server under load loses large requests, not its process.
"""

from __future__ import annotations

import enum
from collections import Counter
from typing import Final

from apiserver.meta.errors import TooManyRequests

# The parts of the limit from which on work is refused: the work that is under way by then must still fit.
HIGH: Final = 0.70
CRITICAL: Final = 0.85
# Refusals end so much below that, or they would begin and end with each request.
_HYSTERESIS: Final = 0.05
# Freed memory is given back within seconds.
RETRY_AFTER_S: Final = 5


class Pressure(enum.IntEnum):
    """How short memory is.

    NONE: all work is done. HIGH: large work is refused. CRITICAL: all but small work is refused.
    """

    NONE = 0
    HIGH = 1
    CRITICAL = 2


class MemoryBudget:
    """The memory of the process: `limit_bytes`, 0 for no limit. refused: how often work was refused, by its
    kind.
    """

    def __init__(self, limit_bytes: int = 0) -> None:
        self.limit_bytes = limit_bytes
        self.pressure = Pressure.NONE
        self.refused: Counter[str] = Counter()

    def observe(self, resident_bytes: int) -> bool:
        """Record the current memory of the process; returns whether the pressure has changed."""
        if not self.limit_bytes:
            return False
        before, share = self.pressure, resident_bytes / self.limit_bytes
        if share >= CRITICAL - (_HYSTERESIS if before is Pressure.CRITICAL else 0):
            self.pressure = Pressure.CRITICAL
        elif share >= HIGH - (_HYSTERESIS if before else 0):
            self.pressure = Pressure.HIGH
        else:
            self.pressure = Pressure.NONE
        return self.pressure is not before

    def refusal(self, kind: str) -> TooManyRequests:
        """Count a refusal, and return the error to raise."""
        self.refused[kind] += 1
        return TooManyRequests(
            "The server is short of memory, please try again later.", retry_after_s=RETRY_AFTER_S
        )
