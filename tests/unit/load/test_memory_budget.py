"""The pressure follows the memory that the process has, and does not flutter at its bounds."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.load.memory_budget import RETRY_AFTER_S, MemoryBudget, Pressure

# Percent of the limit, one after the other -> the pressure.
COURSES: Final[dict[str, list[tuple[int, Pressure]]]] = {
    "up": [(69, Pressure.NONE), (70, Pressure.HIGH), (84, Pressure.HIGH), (85, Pressure.CRITICAL)],
    "at once": [(200, Pressure.CRITICAL)],
    "down": [
        *((90, Pressure.CRITICAL), (81, Pressure.CRITICAL), (79, Pressure.HIGH)),
        *((66, Pressure.HIGH), (64, Pressure.NONE), (66, Pressure.NONE)),
    ],
    "down at once": [(90, Pressure.CRITICAL), (20, Pressure.NONE)],
}


@pytest.mark.parametrize("course", COURSES.values(), ids=COURSES)
def test_pressure(course: list[tuple[int, Pressure]]) -> None:
    budget = MemoryBudget(100)
    before = Pressure.NONE
    for percent, pressure in course:
        assert budget.observe(percent) == (pressure is not before)
        assert budget.pressure is pressure
        before = pressure


def test_without_a_limit_there_is_none() -> None:
    budget = MemoryBudget()
    assert not budget.observe(1 << 50)
    assert budget.pressure is Pressure.NONE


def test_a_refusal_is_counted_and_says_when_to_try_again() -> None:
    budget = MemoryBudget(100)
    error = budget.refusal("body")
    assert (error.code, error.retry_after_s) == (429, RETRY_AFTER_S)
    assert budget.refused == {"body": 1}
