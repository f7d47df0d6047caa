"""The library of timestamps and durations: parsing, formatting, and the parts of dates.

The rules are those of Go's package time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

from apiserver.cel.values import INT_MAX, INT_MIN, Duration, EvaluationError, Timestamp
from apiserver.golang.times import InvalidTime, calendar_day, parse_time

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

SECOND: Final = 1_000_000_000
_DAY: Final = 86_400
# Years 1 to 9999 in UTC.
TIMESTAMP_MIN: Final = -62_135_596_800 * SECOND
TIMESTAMP_MAX: Final = 253_402_300_800 * SECOND - 1

_UNITS: Final[Mapping[str, int]] = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3_600 * SECOND,
}
_DURATION: Final = re.compile(r"[+-]?(?:0|(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)")
_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
# More digits have no meaning, and would take quadratic time.
_DIGITS_MAX: Final = 40
_ZONE_CACHE: Final = 64
_ZONE_MAX: Final = 255  # No name is as long, and a call costs the same for whatever text.


def timestamp(nanoseconds: int, offset: int = 0) -> Timestamp:
    if not TIMESTAMP_MIN <= nanoseconds <= TIMESTAMP_MAX:
        raise EvaluationError("timestamp overflow")
    return Timestamp(nanoseconds, offset)


def duration(nanoseconds: int) -> Duration:
    if not INT_MIN <= nanoseconds <= INT_MAX:
        raise EvaluationError("duration overflow")
    return Duration(nanoseconds)


def parse_duration_ns(text: str) -> int | None:
    """Returns the nanoseconds of `1h30m` or `-1.5s`; None if invalid, or longer than 292 years."""
    if not _DURATION.fullmatch(text):
        return None
    total = 0
    for whole, fraction, unit in _PART.findall(text):
        if len(whole) > _DIGITS_MAX:
            return None
        scale = _UNITS[unit]
        fraction = fraction[:_DIGITS_MAX]
        total += int(whole or 0) * scale + int(fraction or 0) * scale // 10 ** len(fraction)
    if text.startswith("-"):
        total = -total
    return total if INT_MIN <= total <= INT_MAX else None


def format_duration(nanoseconds: int) -> str:
    """Format a duration: `5400s`, `-0.5s`."""
    shown = format(Decimal(repr(nanoseconds / SECOND)), "f")
    return (shown.rstrip("0").rstrip(".") if "." in shown else shown) + "s"


def parse_timestamp(text: str) -> Timestamp | None:
    """Parse an RFC 3339 time, which may be out of range; returns None if it is invalid."""
    try:
        seconds, nanoseconds, offset = parse_time(text)
    except InvalidTime:
        return None
    return Timestamp(seconds * SECOND + nanoseconds, offset)


def format_timestamp(when: Timestamp) -> str:
    """Format a timestamp with the offset of its text."""
    seconds, fraction = divmod(when, SECOND)
    day, year, of_day = _date(seconds + when.offset)
    shown = f"{year:04}-{day:%m-%d}T{of_day // 3600:02}:{of_day // 60 % 60:02}:{of_day % 60:02}"
    if fraction:
        shown += f".{fraction:09}".rstrip("0")
    minutes = abs(when.offset) // 60
    zone = f"{'-' if when.offset < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}" if when.offset else "Z"
    return shown + zone


def _date(seconds: int) -> tuple[date, int, int]:
    """Returns day, year and second of the day. A zone may shift it out of the years of Python's calendar."""
    days, second = divmod(seconds, _DAY)
    year, day = calendar_day(days)
    return day, year, second


# ---- parts of dates

_OFFSET: Final = re.compile(r"([+-]?[0-9]+):([+-]?[0-9]+)")


@cache
def _zones() -> frozenset[str]:
    from zoneinfo import available_timezones

    return frozenset(available_timezones())


@lru_cache(_ZONE_CACHE)
def _known_zone(name: str) -> ZoneInfo:
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)


def _zone(name: str) -> ZoneInfo:
    """Returns a time zone. Files of unknown zones are not searched, however often an expression names
    them.
    """
    if name and name not in _zones():
        raise EvaluationError(f"unknown time zone {name}")
    return _known_zone(name or "UTC")


def _offset(seconds: int, zone: str) -> int:
    if len(zone) > _ZONE_MAX:
        raise EvaluationError(f"unknown time zone {zone[:_ZONE_MAX]}")
    if ":" in zone:
        found = _OFFSET.fullmatch(zone)
        if found is None or len(zone) > _DIGITS_MAX:
            raise EvaluationError(f'strconv.Atoi: parsing "{zone.partition(":")[0]}": invalid syntax')
        hours, minutes = int(found[1]), int(found[2])
        return (hours * 60 + (-minutes if zone.startswith("-") else minutes)) * 60
    known = _zone(zone)
    try:
        then = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
        found_offset = then.astimezone(known).utcoffset()
    except OverflowError:  # on the first or last day of all
        found_offset = None
    return 0 if found_offset is None else int(found_offset.total_seconds())


_Part = Callable[[date, int, int], int]
# What each getter returns for a date, a second of the day and a nanosecond.
PARTS: Final[Mapping[str, _Part]] = {
    "getFullYear": lambda day, second, nano: day.year,
    "getMonth": lambda day, second, nano: day.month - 1,
    "getDayOfYear": lambda day, second, nano: day.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda day, second, nano: day.day - 1,
    "getDate": lambda day, second, nano: day.day,
    "getDayOfWeek": lambda day, second, nano: day.isoweekday() % 7,
    "getHours": lambda day, second, nano: second // 3_600,
    "getMinutes": lambda day, second, nano: second // 60 % 60,
    "getSeconds": lambda day, second, nano: second % 60,
    "getMilliseconds": lambda day, second, nano: nano // 1_000_000,
}


def getter(part: str) -> Callable[..., int]:
    """Returns a getter of timestamps, such as `getMonth`, in UTC or a zone (`Europe/Berlin`, `+01:30`)."""
    of = PARTS[part]

    def get(when: int, zone: str = "UTC") -> int:
        seconds, nano = divmod(when, SECOND)
        if zone != "UTC":
            seconds += _offset(seconds, zone)
        day, year, second = _date(seconds)
        return year if part == "getFullYear" else of(day, second, nano)

    return get


def spans(part: str) -> Callable[[int], int]:
    """Returns a getter of durations, such as `getHours`: the whole duration in hours, without the rest."""
    unit = {"getHours": 3_600 * SECOND, "getMinutes": 60 * SECOND, "getSeconds": SECOND}.get(part, 1_000_000)

    def get(length: int) -> int:
        return length // unit if length >= 0 else -(-length // unit)

    return get
