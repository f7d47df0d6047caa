"""The defaults of all built-in types, by definition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from apiserver.apiextensions.validation import custom_resource_definitions
from apiserver.catalogue.rules import (
    admission_policies,
    api_services,
    authentication,
    autoscalers,
    config_maps,
    cron_jobs,
    csi,
    daemon_sets,
    deployments,
    endpoint_slices,
    endpoints,
    events,
    flow_control,
    ingresses,
    jobs,
    limit_ranges,
    namespaces,
    network_policies,
    nodes,
    persistent_volumes,
    pods,
    priority_classes,
    quotas,
    replication_controllers,
    resource_claims,
    secrets,
    service_accounts,
    services,
    stateful_sets,
    storage_classes,
    webhook_configurations,
)
from apiserver.schema.compile import Default


def _together(parts: Iterable[Mapping[str, Default]]) -> Mapping[str, Default]:
    """Each definition is one module's."""
    together: dict[str, Default] = {}
    for part in parts:
        for definition, default in part.items():
            if together.setdefault(definition, default) is not default:
                raise ValueError(f"{definition} has two defaults; put them together with in_turn")
    return MappingProxyType(together)


DEFAULTS: Final = _together(
    (
        admission_policies.DEFAULTS,
        api_services.DEFAULTS,
        authentication.DEFAULTS,
        autoscalers.DEFAULTS,
        config_maps.DEFAULTS,
        cron_jobs.DEFAULTS,
        csi.DEFAULTS,
        custom_resource_definitions.DEFAULTS,
        daemon_sets.DEFAULTS,
        deployments.DEFAULTS,
        endpoint_slices.DEFAULTS,
        endpoints.DEFAULTS,
        events.DEFAULTS,
        flow_control.DEFAULTS,
        ingresses.DEFAULTS,
        jobs.DEFAULTS,
        limit_ranges.DEFAULTS,
        namespaces.DEFAULTS,
        network_policies.DEFAULTS,
        nodes.DEFAULTS,
        persistent_volumes.DEFAULTS,
        pods.DEFAULTS,
        priority_classes.DEFAULTS,
        quotas.DEFAULTS,
        replication_controllers.DEFAULTS,
        resource_claims.DEFAULTS,
        secrets.DEFAULTS,
        service_accounts.DEFAULTS,
        services.DEFAULTS,
        stateful_sets.DEFAULTS,
        storage_classes.DEFAULTS,
        webhook_configurations.DEFAULTS,
    )
)
