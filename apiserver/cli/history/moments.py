"""Moments as users write them: `@now`, `@-2h`, `@2026-11-28T10:00:00Z`, or a resource version.

The server knows times and resource versions only; what is relative is relative to the clock of the command.
"""

from __future__ import annotations

import re
from typing import Final

from apiserver.cli.argument_parser import UsageError
from apiserver.golang.durations import parse_duration
from apiserver.meta import timestamps

NOW: Final = "now"
# What the server takes for the present: no moment.
PRESENT: Final = ""
_DAY_S: Final = 24 * 60 * 60
# `7d12h`. Durations of Go have no days.
_AGO: Final = re.compile(r"-(?:([0-9]{1,5})d)?(.*)", re.DOTALL)


def server_moment(text: str, now_s: float) -> str:
    """Returns a moment as the server takes it. now_s: seconds since 1970. Raises UsageError."""
    moment = text.removeprefix("@")
    if moment == NOW:
        return PRESENT
    if (ago := _AGO.fullmatch(moment)) is not None:
        return timestamps.to_micro_text(_before(text, now_s, int(ago[1] or 0) * _DAY_S, ago[2] or "0"))
    if moment.isascii() and (moment.isdigit() or timestamps.from_text(moment) is not None):
        return moment
    raise _not_a_moment(text)


def moment_or_ago(text: str, now_s: float) -> str:
    """Returns a moment as `server_moment` does; `2h` is two hours before now."""
    is_ago = text[:1].isdigit() and not text.isdigit() and timestamps.from_text(text) is None
    return server_moment(f"@-{text}" if is_ago else text, now_s)


def _before(text: str, now_s: float, days_s: int, rest: str) -> float:
    try:
        at = now_s - days_s - parse_duration(rest)
    except ValueError:
        raise _not_a_moment(text) from None
    # Times before 1970 have no text, and no server has been there.
    if at < 0:
        raise UsageError(f"history: {text!r} is too long ago")
    return at


def _not_a_moment(text: str) -> UsageError:
    return UsageError(
        f"history: {text!r} is not a moment such as @now, @-2h, @-7d, @2026-11-28T10:00:00Z or a resource "
        "version"
    )
