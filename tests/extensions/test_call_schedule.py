"""In which order a worker gets calls, and which ones fail when it ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import pytest

from apiserver.extensions.hooks import Kind, Mode, OnError
from apiserver.extensions.host.call_schedule import CallSchedule
from apiserver.extensions.host.pending_calls import PendingCall
from apiserver.extensions.host.runner import HookInfo


def call(number: int, mode: Mode = Mode.TASK, kind: Kind = Kind.MUTATE) -> PendingCall:
    hook = HookInfo(number, kind, "f", "f:1", mode, frozenset(), 1.0, OnError.FAIL, False, {})
    return PendingCall(number, hook, b"{}", 1.0)


def begin_all(schedule: CallSchedule) -> list[int]:
    begun = []
    while (found := schedule.next()) is not None:
        schedule.begin(found)
        begun.append(found.number)
    return begun


class Case(NamedTuple):
    """Calls that run when a worker ends.

    failed: the numbers of those that fail. then: of those that begin afterwards.
    """

    running: Sequence[tuple[int, Mode, Kind]]
    is_known: bool
    failed: Sequence[int]
    then: Sequence[int]


TASK, ALONE, MUTATE = Mode.TASK, Mode.ALONE, Kind.MUTATE
ENDS: Final = {
    "the only one fails": Case([(1, TASK, MUTATE)], False, [1], [9]),
    "of several, each is tried alone": Case([(1, TASK, MUTATE), (2, TASK, MUTATE)], False, [], [1]),
    "reconciliations are not tried": Case([(1, TASK, MUTATE), (2, TASK, Kind.RECONCILE)], False, [2], [1]),
    "none fails if another has ended it": Case([(1, TASK, MUTATE), (2, TASK, MUTATE)], True, [], [9, 1, 2]),
}


@pytest.mark.parametrize("case", ENDS.values(), ids=ENDS)
async def test_which_calls_fail_when_a_worker_ends(case: Case) -> None:
    schedule = CallSchedule()
    for each in case.running:
        schedule.begin(call(*each))
    schedule.wait(call(9))
    after = schedule.worker_ended(is_known=case.is_known)
    assert [each.number for each in after.failed] == case.failed
    assert begin_all(schedule) == case.then


async def test_a_function_that_needs_the_worker_gets_it_alone_and_in_order() -> None:
    schedule = CallSchedule()
    for number, mode in ((1, TASK), (2, ALONE), (3, TASK)):
        schedule.wait(call(number, mode))
    assert begin_all(schedule) == [1, 2]
    assert schedule.end(1) is not None
    assert schedule.end(1) is None
    assert begin_all(schedule) == []
    schedule.end(2)
    assert begin_all(schedule) == [3]


async def test_calls_that_are_over_are_passed_over() -> None:
    schedule = CallSchedule()
    over = call(1)
    for each in (over, call(2)):
        schedule.wait(each)
    over.future.cancel()
    assert begin_all(schedule) == [2]


async def test_calls_go_on_in_new_code_before_those_that_wait() -> None:
    schedule = CallSchedule()
    for number in (1, 2):
        schedule.begin(call(number))
    schedule.wait(call(3))
    assert [each.number for each in schedule.repeat_running()] == [1, 2]
    assert begin_all(schedule) == [1, 2, 3]
