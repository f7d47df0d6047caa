"""Which feature gates are on, as a metric."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from apiserver.features.gates import FeatureGates
from apiserver.metrics.client_library import gauge_family

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class FeatureGateMetrics:
    """Source: k8s.io/component-base, metrics/prometheus/feature."""

    def __init__(self, gates: FeatureGates) -> None:
        self._gates = gates

    def families(self) -> Iterable[Metric]:
        metric = gauge_family(
            "kubernetes_feature_enabled",
            "This metric records the data about the stage and enablement of a k8s feature.",
            labels=["name", "stage"],
        )
        for name, stage, is_on in self._gates.states():
            metric.add_metric([name, stage], 1 if is_on else 0)
        yield metric
