"""The loop of all controllers: keys are reconciled, and retried with back-off, whatever goes wrong."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import pytest

from apiserver.controller_runtime.controller import Controller, Cooldown, Outcome, Requeue
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.meta.errors import BadRequest
from apiserver.registry.stored_object import CorruptObject
from apiserver.storage.errors import StorageUnavailable
from tests.support.eventually import WITHIN_S
from tests.unit.controllers.fake_clock import FakeClock

BACKOFF: Final = Backoff(base_s=1.0, max_s=4.0)


@asynccontextmanager
async def running(
    reconcile: Callable[[str], Awaitable[Outcome]],
    clock: FakeClock,
    workers: int = 1,
    failure_cooldown_s: float = 0.0,
) -> AsyncIterator[WorkQueue[str]]:
    queue = WorkQueue[str]("test", BACKOFF, clock=clock)
    controller = Controller(queue, reconcile, workers=workers, failure_cooldown_s=failure_cooldown_s)
    task = asyncio.create_task(controller.run())
    yield queue
    assert not task.done(), "nothing ends a controller"
    task.cancel()
    await asyncio.wait([task])


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


class Reconciler:
    """Takes the outcomes of a script, one for each call."""

    def __init__(self, *script: Outcome | Exception) -> None:
        self._script = list(script)
        self.calls: list[str] = []

    async def __call__(self, key: str) -> Outcome:
        self.calls.append(key)
        outcome = self._script.pop(0) if self._script else None
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


async def test_a_key_is_reconciled_at_once() -> None:
    reconcile = Reconciler()
    async with running(reconcile, FakeClock()) as queue:
        queue.add("a")
        queue.add("b")
        await settle()
        assert reconcile.calls == ["a", "b"]


FAILURES: Final = {
    "of a client's kind": BadRequest("no"),
    "of the store": StorageUnavailable("no"),
    "a damaged object": CorruptObject("/k", "no"),
    "a mistake of ours": ZeroDivisionError("no"),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
async def test_a_failure_is_logged_once_and_retried_with_back_off(
    failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    clock, reconcile = FakeClock(), Reconciler(failure, failure, None, failure)
    async with running(reconcile, clock) as queue:
        queue.add("a")
        queue.add("b")
        await settle()
        assert reconcile.calls == ["a", "b"], "one that fails does not keep the others from their turn"
        clock.advance(1)
        await settle()
        assert reconcile.calls == ["a", "b", "a", "b"]
        assert [record.levelno for record in caplog.records] == [logging.WARNING] * 3
        assert "test: cannot reconcile a, retrying in 1 s: " in caplog.text
        assert queue.failures("a") == 0, "back-off begins anew after a success"
        assert queue.failures("b") == 2


async def test_an_object_that_keeps_changing_and_failing_is_logged_once_for_each_delay(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, reconcile = FakeClock(), Reconciler(*[BadRequest("no")] * 100)
    async with running(reconcile, clock) as queue:
        for _ in range(20):
            queue.add("a")
            await settle()
        assert len(reconcile.calls) == 20
        assert len(caplog.records) == 1
        clock.advance(1)
        await settle()
        assert len(caplog.records) == 2


async def test_changes_of_an_object_that_fails_wait_for_its_cooldown() -> None:
    clock, reconcile = FakeClock(), Reconciler(*[BadRequest("no")] * 100)
    async with running(reconcile, clock, failure_cooldown_s=1) as queue:
        for passed, calls in ((0.0, 1), (0.9, 1), (0.1, 2), (0.9, 2), (0.1, 3)):
            clock.advance(passed)
            queue.add("a")
            await settle()
            assert len(reconcile.calls) == calls, passed


async def test_what_is_not_done_yet_is_requeued() -> None:
    clock, reconcile = FakeClock(), Reconciler(Requeue(), Requeue(), Requeue(after_s=10), None)
    async with running(reconcile, clock) as queue:
        queue.add("a")
        await settle()
        for passed, calls in ((0.9, 1), (0.1, 2), (1.9, 2), (0.1, 3), (9.9, 3), (0.1, 4), (100, 4)):
            clock.advance(passed)
            await settle()
            assert len(reconcile.calls) == calls, passed
        assert queue.failures("a") == 0


@pytest.mark.parametrize("outcome", [Cooldown(5), Requeue(after_s=1, cooldown_s=5)])
async def test_changes_wait_for_the_end_of_a_cooldown(outcome: Outcome) -> None:
    clock, reconcile = FakeClock(), Reconciler(outcome)
    async with running(reconcile, clock) as queue:
        queue.add("a")
        await settle()
        queue.add("a")
        clock.advance(4.9)
        await settle()
        assert len(reconcile.calls) == 1
        clock.advance(0.1)
        await settle()
        assert len(reconcile.calls) == 2


@pytest.mark.parametrize("workers", [1, 3])
async def test_so_many_keys_are_reconciled_at_the_same_time(workers: int) -> None:
    busy, most, go_on = set[str](), 0, asyncio.Event()

    async def reconcile(key: str) -> Outcome:
        nonlocal most
        assert key not in busy
        busy.add(key)
        most = max(most, len(busy))
        await go_on.wait()
        busy.remove(key)
        return None

    async with running(reconcile, FakeClock(), workers) as queue:
        for key in "abcde":
            queue.add(key)
        await settle()
        queue.add("a")
        await settle()
        assert most == workers
        go_on.set()
        await settle()
        assert not busy
        assert most == workers


async def test_workers_start_when_all_others_are_busy() -> None:
    """A server has dozens of controllers that nearly never have anything to do."""
    go_on = asyncio.Event()

    async def reconcile(key: str) -> Outcome:
        await go_on.wait()
        return None

    def waiting_or_busy() -> int:
        return sum(each.get_name() == "test" for each in asyncio.all_tasks())

    async with running(reconcile, FakeClock(), workers=3) as queue:
        for key, workers in (("", 1), ("a", 2), ("b", 3), ("c", 3), ("d", 3)):
            if key:
                queue.add(key)
            await settle()
            assert waiting_or_busy() == workers
        go_on.set()


async def _cancelled_task() -> None:
    task = asyncio.create_task(asyncio.sleep(0))
    task.cancel()
    await task


async def _cancelled_future() -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


@pytest.mark.parametrize("wait", [_cancelled_task, _cancelled_future], ids=["a task", "a future"])
@pytest.mark.parametrize("workers", [1, 2])
async def test_what_is_cancelled_beneath_a_worker_is_a_failure_as_any(
    wait: Callable[[], Awaitable[None]], workers: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Once it ended the worker, and the last one that ended the controller, for as long as the server ran."""
    clock, calls = FakeClock(), list[str]()

    async def reconcile(key: str) -> Outcome:
        calls.append(key)
        if calls.count(key) == 1:
            await wait()
        return None

    async with running(reconcile, clock, workers) as queue:
        for key in "ab":
            queue.add(key)
            await settle()
        assert calls == ["a", "b"]
        assert "test: cannot reconcile a, retrying in 1 s: CancelledError" in caplog.text
        clock.advance(1)
        await settle()
        assert calls == ["a", "b", "a", "b"]
        assert queue.failures("a") == 0


async def test_a_worker_that_is_cancelled_ends() -> None:
    """At once, whatever it waits for; the key is not retried."""
    started, outcome = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def reconcile(key: str) -> Outcome:
        started.set()
        found: Outcome = await outcome
        return found

    queue = WorkQueue[str]("test", BACKOFF, clock=FakeClock())
    task = asyncio.create_task(Controller(queue, reconcile).run())
    queue.add("a")
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert queue.failures("a") == 0


async def test_it_ends_with_its_queue() -> None:
    queue = WorkQueue[str]("test", BACKOFF, clock=FakeClock())
    reconcile = Reconciler()
    task = asyncio.create_task(Controller(queue, reconcile, workers=2).run())
    queue.add("a")
    await settle()
    queue.shut_down()
    await asyncio.wait_for(task, WITHIN_S)
    assert reconcile.calls == ["a"]
