"""Keeps reads out while the writer empties the write-ahead log or, in memory, commits."""

from __future__ import annotations

import threading
from typing import Final

# Longer than any checkpoint blocks reads; a read that has waited so long begins all the same.
BLOCK_S_MAX: Final = 5.0


class CheckpointLock:
    """Counts the reads under way, so that the writer can wait until there are none.

    The two take turns: reads that have waited for the writer once begin before it has the lock again.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._reads = 0
        self._waiting = 0
        self._turn = 0  # counts how often reads were allowed again
        self._is_blocked = False

    @property
    def waiting(self) -> int:
        """The number of reads that wait for the writer."""
        return self._waiting

    def begin_read(self) -> None:
        """Wait until reads are allowed, and count this one."""
        with self._changed:
            if self._is_blocked:
                self._waiting += 1
                turn = self._turn
                if self._changed.wait_for(lambda: self._turn != turn, BLOCK_S_MAX):
                    return  # It was counted when it was allowed.
                self._waiting -= 1
            self._reads += 1

    def end_read(self) -> None:
        with self._changed:
            self._reads -= 1
            if not self._reads:
                self._changed.notify_all()

    def block_reads(self, *, wait_s: float) -> bool:
        """Let no more reads begin; returns True once those under way have ended, False if that takes too
        long.
        """
        with self._changed:
            self._is_blocked = True
            return self._changed.wait_for(lambda: not self._reads, wait_s)

    def allow_reads(self) -> None:
        with self._changed:
            self._is_blocked = False
            self._turn += 1
            self._reads += self._waiting
            self._waiting = 0
            self._changed.notify_all()
