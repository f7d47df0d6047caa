"""Counts of the requests of one FlowSchema at one priority level."""

from __future__ import annotations

from collections import Counter
from typing import Final

from apiserver.metrics.histograms import Histogram
from apiserver.metrics.request_filters import FILTER_DURATIONS

_WAITS: Final = "apiserver_flowcontrol_request_wait_duration_seconds"
_DURATIONS: Final = "apiserver_flowcontrol_request_execution_seconds"


class FlowStatistics:
    """The counts of one schema at one level. Values that can be derived from others are not counted.

    waiting, waiting_seats: at this moment.
    rejected: those that were refused, by reason.
    waits, refused_waits: the waiting times of queued requests that began, and of those that were refused.
    durations, watch_durations: of execution; of a watch until it has begun.
    queue_lengths: those of the queues that requests were put in.
    seats: those of requests that were estimated to need more than one.
    unwatched: the number of writes without watches; `watches` has the numbers for the others.
    """

    def __init__(self, level: str, schema: str) -> None:
        self.level, self.schema = level, schema
        self.unwatched = self.waiting = self.waiting_seats = 0
        self.rejected: Counter[str] = Counter()
        # To wait for a turn, and get it, is a filter, too.
        self.waits = Histogram.of(_WAITS, FILTER_DURATIONS)
        self.refused_waits = Histogram.of(_WAITS)
        self.durations = Histogram.of(_DURATIONS)
        self.watch_durations = Histogram.of(_DURATIONS)
        self.queue_lengths = Histogram.of("apiserver_flowcontrol_request_queue_length_after_enqueue")
        self.seats = Histogram.of("apiserver_flowcontrol_work_estimated_seats")
        self.watches = Histogram.of("apiserver_flowcontrol_watch_count_samples")

    @property
    def finished(self) -> int:
        """The number of requests that have been executed."""
        return self.durations.count + self.watch_durations.count
