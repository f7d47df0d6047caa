"""Times in objects (row B04): RFC 3339, UTC, whole seconds."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.meta import timestamps

SHOWN: Final = {
    "the epoch": (0, "1970-01-01T00:00:00Z"),
    "a whole second": (1_700_000_000, "2023-11-14T22:13:20Z"),
    "a part of a second is cut off, not rounded": (1_700_000_000.999_9, "2023-11-14T22:13:20Z"),
    "a leap day": (1_709_164_800, "2024-02-29T00:00:00Z"),
    "beyond 32 bits": (4_102_444_800, "2100-01-01T00:00:00Z"),
}


@pytest.mark.parametrize(("unix_s", "text"), SHOWN.values(), ids=SHOWN)
def test_times_are_formatted(unix_s: float, text: str) -> None:
    assert timestamps.to_text(unix_s) == text


READ: Final[dict[str, tuple[str, float | None]]] = {
    "UTC": ("2023-11-14T22:13:20Z", 1_700_000_000.0),
    "another zone": ("2023-11-14T23:13:20+01:00", 1_700_000_000.0),
    "a zone west of Greenwich": ("2023-11-14T16:43:20-05:30", 1_700_000_000.0),
    "parts of a second": ("2023-11-14T22:13:20.250Z", 1_700_000_000.25),
    "microseconds, as in MicroTime": ("2023-11-14T22:13:20.000001Z", 1_700_000_000.000001),
    "a year that Python does not have": ("0000-01-01T00:00:00Z", -62_167_219_200.0),
    "a year that no client can write": ("10000-01-01T00:59:59Z", 253_402_304_399.0),
    "an hour of one digit, as Go takes it": ("2023-11-14T1:13:20Z", 1_699_924_400.0),
    "nothing": ("", None),
    "a word": ("yesterday", None),
    "no zone": ("2023-11-14T22:13:20", None),
    "only a day": ("2023-11-14", None),
    "a day that is not": ("2023-02-29T00:00:00Z", None),
    "an hour that is not": ("2023-11-14T25:00:00Z", None),
    "something after it": ("2023-11-14T22:13:20Z ", None),
    # ISO 8601 allows these, RFC 3339 does not, and Go's time.RFC3339 neither.
    "a space instead of T": ("2023-11-14 22:13:20Z", None),
    "no separators": ("20231114T221320Z", None),
    "no seconds": ("2023-11-14T22:13Z", None),
    "a day of a week": ("2023-W46-2T22:13:20Z", None),
    "a year of twenty digits": (f"{'1' * 20}-01-01T00:00:00Z", None),
    "a year of thousands of digits": (f"{'1' * 5_000}-01-01T00:00:00Z", None),
    "a zone without minutes": ("2023-11-14T22:13:20+01", None),
}


@pytest.mark.parametrize(("text", "unix_s"), READ.values(), ids=READ)
def test_how_a_time_is_read(text: str, unix_s: float | None) -> None:
    assert timestamps.from_text(text) == unix_s


@given(st.integers(min_value=0, max_value=253_402_300_799))
def test_formatted_times_can_be_parsed(unix_s: int) -> None:
    assert timestamps.from_text(timestamps.to_text(unix_s)) == unix_s
