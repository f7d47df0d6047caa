"""Builds what concerns APIServices: the versions that this server serves itself, and those of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from apiserver.aggregation.availability import AvailabilityController
from apiserver.aggregation.discovery import DiscoveryController
from apiserver.aggregation.extension_client import ExtensionClient
from apiserver.aggregation.remote_versions import RemoteVersions
from apiserver.apiextensions import definitions
from apiserver.app.core import Core
from apiserver.catalogue.apiregistration import local_api_services
from apiserver.controllers.api_service_registration import ApiServiceRegistration
from apiserver.controllers.controller import Runnable
from apiserver.metrics.api_services import ApiServiceMetrics
from apiserver.serving import pki
from apiserver.serving.listening import front_proxy_certificate
from apiserver.webhooks.service_resolver import Services


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregation:
    """What other servers have, and what keeps that up to date.

    availability, discovery: None if APIServices are not served.
    """

    remote: RemoteVersions
    client: ExtensionClient
    metrics: ApiServiceMetrics
    availability: AvailabilityController | None
    discovery: DiscoveryController | None

    @property
    def controllers(self) -> Sequence[Runnable]:
        return [each for each in (self.availability, self.discovery) if each is not None]

    @property
    def is_complete(self) -> bool:
        """Whether all stored APIServices are known."""
        return self.availability is None or self.availability.has_synced


def build_aggregation(core: Core, services: Services, certificates: pki.Pki) -> Aggregation:
    config, brand, table = core.config, core.brand, core.served.current
    certificate, key = front_proxy_certificate(config, certificates)
    remote, metrics = RemoteVersions(), ApiServiceMetrics()
    client = ExtensionClient(services, certificate, key, config.proxy_deny_cidrs)
    availability = discovery = None
    api_services = table.find(local_api_services.group_of(brand), "v1", "apiservices")
    core_services = table.find("", "v1", "services")
    slices = table.find(brand.group("discovery"), "v1", "endpointslices")
    if api_services is not None:
        availability = AvailabilityController(
            core.registry,
            api_services,
            [each for each in (core_services, slices) if each is not None],
            remote,
            client,
            metrics,
            core.clock,
        )
        discovery = DiscoveryController(remote, client, brand, core.offload)
    return Aggregation(
        remote=remote, client=client, metrics=metrics, availability=availability, discovery=discovery
    )


def build_registration(core: Core) -> ApiServiceRegistration | None:
    """Returns what registers the versions served here; None if APIServices are not served."""
    table = core.served.current
    services = table.find(local_api_services.group_of(core.brand), "v1", "apiservices")
    defined = table.find(definitions.group_of(core.brand), "v1", definitions.RESOURCE)
    if services is None or defined is None:
        return None
    return ApiServiceRegistration(core.registry, services, defined, table, core.brand)
