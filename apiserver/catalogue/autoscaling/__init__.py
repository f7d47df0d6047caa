"""The group `autoscaling`."""

from __future__ import annotations

from apiserver.catalogue.autoscaling import horizontal_pod_autoscalers
from apiserver.catalogue.builtin_type import DEFAULT_GATES, BuiltinType
from apiserver.meta.releases.gates import FeatureGates


def types(gates: FeatureGates = DEFAULT_GATES) -> tuple[BuiltinType, ...]:
    return horizontal_pod_autoscalers.builtin_types(gates)
