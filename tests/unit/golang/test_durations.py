"""Durations, as Go's package time parses and writes them, and as people do."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.golang.durations import duration_text, parse_duration, short_duration

# Seconds, Go's text, and the short one.
WRITTEN: Final = {
    "nothing": (0, "0s", "0s"),
    "a year": (365 * 86400, "8760h0m0s", "8760h"),
    "an hour": (3600, "1h0m0s", "1h"),
    "a minute": (60, "1m0s", "1m"),
    "ten minutes": (600, "10m0s", "10m"),
    "thirty seconds": (30, "30s", "30s"),
    "minutes and seconds": (90, "1m30s", "1m30s"),
    "hours and minutes": (5400, "1h30m0s", "1h30m"),
    "hours and seconds": (3605, "1h0m5s", "1h0m5s"),
    "milliseconds": (0.5, "500ms", "500ms"),
    "a fraction": (1.5, "1.5s", "1.5s"),
}


@pytest.mark.parametrize(("seconds", "text", "short"), WRITTEN.values(), ids=WRITTEN)
def test_what_is_written(seconds: float, text: str, short: str) -> None:
    assert (duration_text(seconds), short_duration(seconds)) == (text, short)


@given(st.integers(0, 10**8))
def test_what_is_written_is_parsed_as_the_same(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert parse_duration(short_duration(seconds)) == pytest.approx(seconds, abs=1e-9)
