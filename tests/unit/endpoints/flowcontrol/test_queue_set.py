"""One priority level: its seats are never exceeded, nobody is forgotten, who asks for little is served."""

from __future__ import annotations

import heapq
from collections import Counter
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.endpoints.flowcontrol.queue_set import (
    CANCELLED,
    CONCURRENCY_LIMIT,
    QUEUE_FULL,
    SERVICE_S,
    TIME_OUT,
    QueuedFlow,
    QueueRules,
    QueueSet,
    Request,
)
from apiserver.endpoints.flowcontrol.seat_usage import Capacity
from apiserver.endpoints.flowcontrol.work_estimates import WorkEstimate
from apiserver.load.user_shares import SHARE_OF_FREE
from tests.unit.endpoints.flowcontrol.support import flow, queue_set, request

QUEUES: Final = QueueRules(queues=8, length_max=4)
REJECTS: Final = QueueRules()
EXEMPT: Final = QueueRules(is_exempt=True)


def arrived(level: QueueSet, of: QueuedFlow, now: float = 0.0, seats: int = 1) -> Request:
    each = request(of, WorkEstimate(seats)) if seats > 1 else request(of)
    level.arrive(each, now)
    return each


def test_a_request_that_has_not_arrived_can_be_shown() -> None:
    """In a traceback, or by a debugger."""
    assert "Request" in repr(request(flow("alice", QUEUES)))


def test_a_level_without_queues_refuses_what_finds_no_seat() -> None:
    level, alice = queue_set(3, REJECTS), flow("alice", REJECTS)
    begun = [request(alice) for _ in range(3)]
    assert [level.arrive(each, 0.0) for each in begun] == ["", "", ""]
    assert level.arrive(request(alice), 0.0) == CONCURRENCY_LIMIT
    level.finish(begun[0], 1.0)
    assert level.arrive(request(alice), 1.0) == ""
    assert (level.rejected, alice.statistics.rejected) == (1, Counter({CONCURRENCY_LIMIT: 1}))


def test_a_level_without_shares_refuses_what_finds_no_seat() -> None:
    """Kubernetes lets one request in (docs/reference/differences.md). Seats that it has borrowed are used."""
    closed = QueueRules(is_closed=True)
    level, alice = queue_set(0, closed), flow("alice", closed)
    assert level.arrive(request(alice), 0.0) == CONCURRENCY_LIMIT
    assert level.arrive(request(alice, WorkEstimate(8)), 0.0) == CONCURRENCY_LIMIT
    level.configure(closed, 1, Capacity(1, 1), 1.0)
    assert level.arrive(request(alice), 1.0) == ""
    assert level.arrive(request(alice), 1.0) == CONCURRENCY_LIMIT


def test_a_level_whose_seats_are_lent_runs_one_request() -> None:
    """Otherwise nobody would notice that it needs some back."""
    level, alice = queue_set(0, REJECTS), flow("alice", REJECTS)
    assert level.arrive(request(alice), 0.0) == ""
    assert level.arrive(request(alice), 0.0) == CONCURRENCY_LIMIT


def test_the_exempt_level_has_no_limit() -> None:
    level, root = queue_set(0, EXEMPT), flow("root", EXEMPT)
    assert not any(arrived(level, root).is_waiting for _ in range(1_000))
    assert (level.seats_in_use, level.usage.high) == (1_000, 1_000)


def test_a_flow_leaves_seats_to_others() -> None:
    """The greedy one has four fifths; the next flow begins at once, and the one after that."""
    level = queue_set(20, QUEUES)
    greedy = [arrived(level, flow("greedy", QUEUES)) for _ in range(28)]
    assert sum(not each.is_waiting for each in greedy) == 16
    assert not arrived(level, flow("bob", QUEUES)).is_waiting
    assert not arrived(level, flow("carol", QUEUES)).is_waiting


def test_a_small_level_is_used_up_by_one_flow() -> None:
    level = queue_set(4, QUEUES)
    assert sum(not arrived(level, flow("greedy", QUEUES)).is_waiting for _ in range(8)) == 4


