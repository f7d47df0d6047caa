"""A controller that fails is started again, and neither ends the others nor the server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.controllers.controller_manager import RESTART, ControllerManager, ControllerSpec
from apiserver.metrics.work_queues import WorkQueueMetrics
from tests.support.eventually import eventually

# The delays do not begin anew while a run of a test takes less than the longest.
SOON: Final = Backoff(base_s=0.01, max_s=60.0)
RESTARTS: Final = "apiserver_controller_restarts_total"


class Runs:
    """A controller whose run does what a test says. number: that of its current run, from 1 on."""

    def __init__(self, act: Callable[[int], Awaitable[None]]) -> None:
        self._act, self.number = act, 0
        self.queue: WorkQueue[str] = WorkQueue("runs", SOON)

    def build(self) -> Runs:
        self.number += 1
        return self

    async def run(self) -> None:
        await self._act(self.number)


async def forever(_: int) -> None:
    await asyncio.Event().wait()


def shown(metrics: WorkQueueMetrics, name: str) -> list[str]:
    return [line for each in metrics.families() if each.name == name for line in each.series]


async def failing(number: int) -> None:
    if number < 4:
        raise ValueError(f"run {number}")
    await forever(number)


async def failing_in_a_task(number: int) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(failing(number))
        tasks.create_task(forever(number))


async def waiting_for_what_is_cancelled(number: int) -> None:
    if number < 4:
        other = asyncio.ensure_future(forever(number))
        asyncio.get_running_loop().call_soon(other.cancel)
        await other
    await forever(number)


FAILURES: Final = {
    "it raises": failing,
    "one of its tasks raises": failing_in_a_task,
    "it awaits a task that is cancelled": waiting_for_what_is_cancelled,
}


@pytest.mark.parametrize("act", FAILURES.values(), ids=FAILURES)
async def test_a_controller_that_fails_is_started_again(
    act: Callable[[int], Awaitable[None]], caplog: pytest.LogCaptureFixture
) -> None:
    metrics, sick, healthy = WorkQueueMetrics(), Runs(act), Runs(forever)
    specs = [ControllerSpec("sick", sick.build), ControllerSpec("healthy", healthy.build)]
    running = asyncio.ensure_future(ControllerManager(specs, metrics, None, SOON).run())
    await eventually(lambda: sick.number == 4)
    assert not running.done()
    assert healthy.number == 1
    assert shown(metrics, RESTARTS) == [
        f'{RESTARTS}{{name="sick"}} 3\n',
        f'{RESTARTS}{{name="healthy"}} 0\n',
    ]
    assert [record.message for record in caplog.records if record.exc_info] == [
        "the controller sick failed, starting it again in 0.01 s",
        "the controller sick failed, starting it again in 0.02 s",
        "the controller sick failed, starting it again in 0.04 s",
    ]
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert shown(metrics, "workqueue_depth") == []


async def test_a_controller_that_ends_by_itself_is_not_started_again() -> None:
    async def ends(_: int) -> None: ...

    metrics, runs = WorkQueueMetrics(), Runs(ends)
    await ControllerManager([ControllerSpec("ends", runs.build)], metrics, None, SOON).run()
    assert runs.number == 1
    assert shown(metrics, RESTARTS) == [f'{RESTARTS}{{name="ends"}} 0\n']


async def test_a_controller_that_cannot_be_built_is_tried_again() -> None:
    metrics, runs = WorkQueueMetrics(), Runs(forever)

    def build() -> Runs:
        if runs.build().number < 3:
            raise OSError("no such file")
        return runs

    running = asyncio.ensure_future(
        ControllerManager([ControllerSpec("late", build)], metrics, None, SOON).run()
    )
    await eventually(lambda: runs.number == 3)
    assert shown(metrics, RESTARTS) == [f'{RESTARTS}{{name="late"}} 2\n']
    running.cancel()


async def test_the_delays_begin_anew_after_a_long_run(caplog: pytest.LogCaptureFixture) -> None:
    restart = Backoff(base_s=0.01, max_s=0.05)

    async def failing_late_at_last(number: int) -> None:
        if number == 3:
            await asyncio.sleep(2 * restart.max_s)
        await failing(number)

    runs = Runs(failing_late_at_last)
    specs = [ControllerSpec("sick", runs.build)]
    running = asyncio.ensure_future(ControllerManager(specs, WorkQueueMetrics(), None, restart).run())
    await eventually(lambda: runs.number == 4)
    assert caplog.messages[-1] == "the controller sick failed, starting it again in 0.01 s"
    running.cancel()


async def test_no_controller_is_started_again_once_they_are_to_end() -> None:
    """Also if that is while it waits for its next start."""
    runs = Runs(failing)
    specs = [ControllerSpec("sick", runs.build)]
    manager = ControllerManager(specs, WorkQueueMetrics(), None, Backoff(base_s=60.0, max_s=60.0))
    running = asyncio.ensure_future(manager.run())
    await eventually(lambda: runs.number == 1)
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert runs.number == 1


def test_delays_grow_to_a_minute() -> None:
    assert [RESTART.delay_s(failures) for failures in (0, 1, 5, 6, 60)] == [1, 2, 32, 60, 60]
