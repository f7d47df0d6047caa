"""Threads that nothing waits for: neither the event loop, nor the process when it ends.

Those of `concurrent.futures` are waited for, which a function that does not return would never end.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable


class DaemonThreads:
    """Runs functions in threads, each of which is used again. most: how many there can be."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._count = self._idle = 0

    def run(self, work: Callable[[], None]) -> bool:
        """Run a function, which must not raise an exception. Returns False if no thread is left."""
        with self._lock:
            if self._idle:
                self._idle -= 1
            elif self._count < self.most:
                try:
                    threading.Thread(target=self._run, name="hook", daemon=True).start()
                except RuntimeError:  # The system has no more threads.
                    return False
                self._count += 1
            else:
                return False
        self._work.put(work)
        return True

    def close(self) -> None:
        """End the threads that are idle, and the others when they are."""
        for _ in range(self._count):
            self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            with self._lock:
                self._idle += 1
