"""The group `networking.k8s.io`."""

from __future__ import annotations

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.networking import (
    ingress_classes,
    ingresses,
    ip_addresses,
    network_policies,
    service_cidrs,
)


def types() -> tuple[BuiltinType, ...]:
    return (
        ingress_classes.builtin_type(),
        ingresses.builtin_type(),
        *ip_addresses.builtin_types(),
        network_policies.builtin_type(),
        *service_cidrs.builtin_types(),
    )
