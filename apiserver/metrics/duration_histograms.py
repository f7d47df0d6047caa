"""How long things take, counted in plain numbers until somebody asks for /metrics.

prometheus-client's own histograms lock and loop: 3 us for each observation, and there are two to a request.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from prometheus_client.core import HistogramMetricFamily

# kube-apiserver's, so that rules written for it fit. Seconds.
BUCKETS: Final = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60),
)
_INFINITE: Final = (*map(str, map(float, BUCKETS)), "+Inf")


class DurationHistogram:
    """Durations of one set of labels.

    buckets: how many took no longer than each of BUCKETS, but longer than the one before it, and at last how
    many took longer than any.
    """

    __slots__ = ("buckets", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.buckets = [0] * (len(BUCKETS) + 1)

    def observe(self, seconds: float) -> None:
        self.seconds += seconds
        self.buckets[bisect_left(BUCKETS, seconds)] += 1


def family(
    name: str,
    text: str,
    labels: Sequence[str],
    by_labels: Mapping[tuple[str, ...], Iterable[DurationHistogram]],
) -> HistogramMetricFamily:
    """The histogram of some durations; those with the same labels are added up."""
    metric = HistogramMetricFamily(name, text, labels=labels)
    for values, group in by_labels.items():
        members = list(group)
        counts = itertools.accumulate(map(sum, zip(*(each.buckets for each in members), strict=True)))
        metric.add_metric(
            values, list(zip(_INFINITE, counts, strict=True)), sum(each.seconds for each in members)
        )
    return metric
