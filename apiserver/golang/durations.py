"""Parses durations of Go's package time: `90s`, `1m30s`, `500ms`; `0` needs no unit."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_NUMBER: Final = r"[0-9]+(?:\.[0-9]+)?"
_UNIT: Final = r"(?:h|ms|us|ns|m|s)"
_is_duration = re.compile(rf"(?:{_NUMBER}{_UNIT})+").fullmatch
_parts = re.compile(rf"({_NUMBER})({_UNIT})").findall


def parse_duration(text: str) -> float:
    """The duration in seconds. Raises ValueError, also for negative ones."""
    if text == "0":
        return 0.0
    if not _is_duration(text):
        raise ValueError(f"{text!r} is no duration, as 90s or 1m30s are")
    return sum(float(number) * _UNITS[unit] for number, unit in _parts(text))
