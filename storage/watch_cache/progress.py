"""The revision the cache has reached, and those who wait for it to get further."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from typing import Final, TypeAlias

_Waiting: TypeAlias = tuple[int, int, asyncio.Future[None]]

# So many who gave up may stay in a heap, besides as many as still wait: clearing it out pays for itself.
DONE_KEPT_MAX: Final = 64


class Progress:
    """Counts the cache's revision up and wakes who waited for it."""

    def __init__(self) -> None:
        self.revision = 0
        # Those whose revision exists, and those whose revision may come one day.
        self._waiting = _Waiters()
        self._future_waiters = _Waiters()
        self._wanted = asyncio.Event()

    @property
    def is_wanted(self) -> bool:
        """Whether anybody waits for a revision that exists and is not reached."""
        return self._waiting.has_any

    def restart(self, revision: int) -> None:
        """The cache begins again at `revision`, which may be lower: the store may have been restored."""
        self.revision = 0
        self.advance(revision)

    def advance(self, revision: int) -> None:
        """Everything up to `revision` is in the cache. A lower one than before changes nothing."""
        if revision <= self.revision:
            return
        self.revision = revision
        self._waiting.wake(revision)
        self._future_waiters.wake(revision)

    async def wait_for(self, revision: int, timeout_s: float, *, exists: bool = True) -> bool:
        """Return once the cache has reached `revision`: True, or False if that takes too long.

        exists: the store has reached it, so that asking the store to report progress makes sense.
        """
        if self.revision >= revision:
            return True
        waiters = self._waiting if exists else self._future_waiters
        waiter = waiters.add(revision)
        self._wanted.set()
        try:
            async with asyncio.timeout(timeout_s):
                await waiter
        except TimeoutError:
            return False
        finally:
            waiters.leave(waiter)
        return True

    async def wait_for_waiters(self) -> None:
        """Return when somebody waits for a revision that is not reached."""
        while not self.is_wanted:
            self._wanted.clear()
            await self._wanted.wait()


class _Waiters:
    """A heap by revision. Whoever gave up stays in it for a while: taking out one by one is not cheap."""

    def __init__(self) -> None:
        self._heap: list[_Waiting] = []
        self._order = itertools.count()
        self._active = 0  # that have not left: no fewer than those in the heap who still wait

    @property
    def has_any(self) -> bool:
        while self._heap and self._heap[0][2].done():
            heapq.heappop(self._heap)
        return bool(self._heap)

    def add(self, revision: int) -> asyncio.Future[None]:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._heap, (revision, next(self._order), waiter))
        self._active += 1
        return waiter

    def leave(self, waiter: asyncio.Future[None]) -> None:
        """To be called once for each that was added, woken or not."""
        waiter.cancel()
        self._active -= 1
        # More than half of the heap are gone, and each is cleared out once: constant cost for each.
        if len(self._heap) > 2 * self._active + DONE_KEPT_MAX:
            self._heap = [each for each in self._heap if not each[2].done()]
            heapq.heapify(self._heap)

    def wake(self, revision: int) -> None:
        while self._heap and self._heap[0][0] <= revision:
            _, _, waiter = heapq.heappop(self._heap)
            if not waiter.done():
                waiter.set_result(None)
