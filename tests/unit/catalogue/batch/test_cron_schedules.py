"""Schedules of CronJobs: https://en.wikipedia.org/wiki/Cron, and robfig/cron's additions."""

from __future__ import annotations

import contextlib
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.catalogue.batch.cron_schedules import InvalidSchedule, check_schedule

SCHEDULES: Final = (
    "* * * * *",
    "*/15 0-6/2,12 1,15 JAN-mar sun",
    "5/10 ? ? * ?",
    "0 0 31 12 6",
    " 1  2 3 4 5 ",
    "@hourly",
    "@every 1h30m",
    "TZ=UTC 0 0 * * *",
)
INVALID_SCHEDULES: Final = {
    "": "empty spec string",
    "* * * *": "expected exactly 5 fields, found 4: [* * * *]",
    "60 * * * *": "end of range (60) above maximum (59): 60",
    "* * 0 * *": "beginning of range (0) below minimum (1): 0",
    "* * * * 7": "end of range (7) above maximum (6): 7",
    "5-3 * * * *": "beginning of range (5) beyond end of range (3): 5-3",
    "1-2-3 * * * *": "too many hyphens: 1-2-3",
    "*/2/3 * * * *": "too many slashes: */2/3",
    "*/0 * * * *": "step of range should be a positive number: */0",
    "x * * * *": 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax',
    "@never": "unrecognized descriptor: @never",
    "@every x": 'failed to parse duration @every x: time: invalid duration "x"',
    "TZ=Nowhere * * * * *": "provided bad location Nowhere: unknown time zone Nowhere",
}


@pytest.mark.parametrize("text", SCHEDULES)
def test_schedules(text: str) -> None:
    check_schedule(text)


@pytest.mark.parametrize(("text", "problem"), INVALID_SCHEDULES.items())
def test_invalid_schedules(text: str, problem: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        check_schedule(text)
    assert str(caught.value) == problem


@given(st.text(alphabet="0123456789*/-,?@ LWjan", max_size=40))
def test_any_text_is_a_schedule_or_is_not(text: str) -> None:
    """Nothing else is raised."""
    with contextlib.suppress(InvalidSchedule):
        check_schedule(text)
