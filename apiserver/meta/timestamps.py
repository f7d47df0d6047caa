"""Times in objects: RFC 3339, UTC, whole seconds."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

from apiserver.golang.times import InvalidTime, time_text, written_time

# Python parses much more of ISO 8601.
_is_rfc3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})"
).fullmatch


def to_text(unix_s: float) -> str:
    """Returns the text of a time in seconds since 1970: `1700000000.9` -> `2023-11-14T22:13:20Z`."""
    return _cached_text(int(unix_s))


_cached_text = lru_cache(maxsize=8)(time_text)  # writes of the same second share it


def to_micro_text(unix_s: float) -> str:
    """Returns the text of a MicroTime: `1700000000.5` -> `2023-11-14T22:13:20.500000Z`."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def from_text(text: str) -> float | None:
    """Returns the time in seconds since 1970; None if the text is not a time that Go parses or writes."""
    try:
        if _is_rfc3339(text):
            return datetime.fromisoformat(text).timestamp()
    except ValueError:
        pass  # Go has more years.
    try:
        seconds, nanoseconds, _ = written_time(text)
    except InvalidTime:
        return None
    return seconds + nanoseconds / 1e9
