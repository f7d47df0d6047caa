"""A token bucket."""

from __future__ import annotations

from apiserver.load.throttle import Throttle


def test_a_throttle_lets_a_burst_through_and_then_so_many_per_second() -> None:
    now = 0.0
    throttle = Throttle(10, 3, lambda: now)
    assert [round(throttle.take(), 3) for _ in range(5)] == [0, 0, 0, 0.1, 0.2]
    now = 10.0
    assert [round(throttle.take(), 3) for _ in range(4)] == [0, 0, 0, 0.1]
