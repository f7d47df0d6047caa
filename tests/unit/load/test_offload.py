"""Where work runs: on the event loop or in a thread beside it, by its size and by what it finds out."""

from __future__ import annotations

import asyncio
import threading

import pytest

from apiserver.load.offload import (
    WAITING_MAX,
    WAITING_OF_USER_MAX,
    DedicatedLane,
    Lane,
    Offload,
    on_event_loop,
    run_unqueued,
)
from apiserver.load.size_class import HUGE_BYTES, LARGE_BYTES, SizeClass, TakesLong, size_class
from apiserver.meta.errors import TooManyRequests
from apiserver.registry.stored_object import StoredObject
from apiserver.storage.interface import Stored
from tests.support.offloaded import done_by, occupied

SIZE_NAMES = ("small", "large", "huge")
SIZES = {
    "nothing": (0, SizeClass.SMALL),
    "the largest small one": (LARGE_BYTES, SizeClass.SMALL),
    "the smallest large one": (LARGE_BYTES + 1, SizeClass.LARGE),
    "the largest large one": (HUGE_BYTES, SizeClass.LARGE),
    "the smallest huge one": (HUGE_BYTES + 1, SizeClass.HUGE),
}


@pytest.mark.parametrize(("size_bytes", "expected"), SIZES.values(), ids=SIZES)
def test_size_classes(size_bytes: int, expected: SizeClass) -> None:
    assert size_class(size_bytes) is expected


@pytest.mark.parametrize(
    ("size", "is_on_loop"),
    [(SizeClass.SMALL, True), (SizeClass.LARGE, False), (SizeClass.HUGE, False)],
    ids=SIZE_NAMES,
)
async def test_large_work_runs_in_a_thread(offload: Offload, size: SizeClass, is_on_loop: bool) -> None:
    ran_in = await offload.run(size, threading.current_thread)
    assert (ran_in is threading.current_thread()) is is_on_loop


@pytest.mark.parametrize(
    ("size_bytes", "is_on_loop"), [(0, True), (LARGE_BYTES, False), (HUGE_BYTES, False)], ids=SIZE_NAMES
)
async def test_large_objects_are_decoded_and_read_in_a_thread(
    offload: Offload, size_bytes: int, is_on_loop: bool
) -> None:
    value = b'{"apiVersion":"v1","kind":"A","metadata":{"name":"%b"}}' % (b"a" * size_bytes)
    found = StoredObject.of(Stored("/a", value, 7, 7))
    expected = found.document()
    assert await offload.document(found) == expected
    read, ran_in = await offload.read(found, lambda document: (document, threading.current_thread()))
    assert read == expected
    assert (ran_in is threading.current_thread()) is is_on_loop
    assert done_by(offload) == (0 if is_on_loop else 2)


@pytest.mark.parametrize("size", SizeClass, ids=SIZE_NAMES)
async def test_what_must_not_be_queued_waits_for_no_lane(offload: Offload, size: SizeClass) -> None:
    async with occupied(offload, SizeClass.LARGE), occupied(offload, SizeClass.HUGE):
        ran_in = await run_unqueued(size, threading.current_thread)
    assert (ran_in is threading.current_thread()) is (size is SizeClass.SMALL)


@pytest.mark.parametrize("size", SizeClass)
async def test_what_work_raises_reaches_the_caller(offload: Offload, size: SizeClass) -> None:
    with pytest.raises(ZeroDivisionError):
        await offload.run(size, divmod, 1, 0)


async def test_small_work_is_bounded_on_the_loop(offload: Offload) -> None:
    runs: list[tuple[bool, bool]] = []

    def work(is_bounded: bool) -> str:
        runs.append((is_bounded, threading.current_thread() is threading.main_thread()))
        return "done"

    assert await offload.run_bounded(SizeClass.SMALL, work) == "done"
    assert runs == [(True, True)]


async def test_bounded_work_that_takes_long_is_done_again_in_a_thread(offload: Offload) -> None:
    runs: list[tuple[bool, bool]] = []

    def work(is_bounded: bool) -> str:
        runs.append((is_bounded, threading.current_thread() is threading.main_thread()))
        if is_bounded:
            raise TakesLong
        return "done"

    assert await offload.run_bounded(SizeClass.SMALL, work) == "done"
    assert runs == [(True, True), (False, False)]


async def test_large_work_is_never_bounded(offload: Offload) -> None:
    assert await offload.run_bounded(SizeClass.LARGE, lambda is_bounded: is_bounded) is False


# ---- who waits for whom


async def test_large_work_does_not_wait_for_huge_work(offload: Offload) -> None:
    async with occupied(offload, SizeClass.HUGE):
        assert await offload.run(SizeClass.LARGE, lambda: "done") == "done"


