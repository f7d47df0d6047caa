"""Turns of the event loop are measured by three clocks, and long ones named in the log."""

from __future__ import annotations

import asyncio
import logging
import math
import re
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
import uvloop

from apiserver.metrics.event_loop import EventLoopMonitor
from tests.support.eventually import eventually
from tests.support.garbage import no_collections

LOOPS: Final = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
# Seconds. Long enough that the thread beside the loop looks at it, also on a busy machine.
LONG_S: Final = 0.4


def counts(monitor: EventLoopMonitor) -> dict[str, float]:
    """How many stalls over 150 ms each clock has seen."""
    (family,) = monitor.families()
    counted = {
        (clock, float(bound)): int(count)
        for clock, bound, count in re.findall(r'clock="(\w+)",le="([^"]+)"} (\d+)', "".join(family.series))
    }
    return {clock: counted[clock, math.inf] - counted[clock, 0.15] for clock, _ in counted}


def work(seconds: float, clock: Callable[[], float] = time.thread_time) -> None:
    """Compute without a pause."""
    ends_at = clock() + seconds
    while clock() < ends_at:
        pass


@asynccontextmanager
async def monitored(
    operation_of: Callable[[asyncio.Task[Any]], str] = lambda _: "",
) -> AsyncIterator[EventLoopMonitor]:
    monitor = EventLoopMonitor(asyncio.get_running_loop(), operation_of)
    monitor.start()
    try:
        with no_collections():
            yield monitor
    finally:
        monitor.close()


async def _stall_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def compute() -> None:
        work(LONG_S)

    async with monitored() as monitor:
        await asyncio.create_task(compute(), name="the culprit")
        await eventually(lambda: counts(monitor)["wall"])
        # Of elapsed time a busy machine may have taken more.
        assert counts(monitor)["process_cpu"] == counts(monitor)["thread_cpu"] == 1
    assert any("was blocked" in line and "the culprit" in line for line in caplog.messages)


@pytest.mark.parametrize("new_loop", LOOPS.values(), ids=LOOPS)
def test_a_long_turn_is_counted_and_its_task_named(
    new_loop: Callable[[], asyncio.AbstractEventLoop], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_stall_is_named(caplog))


async def test_stalls_of_the_start_are_counted_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    monitor = EventLoopMonitor(asyncio.get_running_loop(), is_logging=False)
    monitor.start()
    try:
        with no_collections():
            await asyncio.sleep(0)
            work(LONG_S)
            await eventually(lambda: counts(monitor)["wall"] == 1)
            assert caplog.messages == []
            monitor.begin_logging()
            work(LONG_S)
            await eventually(lambda: counts(monitor)["wall"] == 2)
    finally:
        monitor.close()
    assert "was blocked" in caplog.text


async def test_many_short_turns_are_no_stall() -> None:
    async with monitored() as monitor:
        for _ in range(100):
            work(0.001)
            await asyncio.sleep(0)
        await eventually(lambda: monitor.is_resting)
        assert counts(monitor)["thread_cpu"] == 0


async def test_a_wait_is_not_work() -> None:
    """The loop's thread is held up, and uses no processor: as on a machine that has none for it."""
    async with monitored() as monitor:
        time.sleep(LONG_S)
        await eventually(lambda: counts(monitor)["wall"])
        assert counts(monitor)["thread_cpu"] == 0


async def test_a_resting_loop_measures_the_turn_that_wakes_it() -> None:
    async with monitored() as monitor:
        await eventually(lambda: monitor.is_resting)
        monitor.wake()
        assert not monitor.is_resting
        work(LONG_S)
        await eventually(lambda: counts(monitor)["thread_cpu"] == 1)


async def test_the_operation_is_that_of_the_task(caplog: pytest.LogCaptureFixture) -> None:
    async with monitored(lambda task: f"asked for {task.get_name()}") as monitor:
        await asyncio.sleep(0)
        asyncio.current_task().set_name("a call")  # type: ignore[union-attr]
        work(LONG_S)
        await eventually(lambda: counts(monitor)["wall"])
    assert "asked for a call in " in caplog.text


class Held:
    """What a function that is looked at has in a variable."""


async def test_what_a_stack_holds_is_free_when_it_returns() -> None:
    """And not only when the garbage collector comes."""
    seen: list[str] = []

    def operation_of(task: asyncio.Task[Any]) -> str:
        seen.append(task.get_name())
        return ""

    def compute() -> weakref.ref[Held]:
        held = Held()
        work(LONG_S)
        return weakref.ref(held)

    async with monitored(operation_of):
        await asyncio.sleep(0)
        held = compute()
        await eventually(lambda: seen)
        await eventually(lambda: held() is None)


def test_nothing_is_left_when_it_ends() -> None:
    async def run() -> None:
        async with monitored():
            await asyncio.sleep(0)

    before = set(threading.enumerate())  # Those of other tests may end meanwhile.
    asyncio.run(run())
    assert set(threading.enumerate()) <= before


class Calls:
    """Calls of which one is under way."""

    def __init__(self) -> None:
        self.under_way: object | None = object()
        self.ended = threading.Event()

    def end(self) -> None:
        self.ended.set()


def endless(calls: Calls) -> None:
    """One call, for as long as it is not ended."""
    while not calls.ended.is_set():
        pass


def resting(_: Calls) -> None:
    time.sleep(LONG_S)


def many_short(calls: Calls) -> None:
    ends_at = time.thread_time() + LONG_S
    while time.thread_time() < ends_at:
        calls.under_way = object()


CALLS: Final = {
    "works": (endless, True),
    "only waits": (resting, False),
    "is followed by others": (many_short, False),
}


@pytest.mark.parametrize(("call", "is_ended"), CALLS.values(), ids=CALLS)
async def test_a_call_that_may_not_take_long_is_ended_if_it(
    call: Callable[[Calls], None], is_ended: bool
) -> None:
    calls = Calls()
    monitor = EventLoopMonitor(asyncio.get_running_loop(), bounded_calls=calls)
    monitor.start()
    try:
        await asyncio.sleep(0)
        call(calls)
        assert calls.ended.is_set() is is_ended
    finally:
        monitor.close()
