"""What controllers may rely on of their queue: no lost key, no key twice at a time, bounded back-off.

Source: the tests of k8s.io/client-go, util/workqueue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from apiserver.controller_runtime.work_queue import Backoff, ShutDown, WorkQueue
from tests.support.eventually import WITHIN_S, eventually
from tests.unit.controllers.fake_clock import FakeClock

BACKOFF: Final = Backoff(base_s=1.0, max_s=30.0)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def queue(clock: FakeClock) -> WorkQueue[str]:
    return WorkQueue("test", BACKOFF, clock=clock)


async def taken(queue: WorkQueue[str]) -> list[str]:
    """Take all that is ready, and say that it is done."""
    keys = []
    while queue.depth:
        keys.append(await queue.get())
        queue.done(keys[-1])
    return keys


# ---- order, and once each


async def test_keys_come_in_the_order_in_which_they_were_added(queue: WorkQueue[str]) -> None:
    for key in "bca":
        queue.add(key)
    assert await taken(queue) == ["b", "c", "a"]


async def test_a_key_that_waits_is_queued_once(queue: WorkQueue[str]) -> None:
    for key in "aabab":
        queue.add(key)
    assert queue.counters.adds == 2
    assert "a" in queue
    assert await taken(queue) == ["a", "b"]
    assert "a" not in queue


async def test_a_key_that_is_added_while_it_is_processed_comes_once_more_after_that(
    queue: WorkQueue[str],
) -> None:
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("a")
    assert not queue.depth, "nobody else is given it"
    queue.done("a")
    assert await taken(queue) == ["a"]


async def test_get_waits_for_a_key(queue: WorkQueue[str]) -> None:
    waiting = [asyncio.create_task(queue.get()) for _ in range(2)]
    await asyncio.sleep(0)
    queue.add("a")
    done, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert [task.result() for task in done] == ["a"]
    queue.add("b")
    assert await pending.pop() == "b"


async def test_a_worker_that_is_cancelled_takes_no_key_with_it(queue: WorkQueue[str]) -> None:
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    waiting.cancel()
    await asyncio.wait([waiting])
    assert await taken(queue) == ["a"]


# ---- later


async def test_a_delayed_key_comes_when_it_is_due(queue: WorkQueue[str], clock: FakeClock) -> None:
    queue.add_after("a", 5)
    assert queue.is_delayed("a")
    clock.advance(4.9)
    assert not queue.depth
    clock.advance(0.2)
    assert not queue.is_delayed("a")
    assert await taken(queue) == ["a"]


DELAYS: Final = {
    "the earlier one counts": ([9, 5], 5.0),
    "a later one changes nothing": ([5, 9], 5.0),
    "no delay is now": ([0], 0.0),
    "a delay in the past is now": ([-1], 0.0),
}


@pytest.mark.parametrize(("delays", "due"), DELAYS.values(), ids=DELAYS)
async def test_of_several_delays(
    queue: WorkQueue[str], clock: FakeClock, delays: list[float], due: float
) -> None:
    for delay in delays:
        queue.add_after("a", delay)
    if due:
        clock.advance(due - 0.1)
        assert not queue.depth
        clock.advance(0.2)
    assert await taken(queue) == ["a"]
    clock.advance(100)
    assert not queue.depth, "only once"


async def test_a_key_that_is_due_while_it_is_processed_comes_after_that(
    queue: WorkQueue[str], clock: FakeClock
) -> None:
    queue.add("a")
    await queue.get()
    queue.add_after("a", 1)
    clock.advance(2)
    assert not queue.depth
    queue.done("a")
    assert await taken(queue) == ["a"]


async def test_a_delay_does_not_keep_a_key_from_being_added_now(queue: WorkQueue[str]) -> None:
    queue.add_after("a", 5)
    queue.add("a")
    assert await taken(queue) == ["a"]


# ---- back-off


async def test_each_failure_doubles_the_delay_up_to_the_bound(queue: WorkQueue[str]) -> None:
    assert [queue.add_rate_limited("a") for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert queue.failures("a") == 7
    assert queue.add_rate_limited("b") == 1, "each key has its own"
    queue.forget("a")
    assert queue.failures("a") == 0
    assert queue.add_rate_limited("a") == 1


async def test_a_key_that_failed_comes_after_its_back_off(queue: WorkQueue[str], clock: FakeClock) -> None:
    for delay in (1, 2, 4):
        queue.add_rate_limited("a")
        clock.advance(delay - 0.1)
        assert not queue.depth
        clock.advance(0.1)
        assert await taken(queue) == ["a"]


@given(
    base_s=st.floats(0.001, 10),
    growth=st.floats(1, 1e6),
    factor=st.floats(1.1, 10),
    failures=st.integers(0, 100_000),
)
def test_back_off_stays_within_its_bounds_and_never_shrinks(
    base_s: float, growth: float, factor: float, failures: int
) -> None:
    backoff = Backoff(base_s, base_s * growth, factor)
    delay_s = backoff.delay_s(failures)
    assert backoff.base_s <= delay_s <= backoff.max_s
    assert backoff.delay_s(failures + 1) >= delay_s


# ---- cooling down


async def test_a_key_that_cools_down_comes_after_that_if_it_was_added(
    queue: WorkQueue[str], clock: FakeClock
) -> None:
    queue.add("a")
    await queue.get()
    queue.done("a", cooldown_s=5)
    queue.add("a")
    clock.advance(4.9)
    assert not queue.depth
    clock.advance(0.2)
    assert await taken(queue) == ["a"]


async def test_a_key_that_cools_down_does_not_come_by_itself(queue: WorkQueue[str], clock: FakeClock) -> None:
    queue.add("a")
    await queue.get()
    queue.done("a", cooldown_s=5)
    clock.advance(10)
    assert not queue.depth
    queue.add("a")
    assert await taken(queue) == ["a"]


# ---- room


async def test_whoever_adds_very_much_waits_for_room(clock: FakeClock) -> None:
    queue = WorkQueue[str]("test", BACKOFF, clock=clock, keys_max=2)
    await queue.wait_for_room()
    queue.add("a")
    queue.add("b")
    waiting = asyncio.create_task(queue.wait_for_room())
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.done(await queue.get())
    await asyncio.wait_for(waiting, WITHIN_S)
    queue.add("c")
    waiting = asyncio.create_task(queue.wait_for_room())
    await asyncio.sleep(0)
    queue.shut_down()
    await asyncio.wait_for(waiting, WITHIN_S)


async def test_keys_that_wait_for_a_time_leave_room_for_others(clock: FakeClock) -> None:
    """What is done now makes no room of theirs; and their time may be long after that of others."""
    queue = WorkQueue[str]("test", BACKOFF, clock=clock, keys_max=1)
    for key in "abc":
        queue.add_after(key, 86_400)
    await asyncio.wait_for(queue.wait_for_room(), WITHIN_S)


async def test_a_key_that_is_taken_back_does_not_come(queue: WorkQueue[str], clock: FakeClock) -> None:
    queue.add_after("a", 5)
    queue.add_rate_limited("b")
    for key in "abc":
        queue.cancel(key)
    assert (len(queue), queue.failures("b")) == (0, 0)
    clock.advance(1_000)
    assert not queue.depth


# ---- the end


async def test_what_is_ready_is_given_out_after_the_shutdown(queue: WorkQueue[str], clock: FakeClock) -> None:
    queue.add("a")
    queue.add("b")
    queue.add_after("later", 1)
    assert await queue.get() == "a"
    queue.add("a")
    queue.shut_down()
    queue.add("c")
    queue.add_after("d", 0)
    clock.advance(10)
    assert await queue.get() == "b"
    queue.done("a")
    assert await queue.get() == "a", "what was added while it was processed is not lost"
    with pytest.raises(ShutDown):
        await queue.get()


async def test_who_waits_hears_of_the_shutdown(queue: WorkQueue[str]) -> None:
    waiting = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.shut_down()
    for outcome in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(outcome, ShutDown)


async def test_a_cooldown_ends_with_the_queue(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.done(await queue.get(), cooldown_s=60)
    queue.add("a")
    queue.shut_down()
    assert await queue.get() == "a"


# ---- metrics


async def test_what_is_measured(queue: WorkQueue[str], clock: FakeClock) -> None:
    queue.add("a")
    queue.add("b")
    queue.add_after("c", 100)
    clock.advance(3)
    await queue.get()
    clock.advance(0.5)
    await queue.get()
    clock.advance(1)
    assert (queue.depth, len(queue)) == (0, 1)
    assert queue.unfinished_work_s() == 2.5
    assert queue.longest_running_s() == 1.5
    queue.done("a")
    assert (queue.counters.adds, queue.counters.retries) == (2, 1)
    assert queue.counters.queue_durations.sum == 6.5
    assert queue.counters.work_durations.sum == 1.5
    assert sum(queue.counters.work_durations.buckets) == 1


# ---- whatever happens, in whatever order


class AnyOrder(RuleBasedStateMachine):
    """A model of the queue: keys that were asked for and not given out since, and keys in work."""

    KEYS: Final = st.sampled_from("abcd")

    @initialize()
    def begin(self) -> None:
        self.runner = asyncio.Runner()
        self.clock = FakeClock()
        self.queue = WorkQueue[str]("test", BACKOFF, clock=self.clock)
        self.owed: set[str] = set()
        self.in_work: set[str] = set()

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self._drain()
            self.runner.close()

    def _drain(self) -> None:
        """In the end each key that was added is given out."""
        for key in list(self.in_work):
            self.finish(key)
        self.clock.advance(1_000)
        given = set()
        while self.queue.depth:
            key = self.runner.run(self.queue.get())
            given.add(key)
            self.queue.done(key)
        assert self.owed <= given
        assert not len(self.queue)

    def finish(self, key: str, cooldown_s: float = 0.0) -> None:
        self.in_work.remove(key)
        self.queue.done(key, cooldown_s=cooldown_s)

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.queue.add(key)
        self.owed.add(key)

    @rule(key=KEYS, seconds=st.floats(-1, 60))
    def add_after(self, key: str, seconds: float) -> None:
        self.queue.add_after(key, seconds)
        self.owed.add(key)

    @rule(key=KEYS)
    def add_rate_limited(self, key: str) -> None:
        assert BACKOFF.base_s <= self.queue.add_rate_limited(key) <= BACKOFF.max_s
        self.owed.add(key)

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.queue.forget(key)

    @rule(key=KEYS)
    def cancel(self, key: str) -> None:
        self.queue.cancel(key)
        if key not in self.queue:
            self.owed.discard(key)

    @rule(seconds=st.floats(0, 100))
    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @precondition(lambda self: self.queue.depth)
    @rule()
    def get(self) -> None:
        key = self.runner.run(self.queue.get())
        assert key not in self.in_work, "nobody is given a key that is in work"
        assert key in self.owed, "nobody is given a key that was not added"
        self.in_work.add(key)
        # What is delayed comes again later.
        if not self.queue.is_delayed(key):
            self.owed.remove(key)

    @precondition(lambda self: self.in_work)
    @rule(data=st.data(), cooldown_s=st.sampled_from([0.0, 3.0]))
    def done(self, data: st.DataObject, cooldown_s: float) -> None:
        self.finish(data.draw(st.sampled_from(sorted(self.in_work))), cooldown_s)

    @invariant()
    def holds_no_more_than_there_are_keys(self) -> None:
        if hasattr(self, "queue"):
            assert self.queue.depth <= 4
            assert len(self.queue) <= 8


def test_no_key_is_lost_and_none_is_given_out_twice_at_a_time() -> None:
    run_state_machine_as_test(AnyOrder)


@pytest.mark.parametrize("workers", [1, 3])
async def test_many_workers_never_have_the_same_key(workers: int) -> None:
    queue = WorkQueue[int]("test", Backoff(0.001, 0.002))
    busy: set[int] = set()
    seen: dict[int, int] = dict.fromkeys(range(5), 0)

    async def work() -> None:
        while True:
            try:
                key = await queue.get()
            except ShutDown:
                return
            assert key not in busy
            busy.add(key)
            await asyncio.sleep(0)
            busy.remove(key)
            seen[key] += 1
            queue.done(key)

    tasks = [asyncio.create_task(work()) for _ in range(workers)]
    for turn in range(200):
        add: Callable[[int], Any] = (queue.add, queue.add_rate_limited)[turn % 2]
        add(turn % 5)
        if turn % 7 == 0:
            await asyncio.sleep(0.0005)
    await eventually(lambda: all(seen.values()) and not len(queue))
    queue.shut_down()
    await asyncio.gather(*tasks)
