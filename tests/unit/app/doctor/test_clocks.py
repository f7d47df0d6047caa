"""Findings about clocks: what a time in whole seconds, some time in between, can prove."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.app.doctor.clocks import ClockReading, StoreTime, examine, reading
from tests.unit.app.doctor.findings import told

NOW: Final = 1_800_000_000.0
AGREES: Final = [("OK", "the clock agrees with the clock of etcd")]
# The other clock in whole seconds, and when the request began and ended, relative to it.
READINGS: Final[dict[str, tuple[float, float, float, list[tuple[str, str]]]]] = {
    "the same second": (0, 0.2, 0.3, AGREES),
    "rounded down": (0, 0.9, 0.95, AGREES),
    "a slow request proves nothing": (0, -3, 5, AGREES),
    "ahead": (5, 0, 0.5, [("WARNING", "the clock of etcd is 4 s ahead of the clock of this machine")]),
    "behind": (0, 6.5, 6.6, [("WARNING", "the clock of etcd is 6 s behind the clock of this machine")]),
    "far behind": (0, 91, 91.5, [("ERROR", "the clock of etcd is 90 s behind the clock of this machine")]),
}


@pytest.mark.parametrize(("time", "began", "ended", "found"), READINGS.values(), ids=READINGS)
def test_a_clock(time: float, began: float, ended: float, found: list[tuple[str, str]]) -> None:
    assert told(examine([ClockReading("etcd", NOW + time, NOW + began, NOW + ended)], (), NOW)) == found


WRITES: Final = {
    "past": (-3.0, ("OK", "the last write was 3 s ago (2027-01-15 07:59:57 UTC)")),
    "now": (0.4, ("OK", "the last write was 0 s ago (2027-01-15 08:00:00 UTC)")),
    "a little in the future": (
        2.0,
        ("WARNING", "the last write is dated 2027-01-15 08:00:02 UTC, 2 s in the future"),
    ),
    "future": (86.0, ("ERROR", "the last write is dated 2027-01-15 08:01:26 UTC, 86 s in the future")),
}


@pytest.mark.parametrize(("offset_s", "found"), WRITES.values(), ids=WRITES)
def test_a_time_in_the_store(offset_s: float, found: tuple[str, str]) -> None:
    assert told(examine((), [StoreTime("the last write", NOW + offset_s)], NOW)) == [found]


def test_a_header_is_a_reading() -> None:
    headers = {"date": "Fri, 15 Jan 2027 08:00:00 GMT"}
    assert reading("x", headers, 1.0, 2.0) == ClockReading("x", NOW, 1.0, 2.0)


@pytest.mark.parametrize(
    "headers", [{}, {"date": "soon"}, {"date": "Fri, 99 Jan 2027 08:00:00 GMT"}], ids=str
)
def test_no_header_is_no_reading(headers: dict[str, str]) -> None:
    assert reading("x", headers, 1.0, 2.0) is None
