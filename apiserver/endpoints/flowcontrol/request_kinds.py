"""The numbers of reads and writes that wait and execute, over time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from apiserver.endpoints.flowcontrol.seat_usage import TimedHistogram
from apiserver.metrics.requests import InFlight, RequestCount

_RATIOS: Final = "apiserver_flowcontrol_read_vs_write_current_requests"
# kube-apiserver observes every nanosecond. One moment in each second is as good, over some minutes.
OBSERVE_KINDS_EVERY_S: Final = 1.0


class KindUsage:
    """The requests of one kind, reads or writes.

    in_flight: the current number of requests, waiting ones included. waiting: the number that wait for seats.
    """

    __slots__ = ("executing_ratios", "in_flight", "waiting", "waiting_ratios")

    def __init__(self, in_flight: RequestCount) -> None:
        self.in_flight = in_flight
        self.waiting = 0
        self.executing_ratios, self.waiting_ratios = TimedHistogram.of(_RATIOS), TimedHistogram.of(_RATIOS)


class RequestKinds:
    """The requests of both kinds. now: by one monotonic clock, in seconds."""

    def __init__(self, in_flight: InFlight, now: float) -> None:
        self.reads, self.writes = KindUsage(in_flight.read_only), KindUsage(in_flight.mutating)
        self._executing_max = self._waiting_max = 1
        self._observed_at = now

    def set_capacities(self, executing: int, waiting: int, now: float) -> None:
        """Set the limits of executing and of waiting requests of each kind."""
        self.observe(now)
        self._executing_max, self._waiting_max = max(1, executing), max(1, waiting)

    def observe(self, now: float) -> None:
        """Record that the state has been the current one since the last call."""
        seconds = now - self._observed_at
        self._observed_at = now
        if seconds <= 0:
            return
        for usage in (self.reads, self.writes):
            executing = usage.in_flight.value - usage.waiting
            usage.executing_ratios.add(executing / self._executing_max, seconds)
            usage.waiting_ratios.add(usage.waiting / self._waiting_max, seconds)

    def histograms(self, now: float) -> Iterator[tuple[tuple[str, str], TimedHistogram]]:
        """Yields the histograms with their phase and kind."""
        self.observe(now)
        for kind, usage in (("readOnly", self.reads), ("mutating", self.writes)):
            yield ("executing", kind), usage.executing_ratios
            yield ("waiting", kind), usage.waiting_ratios
