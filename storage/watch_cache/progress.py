"""The revision that the cache has reached, and the reads that wait for a later one."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from typing import Final, TypeAlias

_HeapEntry: TypeAlias = tuple[int, int, asyncio.Future[None]]

# Waiters that are done may stay in a heap, besides as many as still wait: so cleaning up pays for itself.
DONE_KEPT_MAX: Final = 64


class Progress:
    """Holds the cache's revision and wakes the reads that wait for it."""

    def __init__(self) -> None:
        self.revision = 0
        # Reads whose revision the store has reached, and reads whose revision may never come.
        self._waiters = _Waiters()
        self._future_waiters = _Waiters()
        self._has_new_waiter = asyncio.Event()

    @property
    def has_waiters(self) -> bool:
        """Whether a read waits for a revision that the store has reached and the cache has not."""
        return self._waiters.has_any

    def restart(self, revision: int) -> None:
        """Sets the revision, which may be lower than before, as the store may have been restored."""
        self.revision = 0
        self.advance(revision)

    def advance(self, revision: int) -> None:
        """Note that everything up to `revision` is in the cache; a lower revision than before changes
        nothing.
        """
        if revision <= self.revision:
            return
        self.revision = revision
        if self._waiters.heap:
            self._waiters.wake(revision)
        if self._future_waiters.heap:
            self._future_waiters.wake(revision)

    async def wait_for(self, revision: int, timeout_s: float, *, exists: bool = True) -> bool:
        """Wait until the cache has reached `revision`; False if that takes longer than `timeout_s`.

        exists: whether the store has reached it, so that asking the store to report progress makes sense.
        """
        if self.revision >= revision:
            return True
        waiters = self._waiters if exists else self._future_waiters
        waiter = waiters.add(revision)
        self._has_new_waiter.set()
        try:
            async with asyncio.timeout(timeout_s):
                await waiter
        except TimeoutError:
            return False
        finally:
            waiters.remove(waiter)
        return True

    async def wait_for_waiters(self) -> None:
        """Wait until `has_waiters`."""
        while not self.has_waiters:
            self._has_new_waiter.clear()
            await self._has_new_waiter.wait()


class _Waiters:
    """A heap of futures by revision, in which cancelled ones remain for a while, as removing one is not
    cheap.
    """

    def __init__(self) -> None:
        self.heap: list[_HeapEntry] = []
        self._order = itertools.count()
        self._active = 0  # added and not removed: no fewer than those in the heap that still wait

    @property
    def has_any(self) -> bool:
        while self.heap and self.heap[0][2].done():
            heapq.heappop(self.heap)
        return bool(self.heap)

    def add(self, revision: int) -> asyncio.Future[None]:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self.heap, (revision, next(self._order), waiter))
        self._active += 1
        return waiter

    def remove(self, waiter: asyncio.Future[None]) -> None:
        """Remove a waiter that was added; to be called once for each, woken or not."""
        waiter.cancel()
        self._active -= 1
        # More than half of the heap is done, and each is cleaned up once: constant cost for each.
        if len(self.heap) > 2 * self._active + DONE_KEPT_MAX:
            self.heap = [each for each in self.heap if not each[2].done()]
            heapq.heapify(self.heap)

    def wake(self, revision: int) -> None:
        while self.heap and self.heap[0][0] <= revision:
            _, _, waiter = heapq.heappop(self.heap)
            if not waiter.done():
                waiter.set_result(None)
