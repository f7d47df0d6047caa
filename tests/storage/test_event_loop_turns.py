"""Long work on the event loop: a piece at a time, rounds for others between them, and short work first."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import statistics
from time import monotonic

from apiserver.storage.event_loop_turns import OLDEST_EVERY, TURN_S, LateTurn, Turn


def work_for_a_turn() -> None:
    ends_at = monotonic() + 1.5 * TURN_S
    while monotonic() < ends_at:
        pass


async def test_all_long_work_has_one_turn_in_each_round() -> None:
    done = 0
    in_rounds: list[int] = []

    async def count_rounds() -> None:
        nonlocal done
        while True:
            in_rounds.append(done)
            done = 0
            await asyncio.sleep(0)

    async def work() -> None:
        nonlocal done
        turn = Turn()
        for _ in range(3):
            if turn.is_over():
                await turn.next()
            work_for_a_turn()
            done += 1

    counting = asyncio.create_task(count_rounds())
    await asyncio.gather(*(work() for _ in range(20)))
    counting.cancel()
    assert sum(in_rounds) + done == 60
    assert max(in_rounds) == 1


async def test_between_two_turns_are_rounds_for_others() -> None:
    """A request that takes three rounds meets one piece of long work, not one in each."""
    in_rounds: list[int] = []

    async def count_rounds() -> None:
        while True:
            in_rounds.append(0)
            await asyncio.sleep(0)

    async def work() -> None:
        turn = Turn()
        for _ in range(3):
            await turn.next()
            in_rounds[-1] += 1
            work_for_a_turn()

    counting = asyncio.create_task(count_rounds())
    await asyncio.gather(*(work() for _ in range(10)))
    counting.cancel()
    worked = [number for number, pieces in enumerate(in_rounds) if pieces]
    assert len(worked) == 30
    # Not each: where the machine runs something else in between, time is up before the rounds are.
    assert statistics.median(after - before for before, after in itertools.pairwise(worked)) > 3


async def test_others_that_take_long_do_not_stop_long_work() -> None:
    """Once they have had as long as a turn, the next one comes."""
    rounds = 0

    async def keep_busy() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            work_for_a_turn()
            await asyncio.sleep(0)

    busy = asyncio.create_task(keep_busy())
    turn = Turn()
    for _ in range(10):
        await turn.next()
        work_for_a_turn()
    busy.cancel()
    # One in which the turn is over, one that takes as long, and one in which the next begins.
    assert rounds <= 3 * 10 + 2


async def test_who_has_had_the_fewest_turns_is_next() -> None:
    """So what is short does not wait for all that is long and came before it."""
    order: list[str] = []

    async def work(name: str, pieces: int) -> None:
        turn = Turn()
        for _ in range(pieces):
            await turn.next()
            order.append(name)

    long = [asyncio.create_task(work("long", 5)) for _ in range(10)]
    while len(order) < 20:
        await asyncio.sleep(0)
    begun = len(order)
    await work("short", 1)
    # Who waited for a turn already may have had it before.
    assert order.index("short") <= begun + 2
    await asyncio.gather(*long)
    assert order.count("long") == 50


async def test_long_work_ends_though_there_is_always_short_work() -> None:
    done = 0

    async def work(pieces: int) -> None:
        nonlocal done
        turn = Turn()
        for _ in range(pieces):
            await turn.next()
            done += 1

    long = asyncio.create_task(work(20))

    async def ask_again_and_again() -> None:
        while not long.done() and done < 10_000:
            await work(2)

    await asyncio.gather(long, *(ask_again_and_again() for _ in range(10)))
    # One of four turns goes to who has waited longest of the eleven.
    assert done <= 21 * OLDEST_EVERY * 11


async def test_who_is_cancelled_leaves_the_turn_to_others() -> None:
    async def wait() -> None:
        await Turn().next()

    waiting = [asyncio.create_task(wait()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await waiting[0]
    await asyncio.gather(*waiting[1:])


async def test_work_that_is_short_does_not_wait() -> None:
    await asyncio.sleep(0)  # A round in which nobody has had a turn.
    turn = Turn()
    assert not turn.is_over()


async def test_brief_work_waits_for_no_turn_and_long_work_that_is_usually_brief_does() -> None:
    turn = Turn()
    assert not turn.is_over()
    work_for_a_turn()
    assert turn.is_over()
    # More than one, as the machine may run something else just then.
    assert not all(LateTurn().is_over() for _ in range(100))
    late = LateTurn()
    work_for_a_turn()
    assert late.is_over()
    await late.next()
    assert not LateTurn().is_over()
