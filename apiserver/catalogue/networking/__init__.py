"""The group `networking.k8s.io`."""

from __future__ import annotations

from apiserver.catalogue.builtin_type import DEFAULT_GATES, BuiltinType
from apiserver.catalogue.networking import (
    ingress_classes,
    ingresses,
    ip_addresses,
    network_policies,
    service_cidrs,
)
from apiserver.meta.releases.gates import FeatureGates


def types(gates: FeatureGates = DEFAULT_GATES) -> tuple[BuiltinType, ...]:
    return (
        ingress_classes.BUILTIN_TYPE,
        ingresses.builtin_type(gates),
        *ip_addresses.TYPES,
        network_policies.builtin_type(gates),
        *service_cidrs.TYPES,
    )
