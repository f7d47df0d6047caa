"""How often somebody wanted to impersonate somebody else, in which mode, and how long the checks took.

Source: k8s.io/apiserver, pkg/endpoints/filters/impersonation/metrics.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from apiserver.metrics.histograms import Histogram
from apiserver.metrics.request_filters import with_filter_buckets
from apiserver.metrics.series import Family, histogram_family, values

# Seconds.
_BUCKETS: Final = tuple(0.001 * 2**exponent for exponent in range(15))
_OBSERVED_BUCKETS: Final = with_filter_buckets(_BUCKETS)
_ALLOWED: Final = "allowed"
_LABELS: Final = ("mode", "decision")
_PREFIX: Final = "apiserver_impersonation_"


class ImpersonationMetrics:
    """The modes of impersonation are few, and fixed: they bound the series."""

    def __init__(self) -> None:
        self._attempts: dict[tuple[str, str], Histogram] = {}
        self._checks: dict[tuple[str, str], Histogram] = {}

    def attempted(self, mode: str, is_allowed: bool, seconds: float) -> None:
        """Count a request that names another user. mode: empty if none has allowed it."""
        _observe(self._attempts, mode, is_allowed, seconds)

    def authorized(self, mode: str, is_allowed: bool, seconds: float) -> None:
        """Count a question to the authorizers."""
        _observe(self._checks, mode, is_allowed, seconds)

    def durations(self) -> Iterable[Histogram]:
        """Returns how long impersonation took of requests that may go on, with the bounds of filters."""
        return [each for (_, decision), each in self._attempts.items() if decision == _ALLOWED]

    def families(self) -> Iterable[Family]:
        for name, what, found in (
            ("attempts", "impersonations", self._attempts),
            ("authorization_attempts", "authorization checks of impersonations", self._checks),
        ):
            yield values(
                f"{_PREFIX}{name}_total",
                "counter",
                f"How many {what} there were, by the mode and the decision.",
                _LABELS,
                [(labels, each.count) for labels, each in found.items()],
            )
            yield histogram_family(
                f"{_PREFIX}{name}_duration_seconds",
                f"How long {what} took, by the mode and the decision.",
                _LABELS,
                [(labels, each.with_bounds(_BUCKETS)) for labels, each in found.items()],
            )


def _observe(
    histograms: dict[tuple[str, str], Histogram], mode: str, is_allowed: bool, seconds: float
) -> None:
    labels = mode, _ALLOWED if is_allowed else "denied"
    histogram = histograms.get(labels)
    if histogram is None:
        histogram = histograms[labels] = Histogram(_OBSERVED_BUCKETS)
    histogram.observe(seconds)
