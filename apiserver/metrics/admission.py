"""Durations of admission: of each plugin, and of the mutating and the validating step.

Source: k8s.io/apiserver, pkg/admission/metrics.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from apiserver.metrics.histograms import Histogram
from apiserver.metrics.match_conditions import MatchConditionMetrics
from apiserver.metrics.pod_security import PodSecurityMetrics
from apiserver.metrics.policies import PolicyMetrics
from apiserver.metrics.series import Family, family
from apiserver.metrics.webhooks import WebhookMetrics

ADMIT: Final = "admit"
VALIDATE: Final = "validate"
# Kubernetes calls the type of validating webhooks so.
VALIDATING: Final = "validating"
_PLUGINS: Final = "apiserver_admission_controller_admission_duration_seconds"
_STEPS: Final = "apiserver_admission_step_admission_duration_seconds"


class AdmissionDurations(NamedTuple):
    """The durations of a plugin or a step, for one operation. rejected: the durations of those that refused
    the write.
    """

    accepted: Histogram
    rejected: Histogram


class AdmissionMetrics:
    """Times all plugins and steps of admission. Steps and operations are named as in the labels."""

    def __init__(self) -> None:
        self._plugins: dict[tuple[str, str, str], AdmissionDurations] = {}
        self._steps: dict[tuple[str, str], AdmissionDurations] = {}
        self._conditions = MatchConditionMetrics()
        self.webhooks = WebhookMetrics(self._conditions)
        self.mutating_policies = PolicyMetrics("mutating", self._conditions)
        self.validating_policies = PolicyMetrics("validating", self._conditions)
        self.pod_security = PodSecurityMetrics()

    def of_plugin(self, name: str, step: str, operation: str) -> AdmissionDurations:
        return self._plugins.setdefault((name, step, operation), _durations(_PLUGINS))

    def of_step(self, step: str, operation: str) -> AdmissionDurations:
        return self._steps.setdefault((step, operation), _durations(_STEPS))

    def families(self) -> Iterable[Family]:
        yield family(_PLUGINS, _by_outcome(self._plugins))
        steps = _by_outcome(self._steps)
        yield family(_STEPS, steps)
        yield family("apiserver_admission_step_admission_duration_seconds_summary", steps)
        yield from self.webhooks.families()
        yield from self._conditions.families()
        yield from self.mutating_policies.families()
        yield from self.validating_policies.families()
        yield from self.pod_security.families()


def _durations(name: str) -> AdmissionDurations:
    return AdmissionDurations(Histogram.of(name), Histogram.of(name))


def _by_outcome(
    durations: dict[tuple[str, str, str], AdmissionDurations] | dict[tuple[str, str], AdmissionDurations],
) -> Iterable[tuple[tuple[str, ...], Histogram]]:
    """Returns the histograms that have observations."""
    return [
        ((*labels, rejected), histogram)
        for labels, both in durations.items()
        for rejected, histogram in (("false", both.accepted), ("true", both.rejected))
        if histogram.count
    ]
