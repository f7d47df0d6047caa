"""How long admission policies take, and what comes of them.

Validating policies are counted where they do not simply let a write pass.
Source: k8s.io/apiserver, pkg/admission/plugin/policy/{mutating,validating}/metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from apiserver.metrics.histograms import Histogram
from apiserver.metrics.match_conditions import POLICY, MatchConditionMetrics
from apiserver.metrics.series import Family, histogram_family, values

# Seconds.
_BUCKETS: Final = (0.0000005, 0.001, 0.01, 0.1, 1.0)
# Policies and bindings have names that clients give; of so many pairs there are series, all others count as
# one.
PAIRS_MAX: Final = 500
OTHER: Final = "other"
# In the metrics of match conditions, where kube-apiserver does not tell the two kinds apart.
_CONDITIONS_STEP: Final = "validate"


class ConditionsCheck(Protocol):
    """What has come of the conditions of a policy. errors: of how many."""

    @property
    def policy(self) -> str: ...
    @property
    def errors(self) -> int: ...
    @property
    def seconds(self) -> float: ...


class PolicyMetrics:
    """What all policies of one kind have done."""

    def __init__(
        self, kind: str, labels: Sequence[str], conditions: MatchConditionMetrics | None = None
    ) -> None:
        """kind: `mutating` or `validating`. labels: those beside policy and binding.

        conditions: those of all policies and webhooks, which are served by themselves.
        """
        self._kind = kind
        self._conditions = conditions or MatchConditionMetrics()
        self._labels = ("policy", "policy_binding", *labels)
        self._durations: dict[tuple[str, ...], Histogram] = {}
        self._pairs: set[tuple[str, str]] = set()

    def observe(self, policy: str, binding: str, labels: Sequence[str], seconds: float) -> None:
        """Count an evaluation. labels: the values of those given to the constructor."""
        pair = policy, binding
        if pair not in self._pairs:
            if len(self._pairs) >= PAIRS_MAX:
                pair = OTHER, OTHER
            else:
                self._pairs.add(pair)
        key = *pair, *labels
        durations = self._durations.get(key)
        if durations is None:
            durations = self._durations[key] = Histogram(_BUCKETS)
        durations.observe(seconds)

    def observe_conditions(self, operation: str, check: ConditionsCheck) -> None:
        self._conditions.evaluated(
            check.policy,
            POLICY,
            _CONDITIONS_STEP,
            operation,
            seconds=check.seconds,
            errors=check.errors,
        )

    def families(self) -> Iterable[Family]:
        name = f"apiserver_{self._kind}_admission_policy_check"
        yield values(
            f"{name}_total",
            "counter",
            f"Checks by {self._kind} admission policies, by policy, binding and what has come of them.",
            self._labels,
            [(labels, histogram.count) for labels, histogram in self._durations.items()],
        )
        yield histogram_family(
            f"{name}_duration_seconds",
            f"How long checks by {self._kind} admission policies took, by policy and binding.",
            self._labels,
            list(self._durations.items()),
        )
