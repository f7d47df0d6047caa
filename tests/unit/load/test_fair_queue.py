"""Items have turns: by their holders, or for some time in each round of the event loop."""

from __future__ import annotations

import asyncio
from time import monotonic

from apiserver.load.fair_queue import FairQueue, TurnQueue


def fair_queue(*items: str) -> FairQueue[str]:
    """Returns the queue of items whose holder is their first letter; those in capitals are urgent."""
    queue: FairQueue[str] = FairQueue()
    for item in items:
        queue.append(item[0].lower(), item, is_urgent=item.isupper())
    return queue


def taken(queue: FairQueue[str]) -> list[str]:
    items = []
    while queue:
        items.append(queue.popleft())
    return items


def test_holders_take_turns() -> None:
    assert taken(fair_queue("a1", "a2", "a3", "b1", "c1", "c2")) == ["a1", "b1", "c1", "a2", "c2", "a3"]


def test_what_is_urgent_goes_before_other_items_of_its_holder_only() -> None:
    assert taken(fair_queue("a1", "b1", "A2", "A3")) == ["A2", "b1", "A3", "a1"]


def test_who_comes_back_is_behind_those_who_wait() -> None:
    queue = fair_queue("a1", "b1")
    assert queue.popleft() == "a1"
    queue.append("a", "a2")
    assert taken(queue) == ["b1", "a2"]


def test_removed_items_have_no_turn() -> None:
    queue = fair_queue("a1", "A2", "b1")
    assert [queue.count(holder) for holder in "abc"] == [2, 1, 0]
    for item in ("a1", "A2"):
        assert queue.discard("a", item)
        assert not queue.discard("a", item)
    assert queue.count("a") == 0
    assert taken(queue) == ["b1"]


async def rounds_of(items: int, *, turn_s: float, work_s: float) -> list[int]:
    """Returns in which round of the event loop each item was worked on; the one numbered 1 fails."""
    rounds: list[int] = []
    failed: list[int] = []
    number = 0

    def work(item: int) -> None:
        rounds.append(number)
        ends = monotonic() + work_s
        while monotonic() < ends:
            pass
        if item == 1:
            raise ValueError(item)

    queue = TurnQueue(turn_s, work, failed.append)
    for item in range(items):
        queue.append(item)
    assert rounds == []
    while len(rounds) < items:
        await asyncio.sleep(0)
        number += 1
    assert failed == [1]
    return rounds


async def test_items_are_worked_on_together_while_their_turn_lasts() -> None:
    assert await rounds_of(4, turn_s=60.0, work_s=0.0) == [0, 0, 0, 0]


async def test_other_work_of_the_loop_is_done_between_turns() -> None:
    rounds = await rounds_of(4, turn_s=0.001, work_s=0.001)
    assert rounds == sorted(set(rounds))


async def test_an_error_in_the_handler_of_failures_stops_nobody_else() -> None:
    """The event loop is told of it."""
    told: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
    done: list[int] = []

    def work(item: int) -> None:
        if item == 0:
            raise ValueError
        done.append(item)

    def fail(item: int) -> None:
        raise LookupError(item)

    queue = TurnQueue(60.0, work, fail)
    for item in range(3):
        queue.append(item)
    for _ in range(3):
        await asyncio.sleep(0)
    assert done == [1, 2]
    assert [type(error) for error in told] == [LookupError]
