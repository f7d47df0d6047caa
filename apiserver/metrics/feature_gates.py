"""Which feature gates are on, as a metric."""

from __future__ import annotations

from collections.abc import Iterable

from apiserver.metrics.series import Family, family
from apiserver.releases.gates import FeatureGates


class FeatureGateMetrics:
    """Shows which feature gates are on. Source: k8s.io/component-base, metrics/prometheus/feature."""

    def __init__(self, gates: FeatureGates) -> None:
        self._gates = gates

    def families(self) -> Iterable[Family]:
        states = [((name, stage), int(is_on)) for name, stage, is_on in self._gates.states()]
        yield family("kubernetes_feature_enabled", states)
