"""Failed authentications are answered at once, unless there are very many of them."""

from __future__ import annotations

import pytest

from apiserver.endpoints.middleware import BURST, DELAY_S_MAX, FAILURES_PER_S, FailureThrottle


def test_a_burst_is_answered_at_once() -> None:
    throttle = FailureThrottle()
    assert {throttle.delay_s(1000.0) for _ in range(BURST)} == {0.0}
    assert throttle.delay_s(1000.0) > 0


def test_beyond_it_there_are_as_many_answers_in_a_second_as_the_rate_allows() -> None:
    throttle = FailureThrottle()
    answered_at = [1000.0 + throttle.delay_s(1000.0) for _ in range(BURST + FAILURES_PER_S)]
    assert answered_at[-1] == pytest.approx(1001.0)
    assert answered_at == sorted(answered_at)


def test_no_answer_waits_longer_than_the_most_and_the_debt_is_forgotten() -> None:
    throttle = FailureThrottle()
    delays = [throttle.delay_s(1000.0) for _ in range(10 * (BURST + FAILURES_PER_S))]
    assert max(delays) == DELAY_S_MAX
    later = 1000.0 + DELAY_S_MAX + BURST / FAILURES_PER_S
    assert {throttle.delay_s(later) for _ in range(BURST)} == {0.0}
