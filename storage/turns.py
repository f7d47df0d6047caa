"""Long work on the event loop, a piece at a time, and one piece in each round of the loop.

Who walks over many objects, or does something else that may take long, asks before each step whether its turn
is over, and waits for the next one then:

    turn = Turn()
    for each in objects:
        if turn.is_over():
            await turn.next()
        ...

or, which is the same, goes through them by `async for each in in_turns(objects)`.

All such work together has `TURN_S` of each round. If each piece of it let others go on by itself (by
`asyncio.sleep(0)`), a hundred of them would make a round of a hundred pieces, and who asks for little would
wait for all of them. Next is who has had the fewest turns: short work does not wait for all the long.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator, Iterable
from time import monotonic
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

# How long work that waits for turns may keep the loop, in each of its rounds, before others get theirs.
TURN_S: Final = 0.002


class _Rounds:
    """The rounds of one event loop, and who waits for a turn in one of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []  # a heap
        self._order = itertools.count()
        self.turn_ends_at = 0.0  # in this round; 0 if no turn has begun
        self._is_next_scheduled = False

    def begin_turn(self) -> None:
        # Not the loop's clock: uvloop's stands still until the round is over.
        self.turn_ends_at = monotonic() + TURN_S
        self._schedule_next()

    async def wait(self, turns_taken: int) -> None:
        turn = self._loop.create_future()
        heapq.heappush(self._waiting, (turns_taken, next(self._order), turn))
        self._schedule_next()
        await turn

    def _schedule_next(self) -> None:
        if not self._is_next_scheduled:
            self._is_next_scheduled = True
            self._loop.call_soon(self._begin_next)

    def _begin_next(self) -> None:
        self.turn_ends_at = 0.0
        self._is_next_scheduled = False
        while self._waiting:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():  # Its waiter may have been cancelled.
                turn.set_result(None)
                break
        if self._waiting:
            self._schedule_next()


_ROUNDS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Rounds]] = WeakKeyDictionary()


class Turn:
    """The turns of one piece of work on the running loop."""

    __slots__ = ("_rounds", "_taken")

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        rounds = _ROUNDS.get(loop)
        if rounds is None:
            rounds = _ROUNDS[loop] = _Rounds(loop)
        self._rounds = rounds
        self._taken = 0

    def is_over(self) -> bool:
        """Whether the turn of this round of the loop, which the first call begins, is over."""
        rounds = self._rounds
        if not rounds.turn_ends_at:
            rounds.begin_turn()
            return False
        return monotonic() > rounds.turn_ends_at

    async def next(self) -> None:
        """Wait until the turn comes, in a later round."""
        await self._rounds.wait(self._taken)
        self._taken += 1
        if not self._rounds.turn_ends_at:
            self._rounds.begin_turn()


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """Yields items, each within a turn."""
    turn = Turn()
    for each in items:
        if turn.is_over():
            await turn.next()
        yield each
