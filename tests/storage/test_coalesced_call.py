"""One call for many callers: its result is fresh for each, and it waits briefly for more of them."""

from __future__ import annotations

import asyncio

import pytest

from apiserver.storage.errors import StorageUnavailable
from apiserver.storage.etcd.coalesced_call import GATHER_ITERATIONS_MAX, GATHER_S_MAX, CoalescedCall


class Iterations:
    """Counts the iterations of the event loop, each of which takes as long on the clock of `calls`."""

    def __init__(self, calls: Calls, busy_s: float = 0.0) -> None:
        self.count = 0
        self._calls, self._busy_s = calls, busy_s

    async def __aenter__(self) -> Iterations:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            self._calls.now_s += self._busy_s
            self.count += 1
            await asyncio.sleep(0)


class Calls:
    """A call that returns its number, at once or after `gate` is set."""

    def __init__(self) -> None:
        self.count = 0
        self.now_s = 0.0
        self.gate = asyncio.Event()
        self.gate.set()
        self.shared = CoalescedCall(self._call, lambda: StorageUnavailable("closed"), lambda: self.now_s)

    async def _call(self) -> int:
        self.count += 1
        number = self.count
        await self.gate.wait()
        return number

    async def many(self, size: int) -> None:
        """Have one call answer `size` callers."""
        assert len(set(await asyncio.gather(*(self.shared.get() for _ in range(size))))) == 1


async def iterations_until_called(calls: Calls, *, busy_s: float = 0.0) -> int:
    """The number of iterations that a single caller waits before the call is made."""
    before = calls.count
    async with Iterations(calls, busy_s) as turns:
        await asyncio.sleep(0)
        asked, began = asyncio.create_task(calls.shared.get()), turns.count
        while calls.count == before:
            await asyncio.sleep(0)
        passed = turns.count - began
        await asked
    return passed


async def test_a_get_during_a_call_gets_the_result_of_the_next_one() -> None:
    calls = Calls()
    calls.gate.clear()
    first = asyncio.create_task(calls.shared.get())
    while not calls.count:
        await asyncio.sleep(0)
    late = [asyncio.create_task(calls.shared.get()) for _ in range(100)]
    await asyncio.sleep(0)
    calls.gate.set()
    assert await first == 1
    assert await asyncio.gather(*late) == [2] * 100


async def test_a_single_caller_does_not_wait_for_others() -> None:
    calls = Calls()
    await calls.shared.get()
    alone = await iterations_until_called(calls)
    await calls.many(5)
    assert alone < await iterations_until_called(calls), "after many callers there may be more"
    assert await iterations_until_called(calls) == alone


async def test_after_many_callers_a_call_waits_some_iterations_for_more() -> None:
    calls = Calls()
    await calls.many(5)
    assert await iterations_until_called(calls) <= GATHER_ITERATIONS_MAX + 3


async def test_a_call_does_not_wait_long_in_a_busy_loop() -> None:
    """An iteration takes longer than the call may wait, so that it waits for one at most."""
    calls = Calls()
    await calls.shared.get()
    alone = await iterations_until_called(calls, busy_s=2 * GATHER_S_MAX)
    await calls.many(5)
    assert await iterations_until_called(calls, busy_s=2 * GATHER_S_MAX) <= alone + 1


async def test_closing_fails_the_callers_that_wait() -> None:
    calls = Calls()
    calls.gate.clear()
    asked = [asyncio.create_task(calls.shared.get()) for _ in range(3)]
    await asyncio.sleep(0)
    asked.append(asyncio.create_task(calls.shared.get()))
    await asyncio.sleep(0)
    await calls.shared.close()
    for each in asked:
        with pytest.raises(StorageUnavailable, match="closed"):
            await each
