"""How long mutations of admission policies take, and what comes of them.

Source: k8s.io/apiserver, pkg/admission/plugin/policy/mutating/metrics.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from apiserver.metrics.histograms import Histogram
from apiserver.metrics.series import Family, histogram_family, values

# Seconds.
_BUCKETS: Final = (0.0000005, 0.001, 0.01, 0.1, 1.0)
_LABELS: Final = ("policy", "policy_binding", "error_type")
# Policies and bindings have names that clients give; of so many pairs there are series, all others count as
# one.
PAIRS_MAX: Final = 500
OTHER: Final = "other"


class MutatingPolicyMetrics:
    """What all mutating policies have done."""

    def __init__(self) -> None:
        self._durations: dict[tuple[str, str, str], Histogram] = {}
        self._pairs: set[tuple[str, str]] = set()

    def observe(self, policy: str, binding: str, error_type: str, seconds: float) -> None:
        """Count a mutation. error_type: `no_error`, or of which kind its error is."""
        pair = policy, binding
        if pair not in self._pairs:
            if len(self._pairs) >= PAIRS_MAX:
                pair = OTHER, OTHER
            else:
                self._pairs.add(pair)
        durations = self._durations.get((*pair, error_type))
        if durations is None:
            durations = self._durations[*pair, error_type] = Histogram(_BUCKETS)
        durations.observe(seconds)

    def families(self) -> Iterable[Family]:
        yield values(
            "apiserver_mutating_admission_policy_check_total",
            "counter",
            "Mutations of admission policies, by policy, binding and what has come of them.",
            _LABELS,
            [(labels, histogram.count) for labels, histogram in self._durations.items()],
        )
        yield histogram_family(
            "apiserver_mutating_admission_policy_check_duration_seconds",
            "How long single mutations of admission policies took, by policy and binding.",
            _LABELS,
            list(self._durations.items()),
        )
