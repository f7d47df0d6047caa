"""Schedules of cron jobs: five fields, or a macro, as `*/5 8-18 * * mon-fri` or `@daily`.

Source: github.com/robfig/cron v3, ParseStandard, which has the same error texts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from apiserver.golang.durations import parse_duration
from apiserver.meta.field_errors import quote, truncated
from apiserver.meta.text_caches import text_cache


class InvalidSchedule(ValueError):
    """A text that is not a schedule. The message is for the client."""


class _Field(NamedTuple):
    low: int
    high: int
    names: Mapping[str, int] = MappingProxyType({})


_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: Final = (
    _Field(0, 59),
    _Field(0, 23),
    _Field(1, 31),
    _Field(1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    _Field(0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_WORDS: Final = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_EVERY: Final = "@every "


def check_schedule(text: str) -> None:
    """Checks a schedule. Raises InvalidSchedule."""
    if not text:
        raise InvalidSchedule("empty spec string")
    if text.startswith(("TZ=", "CRON_TZ=")):
        zone, space, text = text.partition(" ")
        zone = zone.partition("=")[2]
        if not space:
            raise InvalidSchedule(f"provided bad location {truncated(zone)}: a schedule must follow")
        if not is_zone(zone):
            raise InvalidSchedule(
                f"provided bad location {truncated(zone)}: unknown time zone {truncated(zone)}"
            )
        text = text.strip()
    if text.startswith("@"):
        _check_word(text)
        return
    fields = text.split()
    if len(fields) != len(_FIELDS):
        found = truncated(f"[{' '.join(fields)}]")
        raise InvalidSchedule(f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: {found}")
    for field, bounds in zip(fields, _FIELDS, strict=True):
        for part in field.split(","):
            if part:
                _check_range(part, bounds)


def _check_word(text: str) -> None:
    if text.startswith(_EVERY):
        span = text.removeprefix(_EVERY)
        try:
            parse_duration(span.lstrip("+-"))
        except ValueError:
            problem = f"time: invalid duration {quote(span)}"
            raise InvalidSchedule(f"failed to parse duration {truncated(text)}: {problem}") from None
    elif text not in _WORDS:
        raise InvalidSchedule(f"unrecognized descriptor: {truncated(text)}")


def _check_range(text: str, bounds: _Field) -> None:
    """Checks a number, a range or `*`, each with or without a step."""
    shown = truncated(text)
    limits, *steps = text.split("/")
    first, *others = limits.split("-")
    if first in ("*", "?"):
        low, high = bounds.low, bounds.high
    else:
        low = high = _number(first, bounds.names)
        if others:
            high = _number(others[0], bounds.names)
        if len(others) > 1:
            raise InvalidSchedule(f"too many hyphens: {shown}")
    step = 1
    if steps:
        step = _number(steps[0])
        if not others:
            high = bounds.high
    if len(steps) > 1:
        raise InvalidSchedule(f"too many slashes: {shown}")
    if low < bounds.low:
        raise InvalidSchedule(f"beginning of range ({low}) below minimum ({bounds.low}): {shown}")
    if high > bounds.high:
        raise InvalidSchedule(f"end of range ({high}) above maximum ({bounds.high}): {shown}")
    if low > high:
        raise InvalidSchedule(f"beginning of range ({low}) beyond end of range ({high}): {shown}")
    if step == 0:
        raise InvalidSchedule(f"step of range should be a positive number: {shown}")


_is_integer = re.compile(r"[+-]?[0-9]+", re.ASCII).fullmatch
_INT64_DIGITS: Final = 18


def _number(text: str, names: Mapping[str, int] = MappingProxyType({})) -> int:
    named = names.get(text.lower())
    if named is not None:
        return named
    if not _is_integer(text) or len(text) > _INT64_DIGITS:
        problem = "value out of range" if _is_integer(text) else "invalid syntax"
        raise InvalidSchedule(
            f"failed to parse int from {truncated(text)}: strconv.Atoi: parsing {quote(text)}: {problem}"
        )
    if int(text) < 0:
        raise InvalidSchedule(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)


# ---- time zones

# The longest are of 32 characters. Others are not looked for, nor kept in the cache.
_ZONE_LENGTH_MAX: Final = 64
_is_zone_part = re.compile(r"(?!-)[A-Za-z.\-_0-9+]{1,14}").fullmatch


def is_zone(name: str) -> bool:
    """Returns whether this machine, or the package tzdata, has this IANA time zone."""
    return len(name) <= _ZONE_LENGTH_MAX and _is_zone(name)


@text_cache(1_024)
def _is_zone(name: str) -> bool:
    import zoneinfo  # 2 ms, and few schedules name a zone

    if any(part in (".", "..") or not _is_zone_part(part) for part in name.split("/")):
        return False
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return name == "UTC"
    return True
