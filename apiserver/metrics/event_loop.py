"""Measures the turns of the event loop, and finds the code that blocks it.

A timer on the loop that fires late shows that a turn took long. It fires every few milliseconds while the
loop works, and rarely while it is idle. That costs a request only the read of one attribute. A thread reads
the loop's stack once the timer is overdue, and sleeps otherwise.

Three clocks show the cause. Elapsed time alone may be that of a busy machine. CPU time of the loop's thread
is work on the loop; any other CPU time of the process is that of another thread, which held the interpreter.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, Protocol

from apiserver.metrics.histograms import Histogram
from apiserver.metrics.series import Family, family
from apiserver.metrics.thread_stacks import ThreadStacks
from apiserver.tracing.request_trace import no_request

log = logging.getLogger(__name__)

# A turn is known to be at most that much shorter than it is said to be.
INTERVAL_S: Final = 0.005
# Waking an idle processor costs 70 µs, ten times what the timer costs while the loop works.
RESTING_INTERVAL_S: Final = 0.25
# Intervals in which the loop used less than a tenth of a processor, until it counts as resting.
_QUIET_INTERVALS: Final = 4
_QUIET_SHARE: Final = 0.1
# Later than that, a turn counts as a stall.
_LATE_S: Final = 0.005
# So much processor time in one call that may not take long, and that is ended: a hundred times what it takes.
_CALL_CPU_S: Final = 0.01
# The clock of a thread's processor time; not on every system.
_CLOCK_OF: Final[Callable[[int], int] | None] = getattr(time, "pthread_getcpuclockid", None)
# The stack is looked at earlier than a stall is logged, so that a line can say what it was.
_LOOK_AFTER_S: Final = 0.05
LOG_OVER_S: Final = 0.1
# A busy machine does not delay the loop for so long: it was blocked.
_LOG_OVER_ELAPSED_S: Final = 1.0
# A client that can stall the loop can do so often.
_LOG_INTERVAL_S: Final = 1.0
_OPERATIONS_MAX: Final = 4
LONGEST_TURNS_KEPT: Final = 20
_STALLS: Final = "apiserver_event_loop_stall_seconds"


class ClockReadings(NamedTuple):
    """The values of three clocks, or their differences, in seconds; CPU times include those of the system.

    thread_cpu: of the loop's thread. process_cpu: of all threads of the process.
    """

    wall: float
    process_cpu: float
    thread_cpu: float

    @classmethod
    def read(cls) -> ClockReadings:
        return cls(time.perf_counter(), time.process_time(), time.thread_time())


class LongTurn(NamedTuple):
    """A long turn of the event loop. ended_at: seconds since 1970. operations: what it was seen to do."""

    took: ClockReadings
    ended_at: float
    operations: tuple[str, ...]


class BoundedCalls(Protocol):
    """Calls on the event loop that have a time limit."""

    @property
    def under_way(self) -> object | None:
        """The current call; each call is another object."""
        ...

    def end(self) -> None:
        """Make the current call return soon."""
        ...


class EventLoopMonitor:
    """Measures the turns of the event loop in whose thread it is started.

    is_resting: whether the loop has been idle for a while; call `wake` when work arrives.
    operation_of: returns the name of a task's operation, in another thread; "" if it is unknown.
    bounded_calls: calls with a time limit, which another thread ends when they exceed it.
    is_logging: whether stalls are logged from the start; else from `begin_logging` on, since a server has
        some while it starts.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        operation_of: Callable[[asyncio.Task[Any]], str] = lambda _: "",
        bounded_calls: BoundedCalls | None = None,
        *,
        is_logging: bool = True,
    ) -> None:
        self.is_resting = False
        self._is_logging = is_logging
        self._loop, self._operation_of, self._bounded_calls = loop, operation_of, bounded_calls
        self._stacks = ThreadStacks()
        self._histograms = {clock: Histogram.of(_STALLS) for clock in ClockReadings._fields}
        self._last = ClockReadings(0.0, 0.0, 0.0)
        self._due = 0.0
        self._quiet = 0
        self._timer: asyncio.TimerHandle | None = None
        self._loop_thread = 0
        self._observer = threading.Thread(target=self._observe_stack, name="event-loop-monitor", daemon=True)
        self._is_closed = threading.Event()
        # What the turn under way was seen to be about.
        self._operations: list[str] = []
        self._longest: list[LongTurn] = []
        self._collection_began = 0.0
        self._logged_at = -_LOG_INTERVAL_S
        self._not_logged = 0

    def start(self) -> None:
        self._loop_thread = threading.get_ident()
        gc.callbacks.append(self._on_collection)
        self._begin(ClockReadings.read(), INTERVAL_S)
        self._observer.start()

    def begin_logging(self) -> None:
        self._is_logging = True

    def close(self) -> None:
        self._is_closed.set()
        if self._timer is not None:
            self._timer.cancel()
            self._observer.join()
            gc.callbacks.remove(self._on_collection)
        self._stacks.close()

    def wake(self) -> None:
        """Measure the turn that begins now."""
        if self._timer is not None:
            self._timer.cancel()
            self._quiet = 0
            self._begin(ClockReadings.read(), INTERVAL_S)

    def families(self) -> Iterable[Family]:
        yield family(_STALLS, [((clock,), histogram) for clock, histogram in self._histograms.items()])

    def longest_turns(self) -> list[LongTurn]:
        """Returns the longest turns since `begin_logging`, the longest first."""
        return sorted(self._longest, reverse=True)

    def _begin(self, now: ClockReadings, interval_s: float) -> None:
        self.is_resting = interval_s == RESTING_INTERVAL_S
        self._last, self._due = now, now.wall + interval_s
        self._timer = self._loop.call_later(interval_s, self._tick, context=no_request())

    def _tick(self) -> None:
        now, last = ClockReadings.read(), self._last
        late_s = now.wall - self._due
        used_s = now.thread_cpu - last.thread_cpu
        if late_s >= _LATE_S:
            # In a longer interval it is not known when the turn began.
            wall_s = min(now.wall - last.wall, late_s + INTERVAL_S)
            self._stalled(
                ClockReadings(wall_s, min(now.process_cpu - last.process_cpu, wall_s), min(used_s, wall_s)),
                now.wall,
            )
        if self._operations:
            self._operations = []
        if used_s < _QUIET_SHARE * (now.wall - last.wall):
            self._quiet += 1
        else:
            self._quiet = 0
        self._begin(now, RESTING_INTERVAL_S if self._quiet > _QUIET_INTERVALS else INTERVAL_S)

    def _stalled(self, stall: ClockReadings, now: float) -> None:
        for histogram, seconds in zip(self._histograms.values(), stall, strict=True):
            if seconds >= histogram.bounds[0]:
                histogram.observe(seconds)
        if not self._is_logging:
            return
        turn = LongTurn(stall, time.time(), tuple(self._operations))
        if len(self._longest) < LONGEST_TURNS_KEPT:
            heapq.heappush(self._longest, turn)
        else:
            heapq.heappushpop(self._longest, turn)
        if stall.process_cpu < LOG_OVER_S and stall.wall < _LOG_OVER_ELAPSED_S:
            return
        if now < self._logged_at + _LOG_INTERVAL_S:
            self._not_logged += 1
            return
        log.warning(
            "the event loop was blocked for %.0f ms (CPU time: thread %.0f ms, process %.0f ms): %s%s",
            stall.wall * 1e3,
            stall.thread_cpu * 1e3,
            stall.process_cpu * 1e3,
            ", then ".join(self._operations) or "unknown operation",
            f" (similar messages omitted: {self._not_logged})" if self._not_logged else "",
        )
        self._logged_at, self._not_logged = now, 0

    # ---- on a thread beside the loop

    def _observe_stack(self) -> None:
        wait_s = _LOOK_AFTER_S
        while not self._is_closed.wait(wait_s):
            due = self._due
            late_s = time.perf_counter() - due
            if late_s < _LOOK_AFTER_S:
                wait_s = max(_LOOK_AFTER_S - late_s, INTERVAL_S)
                continue
            wait_s = _LOOK_AFTER_S
            operation = self._operation_now()
            if due == self._due and len(self._operations) < _OPERATIONS_MAX:
                self._note(operation)
            self._end_what_takes_long()

    def _end_what_takes_long(self) -> None:
        calls = self._bounded_calls
        if calls is None or _CLOCK_OF is None:
            return
        call = calls.under_way
        if call is None:
            return
        clock = _CLOCK_OF(self._loop_thread)
        began = time.clock_gettime(clock)
        # A thread that only waits for a processor, or for the interpreter, uses no time.
        while not self._is_closed.wait(INTERVAL_S):
            if calls.under_way is not call:
                return
            if time.clock_gettime(clock) - began >= _CALL_CPU_S:
                calls.end()
                return

    def _note(self, operation: str) -> None:
        if operation not in self._operations:
            self._operations.append(operation)

    def _operation_now(self) -> str:
        task = asyncio.current_task(self._loop)
        operation = "a callback" if task is None else self._operation_of(task) or task.get_name()
        return f"{operation} in {self._stacks.place_of(self._loop_thread) or 'nothing'}"

    # ---- on the thread that happens to collect

    def _on_collection(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._collection_began = time.perf_counter()
            return
        took_s = time.perf_counter() - self._collection_began
        if took_s > _LOOK_AFTER_S:
            self._note(f"garbage collection of generation {info['generation']}, {took_s * 1e3:.0f} ms")
