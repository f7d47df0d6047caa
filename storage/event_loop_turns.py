"""Splits long work on the event loop into pieces, with at most one piece in each round of the loop.

Code that iterates over many objects, or may take long otherwise, checks before each step whether its turn is
over, and waits for the next one then:

    turn = Turn()
    for each in objects:
        if turn.is_over():
            await turn.next()
        ...

or, equivalently, iterates by `async for each in in_turns(objects)`.

All such work together has `TURN_S` of a round, and leaves the next rounds to other tasks. If each piece
yielded by itself (by `asyncio.sleep(0)`), a hundred of them would make a round of a hundred pieces, and a
short request would wait for all of them. A request takes some rounds from its first byte to its response:
with a piece in each round, it would wait for that many pieces. The work with the fewest turns is next, so
that short work does not wait for all the long work. But now and then the work that has waited longest is
next, or long work would never end while there is always short work.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterable
from time import monotonic
from typing import Final, TypeVar

T = TypeVar("T")

# How long work that waits for turns may keep the loop, in each of its rounds, before others get theirs.
TURN_S: Final = 0.002
# How many rounds are then for others alone: a GET is read in one, begun in the next, and may wait in a third
# for its seat, or for the store. But they have no more than `TURN_S`, or requests that never cease would stop
# lists.
ROUNDS_BETWEEN: Final = 3
# What is done by then need not wait for a turn: a twentieth of one.
BRIEF_S: Final = 0.0001
# One of so many turns goes to the work that has waited longest.
OLDEST_EVERY: Final = 4


class _Rounds:
    """The rounds of one event loop, and the work that waits for a turn in one of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        # By how many turns they have had, each with the order in which they came.
        self._waiting: dict[int, deque[tuple[int, asyncio.Future[None]]]] = {}
        self._came = self._given = 0
        self.turn_ends_at = 0.0  # in this round; 0 if no turn has begun
        self._is_next_scheduled = False
        self._rounds_left = 0
        self._others_until = 0.0

    def begin_turn(self) -> None:
        # Not the loop's clock: uvloop's stands still until the round is over.
        self.turn_ends_at = monotonic() + TURN_S
        self._schedule_next()

    async def wait(self, turns_taken: int) -> None:
        turn = self.loop.create_future()
        self._came += 1
        self._waiting.setdefault(turns_taken, deque()).append((self._came, turn))
        self._schedule_next()
        await turn

    def _schedule_next(self) -> None:
        if not self._is_next_scheduled:
            self._is_next_scheduled = True
            self._rounds_left = ROUNDS_BETWEEN
            self.loop.call_soon(self._leave_to_others)

    def _leave_to_others(self) -> None:
        now = monotonic()
        if self._rounds_left == ROUNDS_BETWEEN:  # The turn has just ended.
            self._others_until = now + TURN_S
        if self._rounds_left and now < self._others_until:
            self._rounds_left -= 1
            self.loop.call_soon(self._leave_to_others)
        else:
            self._begin_next()

    def _begin_next(self) -> None:
        self.turn_ends_at = 0.0
        self._is_next_scheduled = False
        while self._waiting:
            turn = self._pop()
            if not turn.done():  # Its waiter may have been cancelled.
                turn.set_result(None)
                self._given += 1
                break
        if self._waiting:
            self._schedule_next()

    def _pop(self) -> asyncio.Future[None]:
        waiting = self._waiting
        if self._given % OLDEST_EVERY:
            turns_taken = min(waiting)
        else:
            turns_taken = min(waiting, key=lambda each: waiting[each][0][0])
        queue = waiting[turns_taken]
        _, turn = queue.popleft()
        if not queue:
            del waiting[turns_taken]
        return turn


class _OfThread(threading.local):
    """The loop rounds that ran last on a thread."""

    rounds: _Rounds | None = None


_latest: Final = _OfThread()


class Turn:
    """The turns of one piece of work on the running loop."""

    __slots__ = ("_rounds", "_taken")

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        rounds = _latest.rounds
        if rounds is None or rounds.loop is not loop:
            rounds = _latest.rounds = _Rounds(loop)
        self._rounds = rounds
        self._taken = 0

    def is_over(self) -> bool:
        """Whether the turn in this round of the loop, which the first call begins, is over."""
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


class LateTurn(Turn):
    """The turns of work that is nearly always brief, and waits for none until it has taken `BRIEF_S`.

    Waiting for a turn means waiting for all the long work that has had as few turns and came before.
    """

    __slots__ = ("_is_brief_until",)

    def __init__(self) -> None:
        super().__init__()
        self._is_brief_until = monotonic() + BRIEF_S

    def is_over(self) -> bool:
        return monotonic() > self._is_brief_until and super().is_over()


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """Yields items, each within a turn of the event loop."""
    turn = Turn()
    for each in items:
        if turn.is_over():
            await turn.next()
        yield each
