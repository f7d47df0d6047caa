"""The defaults of all built-in types, by definition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from apiserver.apiextensions.validation import custom_resource_definitions
from apiserver.catalogue.admissionregistration import validating_admission_policies, webhook_configurations
from apiserver.catalogue.apiregistration import api_services
from apiserver.catalogue.apps import daemon_sets, deployments, stateful_sets
from apiserver.catalogue.authentication import token_requests
from apiserver.catalogue.autoscaling.horizontal_pod_autoscalers import validation
from apiserver.catalogue.batch import cron_jobs, jobs
from apiserver.catalogue.core import (
    config_maps,
    endpoints,
    events,
    limit_ranges,
    namespaces,
    nodes,
    persistent_volumes,
    replication_controllers,
    resource_quotas,
    secrets,
    service_accounts,
)
from apiserver.catalogue.core.pods import validation as pods
from apiserver.catalogue.core.services import validation as services
from apiserver.catalogue.discovery import endpoint_slices
from apiserver.catalogue.flowcontrol import flow_schemas
from apiserver.catalogue.networking import ingresses, network_policies
from apiserver.catalogue.resource import device_requests
from apiserver.catalogue.scheduling import priority_classes
from apiserver.catalogue.storage import csi_drivers, storage_classes
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
        validating_admission_policies.DEFAULTS,
        api_services.DEFAULTS,
        token_requests.DEFAULTS,
        validation.DEFAULTS,
        config_maps.DEFAULTS,
        cron_jobs.DEFAULTS,
        csi_drivers.DEFAULTS,
        custom_resource_definitions.DEFAULTS,
        daemon_sets.DEFAULTS,
        deployments.DEFAULTS,
        endpoint_slices.DEFAULTS,
        endpoints.DEFAULTS,
        events.DEFAULTS,
        flow_schemas.DEFAULTS,
        ingresses.DEFAULTS,
        jobs.DEFAULTS,
        limit_ranges.DEFAULTS,
        namespaces.DEFAULTS,
        network_policies.DEFAULTS,
        nodes.DEFAULTS,
        persistent_volumes.DEFAULTS,
        pods.DEFAULTS,
        priority_classes.DEFAULTS,
        resource_quotas.DEFAULTS,
        replication_controllers.DEFAULTS,
        device_requests.DEFAULTS,
        secrets.DEFAULTS,
        service_accounts.DEFAULTS,
        services.DEFAULTS,
        stateful_sets.DEFAULTS,
        storage_classes.DEFAULTS,
        webhook_configurations.DEFAULTS,
    )
)
