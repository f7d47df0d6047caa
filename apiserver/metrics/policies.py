"""Metrics of admission policies: durations and outcomes.

Validating policies are counted unless they simply allow a write.
Source: k8s.io/apiserver, pkg/admission/plugin/policy/{mutating,validating}/metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from apiserver.metrics.histograms import Histograms
from apiserver.metrics.match_conditions import POLICY, MatchConditionMetrics
from apiserver.metrics.series import Family, family

# Policies and bindings have names that clients give; of so many pairs there are series, all others count as
# one.
PAIRS_MAX: Final = 500
OTHER: Final = "other"
# In the metrics of match conditions, where kube-apiserver does not distinguish the two kinds.
_CONDITIONS_STEP: Final = "validate"


class ConditionsCheck(Protocol):
    """The result of a policy's match conditions. errors: the number of conditions that failed."""

    @property
    def policy(self) -> str: ...
    @property
    def errors(self) -> int: ...
    @property
    def seconds(self) -> float: ...


class PolicyMetrics:
    """Counts and times the evaluations of all policies of one kind."""

    def __init__(self, kind: str, conditions: MatchConditionMetrics | None = None) -> None:
        """kind: `mutating` or `validating`.

        conditions: the counts for conditions of all policies and webhooks, which are separate metrics.
        """
        self._checks = f"apiserver_{kind}_admission_policy_check_total"
        self._check_durations = f"apiserver_{kind}_admission_policy_check_duration_seconds"
        self._conditions = conditions or MatchConditionMetrics()
        self._durations = Histograms[tuple[str, ...]](self._check_durations)
        self._pairs: set[tuple[str, str]] = set()

    def observe(self, policy: str, binding: str, labels: Sequence[str], seconds: float) -> None:
        """Count an evaluation. labels: the values of the labels after policy and binding."""
        pair = policy, binding
        if pair not in self._pairs:
            if len(self._pairs) >= PAIRS_MAX:
                pair = OTHER, OTHER
            else:
                self._pairs.add(pair)
        self._durations[*pair, *labels].observe(seconds)

    def observe_conditions(self, operation: str, check: ConditionsCheck) -> None:
        self._conditions.evaluated(
            check.policy, POLICY, _CONDITIONS_STEP, operation, seconds=check.seconds, errors=check.errors
        )

    def families(self) -> Iterable[Family]:
        checks = list(self._durations.items())
        yield family(self._checks, [(labels, each.count) for labels, each in checks])
        yield family(self._check_durations, checks)
