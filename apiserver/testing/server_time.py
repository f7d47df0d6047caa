"""The time of a server for tests, which may be ahead of the computer's."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from contextvars import Context
from typing import Final, Protocol, TypeVarTuple, Unpack, cast

from apiserver.registry.clock import Clock

_NS: Final = 1_000_000_000
# Until a timer's callback has run, the task that waits for it has been woken, and has done its first step.
_ROUNDS: Final = 3

_Arguments = TypeVarTuple("_Arguments")


class ServerTime:
    """The offset of a server's time from the computer's, which only grows.

    ahead_s: the initial offset, in seconds.
    clock: the server's clock, which makes event loops whose timers follow; one of them runs at a time.
    """

    def __init__(self, ahead_s: float = 0.0) -> None:
        self.ahead_s = ahead_s
        self._loop: _Loop | None = None
        self._subscribers: list[Callable[[float], None]] = []
        self.clock: Final = Clock(
            time=lambda: time.time() + self.ahead_s,
            time_ns=lambda: time.time_ns() + int(self.ahead_s * _NS),
            monotonic=lambda: time.monotonic() + self.ahead_s,
            new_event_loop=self.new_event_loop,
            subscribe=self._subscribe,
        )

    async def advance(self, seconds: float) -> None:
        """Advance the time, and start the timers that are due by then, in their order, each once.

        To be called on the server's event loop.
        """
        self.ahead_s += seconds
        for each in list(self._subscribers):
            each(seconds)
        assert self._loop is not None
        self._loop.run_due()
        for _ in range(_ROUNDS):
            await asyncio.sleep(0)

    def advance_in_thread(self, seconds: float) -> None:
        """Advances the time as `advance` does, from another thread than the server's."""
        assert self._loop is not None
        loop = cast(asyncio.AbstractEventLoop, self._loop)
        asyncio.run_coroutine_threadsafe(self.advance(seconds), loop).result()

    def new_event_loop(
        self, make: Callable[[ServerTime], asyncio.AbstractEventLoop] | None = None
    ) -> asyncio.AbstractEventLoop:
        """Returns an event loop whose timers follow the server's time.

        make: makes the underlying loop; by default the usual one.
        """
        loop = (make or _usual_loop)(self)
        self._loop = cast(_Loop, loop)
        return loop

    def _subscribe(self, on_advance: Callable[[float], None]) -> Callable[[], None]:
        self._subscribers.append(on_advance)

        def unsubscribe() -> None:
            with contextlib.suppress(ValueError):
                self._subscribers.remove(on_advance)

        return unsubscribe


class _Loop(Protocol):
    def run_due(self) -> None:
        """Runs the timers that are due, soon."""
        ...


class AsyncioLoop(asyncio.SelectorEventLoop):
    """asyncio's event loop at a server's time, which in each round reads the time to find due timers."""

    def __init__(self, server_time: ServerTime) -> None:
        super().__init__()
        self._server_time = server_time

    def time(self) -> float:
        return super().time() + self._server_time.ahead_s

    def run_due(self) -> None:
        """Do nothing, as the next round finds the due timers."""


class _Timer(asyncio.TimerHandle):
    """A call at some time. armed: the handle of the underlying event loop, by the computer's time."""

    __slots__ = ("armed",)

    armed: asyncio.Handle

    # Two that call the same at the same time are two.
    __eq__ = object.__eq__
    __hash__ = object.__hash__


def _usual_loop(server_time: ServerTime) -> asyncio.AbstractEventLoop:
    """Returns uvloop's event loop, at a server's time, or asyncio's where there is no uvloop.

    libuv keeps timers by their duration; so those that become due sooner are removed from it, and called.
    """
    try:
        import uvloop
    except ImportError:
        return AsyncioLoop(server_time)

    class UvloopLoop(uvloop.Loop):
        def __init__(self) -> None:
            super().__init__()
            self._timers: set[_Timer] = set()

        def time(self) -> float:
            return super().time() + server_time.ahead_s

        def call_later(
            self,
            delay: float,
            callback: Callable[[Unpack[_Arguments]], object],
            *args: *_Arguments,
            context: Context | None = None,
        ) -> asyncio.TimerHandle:
            return self.call_at(self.time() + delay, callback, *args, context=context)

        def call_at(
            self,
            when: float,
            callback: Callable[[Unpack[_Arguments]], object],
            *args: *_Arguments,
            context: Context | None = None,
        ) -> asyncio.TimerHandle:
            timer = _Timer(when, callback, args, cast(asyncio.AbstractEventLoop, self), context)
            self._arm(timer)
            self._timers.add(timer)
            return timer

        def run_due(self) -> None:
            now = self.time()
            for timer in sorted(self._timers, key=_Timer.when):
                timer.armed.cancel()
                if timer.when() <= now:
                    timer.armed = self.call_soon(self._run_timer, timer)
                else:
                    self._arm(timer)

        def _arm(self, timer: _Timer) -> None:
            timer.armed = super().call_later(max(0.0, timer.when() - self.time()), self._run_timer, timer)

        def _run_timer(self, timer: _Timer) -> None:
            self._timers.discard(timer)
            if not timer.cancelled():
                timer._run()

        def _timer_handle_cancelled(self, timer: _Timer) -> None:
            """Forget a cancelled timer; called by `TimerHandle.cancel`."""
            self._timers.discard(timer)
            timer.armed.cancel()

    return cast(asyncio.AbstractEventLoop, UvloopLoop())
