"""How long requests are in the filters that all of them pass: who asks, whether they may, whose turn it is.

Nothing is observed for it: `authentication`, `authorization`, `impersonation` and `flowcontrol` measure their
part anyhow, in histograms that have these bounds, too.
Source: k8s.io/apiserver, pkg/endpoints/filterlatency.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from apiserver.metrics.histograms import Histogram
from apiserver.metrics.series import Family, family

FILTER_DURATIONS: Final = "apiserver_request_filter_duration_seconds"


class RequestFilterMetrics:
    """Shows how long requests take in each filter.

    durations: for each filter, called under its name, returns what it has measured.
    """

    def __init__(self, durations: Mapping[str, Callable[[], Iterable[Histogram]]]) -> None:
        self._durations = durations

    def families(self) -> Iterable[Family]:
        passed = ((name, _sum(durations())) for name, durations in self._durations.items())
        yield family(FILTER_DURATIONS, (((name,), found) for name, found in passed if any(found.buckets)))


def _sum(histograms: Iterable[Histogram]) -> Histogram:
    found = Histogram.of(FILTER_DURATIONS)
    for each in histograms:
        found.merge(each)
    return found
