"""Moments as users of `apiserver history` write them."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.cli.argument_parser import UsageError
from apiserver.cli.history.moments import moment_or_ago, server_moment

# 2026-11-28T10:00:00Z
NOW_S: Final = 1795860000.0
MOMENTS: Final = {
    "a resource version": ("17", "17"),
    "a resource version with the sign": ("@17", "17"),
    "now": ("@now", ""),
    "hours ago": ("@-2h", "2026-11-28T08:00:00.000000Z"),
    "several units": ("@-1h30m5s", "2026-11-28T08:29:55.000000Z"),
    "a fraction": ("@-0.5s", "2026-11-28T09:59:59.500000Z"),
    "days": ("@-7d", "2026-11-21T10:00:00.000000Z"),
    "days and hours": ("@-1d12h", "2026-11-26T22:00:00.000000Z"),
    "a time": ("@2026-11-28T10:00:00Z", "2026-11-28T10:00:00Z"),
    "a time without the sign": ("2026-11-28T10:00:00+01:00", "2026-11-28T10:00:00+01:00"),
}
REFUSED: Final = {
    "nothing": "",
    "the sign alone": "@",
    "a word": "@yesterday",
    "the future": "@+2h",
    "no unit": "@-2",
    "an unknown unit": "@-2w",
    "a day without a time": "@2026-11-28",
    "digits of another script": "@١٢",
    "before 1970": "@-99999d",
    "more hours than a float has": f"@-{'9' * 400}h",
    "a line break": "@-2h\n",
}


@pytest.mark.parametrize(("text", "moment"), MOMENTS.values(), ids=MOMENTS)
def test_a_moment_for_the_server(text: str, moment: str) -> None:
    assert server_moment(text, NOW_S) == moment


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(UsageError, match="history: "):
        server_moment(text, NOW_S)


AGO: Final = {
    "hours": ("2h", "2026-11-28T08:00:00.000000Z"),
    "days": ("7d", "2026-11-21T10:00:00.000000Z"),
    "several units": ("1d12h", "2026-11-26T22:00:00.000000Z"),
    "a moment": ("@-2h", "2026-11-28T08:00:00.000000Z"),
    "now": ("@now", ""),
    "a time": ("2026-11-28T10:00:00Z", "2026-11-28T10:00:00Z"),
    "a resource version": ("17", "17"),
}
NOT_AGO: Final = ("", "-2", "2.5", "yesterday", "2026-11-28", "2w", "h", "2h\n", "\u0661h")


@pytest.mark.parametrize(("text", "moment"), AGO.values(), ids=AGO)
def test_a_duration_is_before_now(text: str, moment: str) -> None:
    assert moment_or_ago(text, NOW_S) == moment


@pytest.mark.parametrize("text", NOT_AGO)
def test_what_is_neither_a_moment_nor_a_duration(text: str) -> None:
    with pytest.raises(UsageError, match="history: "):
        moment_or_ago(text, NOW_S)
