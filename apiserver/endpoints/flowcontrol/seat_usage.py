"""The usage of a priority level, integrated over time: for borrowing, and for histograms of /metrics."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from apiserver.metrics.histograms import Histogram

# Half of a demand is forgotten in five minutes, with one adjustment every 10 seconds.
SMOOTHING: Final = 0.977
# Combinations of numbers for which the time is kept apart before it goes to the histograms.
_STATES_MAX: Final = 512
_NS: Final = 1_000_000_000
# kube-apiserver observes every nanosecond. Requests come at random: what each of them finds, or one in a
# millisecond, is on average what there was.
_OBSERVE_EVERY_S: Final = 0.001

_SEATS: Final = "apiserver_flowcontrol_priority_level_seat_utilization"
_REQUESTS: Final = "apiserver_flowcontrol_priority_level_request_utilization"


class TimedHistogram(Histogram):
    """A histogram of the time that a ratio spent at each value: its counts are nanoseconds."""

    __slots__ = ()

    def add(self, ratio: float, seconds: float) -> None:
        nanoseconds = round(seconds * _NS)
        self.buckets[bisect_left(self.bounds, ratio)] += nanoseconds
        self.sum += ratio * nanoseconds


@dataclass(slots=True)
class SeatDemand:
    """The demand of a level for seats: in the last period, and smoothed over several periods."""

    high_watermark: int = 0
    average: float = 0.0
    deviation: float = 0.0
    smoothed: float = 0.0


class Capacity(NamedTuple):
    """The seats and the places in queues that count as a utilization of 1."""

    seats: int = 1
    places: int = 1


# Requests executing, seats in use, requests waiting, seats that these want.
UsageState: TypeAlias = tuple[int, int, int, int]


class SeatUsage:
    """The usage of one level, as its owner observes it.

    high: the most seats that could be used at once, in this period.
    observe_at: the time from which the level must be observed again before it changes.
    """

    def __init__(self, now: float) -> None:
        self.demand = SeatDemand()
        self._capacity = Capacity()
        # Of this period, the integrals of 1, of the seats that could be used, and of their square.
        self._seconds = self._seat_s = self._seat_s2 = 0.0
        self.high = 0
        self.observe_at = self._observed_at = now
        self._seconds_in: dict[UsageState, float] = {}
        self.seat_ratios = TimedHistogram.of(_SEATS)
        self.executing_ratios = TimedHistogram.of(_REQUESTS)
        self.waiting_ratios = TimedHistogram.of(_REQUESTS)
        self.demand_ratios = TimedHistogram.of("apiserver_flowcontrol_demand_seats")

    def observe(self, state: UsageState, now: float) -> None:
        """Record that the level has been in this state since the last call."""
        seconds = now - self._observed_at
        self._observed_at, self.observe_at = now, now + _OBSERVE_EVERY_S
        if seconds <= 0:
            return
        self._seconds += seconds
        wanted = state[1] + state[3]
        if wanted:
            self._seat_s += wanted * seconds
            self._seat_s2 += wanted * wanted * seconds
        seconds_in = self._seconds_in
        seconds_in[state] = seconds_in.get(state, 0.0) + seconds
        if len(seconds_in) > _STATES_MAX:
            self.fill_histograms()

    def end_period(self, seats: int) -> SeatDemand:
        """Begin a new period, and return the demand with the one that ends. seats: the demand now.

        Source: k8s.io/apiserver, pkg/util/flowcontrol/apf_controller.go, seatDemandStats.
        """
        demand = self.demand
        demand.high_watermark = self.high
        if self._seconds > 0:
            average = self._seat_s / self._seconds
            demand.average = average
            demand.deviation = math.sqrt(max(0.0, self._seat_s2 / self._seconds - average * average))
            envelope = average + demand.deviation
            demand.smoothed = max(envelope, SMOOTHING * demand.smoothed + (1 - SMOOTHING) * envelope)
        self._seconds = self._seat_s = self._seat_s2 = 0.0
        self.high = seats
        return demand

    def set_capacity(self, capacity: Capacity) -> None:
        if capacity != self._capacity:
            self.fill_histograms()
            self._capacity = capacity

    def fill_histograms(self) -> None:
        """Add the observations to the histograms."""
        seats_max, places_max = self._capacity
        for (executing, seats, waiting, wanted), seconds in self._seconds_in.items():
            self.seat_ratios.add(seats / seats_max, seconds)
            self.executing_ratios.add(executing / seats_max, seconds)
            self.waiting_ratios.add(waiting / places_max, seconds)
            self.demand_ratios.add((seats + wanted) / seats_max, seconds)
        self._seconds_in.clear()