def test_a_queue_has_an_end() -> None:
    """Of each card of the hand; others still have room."""
    level = queue_set(1, QUEUES)
    greedy = flow("greedy", QUEUES)
    reasons = [level.arrive(request(greedy), 0.0) for _ in range(1 + 2 * QUEUES.length_max + 1)]
    assert reasons == [""] * (1 + 2 * QUEUES.length_max) + [QUEUE_FULL]
    others = (flow(f"user-{number}", QUEUES) for number in range(20))
    elsewhere = next(each for each in others if set(each.hand).isdisjoint(greedy.hand))
    assert level.arrive(request(elsewhere), 0.0) == ""


def test_flows_take_turns() -> None:
    """Of two flows that always have requests waiting each gets half, whatever one has more of."""
    level = queue_set(2, QueueRules(queues=64, length_max=50))
    rules = level.rules
    greedy, modest = flow("greedy", rules), flow("modest", rules)
    begun: list[Request] = [arrived(level, greedy) for _ in range(40)]
    begun += [arrived(level, modest) for _ in range(10)]
    now, served = 0.0, []
    for _ in range(20):
        now += 0.01
        running = [each for each in begun if each in level.executing]
        served += [each.flow.distinguisher for each in running]
        for each in running:
            level.finish(each, now)
    assert served.index("modest") <= 4
    assert Counter(served[:24])["modest"] >= 8


def test_what_was_used_while_nobody_had_to_wait_is_no_debt() -> None:
    """A flow whose long list began in a calm level has its turn with the others when that list ends."""
    level = queue_set(4, QueueRules(queues=64, length_max=50))
    lister, *others = (flow(f"user-{number}", level.rules, 1) for number in range(4))
    assert len({each.hand for each in (lister, *others)}) == 4
    long_list = arrived(level, lister)
    for each in others:
        arrived(level, each, 30.0)
    for each in [lister, others[0]] * 10:
        assert arrived(level, each, 30.0).is_waiting
    level.finish(long_list, 30.01)
    now, served = 30.01, Counter[str]()
    for _ in range(3):
        now += 0.003
        for request_ in list(level.executing):
            served[request_.flow.distinguisher] += 1
            level.finish(request_, now)
    assert served[lister.distinguisher] >= 3


def test_a_wide_request_is_not_passed_by_narrow_ones_for_ever() -> None:
    level = queue_set(4, QUEUES)
    narrow = [arrived(level, flow(f"narrow-{number}", QUEUES)) for number in range(4)]
    wide = arrived(level, flow("wide", QUEUES), seats=4)
    now = 0.0
    while wide.is_waiting:
        now += 0.01
        assert now < 1
        level.finish(narrow.pop(0), now)
        narrow += [each for each in [arrived(level, flow(f"late-{now}", QUEUES), now)] if not each.is_waiting]


def test_a_request_that_is_wider_than_the_level_runs_alone() -> None:
    level = queue_set(2, QUEUES)
    first = arrived(level, flow("alice", QUEUES))
    wide = arrived(level, flow("bob", QUEUES), seats=8)
    assert wide.is_waiting
    level.finish(first, 1.0)
    assert not wide.is_waiting
    assert arrived(level, flow("carol", QUEUES), 1.0).is_waiting


def test_seats_are_kept_for_a_moment_after_a_write_that_many_watch() -> None:
    level = queue_set(2, QUEUES)
    write = request(flow("alice", QUEUES), WorkEstimate(1, 2, 0.005))
    level.arrive(write, 0.0)
    assert level.finish(write, 1.0) == 0.005
    waiting = arrived(level, flow("bob", QUEUES), 1.0)
    assert waiting.is_waiting
    level.leave(write, 1.005)
    assert not waiting.is_waiting


PAUSES: Final = {"no pause": 0, "a pause": 1, "two pauses": 2}


