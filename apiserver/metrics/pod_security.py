"""Metrics of Pod Security admission: writes allowed and denied, and exemptions.

Source: k8s.io/pod-security-admission, metrics.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple

from apiserver.metrics.series import Family, family

AUDIT: Final = "audit"
ENFORCE: Final = "enforce"
WARN: Final = "warn"


class EvaluatedWrite(NamedTuple):
    """A write, described by its labels. operation: create or update. resource: pod or controller."""

    request_operation: str
    resource: str
    subresource: str


class EvaluationCounter:
    """A counter of evaluations."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class PodSecurityMetrics:
    """Counts evaluations of the Pod Security Standards, and exemptions."""

    def __init__(self) -> None:
        self._evaluations: defaultdict[tuple[str, ...], EvaluationCounter] = defaultdict(EvaluationCounter)
        self._exemptions: defaultdict[EvaluatedWrite, EvaluationCounter] = defaultdict(EvaluationCounter)

    def evaluations(
        self, write: EvaluatedWrite, mode: str, level: str, version: str, *, is_allowed: bool
    ) -> EvaluationCounter:
        """Returns the counter of evaluations with these labels.

        version: that of the standard; `future` for one that this server does not know.
        """
        decision = "allow" if is_allowed else "deny"
        return self._evaluations[decision, level, version, mode, *write]

    def exemptions(self, write: EvaluatedWrite) -> EvaluationCounter:
        return self._exemptions[write]

    def families(self) -> Iterable[Family]:
        evaluations, exemptions = self._evaluations.items(), self._exemptions.items()
        yield family("pod_security_evaluations_total", [(labels, each.value) for labels, each in evaluations])
        yield family("pod_security_exemptions_total", [(write, each.value) for write, each in exemptions])
