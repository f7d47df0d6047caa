"""The measure of hostile tests is itself tested: small requests are no stalls, however many there are."""

from __future__ import annotations

import math
from typing import Final

import pytest

from tests.hostile.support import Stalls, longest_between, longest_turn
from tests.support.api import Api


def test_small_requests_are_no_stalls(api: Api, namespace: str) -> None:
    with longest_turn(api) as turn:
        for _ in range(200):
            api.get(f"/api/v1/namespaces/{namespace}/configmaps").ok()
    assert turn.thread_cpu_s <= 0.02


BOUNDS: Final = (0.01, 0.04, 0.05, 0.075, 0.1, math.inf)


def turns(*turns_s: float) -> Stalls:
    counts = {bound: sum(turn <= bound for turn in turns_s) for bound in BOUNDS}
    return {"thread_cpu": counts, "process_cpu": counts, "wall": counts}


# The turns before and after, how slow the machine is, and what the longest new one counts as.
LONGEST: Final = {
    "no new one": ((0.06,), (0.06,), 1.0, 0.0),
    "a short one": ((0.06,), (0.06, 0.003), 1.0, 0.01),
    "one of many": ((), (0.02, 0.045), 1.0, 0.05),
    "a long one": ((), (0.06, 0.02), 1.0, 0.075),
    "one that is longer than all bounds": ((), (20.0,), 1.0, math.inf),
    "on a machine that is a little slower": ((), (0.06,), 1.3, 0.04),
    "too long also there": ((), (0.08,), 1.3, 0.075),
    "on a machine half as fast": ((), (0.09,), 2.0, 0.04),
    "too long on that": ((), (0.11,), 2.0, 0.075),
}


@pytest.mark.parametrize(("before", "after", "slower", "longest_s"), LONGEST.values(), ids=LONGEST)
def test_the_longest_turn(
    before: tuple[float, ...], after: tuple[float, ...], slower: float, longest_s: float
) -> None:
    found = longest_between(turns(*before), turns(*after), slower=slower)
    assert found.thread_cpu_s == found.process_cpu_s == longest_s
    assert found.wall_s == longest_between(turns(*before), turns(*after)).thread_cpu_s
