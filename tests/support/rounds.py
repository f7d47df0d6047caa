"""Rounds of the running event loop: they are counted, or awaited."""

from __future__ import annotations

import asyncio


class Rounds:
    """Counts from its making until it is closed. number: of the round under way."""

    def __init__(self) -> None:
        self.number = 0
        self._loop = asyncio.get_running_loop()
        self._count()

    def _count(self) -> None:
        self.number += 1
        self._next = self._loop.call_soon(self._count)

    def close(self) -> None:
        self._next.cancel()


async def some_rounds(count: int = 50) -> None:
    """Wait until all that only waits for its turn has had many: what has not happened then will not."""
    for _ in range(count):
        await asyncio.sleep(0)
