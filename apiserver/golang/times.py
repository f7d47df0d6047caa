"""Parses and writes times in RFC 3339 as Go's package time does, with its errors.

It accepts more than the standard: an hour of one digit, a fraction of any length, also after a comma, and
offsets of 24 hours and 60 minutes. The year 0 is valid, and an offset or a number of seconds may lead beyond
the years of four digits: `-0001-12-31T23:00:00Z`, `10000-01-01T00:00:00Z`. Go writes these, but does not
parse them.
"""

from __future__ import annotations

import re
from datetime import date
from operator import le
from typing import Final, NamedTuple

# Go's zero time is none: in JSON it is null.
ZERO_TIME: Final = "0001-01-01T00:00:00Z"
ZERO_MICRO_TIME: Final = "0001-01-01T00:00:00.000000Z"
_SECONDS: Final = "2006-01-02T15:04:05Z07:00"
_MICROSECONDS: Final = "2006-01-02T15:04:05.000000Z07:00"


# The years of four digits, which RFC 3339 has.
YEAR_ZERO_S: Final = -62_167_219_200
YEAR_10000_S: Final = 253_402_300_800
_DAY_S: Final = 86_400
_EPOCH: Final = date(1970, 1, 1).toordinal()
# The Gregorian calendar repeats itself after 400 years. Python's has the years 1 to 9999 only.
_CYCLE_YEARS: Final = 400
_CYCLE_DAYS: Final = 146_097
# What Go writes, but does not parse. Its years have 12 digits at most, as seconds have 64 bits.
_BEYOND: Final = re.compile(
    r"(-[0-9]{4,12}|[0-9]{5,12})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?Z"
)


class InvalidTime(ValueError):
    """A text that is not a time. The message is Go's."""


class FarTime(str):
    """The text of a time beyond the years of four digits, decoded from a number, as in protobuf.

    It is valid, although Go would not parse it.
    """

    __slots__ = ()


class GoTime(NamedTuple):
    """A point in time, of any year.

    seconds: since 1970, in UTC. nanoseconds: the fraction. offset: the UTC offset of the text in seconds.
    """

    seconds: int
    nanoseconds: int = 0
    offset: int = 0


def days_since_epoch(year: int, month: int, day: int) -> int:
    """Returns the days from 1970 to a date in any year. Raises ValueError for a date that does not exist."""
    cycles, of_cycle = divmod(year, _CYCLE_YEARS)
    return date(of_cycle + _CYCLE_YEARS, month, day).toordinal() - _EPOCH + (cycles - 1) * _CYCLE_DAYS


def calendar_day(days: int) -> tuple[int, date]:
    """Returns the year of a day since 1970, and the same day in a year of Python's calendar."""
    cycles, of_cycle = divmod(days + _EPOCH - 1, _CYCLE_DAYS)
    day = date.fromordinal(of_cycle + 1)
    return day.year + cycles * _CYCLE_YEARS, day


def time_text(seconds: int, fraction: str = "") -> str:
    """Returns the text of a time in UTC. fraction: digits after the point."""
    days, of_day = divmod(seconds, _DAY_S)
    year, day = calendar_day(days)
    sign, point = "-" if year < 0 else "", "." if fraction else ""
    return (
        f"{sign}{abs(year):04}-{day.month:02}-{day.day:02}"
        f"T{of_day // 3600:02}:{of_day // 60 % 60:02}:{of_day % 60:02}{point}{fraction}Z"
    )


def written_time(text: str) -> GoTime:
    """Returns the time in a text: in UTC of any year, or in any form that Go parses. Raises InvalidTime."""
    if (found := _BEYOND.fullmatch(text)) is None:
        return parse_time(text)
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    return _moment(text, (year, month, day, hour, minute, second), found[7] or "", 0)


def _moment(text: str, numbers: tuple[int, int, int, int, int, int], fraction: str, offset: int) -> GoTime:
    year, month, day, hour, minute, second = numbers
    try:
        days = days_since_epoch(year, month, day)
    except ValueError:
        raise _out_of_range(text, "day") from None
    seconds = days * _DAY_S + hour * 3600 + minute * 60 + second
    return GoTime(seconds - offset, int(fraction[:9].ljust(9, "0")), offset)


class _Element(NamedTuple):
    """An element of a layout, with the text before it.

    pattern: that of its text. name, least, most: those of its range, which is checked at once.
    """

    before: str
    layout: str
    pattern: re.Pattern[str]
    name: str = ""
    least: int = 0
    most: int = 0


