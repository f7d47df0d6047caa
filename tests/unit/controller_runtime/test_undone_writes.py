"""Two that both think that they are right must not write as fast as they can."""

from __future__ import annotations

import logging

import pytest

from apiserver.controller_runtime.undone_writes import BACKOFF, FORGET_S, FREE_MAX, KEYS_MAX, UndoneWrites
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from tests.unit.controllers.fake_clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def queue(clock: FakeClock) -> WorkQueue[str]:
    return WorkQueue("test", Backoff(1.0, 4.0), clock=clock)


@pytest.fixture
def undone(queue: WorkQueue[str]) -> UndoneWrites[str]:
    return UndoneWrites(queue)


def test_a_key_is_left_alone_for_longer_and_longer(undone: UndoneWrites[str], clock: FakeClock) -> None:
    delays = []
    for _ in range(FREE_MAX + 12):
        delays.append(undone.cooldown_s("a", "content"))
        clock.advance(delays[-1])
    assert delays[: FREE_MAX + 1] == [0.0] * (FREE_MAX + 1)
    assert delays[FREE_MAX + 1 : FREE_MAX + 4] == [1.0, 2.0, 4.0]
    assert delays[-1] == BACKOFF.max_s


def test_what_is_different_each_time_is_not_undone(undone: UndoneWrites[str], queue: WorkQueue[str]) -> None:
    assert [undone.cooldown_s("a", number) for number in range(20)] == [0.0] * 20
    assert queue.counters.undone == 0


def test_keys_do_not_count_for_each_other(undone: UndoneWrites[str]) -> None:
    assert [undone.cooldown_s(str(number), "content") for number in range(20)] == [0.0] * 20


def test_it_is_forgotten_after_a_while(undone: UndoneWrites[str], clock: FakeClock) -> None:
    for _ in range(10):
        undone.cooldown_s("a", "content")
    clock.advance(FORGET_S + 1)
    assert undone.cooldown_s("a", "content") == 0.0
    assert undone.cooldown_s("a", "content") == 0.0


def test_it_is_told_once_for_all_keys_and_counted(
    undone: UndoneWrites[str], queue: WorkQueue[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for key in "abc":
            for _ in range(10):
                undone.cooldown_s(key, "content")
    assert len(caplog.records) == 1
    assert queue.counters.undone == 27


def test_no_more_keys_are_remembered_than_the_bound(undone: UndoneWrites[str]) -> None:
    for _ in range(10):
        undone.cooldown_s("oldest", "content")
    for number in range(KEYS_MAX):
        undone.cooldown_s(str(number), "content")
    assert undone.cooldown_s("oldest", "content") == 0.0
