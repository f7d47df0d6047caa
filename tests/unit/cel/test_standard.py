"""The standard definitions: conversions, arithmetic, times. Row R03.

cel-spec's own cases are in `test_spec`; here are what those leave out, and what cel-go (with Go's package
time and strconv) makes of it.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.cel import types
from apiserver.cel.environment import Environment
from apiserver.cel.library import timestamps
from apiserver.cel.library.standard import STANDARD
from apiserver.cel.values import INT_MAX, INT_MIN, UINT_MAX, Duration, EvaluationError, Timestamp, UInt

ENVIRONMENT: Final = Environment(
    {
        "a": types.INT,
        "b": types.INT,
        "x": types.DYN,
        "y": types.DYN,
        "t": types.TIMESTAMP,
        "s": types.STRING,
        "d": types.DURATION,
    },
    [STANDARD],
)
SECOND: Final = 1_000_000_000
INT64: Final = st.integers(INT_MIN, INT_MAX)
TIMESTAMPS: Final = st.integers(timestamps.TIMESTAMP_MIN, timestamps.TIMESTAMP_MAX).map(Timestamp)


def value(text: str, **variables: Any) -> Any:
    return ENVIRONMENT.program(ENVIRONMENT.check(text))(variables).value


# ---- conversions

# function: what it is given, what it makes of it; an error as text
CONVERSIONS: Final[dict[str, list[tuple[Any, Any]]]] = {
    "int": [
        ("42", 42),
        ("+42", 42),
        ("-0", 0),
        (" 42", "type conversion error from 'string' to 'int'"),
        ("4_2", "type conversion error from 'string' to 'int'"),
        ("0x2a", "type conversion error from 'string' to 'int'"),
        ("٤", "type conversion error from 'string' to 'int'"),
        ("9223372036854775808", "type conversion error from 'string' to 'int'"),
        ("9" * 10_000, "type conversion error from 'string' to 'int'"),
        (1.9, 1),
        (-1.9, -1),
        (math.nan, "integer overflow"),
        (math.inf, "integer overflow"),
        (9223372036854775807.0, "integer overflow"),
        (-9223372036854775808.0, "integer overflow"),
        (UInt(INT_MAX + 1), "integer overflow"),
        (Timestamp(-1), -1),
        (Duration(5), 5),
    ],
    "uint": [
        ("42", UInt(42)),
        ("+42", "type conversion error from 'string' to 'uint'"),
        (str(UINT_MAX), UInt(UINT_MAX)),
        (-1, "unsigned integer overflow"),
        (-0.5, "unsigned integer overflow"),
        (18446744073709551615.0, "unsigned integer overflow"),
    ],
    "double": [
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("0x1p-2", 0.25),
        ("-Inf", -math.inf),
        ("infinity", math.inf),
        ("1_0.5", "type conversion error from 'string' to 'double'"),
        ("1.5 ", "type conversion error from 'string' to 'double'"),
        ("1e400", "type conversion error from 'string' to 'double'"),
        (2, 2.0),
    ],
    "bool": [
        ("true", True),
        ("1", True),
        ("F", False),
        ("TrUe", "type conversion error from 'string' to 'bool'"),
        ("yes", "type conversion error from 'string' to 'bool'"),
    ],
    "string": [
        (1, "1"),
        (UInt(7), "7"),
        (True, "true"),
        (b"\xc3\xa9", "é"),
        (b"\xff", "invalid UTF-8 in bytes, cannot convert to string"),
        (0.1, "0.1"),
        (100000.0, "100000"),
        (1000000.0, "1e+06"),
        (123456789.125, "1.23456789125e+08"),
        (-0.0001, "-0.0001"),
        (0.00001, "1e-05"),
        (-0.0, "-0"),
        (math.inf, "+Inf"),
        (math.nan, "NaN"),
        (Duration(5_400 * SECOND), "5400s"),
        (Duration(-SECOND // 2), "-0.5s"),
        (Duration(1), "0.000000001s"),
        (Timestamp(0), "1970-01-01T00:00:00Z"),
        (Timestamp(SECOND // 2), "1970-01-01T00:00:00.5Z"),
        (Timestamp(timestamps.TIMESTAMP_MIN), "0001-01-01T00:00:00Z"),
        (Timestamp(timestamps.TIMESTAMP_MAX), "9999-12-31T23:59:59.999999999Z"),
    ],
    "bytes": [("é", b"\xc3\xa9")],
    "duration": [
        ("1h30m", Duration(5_400 * SECOND)),
        ("-1.5s", Duration(-3 * SECOND // 2)),
        ("1.5h", Duration(5_400 * SECOND)),
        ("1µs1μs1us1ns", Duration(3_001)),
        (".5s", Duration(SECOND // 2)),
        ("0", Duration(0)),
        ("", "type conversion error from 'string' to 'google.protobuf.Duration'"),
        ("1", "type conversion error from 'string' to 'google.protobuf.Duration'"),
        ("1d", "type conversion error from 'string' to 'google.protobuf.Duration'"),
        ("s", "type conversion error from 'string' to 'google.protobuf.Duration'"),
        (".s", "type conversion error from 'string' to 'google.protobuf.Duration'"),
        ("1 s", "type conversion error from 'string' to 'google.protobuf.Duration'"),
        ("320000000000s", "type conversion error from 'string' to 'google.protobuf.Duration'"),
        ("9" * 10_000 + "s", "type conversion error from 'string' to 'google.protobuf.Duration'"),
        (5, Duration(5)),
    ],
    "timestamp": [
        ("1970-01-01T00:00:01Z", Timestamp(SECOND)),
        ("1970-01-01T01:00:00.5+01:00", Timestamp(SECOND // 2)),
        ("1970-01-01T00:00:00-00:30", Timestamp(1_800 * SECOND)),
        ("2000-02-29T00:00:00Z", Timestamp(951_782_400 * SECOND)),
        ("1900-02-29T00:00:00Z", "type conversion error from 'string' to 'google.protobuf.Timestamp'"),
        ("1970-01-01", "type conversion error from 'string' to 'google.protobuf.Timestamp'"),
        ("1970-01-01t00:00:00z", "type conversion error from 'string' to 'google.protobuf.Timestamp'"),
        ("1970-01-01T24:00:00Z", "type conversion error from 'string' to 'google.protobuf.Timestamp'"),
        ("1970-01-01T00:00:60Z", "type conversion error from 'string' to 'google.protobuf.Timestamp'"),
        ("0000-12-31T23:59:59Z", "timestamp overflow"),
        ("9999-12-31T23:59:59-01:00", "timestamp overflow"),
        (1, Timestamp(SECOND)),
        (INT_MAX, "timestamp overflow"),
    ],
}


@pytest.mark.parametrize(
    ("function", "given_value", "want"),
    [
        pytest.param(function, given_value, want, id=f"{function}({repr(given_value)[:40]})")
        for function, cases in CONVERSIONS.items()
        for given_value, want in cases
    ],
)
def test_conversions(function: str, given_value: Any, want: Any) -> None:
    if isinstance(want, str) and (function != "string" or "UTF-8" in want):
        with pytest.raises(EvaluationError) as caught:
            value(f"{function}(x)", x=given_value)
        assert str(caught.value) == want
    else:
        got = value(f"{function}(x)", x=given_value)
        assert (type(got), got) == (type(want), want)


@given(TIMESTAMPS)
def test_a_timestamp_as_text_is_the_same_time(when: Timestamp) -> None:
    assert value("timestamp(string(t)) == t", t=when) is True


@given(st.integers(-(10**15), 10**15).map(Duration))
def test_a_duration_as_text_is_nearly_the_same_duration(length: Duration) -> None:
    """Go has it in seconds as a double, which holds so many digits."""
    assert abs(value("duration(string(d))", d=length) - length) <= abs(length) * 2**-50


# ---- arithmetic


def expected(exact: int) -> int | None:
    return exact if INT_MIN <= exact <= INT_MAX else None


@given(INT64, INT64)
def test_integers_are_exact_or_an_error(a: int, b: int) -> None:
    exact = {"a + b": a + b, "a - b": a - b, "a * b": a * b, "-a": -a}
    if b:
        exact["a / b"] = int(math.copysign(1, a) * math.copysign(1, b)) * (abs(a) // abs(b))
    for text, want in exact.items():
        if expected(want) is None:
            with pytest.raises(EvaluationError, match="integer overflow"):
                value(text, a=a, b=b)
        else:
            assert value(text, a=a, b=b) == want


@given(INT64, INT64.filter(lambda number: number not in (0, -1)))
def test_quotient_and_remainder_make_the_dividend(a: int, b: int) -> None:
    assert value("a / b * b + a % b", a=a, b=b) == a


ARITHMETIC: Final[dict[str, Any]] = {
    "7 / -2": -3,
    "-7 % 2": -1,
    "7u - 2u": UInt(5),
    "1.0 / 0.0": math.inf,
    "-1.0 / 0.0": -math.inf,
    "1.0 / -0.0": -math.inf,
    "0.0 / 0.0 == 0.0 / 0.0": False,
    "0.0 / 0.0 < 1.0 || 0.0 / 0.0 >= 1.0": False,
    "'a' + 'b' < 'b'": True,
    "b'a' + b'b' == b'ab'": True,
    "[1] + [2]": [1, 2],
    "size('🙂é') == 2 && size(b'é') == 2": True,
    "9223372036854775807 < 9223372036854775808.0": False,
    "1 < 2u && 2u > 1.5 && -1 < 0u": True,
    "false < true": True,
    "duration('1h') + duration('30m') > duration('89m')": True,
    "timestamp('2020-01-01T00:00:00Z') + duration('24h') == timestamp('2020-01-02T00:00:00Z')": True,
    "duration('24h').getHours() == 24 && duration('-90s').getMinutes() == -1": True,
}


@pytest.mark.parametrize(("text", "want"), ARITHMETIC.items(), ids=ARITHMETIC)
def test_operators(text: str, want: Any) -> None:
    got = value(text)
    assert (type(got), got) == (type(want), want)


OVERFLOWS: Final = {
    "9223372036854775807 + 1": "integer overflow",
    "-9223372036854775808 / -1": "integer overflow",
    "-9223372036854775808 % -1": "integer overflow",
    "-(-9223372036854775808)": "integer overflow",
    "0u - 1u": "unsigned integer overflow",
    "18446744073709551615u * 2u": "unsigned integer overflow",
    "1u / 0u": "division by zero",
    "1u % 0u": "modulus by zero",
    "timestamp('9999-12-31T23:59:59Z') + duration('1s')": "timestamp overflow",
    "timestamp('0001-01-01T00:00:00Z') - duration('1ns')": "timestamp overflow",
    "timestamp('9999-12-31T23:59:59Z') - timestamp('0001-01-01T00:00:00Z')": "duration overflow",
    "duration('2562047h') + duration('2562047h')": "duration overflow",
}


@pytest.mark.parametrize(("text", "want"), OVERFLOWS.items(), ids=OVERFLOWS)
def test_overflows_are_errors(text: str, want: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        value(text)
    assert str(caught.value) == want


# ---- what a time was written as, which only its text shows: cel-go common/types/timestamp.go

TEXTS: Final[dict[str, str]] = {
    "a zone is kept": "string(timestamp('2020-01-01T12:00:00.5+01:30')) == '2020-01-01T12:00:00.5+01:30'",
    "a zone behind": "string(timestamp('2020-01-01T00:00:00-05:00')) == '2020-01-01T00:00:00-05:00'",
    "none": "string(timestamp('2020-01-01T00:00:00+00:00')) == '2020-01-01T00:00:00Z'",
    "after a time": "string(duration('25h') + timestamp('2020-01-01T00:00:00+02:00'))"
    " == '2020-01-02T01:00:00+02:00'",
    "before a time": "string(timestamp('2020-01-01T00:00:00+02:00') - duration('1h'))"
    " == '2019-12-31T23:00:00+02:00'",
    "a number has none": "string(timestamp(int(timestamp('1970-01-01T01:00:00+01:00'))))"
    " == '1970-01-01T00:00:00Z'",
    "it is the same time": "timestamp('2020-01-01T12:00:00+01:00') == timestamp('2020-01-01T11:00:00Z')",
    "also in a list": "timestamp('2020-01-01T12:00:00+01:00') in [timestamp('2020-01-01T11:00:00Z')]",
    "its parts are those in UTC": "timestamp('2020-01-01T00:30:00+01:00').getHours() == 23",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_time_is_shown_in_the_zone_that_it_was_written_in(text: str) -> None:
    assert value(text) is True


@given(TIMESTAMPS, st.integers(-24 * 60 + 1, 24 * 60 - 1))
def test_a_time_as_text_is_the_same_time_in_any_zone(when: Timestamp, minutes: int) -> None:
    """Years may be out of those that a timestamp has, by up to a day."""
    shown = timestamps.format_timestamp(Timestamp(when, minutes * 60))
    assert shown.endswith("Z") == (minutes == 0)
    read = timestamps.parse_timestamp(shown)
    if not shown.startswith("10000-"):
        assert read is not None
        assert (read, read.offset) == (when, minutes * 60)


# ---- parts of times

ZONES: Final = ["UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia"]


@given(st.integers(-(2**31), 2**32), st.integers(0, 999_999), st.sampled_from(ZONES))
def test_the_parts_of_a_time_are_those_of_the_zone(seconds: int, micros: int, zone: str) -> None:
    there = datetime.fromtimestamp(seconds, ZoneInfo(zone)).replace(microsecond=micros)
    when = Timestamp(seconds * SECOND + micros * 1_000)
    want = [
        there.year,
        there.month - 1,
        there.timetuple().tm_yday - 1,
        there.day - 1,
        there.day,
        there.isoweekday() % 7,
        there.hour,
        there.minute,
        there.second,
        there.microsecond // 1_000,
    ]
    assert [value(f"t.{name}(s)", t=when, s=zone) for name in timestamps.PARTS] == want


PARTS: Final[dict[str, tuple[str, int]]] = {
    "an offset": ("timestamp('2020-01-01T00:00:00Z').getHours('+01:30')", 1),
    "an offset that is behind": ("timestamp('2020-01-01T00:00:00Z').getMinutes('-01:30')", 30),
    "no zone": ("timestamp('2020-01-01T00:00:00Z').getHours('')", 0),
    "before the first year": ("timestamp('0001-01-01T00:00:00Z').getFullYear('-01:00')", 0),
    "after the last year": ("timestamp('9999-12-31T23:59:59Z').getFullYear('+01:00')", 10_000),
    "a zone on the first day": ("timestamp('0001-01-01T00:00:00Z').getDayOfWeek('UTC')", 1),
}


@pytest.mark.parametrize(("text", "want"), PARTS.values(), ids=PARTS)
def test_zones(text: str, want: int) -> None:
    assert value(text) == want


@pytest.mark.parametrize("zone", ["Nowhere/Land", "../../etc/passwd", "/etc/passwd", "x:y", "1:", "\0"])
def test_unknown_zones_are_errors(zone: str) -> None:
    with pytest.raises(EvaluationError):
        value("t.getHours(s)", t=Timestamp(0), s=zone)
