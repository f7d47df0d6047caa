"""The group `discovery.k8s.io`: the endpoints of services, not API discovery."""

from __future__ import annotations

from apiserver.catalogue.builtin_type import DEFAULT_GATES, BuiltinType
from apiserver.catalogue.discovery import endpoint_slices
from apiserver.meta.releases.gates import FeatureGates


def types(gates: FeatureGates = DEFAULT_GATES) -> tuple[BuiltinType, ...]:
    return (endpoint_slices.builtin_type(gates),)
