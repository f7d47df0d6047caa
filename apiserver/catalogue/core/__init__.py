"""The core group, `v1`."""

from __future__ import annotations

from apiserver.catalogue.builtin_type import DEFAULT_GATES, BuiltinType
from apiserver.catalogue.core import (
    component_statuses,
    config_maps,
    endpoints,
    events,
    limit_ranges,
    namespaces,
    nodes,
    persistent_volume_claims,
    persistent_volumes,
    pod_templates,
    pods,
    replication_controllers,
    resource_quotas,
    secrets,
    service_accounts,
    services,
)
from apiserver.catalogue.core.services.allocation import ServiceAllocator
from apiserver.meta.brand import Brand
from apiserver.meta.releases.gates import FeatureGates


def types(
    brand: Brand,
    *,
    event_ttl_s: int,
    service_allocator: ServiceAllocator,
    gates: FeatureGates = DEFAULT_GATES,
) -> tuple[BuiltinType, ...]:
    return (
        BuiltinType("", "v1", "bindings", "Binding", verbs=("create",)),
        component_statuses.BUILTIN_TYPE,
        config_maps.BUILTIN_TYPE,
        endpoints.builtin_type(gates),
        events.builtin_type(ttl_s=event_ttl_s),
        limit_ranges.BUILTIN_TYPE,
        namespaces.builtin_type(brand),
        nodes.builtin_type(gates),
        persistent_volume_claims.builtin_type(gates),
        persistent_volumes.builtin_type(gates),
        pods.builtin_type(gates),
        pod_templates.builtin_type(gates),
        replication_controllers.builtin_type(gates),
        resource_quotas.BUILTIN_TYPE,
        secrets.BUILTIN_TYPE,
        service_accounts.builtin_type(brand),
        services.builtin_type(service_allocator, gates),
    )
