"""Makes one call for many concurrent callers, with a result that is fresh for each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Final, Generic, TypeVar

T = TypeVar("T")

# For how many iterations of the event loop a call waits until it has as many callers as the one before had.
# An iteration takes microseconds, a call a tenth of a millisecond of CPU and more: 16 readers get 11,000
# answers a second, and 8,000 without this wait.
GATHER_ITERATIONS_MAX: Final = 10
# And for how long at most, besides the iteration that has begun: in a busy loop one takes milliseconds. With
# a fifth of this a call has a quarter fewer callers.
GATHER_S_MAX: Final = 0.001


class CoalescedCall(Generic[T]):
    """Answers any number of concurrent `get`s with as few calls as freshness allows.

    closed_error: makes the exception for `get`s that still wait when it is closed.
    clock: seconds, monotonic.

    One call is in flight at a time. A `get` in the meantime gets the result of the next call, never of the
    one in flight, which may be older than the `get`: in this it differs from Go's singleflight.
    """

    def __init__(
        self,
        call: Callable[[], Awaitable[T]],
        closed_error: Callable[[], Exception],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._call = call
        self._closed_error = closed_error
        self._clock = clock
        self._running: asyncio.Task[None] | None = None
        self._last_callers = 0  # how many the last call answered
        self._waiting: list[asyncio.Future[T]] = []

    async def get(self) -> T:
        """Returns the result of a call that started after this method was called, or raises its exception."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        if self._running is None:
            self._running = asyncio.create_task(self._run(), name="coalesced-call")
        return await answer

    async def close(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def _gather(self) -> None:
        """Wait briefly until as many `get`s wait as the last call answered, as callers return together."""
        began = self._clock()
        for _ in range(GATHER_ITERATIONS_MAX):
            if len(self._waiting) >= self._last_callers or self._clock() - began >= GATHER_S_MAX:
                return
            await asyncio.sleep(0)

    async def _run(self) -> None:
        callers: list[asyncio.Future[T]] = []
        try:
            while self._waiting:
                await self._gather()
                callers, self._waiting = self._waiting, []
                self._last_callers = len(callers)
                try:
                    result = await self._call()
                except Exception as error:
                    for caller in callers:
                        if not caller.done():
                            caller.set_exception(error)
                else:
                    for caller in callers:
                        if not caller.done():
                            caller.set_result(result)
        finally:
            self._running = None
            for caller in callers + self._waiting:  # Only when closed: all others have been answered.
                if not caller.done():
                    caller.set_exception(self._closed_error())