async def test_users_take_turns(offload: Offload) -> None:
    done: list[str] = []
    async with occupied(offload, SizeClass.HUGE) as release:
        busy, idle = offload.for_user("busy"), offload.for_user("idle")
        waiting = [
            asyncio.ensure_future(busy.run(SizeClass.HUGE, done.append, f"busy {n}")) for n in range(4)
        ]
        await asyncio.sleep(0)
        waiting += [
            asyncio.ensure_future(idle.run(SizeClass.HUGE, done.append, f"idle {n}")) for n in range(2)
        ]
        await asyncio.sleep(0)
        release.set()
        await asyncio.gather(*waiting)
    assert done == ["busy 0", "idle 0", "busy 1", "idle 1", "busy 2", "busy 3"]


async def test_what_has_begun_goes_before_other_calls_of_its_user(offload: Offload) -> None:
    done: list[str] = []
    async with occupied(offload, SizeClass.HUGE) as release:
        one, two = offload.for_user("one"), offload.for_user("two")
        waiting = []
        for run, what in (
            (one.run, "a new call of one"),
            (two.run, "a new call of two"),
            (one.run_begun, "what one has begun"),
            (one.run_begun, "what one has begun next"),
        ):
            waiting.append(asyncio.ensure_future(run(SizeClass.HUGE, done.append, what)))
            await asyncio.sleep(0)
        release.set()
        await asyncio.gather(*waiting)
    assert done == ["what one has begun", "a new call of two", "what one has begun next", "a new call of one"]


async def test_calls_of_one_user_end_one_after_the_other(offload: Offload) -> None:
    """Of calls of several pieces of work, most wait before their first piece, when they take no memory."""
    busy, under_way, most = offload.for_user("busy"), 0, 0

    async def call() -> None:
        nonlocal under_way, most
        await busy.run(SizeClass.HUGE, int)
        under_way += 1
        most = max(most, under_way)
        for _ in range(4):
            await busy.run_begun(SizeClass.HUGE, int)
        under_way -= 1

    await asyncio.gather(*(call() for _ in range(50)))
    assert most <= 3


async def test_how_much_may_wait_for_one_user(offload: Offload) -> None:
    most = WAITING_OF_USER_MAX[SizeClass.HUGE]
    lane = offload.lanes[SizeClass.HUGE]
    busy, other = offload.for_user("busy"), offload.for_user("other")
    async with occupied(offload, SizeClass.HUGE) as release:
        waiting = [asyncio.ensure_future(busy.run(SizeClass.HUGE, int)) for _ in range(most)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyRequests):
            await busy.run(SizeClass.HUGE, int)
        assert (lane.waiting, lane.refused_total) == (most, 1)
        # Others are not refused for that, and neither is what has begun before.
        waiting.append(asyncio.ensure_future(other.run(SizeClass.HUGE, int)))
        waiting.append(asyncio.ensure_future(busy.run_begun(SizeClass.HUGE, int)))
        waiting.append(asyncio.ensure_future(busy.run_bounded(SizeClass.HUGE, lambda _: 0)))
        await asyncio.sleep(0)
        release.set()
        assert await asyncio.gather(*waiting) == [0] * (most + 3)
    assert lane.waiting == 0


async def test_how_much_may_wait_in_all(offload: Offload) -> None:
    most, each = WAITING_MAX[SizeClass.HUGE], WAITING_OF_USER_MAX[SizeClass.HUGE]
    async with occupied(offload, SizeClass.HUGE) as release:
        waiting = [
            asyncio.ensure_future(offload.for_user(f"user {n // each}").run(SizeClass.HUGE, int))
            for n in range(most)
        ]
        await asyncio.sleep(0)
        with pytest.raises(TooManyRequests):
            await offload.for_user("one more").run(SizeClass.HUGE, int)
        # The server's own work is never refused.
        waiting.append(asyncio.ensure_future(offload.run(SizeClass.HUGE, int)))
        await asyncio.sleep(0)
        release.set()
        await asyncio.gather(*waiting)


async def test_what_is_cancelled_while_it_waits_is_not_done(offload: Offload) -> None:
    done: list[str] = []
    async with occupied(offload, SizeClass.HUGE) as release:
        first = asyncio.ensure_future(offload.run(SizeClass.HUGE, done.append, "first"))
        second = asyncio.ensure_future(offload.run(SizeClass.HUGE, done.append, "second"))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        assert offload.lanes[SizeClass.HUGE].waiting == 1
        release.set()
        await second
    assert done == ["second"]


async def test_who_is_cancelled_when_the_turn_comes_passes_it_on(offload: Offload) -> None:
    done: list[str] = []
    async with occupied(offload, SizeClass.HUGE) as release:
        first = asyncio.ensure_future(offload.run(SizeClass.HUGE, done.append, "first"))
        second = asyncio.ensure_future(offload.run(SizeClass.HUGE, done.append, "second"))
        lane = offload.lanes[SizeClass.HUGE]
        await asyncio.sleep(0)
        release.set()
        while lane.waiting == 2:
            await asyncio.sleep(0)
        first.cancel()
        await second
    assert done[-1] == "second"