_TWO: Final = re.compile(r"[0-9]{2}")
_OFFSET: Final = re.compile(r"Z|([+-])([0-9]{2}):([0-9]{2})")
_DATE_AND_TIME: Final = (
    _Element("", "2006", re.compile(r"[0-9]{4}")),
    _Element("-", "01", _TWO, "month", 1, 12),
    _Element("-", "02", _TWO),
    _Element("T", "15", re.compile(r"[0-9]{1,2}"), "hour", 0, 23),
    _Element(":", "04", _TWO, "minute", 0, 59),
    _Element(":", "05", _TWO, "second", 0, 59),
)
_MICRO: Final = _Element("", ".000000", re.compile(r"[.,][0-9]{6}"))
# It may be lacking, and is in no layout.
_FRACTION: Final = _Element("", "", re.compile(r"([.,][0-9]+)?"))
_ZONE: Final = _Element("", "Z07:00", _OFFSET)


def parse_time(text: str, *, is_micro: bool = False) -> GoTime:
    """Parse a time. Raises InvalidTime.

    is_micro: whether it has six digits of a second, as a MicroTime.
    """
    layout = _MICROSECONDS if is_micro else _SECONDS
    rest, numbers = text, []
    for element in _DATE_AND_TIME:
        found, rest = _next(text, layout, rest, element)
        number = int(found[0])
        if element.name and not element.least <= number <= element.most:
            raise _out_of_range(text, element.name)
        numbers.append(number)
    fraction, rest = _next(text, layout, rest, _MICRO if is_micro else _FRACTION)
    zone, rest = _next(text, layout, rest, _ZONE)
    offset = _offset(text, zone)
    if rest:
        raise InvalidTime(f"parsing time {_quoted(text)}: extra text: {_quoted(rest)}")
    year, month, day, hour, minute, second = numbers
    return _moment(text, (year, month, day, hour, minute, second), fraction[0][1:], offset)


_is_date = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}").fullmatch
_clock = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})").fullmatch


def is_date(text: str) -> bool:
    """Returns whether a text is a date of JSON schemas. Source: k8s.io/kube-openapi, strfmt, IsDate."""
    try:
        return bool(_is_date(text)) and days_since_epoch(*map(int, text.split("-"))) is not None
    except ValueError:
        return False


def is_date_time(text: str) -> bool:
    """Returns whether a text is a time of JSON schemas, with any offset. Source: strfmt, IsDateTime."""
    day, t, rest = text.lower().partition("t")
    clock = _clock(rest.partition("t")[0]) if t and is_date(day) else None
    return clock is not None and all(map(le, clock.groups(), ("23", "59", "59")))


def _next(text: str, layout: str, rest: str, element: _Element) -> tuple[re.Match[str], str]:
    if not rest.startswith(element.before):
        raise _unreadable(text, layout, rest, element.before)
    rest = rest.removeprefix(element.before)
    found = element.pattern.match(rest)
    if found is None:
        raise _unreadable(text, layout, rest, element.layout)
    return found, rest[found.end() :]


def _offset(text: str, zone: re.Match[str]) -> int:
    if zone[0] == "Z":
        return 0
    hours, minutes = int(zone[2]), int(zone[3])
    if hours > 24:
        raise _out_of_range(text, "time zone offset hour")
    if minutes > 60:
        raise _out_of_range(text, "time zone offset minute")
    offset = hours * 3600 + minutes * 60
    return -offset if zone[1] == "-" else offset


def _unreadable(text: str, layout: str, rest: str, element: str) -> InvalidTime:
    return InvalidTime(
        f'parsing time {_quoted(text)} as "{layout}": cannot parse {_quoted(rest)} as "{element}"'
    )


def _out_of_range(text: str, what: str) -> InvalidTime:
    return InvalidTime(f"parsing time {_quoted(text)}: {what} out of range")


def _quoted(text: str) -> str:
    """Returns a text as the package quotes it: all but printable ASCII byte by byte."""
    shown = "".join(
        f"\\{chr(byte)}" if byte in b'"\\' else chr(byte) if 0x20 <= byte < 0x80 else f"\\x{byte:02x}"
        for byte in text.encode("utf-8", "surrogatepass")
    )
    return f'"{shown}"'
