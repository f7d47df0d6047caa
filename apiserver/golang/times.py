"""Times in RFC 3339 as Go's package time parses them, with its words for what is none.

It takes more than the standard: an hour of one digit, a fraction of any length, also after a comma, and
offsets of 24 hours and 60 minutes.
"""

from __future__ import annotations

import calendar
import re
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

# Go's zero time is none: in JSON it is null.
ZERO_TIME: Final = "0001-01-01T00:00:00Z"
ZERO_MICRO_TIME: Final = "0001-01-01T00:00:00.000000Z"
_SECONDS: Final = "2006-01-02T15:04:05Z07:00"
_MICROSECONDS: Final = "2006-01-02T15:04:05.000000Z07:00"


class InvalidTime(ValueError):
    """A text is no time. The message is Go's."""


class _Element(NamedTuple):
    """An element of a layout, after what stands before it.

    pattern: of its text. name, least, most: of its range, which is checked at once.
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


def parse_time(text: str, *, is_micro: bool = False) -> datetime:
    """Returns a time in UTC. Raises InvalidTime.

    is_micro: it has six digits of a second, as a MicroTime.
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
    if not 1 <= day <= (calendar.monthrange(year, month)[1] if year else 31):
        raise _out_of_range(text, "day")
    microseconds = int(fraction[0][1:7].ljust(6, "0"))
    try:
        return datetime(year, month, day, hour, minute, second, microseconds, tzinfo=UTC) - offset
    except (ValueError, OverflowError):
        raise _out_of_range(text, "year") from None


def _next(text: str, layout: str, rest: str, element: _Element) -> tuple[re.Match[str], str]:
    """Returns the match of an element, and what follows it."""
    if not rest.startswith(element.before):
        raise _unreadable(text, layout, rest, element.before)
    rest = rest.removeprefix(element.before)
    found = element.pattern.match(rest)
    if found is None:
        raise _unreadable(text, layout, rest, element.layout)
    return found, rest[found.end() :]


def _offset(text: str, zone: re.Match[str]) -> timedelta:
    if zone[0] == "Z":
        return timedelta()
    hours, minutes = int(zone[2]), int(zone[3])
    if hours > 24:
        raise _out_of_range(text, "time zone offset hour")
    if minutes > 60:
        raise _out_of_range(text, "time zone offset minute")
    offset = timedelta(hours=hours, minutes=minutes)
    return -offset if zone[1] == "-" else offset


def _unreadable(text: str, layout: str, rest: str, element: str) -> InvalidTime:
    return InvalidTime(
        f'parsing time {_quoted(text)} as "{layout}": cannot parse {_quoted(rest)} as "{element}"'
    )


def _out_of_range(text: str, what: str) -> InvalidTime:
    return InvalidTime(f"parsing time {_quoted(text)}: {what} out of range")


def _quoted(text: str) -> str:
    """A text as the package quotes it: all but printable ASCII byte by byte."""
    shown = "".join(
        f"\\{chr(byte)}" if byte in b'"\\' else chr(byte) if 0x20 <= byte < 0x80 else f"\\x{byte:02x}"
        for byte in text.encode("utf-8", "surrogatepass")
    )
    return f'"{shown}"'
