"""A time that several calls share, so that a slow one does not cost the answers to the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeVar

T = TypeVar("T")


class NoAnswerInTime(Exception):
    """A call was not answered in its time."""


class Deadline:
    """A time for several calls. call_s: the most that one of them may take."""

    def __init__(self, within_s: float, call_s: float) -> None:
        self._ends_at, self._call_s = monotonic() + within_s, call_s

    async def call(self, call: Callable[[], Awaitable[T]]) -> T:
        """Returns the response to a call. Raises NoAnswerInTime, and what the call raises."""
        allowed_s = min(self._call_s, self._ends_at - monotonic())
        if allowed_s <= 0:
            raise NoAnswerInTime("earlier requests took too long")
        try:
            async with asyncio.timeout(allowed_s):
                return await call()
        except TimeoutError:
            raise NoAnswerInTime(f"no response within {allowed_s:.2g} s") from None
