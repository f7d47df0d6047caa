"""Where reads pass, and where the writer holds them back."""

from __future__ import annotations

import threading
from typing import Final

# Longer than anyone shuts it; a read that has waited so long begins all the same.
BLOCK_S_MAX: Final = 5.0


class CheckpointLock:
    """Counts the reads under way, so that the writer can wait for a moment without any."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._under_way = 0
        self._is_blocked = False

    def begin_read(self) -> None:
        """A read begins, once the gate is open."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_blocked, BLOCK_S_MAX)
            self._under_way += 1

    def leave(self) -> None:
        """A read has ended."""
        with self._changed:
            self._under_way -= 1
            if not self._under_way:
                self._changed.notify_all()

    def block_reads(self, *, wait_s: float) -> bool:
        """Let no more reads begin; True once those under way are over, False if that takes longer."""
        with self._changed:
            self._is_blocked = True
            return self._changed.wait_for(lambda: not self._under_way, wait_s)

    def open(self) -> None:
        with self._changed:
            self._is_blocked = False
            self._changed.notify_all()
