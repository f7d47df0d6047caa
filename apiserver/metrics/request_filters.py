"""Durations of requests in the filters: authentication, authorization, impersonation, and fairness.

They need no observations: `authentication`, `authorization`, `impersonation` and `flowcontrol` measure their
parts anyhow, in histograms that include these bounds.
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
    """Counts impersonation by mode. The modes are few and fixed: they bound the series."""

    def __init__(self) -> None:
        self._attempts = Histograms[tuple[str, str]](_ATTEMPTS, FILTER_DURATIONS)
        self._checks = Histograms[tuple[str, str]](_CHECKS)

    def attempted(self, mode: str, is_allowed: bool, seconds: float) -> None:
        """Count a request that impersonates a user. mode: empty if none allowed it."""
        self._attempts[mode, _DECISIONS[is_allowed]].observe(seconds)

    def authorized(self, mode: str, is_allowed: bool, seconds: float) -> None:
        """Count a call of the authorizers."""
        self._checks[mode, _DECISIONS[is_allowed]].observe(seconds)

    def durations(self) -> Iterable[Histogram]:
        """Returns the durations of impersonation of allowed requests, with the bounds of filters."""
        return [each for (_, decision), each in self._attempts.items() if decision == _ALLOWED]

    def families(self) -> Iterable[Family]:
        for total, durations, found in (
            ("apiserver_impersonation_attempts_total", _ATTEMPTS, self._attempts),
            ("apiserver_impersonation_authorization_attempts_total", _CHECKS, self._checks),
        ):
            yield family(total, [(labels, each.count) for labels, each in found.items()])
            yield family(durations, list(found.items()))


class RequestFilterMetrics:
    """Shows the durations of requests in each filter.

    durations: by filter name, a function that returns the filter's measurements.
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
