"""How often somebody wanted to impersonate somebody else, in which mode, and how long the checks took.

Source: k8s.io/apiserver, pkg/endpoints/filters/impersonation/metrics.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from typing import Final

from apiserver.metrics.histograms import Histogram
from apiserver.metrics.request_filters import FILTER_DURATIONS
from apiserver.metrics.series import Family, family

_ALLOWED: Final = "allowed"
_DECISIONS: Final = {True: _ALLOWED, False: "denied"}
_ATTEMPTS: Final = "apiserver_impersonation_attempts_duration_seconds"
_CHECKS: Final = "apiserver_impersonation_authorization_attempts_duration_seconds"


class ImpersonationMetrics:
    """Counts impersonation by its mode. The modes are few and fixed: they bound the series."""

    def __init__(self) -> None:
        attempts, checks = partial(Histogram.of, _ATTEMPTS, FILTER_DURATIONS), partial(Histogram.of, _CHECKS)
        self._attempts: defaultdict[tuple[str, str], Histogram] = defaultdict(attempts)
        self._checks: defaultdict[tuple[str, str], Histogram] = defaultdict(checks)

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
