"""How long requests are in the filters that all of them pass: who asks, whether they may, whose turn it is.

Nothing is observed for it: `authentication`, `authorization`, `impersonation` and `flowcontrol` measure their
part anyhow, in histograms that have these bounds, too.
Source: k8s.io/apiserver, pkg/endpoints/filterlatency.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from apiserver.metrics.histograms import Histogram
from apiserver.metrics.series import Family, histogram_family

# Seconds.
FILTER_BUCKETS: Final = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0, 10.0, 15.0, 30.0)


def with_filter_buckets(bounds: Sequence[float]) -> tuple[float, ...]:
    """Returns the bounds of a histogram that is served with `bounds`, and as a filter's."""
    return tuple(sorted({*bounds, *FILTER_BUCKETS}))


class RequestFilterMetrics:
    """durations: for each filter, called under its name, returns what it has measured."""

    def __init__(self, durations: Mapping[str, Callable[[], Iterable[Histogram]]]) -> None:
        self._durations = durations

    def families(self) -> Iterable[Family]:
        yield histogram_family(
            "apiserver_request_filter_duration_seconds",
            "How long requests were in the filters that all pass; of impersonation, those that ask for it.",
            ("filter",),
            (
                ((name,), found)
                for name, durations in self._durations.items()
                if any((found := _sum(durations())).buckets)
            ),
        )


def _sum(histograms: Iterable[Histogram]) -> Histogram:
    found = Histogram(FILTER_BUCKETS)
    for each in histograms:
        found.merge(each)
    return found