@pytest.mark.parametrize("pauses", PAUSES.values(), ids=PAUSES)
def test_a_request_is_charged_once_for_what_it_takes_however_often_it_waits_for_webhooks(pauses: int) -> None:
    rules = QueueRules(queues=1, length_max=9)
    level, alice = queue_set(2, rules), flow("alice", rules)
    asking = request(alice, WorkEstimate(1, 1, 0.5))
    assert level.arrive(asking, 0.0) == ""
    others = [arrived(level, alice) for _ in range(6)]
    now = 0.0
    for _ in range(pauses):
        now += 1.0
        level.pause(asking, now)
        now += 1.0
        level.resume(asking, now)
    level.finish(asking, now + 3.0 - pauses)
    level.leave(asking, now + 4.0)
    begun = sum(not each.is_waiting for each in others)
    starts = level.next_starts()
    assert starts is not None
    assert starts[0][0] == pytest.approx(begun * SERVICE_S + 3.0 + 0.5)


def test_a_request_that_waits_for_a_webhook_leaves_its_seats_to_others() -> None:
    """It gets them again at once, though none is left. Only while it executes does its duration grow."""
    level, alice, bob = queue_set(1, QUEUES), flow("alice", QUEUES), flow("bob", QUEUES)
    first = arrived(level, alice)
    second = arrived(level, bob, 1.0)
    assert second.is_waiting
    level.pause(first, 2.0)
    assert not second.is_waiting
    assert (level.paused, level.seats_in_use, level.is_idle) == (1, 1, False)
    level.resume(first, 5.0)
    assert (level.paused, level.seats_in_use) == (0, 2)
    level.finish(first, 5.5)
    level.finish(second, 6.0)
    assert (alice.statistics.durations.sum, bob.statistics.durations.sum) == (2.5, 4.0)
    assert level.is_idle


ENDS: Final = {TIME_OUT: (1, 0), CANCELLED: (0, 1)}


@pytest.mark.parametrize(("reason", "counts"), ENDS.items(), ids=ENDS)
def test_giving_up(reason: str, counts: tuple[int, int]) -> None:
    level, bob = queue_set(1, QUEUES), flow("bob", QUEUES)
    arrived(level, flow("alice", QUEUES))
    level.give_up(arrived(level, bob), reason, 2.0)
    assert (level.timed_out, level.cancelled) == counts
    assert (level.waiting, bob.statistics.rejected, bob.statistics.refused_waits.sum) == (0, {reason: 1}, 2.0)


@pytest.mark.parametrize("ending", ["give up", "leave"])
def test_usage_is_known_until_the_moment_in_which_it_changes(ending: str) -> None:
    """Also where nothing else happens for a long time, as when a level is stuck."""
    level, bob = queue_set(2, QUEUES), flow("bob", QUEUES)
    write = request(flow("alice", QUEUES), WorkEstimate(1, 2, 8.0))
    level.arrive(write, 0.0)
    if ending == "give up":
        level.give_up(arrived(level, bob), TIME_OUT, 8.0)
    else:
        level.finish(write, 0.0)
        level.leave(write, 8.0)
    level.end_period(10.0)
    # Two seats for eight seconds, and one more that was waited for; then two, or none.
    assert level.usage.demand.average == pytest.approx({"give up": 2.8, "leave": 1.6}[ending])


def test_more_seats_are_used_at_once() -> None:
    level = queue_set(1, QUEUES)
    waiting = [arrived(level, flow(f"user-{number}", QUEUES)) for number in range(3)]
    assert [each.is_waiting for each in waiting] == [False, True, True]
    level.configure(QUEUES, 3, Capacity(3, 32), 1.0)
    assert not any(each.is_waiting for each in waiting)


# ---- whatever happens

STEPS: Final = st.lists(
    st.tuples(
        st.sampled_from(["arrive", "arrive", "arrive", "finish", "give up", "limit", "pause", "resume"]),
        st.integers(0, 5),  # the flow
        st.sampled_from([1, 1, 1, 2, 5, 12]),  # seats, or the new limit
        st.sampled_from([0, 0, 3]),  # seats afterwards
        st.floats(0, 0.05),  # seconds until the next step
    ),
    max_size=60,
)


