"""The time that a server goes by.

A server has one `Clock`, which is an argument of whatever needs one: it is the computer's, unless a test has
one that it can put forward (`apiserver.testing`). What follows such a clock, and what does not:

- *Whatever a client can see follows.* Times in objects and in events of the audit log, and whether a token,
  a certificate or a lease has expired, are by `time` and `time_ns`. What happens later, or may not take
  longer, is by timers of the event loop (`asyncio.sleep`, `asyncio.timeout`, `loop.call_at`) and by
  `loop.time`; `new_event_loop` makes loops whose timers follow. What lasts, but needs no timer, is by
  `monotonic`.
- *What protects the process does not*: turns of the event loop, seats of flow control, how fast clients take
  answers and shake hands, how long they may be idle, how much history is kept, calls of etcd and of KMS
  plugins, and how long things took, for metrics. These are by `time.monotonic` and `time.perf_counter`,
  wherever they are. A timer that only wakes them may follow: they look once more than they have to.
- *What others check by their own clocks does not*: the certificates by which clients know this server, and
  the header Date of answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic, time, time_ns
from typing import Final, NamedTuple


def _never_called(_: Callable[[float], None]) -> Callable[[], None]:
    return lambda: None


class Clock(NamedTuple):
    """The time that a server goes by.

    time, time_ns: seconds, and nanoseconds, since 1970.
    monotonic: seconds that never go back, which are those of `loop.time`.
    new_event_loop: makes an event loop whose timers follow the clock; None for the usual one.
    subscribe: has a function called with the seconds of each advance, before anything that is due by then,
        until the function that it returns is called.
    """

    time: Callable[[], float] = time
    time_ns: Callable[[], int] = time_ns
    monotonic: Callable[[], float] = monotonic
    new_event_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
    subscribe: Callable[[Callable[[float], None]], Callable[[], None]] = _never_called

    @property
    def can_be_ahead(self) -> bool:
        """Whether it may be ahead of the clocks that libraries go by."""
        return self.new_event_loop is not None


SYSTEM_CLOCK: Final = Clock()
