"""Waiting for what has no event to wait for."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar, cast

T = TypeVar("T")

_POLL_S: Final = 0.02


async def eventually(check: Callable[[], T | Awaitable[T]], *, within_s: float = 10) -> T:
    """What `check` returns once that is true; it may be a coroutine function.

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
