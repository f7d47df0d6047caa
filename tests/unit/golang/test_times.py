"""Times as Go's package time parses them. Texts that are refused are those of a kube-apiserver 1.36."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.golang.times import InvalidTime, parse_time, time_text, written_time

DAY: Final = "2024-01-01"
# How times are written that are taken, and what they are.
TAKEN: Final[dict[str, datetime]] = {
    f"{DAY}T00:00:00Z": datetime(2024, 1, 1, tzinfo=UTC),
    f"{DAY}T1:00:00Z": datetime(2024, 1, 1, 1, tzinfo=UTC),
    f"{DAY}T00:00:00.5Z": datetime(2024, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC),
    f"{DAY}T00:00:00,5Z": datetime(2024, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC),
    f"{DAY}T00:00:00.1234567891Z": datetime(2024, 1, 1, 0, 0, 0, 123_456, tzinfo=UTC),
    f"{DAY}T00:00:00+01:30": datetime(2023, 12, 31, 22, 30, tzinfo=UTC),
    f"{DAY}T00:00:00-24:00": datetime(2024, 1, 2, tzinfo=UTC),
    f"{DAY}T00:00:00+00:60": datetime(2023, 12, 31, 23, tzinfo=UTC),
    "2024-02-29T00:00:00Z": datetime(2024, 2, 29, tzinfo=UTC),
}
# What cannot be read of a text, and the element of the layout that it is no text of.
UNREADABLE: Final[dict[str, tuple[str, str]]] = {
    "": ("", "2006"),
    "é": (r"\xc3\xa9", "2006"),
    '"\\': (r"\"\\", "2006"),
    "24-01-01T00:00:00Z": ("24-01-01T00:00:00Z", "2006"),
    "2024": ("", "-"),
    "2024-": ("", "01"),
    "2024-1-1": ("1-1", "01"),
    DAY: ("", "T"),
    f"{DAY}t00:00:00Z": ("t00:00:00Z", "T"),
    f"{DAY}T": ("", "15"),
    f"{DAY}T-1:00:00Z": ("-1:00:00Z", "15"),
    f"{DAY}T01:0:00Z": ("0:00Z", "04"),
    f"{DAY}T00:00:00": ("", "Z07:00"),
    f"{DAY}T00:00:00\n": (r"\x0a", "Z07:00"),
    f"{DAY}T00:00:00.Z": (".Z", "Z07:00"),
    f"{DAY}T00:00:00+": ("+", "Z07:00"),
    f"{DAY}T00:00:00+0100": ("+0100", "Z07:00"),
    f"{DAY}T00:00:00+1:00": ("+1:00", "Z07:00"),
}
# What is wrong with texts that can be read.
WRONG: Final[dict[str, str]] = {
    "2024-13-01T00:00:00Z": "month out of range",
    "2024-00-01T00:00:00Z": "month out of range",
    "2024-02-30T00:00:00Z": "day out of range",
    "2023-02-29T00:00:00Z": "day out of range",
    "0000-02-30T00:00:00Z": "day out of range",
    f"{DAY[:-2]}00T00:00:00Z": "day out of range",
    f"{DAY}T25:00:00Z": "hour out of range",
    f"{DAY}T00:60:00Z": "minute out of range",
    f"{DAY}T00:00:60Z": "second out of range",
    f"{DAY}T00:00:00+25:00": "time zone offset hour out of range",
    f"{DAY}T00:00:00+00:61": "time zone offset minute out of range",
    f"{DAY}T00:00:00Zx": 'extra text: "x"',
}
MICRO: Final[dict[str, tuple[str, str]]] = {
    f"{DAY}T00:00:00Z": ("Z", ".000000"),
    f"{DAY}T00:00:00.5Z": (".5Z", ".000000"),
    f"{DAY}T00:00:00.1234567891Z": ("7891Z", "Z07:00"),
}


EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(("text", "time"), TAKEN.items(), ids=TAKEN)
def test_times(text: str, time: datetime) -> None:
    seconds, nanoseconds, _ = parse_time(text)
    assert EPOCH + timedelta(seconds=seconds, microseconds=nanoseconds // 1000) == time


def test_micro_times_have_six_digits_of_a_second() -> None:
    assert parse_time(f"{DAY}T00:00:00.000001Z", is_micro=True).nanoseconds == 1_000


# Of texts that Go parses: how it writes them in UTC, and the seconds that protobuf has.
EDGE_YEARS: Final[dict[str, tuple[str, int]]] = {
    "0000-01-01T00:00:00Z": ("0000-01-01T00:00:00Z", -62_167_219_200),
    "0000-02-29T00:00:00Z": ("0000-02-29T00:00:00Z", -62_162_121_600),
    "0000-01-01T00:00:00+01:00": ("-0001-12-31T23:00:00Z", -62_167_222_800),
    "0000-01-01T00:00:00+24:60": ("-0001-12-30T23:00:00Z", -62_167_309_200),
    "0001-01-01T00:00:00+01:00": ("0000-12-31T23:00:00Z", -62_135_600_400),
    "9999-12-31T23:59:59-01:00": ("10000-01-01T00:59:59Z", 253_402_304_399),
    "9999-12-31T00:00:00-24:60": ("10000-01-01T01:00:00Z", 253_402_304_400),
}


@pytest.mark.parametrize(("text", "written", "seconds"), [(k, *v) for k, v in EDGE_YEARS.items()])
def test_years_that_python_does_not_have(text: str, written: str, seconds: int) -> None:
    assert parse_time(text).seconds == seconds
    assert time_text(seconds) == written
    assert written_time(written).seconds == seconds


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_every_second_that_is_written_can_be_read(seconds: int) -> None:
    assert written_time(time_text(seconds, "5")) == (seconds, 500_000_000, 0)


@pytest.mark.parametrize(("text", "part"), UNREADABLE.items(), ids=map(repr, UNREADABLE))
def test_texts_that_cannot_be_read(text: str, part: tuple[str, str]) -> None:
    rest, element = part
    with pytest.raises(InvalidTime) as caught:
        parse_time(text)
    assert str(caught.value).endswith(
        f' as "2006-01-02T15:04:05Z07:00": cannot parse "{rest}" as "{element}"'
    )


@pytest.mark.parametrize(("text", "problem"), WRONG.items(), ids=WRONG)
def test_texts_that_are_no_time(text: str, problem: str) -> None:
    with pytest.raises(InvalidTime) as caught:
        parse_time(text)
    assert str(caught.value) == f'parsing time "{text}": {problem}'


@pytest.mark.parametrize(("text", "part"), MICRO.items(), ids=MICRO)
def test_texts_that_are_no_micro_time(text: str, part: tuple[str, str]) -> None:
    rest, element = part
    with pytest.raises(InvalidTime) as caught:
        parse_time(text, is_micro=True)
    assert str(caught.value) == (
        f'parsing time "{text}" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "{rest}" as "{element}"'
    )
