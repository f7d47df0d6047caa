"""Keeps reads out while the writer empties the write-ahead log."""

from __future__ import annotations

import threading
from typing import Final

# Longer than any checkpoint blocks reads; a read that has waited so long begins all the same.
BLOCK_S_MAX: Final = 5.0


class CheckpointLock:
    """Counts the reads under way, so that the writer can wait until there are none."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._reads = 0
        self._is_blocked = False

    def begin_read(self) -> None:
        """Wait until reads are allowed, and count this one."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_blocked, BLOCK_S_MAX)
            self._reads += 1

    def end_read(self) -> None:
        with self._changed:
            self._reads -= 1
            if not self._reads:
                self._changed.notify_all()

    def block_reads(self, *, wait_s: float) -> bool:
        """Let no more reads begin; True once those under way have ended, False if that takes longer."""
        with self._changed:
            self._is_blocked = True
            return self._changed.wait_for(lambda: not self._reads, wait_s)

    def allow_reads(self) -> None:
        with self._changed:
            self._is_blocked = False
            self._changed.notify_all()
