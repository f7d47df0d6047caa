"""Workers: whatever a function does, its call is over in time, and the calls of others succeed.

Issue: functions that do not return, crash or ask for too much decide nothing but their own write.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, Final

import orjson
import psutil
import pytest

from apiserver.app.process import loop_factory
from apiserver.controller_runtime.work_queue import Backoff
from apiserver.extensions.hooks import THREADS_MAX
from apiserver.extensions.host.runner import CannotLoad, Failure, HookFailed, HookInfo, WorkerEnd
from apiserver.extensions.host.worker_process import described
from apiserver.extensions.host.worker_runner import STRAYS_MAX, WorkerRunner
from tests.support.eventually import until
from tests.support.processor import slowness

POD: Final = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {}}
CALL: Final[Mapping[str, Any]] = {
    "object": POD,
    "oldObject": None,
    "request": {"operation": "CREATE", "userInfo": {"username": "jane"}, "dryRun": True},
    "namespaceLabels": {"team": "a"},
}
RESTART: Final = Backoff(0.01, 0.02)
# A worker takes a while to start where others need the processors.
WAIT_MAX_S: Final = 30.0
ATTEMPTS: Final = 5
# A late call is decided within this time after its own: 0.05 s, where the machine has nothing else to do.
GRACE_S: Final = 0.05


class Worker:
    """A running extension, and why its workers have ended."""

    def __init__(
        self, module: str = "hostile", restart: Backoff = RESTART, wait_max_s: float = WAIT_MAX_S
    ) -> None:
        self.ends: list[WorkerEnd] = []
        spec = f"tests.extensions.modules.{module}"
        self.runner = WorkerRunner(spec, lambda _: {}, self.ends.append, restart, wait_max_s)

    def hook(self, name: str) -> HookInfo:
        return next(each for each in self.runner.info.hooks if each.name == name)

    async def call(self, name: str, timeout_s: float | None = None) -> Mapping[str, Any]:
        return await self.runner.call(self.hook(name), orjson.dumps(CALL), timeout_s)

    async def failure(self, name: str, timeout_s: float | None = None) -> HookFailed:
        with pytest.raises(HookFailed) as failed:
            await self.call(name, timeout_s)
        return failed.value


@pytest.fixture
async def worker() -> AsyncIterator[Worker]:
    worker = Worker()
    await worker.runner.start()
    yield worker
    await worker.runner.close()


DENIED: Final = {"reason": "Forbidden", "code": 403}
RESULTS: Final = {
    "changes": {"object": {**POD, "spec": {"changed": True}}},
    "changes_nothing": {},
    "replaces": {"object": {**POD, "kind": "Other"}},
    "denies": {
        "denied": {
            "message": "over budget",
            **DENIED,
            "details": {"causes": [{"message": "over budget", "field": "spec"}]},
        },
        "warnings": ["careful"],
        "auditAnnotations": {"reason": "budget"},
    },
    "tells_who": {"denied": {"message": "jane CREATE None True {'team': 'a'}", **DENIED}},
    "waits_shortly": {},
    "prints": {},
}


@pytest.mark.parametrize("name", RESULTS)
async def test_the_result_of_a_function(worker: Worker, name: str) -> None:
    assert await worker.call(name) == RESULTS[name]
    assert worker.ends == []


# What the function does → how its call fails, and whether its worker ends.
FAILURES: Final[Mapping[str, tuple[Failure, str, bool]]] = {
    "loops": (Failure.TIMEOUT, r"loops \(hostile.py:\d+\) has not returned within 0.5 s", True),
    "sleeps": (Failure.TIMEOUT, "has not returned within 0.5 s", True),
    "explodes": (Failure.TIMEOUT, "has not returned within 0.5 s", True),
    "catches_all": (Failure.TIMEOUT, "has not returned within 0.5 s", True),
    "waits": (Failure.TIMEOUT, "has not returned within 0.5 s", False),
    "leaves": (Failure.ENDED, "has ended its worker: it has exited with status 3", True),
    "accesses_no_memory": (Failure.ENDED, "has ended its worker: it was ended by SIGSEGV", True),
    "returns_too_much": (Failure.ERROR, r"has returned \d+ bytes, more than 16777216", False),
    "writes_to_the_socket": (Failure.ENDED, "has ended its worker: it has sent a message that is not", True),
    "exits": (Failure.ERROR, r"exits \(hostile.py:\d+\) failed at hostile.py:\d+: SystemExit: bye", False),
    "has_a_fault": (Failure.ERROR, "failed at hostile.py:\\d+: KeyError: 'missing'", False),
    "wants_much_memory": (Failure.ERROR, "MemoryError", False),
    "makes_a_cycle": (Failure.ERROR, "Recursion limit", False),
    "makes_a_set": (Failure.ERROR, "is not JSON serializable: set", False),
    "returns_a_list": (Failure.ERROR, "must return None or an object, not list", False),
    "returns_a_bool": (
        Failure.ERROR,
        "must return None, and raise Denied to refuse; it returned bool",
        False,
    ),
}


@pytest.mark.parametrize("name", FAILURES)
async def test_a_function_that_fails_decides_only_its_own_call(worker: Worker, name: str) -> None:
    failure, text, ends = FAILURES[name]
    failed = await worker.failure(name)
    assert failed.failure is failure
    assert re.search(text, str(failed)), str(failed)
    assert await worker.call("changes") == RESULTS["changes"]
    assert len(worker.ends) == ends


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize(
    "name", [name for name, (failure, *_) in FAILURES.items() if failure is Failure.TIMEOUT]
)
async def test_a_call_is_over_when_its_time_is_over(worker: Worker, name: str) -> None:
    """Where others use the processors, one of some attempts is in time."""
    for _ in range(ATTEMPTS):
        await worker.call("changes")
        began = asyncio.get_running_loop().time()
        await worker.failure(name)
        took_s = asyncio.get_running_loop().time() - began
        if took_s < 0.5 + GRACE_S * slowness():
            return
    raise AssertionError(f"took {took_s} s")


async def test_threads_without_end_end_the_worker_or_fail(worker: Worker) -> None:
    failed = await worker.failure("starts_threads")
    assert failed.failure in (Failure.ERROR, Failure.TIMEOUT, Failure.ENDED)
    assert await worker.call("changes") == RESULTS["changes"]


async def test_calls_beside_one_that_loops_are_sent_again(worker: Worker) -> None:
    looping = asyncio.create_task(worker.failure("loops"))
    others = [asyncio.create_task(worker.call("changes")) for _ in range(5)]
    assert (await looping).failure is Failure.TIMEOUT
    assert [await each for each in others] == [RESULTS["changes"]] * 5
    assert len(worker.ends) == 1


async def test_calls_beside_one_that_ends_the_worker_are_sent_again_one_by_one(worker: Worker) -> None:
    """Async functions run together: which of them has ended the worker shows when each runs alone."""
    waiting = [asyncio.create_task(worker.call("waits_shortly")) for _ in range(3)]
    leaving = asyncio.create_task(worker.failure("leaves"))
    assert (await leaving).failure is Failure.ENDED
    assert [await each for each in waiting] == [{}] * 3
    assert 1 <= len(worker.ends) <= 2
    assert worker.ends[-1].hook == "leaves"
    assert worker.ends[-1].reason.startswith(f"{worker.hook('leaves')} ended it: ")
    assert {each.hook for each in worker.ends[:-1]} <= {""}, "it was not known"


async def test_workers_that_end_again_and_again_start_later_and_later() -> None:
    worker = Worker(restart=Backoff(base_s=0.001, max_s=60.0, factor=20.0), wait_max_s=5.0)
    await worker.runner.start()
    try:
        for _ in range(5):
            await worker.failure("leaves")
        assert [each.delay_s for each in worker.ends] == pytest.approx([0.0, 0.001, 0.02, 0.4, 8.0])
        failed = await worker.failure("changes")
        assert failed.failure is Failure.NOT_RUNNING
        assert "the worker has ended 5 times, and starts again in" in str(failed)
    finally:
        await worker.runner.close()


async def test_a_caller_that_is_cancelled_stops_the_function(worker: Worker) -> None:
    calling = asyncio.create_task(worker.call("waits"))
    await worker.call("changes")
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert await worker.call("changes") == RESULTS["changes"]
    assert worker.ends == []


async def test_callers_that_have_less_time_than_the_function_end_no_worker(worker: Worker) -> None:
    for _ in range(3):
        assert (await worker.failure("takes_a_while", 0.02)).failure is Failure.TIMEOUT
    calling = asyncio.create_task(worker.call("takes_a_while"))
    await asyncio.sleep(0)
    calling.cancel()
    assert await worker.call("changes") == RESULTS["changes"]
    assert worker.ends == []


async def test_callers_that_leave_early_are_no_reason_to_end_a_worker(worker: Worker) -> None:
    """Their calls are answered once, however many there are."""
    for _ in range(STRAYS_MAX + 10):
        calling = asyncio.create_task(worker.call("changes_nothing"))
        await asyncio.sleep(0)
        calling.cancel()
    assert await worker.call("changes") == RESULTS["changes"]
    assert worker.ends == []


async def test_a_long_function_that_nobody_waits_for_does_not_hold_up_others(worker: Worker) -> None:
    assert (await worker.failure("takes_long", 0.05)).failure is Failure.TIMEOUT
    assert await worker.call("changes") == RESULTS["changes"]
    assert [each.reason for each in worker.ends] == [f"{worker.hook('takes_long')} has not stopped"]


async def test_a_reload_while_a_worker_starts_takes_over(worker: Worker) -> None:
    await worker.failure("leaves")
    await asyncio.sleep(0)  # The next worker is being started.
    await worker.runner.reload()
    assert await worker.call("changes") == RESULTS["changes"]
    first = worker.runner.pid
    await worker.runner.reload()
    assert await worker.call("changes") == RESULTS["changes"]
    assert worker.runner.pid != first
    assert len(worker.ends) == 1


async def test_functions_that_do_not_stop_delay_no_start(worker: Worker) -> None:
    for _ in range(3):
        await worker.failure("loops")
    assert await worker.call("changes") == RESULTS["changes"]
    assert [each.delay_s for each in worker.ends] == [0.0] * 3


async def test_no_call_waits_for_a_reconciliation_that_was_running_when_a_worker_ended(
    worker: Worker,
) -> None:
    reconciling = asyncio.create_task(worker.failure("reconciles"))
    await worker.call("changes")
    await worker.failure("leaves")
    assert (await reconciling).failure is Failure.ENDED
    assert worker.ends[0].hook == "", "either of them may have ended it"
    assert await worker.call("changes") == RESULTS["changes"]


async def test_a_worker_is_replaced_that_has_left_its_connection_to_a_child(worker: Worker) -> None:
    assert (await worker.failure("leaves_a_child")).failure is Failure.TIMEOUT
    assert await worker.call("changes") == RESULTS["changes"]
    assert len(worker.ends) == 1


WRONG_DESCRIPTIONS: Final[list[Mapping[str, Any]]] = [
    {"ready": {}},
    {"ready": {"name": "a", "hooks": 3, "definitions": [], "resources": []}},
    {"ready": {"name": "a", "hooks": [{}], "definitions": [], "resources": []}},
    {"ready": 3},
    {},
]


@pytest.mark.parametrize("first", WRONG_DESCRIPTIONS)
def test_a_description_that_is_wrong_cannot_be_loaded(first: Mapping[str, Any]) -> None:
    with pytest.raises(CannotLoad):
        described(first)


async def test_a_module_that_cannot_be_imported_is_refused_with_its_traceback() -> None:
    worker = Worker("broken")
    with pytest.raises(CannotLoad, match=r"(?s)broken.py.*RuntimeError: no license"):
        await worker.runner.start()
    await worker.runner.close()


async def test_close_fails_the_calls_that_run(worker: Worker) -> None:
    waiting = asyncio.create_task(worker.failure("waits"))
    await worker.call("changes")
    await worker.runner.close()
    assert (await waiting).failure is Failure.NOT_RUNNING


def _is_dead(process: psutil.Process) -> bool:
    return bool(process.status() == psutil.STATUS_ZOMBIE)


def test_a_call_while_the_end_of_a_worker_is_noticed() -> None:
    """It goes to the next worker, or has been sent to the one that has ended."""

    async def run() -> None:
        worker = Worker()
        await worker.runner.start()
        for rounds in range(6):
            assert worker.runner.pid is not None
            process = psutil.Process(worker.runner.pid)
            process.kill()
            until(partial(_is_dead, process))
            for _ in range(rounds):
                await asyncio.sleep(0)
            with contextlib.suppress(HookFailed):
                assert await worker.call("changes_nothing") == {}
            assert await worker.call("changes_nothing") == {}
        await worker.runner.close()

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(run())


# ---- functions that wait for the server


async def test_more_functions_than_can_wait_for_the_server_are_refused_at_once() -> None:
    """The others go on."""
    worker = Worker("waiting")
    await worker.runner.start()
    try:
        calls = [asyncio.create_task(worker.call("waits")) for _ in range(THREADS_MAX + 1)]
        refused, others = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        assert refused == {calls[-1]}
        assert "too many functions wait for the server" in str(calls[-1].exception())
        await worker.call("releases")
        assert await asyncio.gather(*others) == [{}] * THREADS_MAX
    finally:
        await worker.runner.close()


async def test_a_call_that_the_socket_does_not_take_at_once_does_not_mix_with_the_next_ones(
    worker: Worker,
) -> None:
    large = {**CALL, "object": {**POD, "spec": {"text": "x" * 1_000_000}}}
    hook = worker.hook("waits_shortly")
    calls = [worker.runner.call(hook, orjson.dumps(each)) for each in (CALL, large, CALL, large, CALL)]
    assert await asyncio.gather(*calls) == [{}] * 5
    assert worker.ends == []


async def test_functions_that_all_run_alone_are_called_one_after_the_other() -> None:
    """Their worker has no event loop."""
    worker = Worker("nothing:process")
    await worker.runner.start()
    try:
        # It arrives in many pieces.
        large = {"object": {**POD, "spec": {"text": "x" * 1_000_000}}}
        hook = worker.hook("does_nothing")
        calls = [worker.runner.call(hook, orjson.dumps(each)) for each in (CALL, large, CALL)]
        assert await asyncio.gather(*calls) == [{}] * 3
        cancelled = asyncio.create_task(worker.call("does_nothing"))
        await asyncio.sleep(0)
        cancelled.cancel()
        worker.runner.update_api()
        assert await worker.call("does_nothing") == {}
    finally:
        await worker.runner.close()
    assert worker.ends == []