async def test_a_lane_is_busy_until_its_work_ends_although_nobody_waits_for_it(offload: Offload) -> None:
    release, began = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def work() -> None:
        loop.call_soon_threadsafe(began.set)
        release.wait()

    abandoned = asyncio.ensure_future(offload.run(SizeClass.HUGE, work))
    await began.wait()
    abandoned.cancel()
    next_one = asyncio.ensure_future(offload.run(SizeClass.HUGE, int))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert offload.lanes[SizeClass.HUGE].waiting == 1
    release.set()
    assert await next_one == 0


async def test_a_thread_has_work_done_on_the_event_loop(offload: Offload) -> None:
    """What belongs to the loop changes while a thread looks at it."""
    where = on_event_loop(threading.get_ident)
    own = threading.get_ident()
    for size in SizeClass:
        assert await offload.run(size, where) == own


async def test_what_fails_on_the_event_loop_fails_in_the_thread(offload: Offload) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        await offload.run(SizeClass.LARGE, on_event_loop(int), "x")


async def test_a_lane_goes_on_if_a_caller_goes_in_the_round_in_which_its_turn_comes() -> None:
    lane = Lane("test", waiting_max=9, waiting_of_user_max=9)
    ends, began = threading.Event(), threading.Event()

    def hold() -> None:
        began.set()
        ends.wait()

    holding = asyncio.create_task(lane.run("a", hold, may_refuse=True))
    gone = asyncio.create_task(lane.run("b", lambda: 1, may_refuse=True))
    others = [asyncio.create_task(lane.run("c", lambda: 2, may_refuse=True)) for _ in range(2)]
    await asyncio.to_thread(began.wait)
    await asyncio.sleep(0)
    ends.set()
    lane._thread.submit(int).result()  # The first piece of work has ended, and the loop does not know yet.
    gone.cancel()
    assert await asyncio.wait_for(asyncio.gather(holding, *others), 10) == [None, 2, 2]
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert lane.waiting == 0
    lane.close()


def _takes_long(is_bounded: bool) -> str:
    if is_bounded:
        raise TakesLong
    return threading.current_thread().name


async def test_no_other_work_waits_for_an_evaluation_and_it_for_none(offload: Offload) -> None:
    async with occupied(offload, SizeClass.LARGE), occupied(offload, SizeClass.HUGE):
        for size in SizeClass:
            assert "evaluations" in await offload.run_evaluation(size, _takes_long)
    began, release = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def work(_: bool) -> None:
        loop.call_soon_threadsafe(began.set)
        release.wait()

    question = asyncio.ensure_future(offload.run_evaluation(SizeClass.HUGE, work))
    await began.wait()
    assert await offload.run(SizeClass.HUGE, lambda: "done") == "done"
    assert await offload.run_evaluation(SizeClass.SMALL, lambda is_bounded: is_bounded) is True
    release.set()
    await question


async def test_evaluations_of_a_user_are_refused_when_too_many_wait() -> None:
    lane = Lane("test", waiting_max=9, waiting_of_user_max=2)
    offload = Offload("user", {DedicatedLane.EVALUATIONS: lane})
    release = threading.Event()
    asked = [
        asyncio.ensure_future(offload.run_evaluation(SizeClass.HUGE, lambda _: release.wait()))
        for _ in range(3)
    ]
    while lane.waiting < 2:
        await asyncio.sleep(0)
    attempts: list[bool] = []
    for size in SizeClass:
        with pytest.raises(TooManyRequests):
            await offload.run_evaluation(size, attempts.append)
    assert attempts == [], "not even as much as the event loop allows is done for them"
    other = asyncio.ensure_future(offload.for_user("other").run_evaluation(SizeClass.HUGE, _takes_long))
    release.set()
    assert all(await asyncio.gather(*asked, other))
    lane.close()


async def test_a_lane_rests_after_its_work() -> None:
    lane = Lane("test", waiting_max=9, waiting_of_user_max=9, rest=1e12)
    await lane.run("user", lambda: None, may_refuse=True)
    while not lane.done_total:
        await asyncio.sleep(0)
    next_one = asyncio.ensure_future(lane.run("user", lambda: None, may_refuse=True))
    for _ in range(100):
        await asyncio.sleep(0)
    assert lane.waiting == 1
    next_one.cancel()
    lane.close()


async def test_a_lane_goes_on_after_its_rest() -> None:
    lane = Lane("test", waiting_max=9, waiting_of_user_max=9, rest=1.0)
    for _ in range(3):
        await lane.run("user", lambda: None, may_refuse=True)
    lane.close()
