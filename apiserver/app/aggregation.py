"""Builds the parts for APIServices: those of the server's own versions, and those of extension servers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from apiserver.app.background import BackgroundTask
from apiserver.app.core import Core
from apiserver.app.serving.listening import front_proxy_certificate
from apiserver.app.serving.server_keys import ServerKeys, unusable_front_proxy
from apiserver.app.serving.watched_files import WatchedFiles
from apiserver.catalogue.apiregistration import local_api_services
from apiserver.controller_runtime.controller import Runnable
from apiserver.controllers.api_service_registration import ApiServiceRegistration
from apiserver.custom_resources import definitions
from apiserver.endpoints.aggregation.availability import AvailabilityController, WatchedResources
from apiserver.endpoints.aggregation.discovery import DiscoveryController
from apiserver.endpoints.aggregation.extension_client import ExtensionClient
from apiserver.endpoints.aggregation.openapi_v2 import OpenApiV2Controller
from apiserver.endpoints.aggregation.remote_versions import RemoteVersions
from apiserver.metrics.controllers import ApiServiceMetrics
from apiserver.webhooks.service_resolver import ServiceLookup

_FRONT_PROXY: Final = "front proxy certificate of this server"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Aggregation:
    """The API versions that extension servers have, and the tasks that keep them up to date.

    availability, discovery, openapi_v2: None if APIServices are not served.
    watched: the certificate of a front proxy.
    expirations: when that one expires, in seconds since 1970, by its name.
    """

    remote: RemoteVersions
    client: ExtensionClient
    metrics: ApiServiceMetrics
    availability: AvailabilityController | None
    discovery: DiscoveryController | None
    openapi_v2: OpenApiV2Controller | None
    watched: WatchedFiles
    expirations: Mapping[str, float]

    @property
    def controllers(self) -> Sequence[Runnable]:
        every = (self.availability, self.discovery, self.openapi_v2)
        return [each for each in every if each is not None]

    @property
    def is_complete(self) -> bool:
        """Whether all stored APIServices are known."""
        return self.availability is None or self.availability.has_synced


def build_aggregation(
    core: Core, services: ServiceLookup, keys: ServerKeys, require_pair: Callable[[bytes, bytes], None]
) -> Aggregation:
    """Build the client for extension servers, and the controllers of APIServices.

    require_pair: raises ValueError if a certificate and a key, as PEM, are no pair. Raises CannotStart.
    """
    config, brand, table = core.config, core.brand, core.served.current
    paths = front_proxy_certificate(config, keys.certificates)
    certificate = keys.front_proxy.chain, keys.front_proxy.key
    try:
        expires = keys.expires_at(_FRONT_PROXY, certificate[0])
        require_pair(*certificate)
    except ValueError as error:
        raise unusable_front_proxy(paths[0], error) from None
    remote, metrics = RemoteVersions(), ApiServiceMetrics()
    client = ExtensionClient(services, certificate, config.proxy.proxy_deny_cidrs)

    expirations = {_FRONT_PROXY: expires}

    async def show(contents: Sequence[bytes]) -> None:
        shown, key = contents
        expires = await asyncio.to_thread(keys.expires_at, _FRONT_PROXY, shown)
        require_pair(shown, key)
        expirations[_FRONT_PROXY] = expires
        client.use_certificate((shown, key))

    watched = WatchedFiles(
        _FRONT_PROXY, paths, certificate, show, observe=core.metrics.certificates.count_reload
    )
    availability = discovery = openapi_v2 = None
    api_services = table.hub(local_api_services.group_of(brand), "apiservices")
    core_services = table.find("", "v1", "services")
    slices = table.hub(brand.group("discovery"), "endpointslices")
    if api_services is not None:
        availability = AvailabilityController(
            core.registry,
            WatchedResources(
                api_services,
                [each for each in (core_services, slices) if each is not None],
                writes_conditions=not config.shares_with_kube_apiserver,
            ),
            remote,
            client,
            metrics,
            core.clock,
        )
        discovery = DiscoveryController(remote, client, brand, core.offload)
        openapi_v2 = OpenApiV2Controller(remote, client, core.offload)
    return Aggregation(
        remote=remote,
        client=client,
        metrics=metrics,
        availability=availability,
        discovery=discovery,
        openapi_v2=openapi_v2,
        watched=watched,
        expirations=expirations,
    )


def aggregation_tasks(core: Core, aggregation: Aggregation) -> Iterator[BackgroundTask]:
    """Yields the tasks that discover what extension servers serve, and register the versions served here."""
    yield BackgroundTask("watched-files", aggregation.watched.run)
    for each in aggregation.controllers:
        yield BackgroundTask("aggregation", each.run, (each.queue,))
    table = core.served.current
    services = table.hub(local_api_services.group_of(core.brand), "apiservices")
    defined = table.hub(definitions.group_of(core.brand), definitions.RESOURCE)
    # A kube-apiserver registers what it serves itself, and this would delete those of other versions.
    is_registered = not core.config.shares_with_kube_apiserver
    if is_registered and services is not None and defined is not None:
        registration = ApiServiceRegistration(core.registry, services, defined, table, core.brand)
        yield BackgroundTask("autoregister", registration.run, (registration.queue,), is_upkeep=True)
