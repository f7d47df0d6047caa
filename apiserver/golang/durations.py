"""Parses and writes durations of Go's package time: `90s`, `1m30s`, `500ms`; `0` needs no unit."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_NUMBER: Final = r"[0-9]+(?:\.[0-9]+)?"
_UNIT: Final = r"(?:h|ms|us|ns|m|s)"
_is_duration = re.compile(rf"(?:{_NUMBER}{_UNIT})+").fullmatch
_parts = re.compile(rf"({_NUMBER})({_UNIT})").findall


def parse_duration(text: str) -> float:
    """Returns the duration in seconds. Raises ValueError for invalid or negative ones."""
    if text == "0":
        return 0.0
    if not _is_duration(text):
        raise ValueError(f"{text!r} is not a duration like 90s or 1m30s")
    return sum(float(number) * _UNITS[unit] for number, unit in _parts(text))


def duration_text(seconds: float) -> str:
    """Returns a duration as Go writes it: `1h2m3.5s`, `1.5ms`, `0s`."""
    nanoseconds = round(seconds * 1e9)
    if nanoseconds == 0:
        return "0s"
    for unit, size in (("ns", 1), ("\u00b5s", 10**3), ("ms", 10**6)):
        if nanoseconds < size * 1000:
            return f"{_decimal(nanoseconds, size)}{unit}"
    minutes, rest = divmod(nanoseconds, 60 * 10**9)
    text = f"{_decimal(rest, 10**9)}s"
    if not minutes:
        return text
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{text}" if hours else f"{minutes}m{text}"


def short_duration(seconds: float) -> str:
    """Returns a duration in short form, without units that are zero: `1h`, `8760h`, `1m30s`, `0s`."""
    text = duration_text(seconds)
    for unit, zero in (("m", "0s"), ("h", "0m")):
        if text.endswith(unit + zero):
            text = text.removesuffix(zero)
    return text


def _decimal(amount: int, unit: int) -> str:
    """Returns a number of units, without trailing zeros."""
    whole, rest = divmod(amount, unit)
    if not rest:
        return str(whole)
    digits = len(str(unit)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0")
