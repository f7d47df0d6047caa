"""The calls of a worker's functions that have no result yet, and the timer that ends late ones."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from apiserver.extensions.frames import framed
from apiserver.extensions.host.event_stream import EventStream
from apiserver.extensions.host.runner import Failure, HookFailed, HookInfo
from apiserver.tracing.request_trace import no_request

# The shortest time between two looks for late calls, by which a call may end too late. With as many calls as
# can wait, a look takes a millisecond.
CHECK_INTERVAL_S: Final = 0.01
# Timers of uvloop count milliseconds, and may end half of one too early.
_TIMER_S: Final = 0.001


class PendingCall:
    """A call without a result.

    is_suspect: it was running when a worker ended. late_at: the time, by the loop's clock, until which it may
    wait to be sent or, once it is sent, run. stream: gets the events that follow the result of a watch.
    """

    __slots__ = (
        "began_at",
        "call",
        "future",
        "hook",
        "is_suspect",
        "late_at",
        "number",
        "stream",
        "timeout_s",
    )

    def __init__(
        self,
        number: int,
        hook: HookInfo,
        call: bytes,
        timeout_s: float,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """loop: by default the running one, which the caller finds sooner."""
        self.number, self.hook, self.call, self.timeout_s = number, hook, call, timeout_s
        loop = asyncio.get_running_loop() if loop is None else loop
        self.future: asyncio.Future[Mapping[str, Any]] = loop.create_future()
        self.is_suspect = False
        self.stream: EventStream | None = None
        self.began_at = 0.0
        self.late_at = math.inf

    @property
    def is_over(self) -> bool:
        return self.future.done()

    def encoded(self) -> bytes:
        return framed(
            b'{"id":%d,"hook":%d,"timeoutSeconds":%g,"call":%b}'
            % (self.number, self.hook.number, self.timeout_s, self.call)
        )

    def fail(self, why: str, failure: Failure) -> None:
        if not self.future.done():
            self.future.set_exception(HookFailed(why, failure))


class CallTimer:
    """Ends calls that are late, with one timer for all: a timer for each takes a tenth of the time of a call.

    calls: returns the calls of which some may be late. end: called with each that is late.
    """

    def __init__(
        self, calls: Callable[[], Sequence[PendingCall]], end: Callable[[PendingCall], None]
    ) -> None:
        self._calls, self._end = calls, end
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        # When the timer ends; infinite if there is none.
        self._ends_at = math.inf

    def limit(self, call: PendingCall, time_s: float) -> float:
        """Set how long a call may wait, or run, from now on. Returns the time now."""
        now = self._loop.time()
        call.late_at = now + time_s
        if call.late_at < self._ends_at:
            self._set(call.late_at)
        return now

    def close(self) -> None:
        """Forget the limits of all calls."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._ends_at = None, math.inf

    def _set(self, when: float) -> None:
        self.close()
        self._ends_at = when
        self._timer = self._loop.call_at(when, self._end_late, context=no_request())

    def _end_late(self) -> None:
        self._timer, self._ends_at = None, math.inf
        now = self._loop.time()
        calls = self._calls()
        for each in calls:
            if each.late_at <= now + _TIMER_S and not each.is_over:
                self._end(each)
        next_at = min((each.late_at for each in calls if not each.is_over), default=math.inf)
        if next_at < self._ends_at:
            self._set(max(next_at, now + CHECK_INTERVAL_S))
