"""How long requests are in the filters that all of them pass: who asks, whether they may, whose turn it is.

Nothing is observed for it: `authentication`, `authorization`, `impersonation` and `flowcontrol` measure their
part anyhow, in histograms that have these bounds, too.
Source: k8s.io/apiserver, pkg/endpoints/filterlatency and pkg/endpoints/filters/impersonation/metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from apiserver.metrics.histograms import Histogram, Histograms
from apiserver.metrics.series import Family, family

FILTER_DURATIONS: Final = "apiserver_request_filter_duration_seconds"
_ALLOWED: Final = "allowed"
_DECISIONS: Final = {True: _ALLOWED, False: "denied"}
_ATTEMPTS: Final = "apiserver_impersonation_attempts_duration_seconds"
_CHECKS: Final = "apiserver_impersonation_authorization_attempts_duration_seconds"


class ImpersonationMetrics:
    """Counts impersonation by its mode. The modes are few and fixed: they bound the series."""

    def __init__(self) -> None:
        self._attempts = Histograms[tuple[str, str]](_ATTEMPTS, FILTER_DURATIONS)
        self._checks = Histograms[tuple[str, str]](_CHECKS)

    def attempted(self, mode: str, is_allowed: bool, seconds: float) -> None:
        """Count a request that names another user. mode: empty if none has allowed it."""
        self._attempts[mode, _DECISIONS[is_allowed]].observe(seconds)

    def authorized(self, mode: str, is_allowed: bool, seconds: float) -> None:
        """Counts a question to the authorizers."""
        self._checks[mode, _DECISIONS[is_allowed]].observe(seconds)

    def durations(self) -> Iterable[Histogram]:
        """Returns how long impersonation took of requests that were allowed, with the bounds of filters."""
        return [each for (_, decision), each in self._attempts.items() if decision == _ALLOWED]

    def families(self) -> Iterable[Family]:
        for total, durations, found in (
            ("apiserver_impersonation_attempts_total", _ATTEMPTS, self._attempts),
            ("apiserver_impersonation_authorization_attempts_total", _CHECKS, self._checks),
        ):
            yield family(total, [(labels, each.count) for labels, each in found.items()])
            yield family(durations, list(found.items()))


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
