"""What is counted of the requests of one FlowSchema at one priority level."""

from __future__ import annotations

from collections import Counter
from typing import Final

from apiserver.metrics.histograms import Histogram
from apiserver.metrics.request_filters import with_filter_buckets

# kube-apiserver's buckets.
DURATION_BUCKETS: Final = (0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30)  # seconds
# Those of waits that end with a turn are more: to wait for it is a filter, too.
_WAIT_BUCKETS: Final = with_filter_buckets(DURATION_BUCKETS)
LENGTH_BUCKETS: Final = (0, 10, 25, 50, 100, 250, 500, 1000)
SEAT_BUCKETS: Final = (1, 2, 4, 8, 16, 32, 64, 100)
WATCH_BUCKETS: Final = (0, 1, 10, 100, 1000, 10000)


class FlowStatistics:
    """The counts of one schema at one level. What follows from others, or from the level, is not counted.

    waiting, waiting_seats: at this moment.
    rejected: those that were refused, by reason.
    waits, refused_waits: how long those waited that were put in a queue.
    durations, watch_durations: of execution; of a watch until it has begun.
    queue_lengths: of the queues that requests were put in.
    seats: of the requests that were estimated to need more than one.
    unwatched: writes that nobody watches; of the others, `watches` has how many do.
    """

    __slots__ = (
        "durations",
        "level",
        "queue_lengths",
        "refused_waits",
        "rejected",
        "schema",
        "seats",
        "unwatched",
        "waiting",
        "waiting_seats",
        "waits",
        "watch_durations",
        "watches",
    )

    def __init__(self, level: str, schema: str) -> None:
        self.level, self.schema = level, schema
        self.unwatched = self.waiting = self.waiting_seats = 0
        self.rejected: Counter[str] = Counter()
        self.waits = Histogram(_WAIT_BUCKETS)
        self.refused_waits = Histogram(DURATION_BUCKETS)
        self.durations = Histogram(DURATION_BUCKETS)
        self.watch_durations = Histogram(DURATION_BUCKETS)
        self.queue_lengths = Histogram(LENGTH_BUCKETS)
        self.seats = Histogram(SEAT_BUCKETS)
        self.watches = Histogram(WATCH_BUCKETS)

    @property
    def finished(self) -> int:
        """How many requests have been executed."""
        return self.durations.count + self.watch_durations.count
