"""Polling, for conditions that no event tells of."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar, cast

T = TypeVar("T")

# How long a test waits for what must happen. It takes a small part of this, even on a machine that is busy:
# only a failure takes so long.
WITHIN_S: Final = 60.0
_POLL_S: Final = 0.01


async def eventually(check: Callable[[], T | Awaitable[T]], *, within_s: float = WITHIN_S) -> T:
    """Wait until `check`, which may be a coroutine function, returns something true, and return that.

    Raises AssertionError, with what it returned last, if that takes longer than `within_s`. What `check`
    raises ends the wait at once.
    """
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + within_s
    while True:
        found = check()
        result = cast(T, await found if inspect.isawaitable(found) else found)
        if result:
            return result
        if loop.time() > ends_at:
            raise AssertionError(f"still {result!r} after {within_s} s")
        await asyncio.sleep(_POLL_S)


def until(
    ask: Callable[[], T], holds: Callable[[T], bool] = bool, what: str = "", *, within_s: float = WITHIN_S
) -> T:
    """Ask until `holds` is true of the answer, and return that answer; for tests without a loop.

    what: what is waited for, to tell in the AssertionError if that takes longer than `within_s`.
    """
    ends_at = time.monotonic() + within_s
    while True:
        found = ask()
        if holds(found):
            return found
        if time.monotonic() > ends_at:
            raise AssertionError(f"never held within {within_s} s: {what}; last: {found!r:.500}")
        time.sleep(_POLL_S)