class _Run:
    """A level, its requests, and what holds at every moment."""

    def __init__(self, seats: int, queues: int) -> None:
        self.level = QueueSet(0.0, QueueRules(queues, 3 if queues else 0), seats)
        self.flows = [flow(f"user-{number}", self.level.rules, 3) for number in range(6)]
        self.now = 0.0
        self.there: list[Request] = []
        self.paused: list[Request] = []
        self.leaving: list[tuple[float, int, Request]] = []
        self.limit_is_reached = True

    def step(self, what: str, who: int, seats: int, final: int, pause_s: float) -> None:
        self.now += pause_s
        while self.leaving and self.leaving[0][0] <= self.now:
            _, _, gone = heapq.heappop(self.leaving)
            self.level.leave(gone, self.now)
        match what:
            case "arrive":
                estimate = WorkEstimate(seats, final, 0.005 if final else 0.0)
                each = (
                    request(self.flows[who], estimate) if estimate.seats_max > 1 else request(self.flows[who])
                )
                if not self.level.arrive(each, self.now):
                    self.there.append(each)
            case "finish":
                self._end(next((each for each in self.there if not each.is_waiting), None))
            case "pause":
                for begun in [each for each in self.there if not each.is_waiting][:1]:
                    self.level.pause(begun, self.now)
                    self.there.remove(begun)
                    self.paused.append(begun)
            case "resume":
                if self.paused:
                    each = self.paused.pop(who % len(self.paused))
                    self.level.resume(each, self.now)
                    self.there.append(each)
            case "give up":
                each_waiting = [each for each in self.there if each.is_waiting]
                if each_waiting:
                    given_up = each_waiting[who % len(each_waiting)]
                    self.level.give_up(given_up, CANCELLED, self.now)
                    self.there.remove(given_up)
            case "limit":
                self.level.configure(self.level.rules, seats, Capacity(seats, 9), self.now)
        self.check()

    def _end(self, each: Request | None) -> None:
        if each is None:
            return
        lingers_s = self.level.finish(each, self.now)
        if lingers_s:
            heapq.heappush(self.leaving, (self.now + lingers_s, id(each), each))
        self.there.remove(each)

    def check(self) -> None:
        level = self.level
        held = [each for each in self.there if not each.is_waiting] + [each for *_, each in self.leaving]
        waiting = [each for each in self.there if each.is_waiting]
        assert level.seats_in_use == sum(each.seats for each in held)
        assert (level.waiting, level.waiting_seats) == (len(waiting), sum(each.seats for each in waiting))
        assert list(level.executing) == [each for each in level.executing if not each.is_waiting]
        assert level.paused == len(self.paused)
        for queue in level.queues():
            assert len(queue.waiting) <= level.rules.length_max
        # Work conserving: who waits has its share, or is behind one that needs all free seats.
        free = level.limit - level.seats_in_use
        heads = [queue.waiting[0] for queue in level.queues() if queue.waiting]
        by_flow = Counter[int]()
        for each in held:
            by_flow[each.flow.hash] += each.seats
        if heads and free > 0:
            blocked = any(each.seats > free for each in heads)
            assert blocked or all(
                by_flow[each.flow.hash] + each.seats > SHARE_OF_FREE * (free - each.seats + 1)
                for each in heads
            )

    def drain(self) -> None:
        """End everything that has begun, again and again: all that waits begins, and the level is idle."""
        for _ in range(1_000):
            if not (self.there or self.leaving or self.paused):
                break
            self.step("resume" if self.paused else "finish", 0, 1, 0, 0.01)
        assert not self.there
        assert self.level.is_idle
        assert self.level.seats_in_use == 0
        assert not list(self.level.queues())


@given(st.integers(1, 12), st.sampled_from([0, 1, 8]), STEPS)
def test_seats_queues_and_waiters(
    seats: int, queues: int, steps: list[tuple[str, int, int, int, float]]
) -> None:
    """Seats are counted right, queues bounded, nobody waits for nothing, and all end."""
    run = _Run(seats, queues)
    for each in steps:
        run.step(*each)
    run.drain()


@given(st.integers(1, 12), STEPS)
def test_no_more_seats_than_there_are(seats: int, steps: list[tuple[str, int, int, int, float]]) -> None:
    """But for one request that is wider than the level, alone."""
    run = _Run(seats, 8)
    for each in steps:
        if each[0] not in ("limit", "pause", "resume"):
            run.step(*each)
            in_use = run.level.seats_in_use
            assert in_use <= seats or len(run.level.executing) + len(run.leaving) == 1
