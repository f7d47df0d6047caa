"""The clock of a server.

A server has one `Clock`, which is passed to everything that needs one: it is the computer's, unless a test
has one that it can advance (`apiserver.testing`). Some things follow such a clock, and others do not:

- *Everything that a client can see follows.* Times in objects and in events of the audit log, and whether a
  token, a certificate or a lease has expired, are by `time` and `time_ns`. Delays and timeouts are timers of
  the event loop (`asyncio.sleep`, `asyncio.timeout`, `loop.call_at`) and by `loop.time`; `new_event_loop`
  makes loops whose timers follow. Durations without a timer are measured by `monotonic`.
- *Protection of the process does not*: turns of the event loop, seats of flow control, how fast clients read
  responses and shake hands, how long they may be idle, how much history is kept, calls of etcd and of KMS
  plugins, and durations in metrics. These use `time.monotonic` and `time.perf_counter` everywhere. A timer
  that only wakes them may follow: they check once more than necessary.
- *Values that others check by their own clocks do not*: the certificates by which clients verify this server,
  and the header Date of responses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic, time, time_ns
from typing import Final, NamedTuple


def _never_called(_: Callable[[float], None]) -> Callable[[], None]:
    return lambda: None


class Clock(NamedTuple):
    """The clock of a server.

    time, time_ns: seconds, and nanoseconds, since 1970.
    monotonic: seconds that never go back, as those of `loop.time`.
    new_event_loop: makes an event loop whose timers follow the clock; None for the usual one.
    subscribe: registers a function that is called with the seconds of each advance, before anything that is
        due by then; returns a function that unregisters it.
    """

    time: Callable[[], float] = time
    time_ns: Callable[[], int] = time_ns
    monotonic: Callable[[], float] = monotonic
    new_event_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
    subscribe: Callable[[Callable[[float], None]], Callable[[], None]] = _never_called

    @property
    def can_be_ahead(self) -> bool:
        """Whether the clock may be ahead of the clocks that libraries use."""
        return self.new_event_loop is not None


SYSTEM_CLOCK: Final = Clock()
