"""The revision the cache has reached, and those who wait for it to get further."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from typing import TypeAlias

_Waiting: TypeAlias = tuple[int, int, asyncio.Future[None]]


class Progress:
    """Counts the cache's revision up and wakes who waited for it."""

    def __init__(self) -> None:
        self.revision = 0
        # Heaps by revision: those whose revision exists, and those whose revision may come one day.
        self._waiting: list[_Waiting] = []
        self._hoping: list[_Waiting] = []
        self._order = itertools.count()
        self._wanted = asyncio.Event()

    @property
    def is_wanted(self) -> bool:
        """Whether anybody waits for a revision that exists and is not reached."""
        while self._waiting and self._waiting[0][2].done():  # gave up, or was cancelled
            heapq.heappop(self._waiting)
        return bool(self._waiting)

    def restart(self, revision: int) -> None:
        """The cache begins again at `revision`, which may be lower: the store may have been restored."""
        self.revision = 0
        self.advance(revision)

    def advance(self, revision: int) -> None:
        """Everything up to `revision` is in the cache. A lower one than before changes nothing."""
        if revision <= self.revision:
            return
        self.revision = revision
        for heap in (self._waiting, self._hoping):
            while heap and heap[0][0] <= revision:
                _, _, waiter = heapq.heappop(heap)
                if not waiter.done():
                    waiter.set_result(None)

    async def wait_for(self, revision: int, timeout_s: float, *, exists: bool = True) -> bool:
        """Return once the cache has reached `revision`: True, or False if that takes too long.

        exists: the store has reached it, so that asking the store to report progress makes sense.
        """
        if self.revision >= revision:
            return True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting if exists else self._hoping, (revision, next(self._order), waiter))
        self._wanted.set()
        try:
            async with asyncio.timeout(timeout_s):
                await waiter
        except TimeoutError:
            return False
        return True

    async def until_wanted(self) -> None:
        """Return when somebody waits for a revision that is not reached."""
        while not self.is_wanted:
            self._wanted.clear()
            await self._wanted.wait()
