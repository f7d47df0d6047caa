"""Metrics of match conditions of webhooks and policies: outcomes and durations.

As in Kubernetes only webhooks are excluded by name: a policy whose conditions are not met is only skipped.
Source: k8s.io/apiserver, pkg/admission/metrics and pkg/admission/plugin/webhook/matchconditions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from apiserver.metrics.histograms import Histograms
from apiserver.metrics.series import Family, family

WEBHOOK: Final = "webhook"
POLICY: Final = "policy"
_DURATIONS: Final = "apiserver_admission_match_condition_evaluation_seconds"
# Webhooks and policies have names that clients give; of so many there are series, all others count as one.
NAMES_MAX: Final = 500
OTHER: Final = "other"


class MatchConditionMetrics:
    """Counts evaluations of the match conditions of all webhooks and policies.

    The step is `admit` or `validating` for webhooks, and `validate` for all policies, mutating ones included.
    """

    def __init__(self) -> None:
        self._durations = Histograms[tuple[str, str, str, str]](_DURATIONS)
        self._errors: Counter[tuple[str, str, str, str]] = Counter()
        self._exclusions: Counter[tuple[str, str, str, str]] = Counter()
        self._names: set[tuple[str, str]] = set()

    def evaluated(
        self, name: str, kind: str, step: str, operation: str, *, seconds: float, errors: int
    ) -> None:
        """Count an evaluation of all conditions of a webhook or a policy. errors: the number of failed
        ones.
        """
        key = self._key(name, kind, step, operation)
        self._durations[key].observe(seconds)
        if errors:
            self._errors[key] += errors

    def excluded(self, name: str, kind: str, step: str, operation: str) -> None:
        """Count a webhook that was not called because of its conditions."""
        self._exclusions[self._key(name, kind, step, operation)] += 1

    def _key(self, name: str, kind: str, step: str, operation: str) -> tuple[str, str, str, str]:
        if (kind, name) not in self._names:
            if len(self._names) >= NAMES_MAX:
                name = OTHER
            else:
                self._names.add((kind, name))
        return kind, step, operation, name

    def families(self) -> Iterable[Family]:
        yield family(_DURATIONS, list(self._durations.items()))
        yield family(
            "apiserver_admission_match_condition_evaluation_errors_total", list(self._errors.items())
        )
        yield family("apiserver_admission_match_condition_exclusions_total", list(self._exclusions.items()))
