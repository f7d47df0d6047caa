"""Resolves the Services of webhooks, which no DNS knows outside of a cluster's network.

A name `<service>.<namespace>.svc` resolves to the addresses of the ready endpoints in the Service's
EndpointSlices, each with the target port of the Service's port; or to the host of an ExternalName. Other
names are looked up by the system.
Source: k8s.io/kube-aggregator, pkg/apiserver/resolvers.go; k8s.io/apiserver, pkg/util/proxy.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from aiohttp.abc import AbstractResolver, ResolveResult

from apiserver.meta.vocabulary import Document
from apiserver.webhooks.errors import ServiceUnreachable

_SUFFIX: Final = ".svc"
# How many addresses of one Service are returned. More would not be used.
ENDPOINTS_MAX: Final = 16


class ServiceLookup(Protocol):
    """The known Services and their EndpointSlices."""

    async def service(self, namespace: str, name: str) -> Document | None: ...
    async def slices(self, namespace: str, service: str) -> Iterable[Document]: ...


class ServiceLocation(NamedTuple):
    """The location of a Service: a host with the Service's port, or endpoints, which are addresses with
    ports.
    """

    external_name: str = ""
    endpoints: Sequence[tuple[str, int]] = ()


async def locate(services: ServiceLookup, namespace: str, name: str, port: int) -> ServiceLocation:
    """Returns the location of a Service.

    Raises ServiceUnreachable if there is no such Service or port, or no ready endpoint.
    """
    service = await services.service(namespace, name)
    if service is None:
        raise ServiceUnreachable(f'service "{name}" not found')
    spec = service.get("spec") or {}
    if spec.get("type") == "ExternalName" and spec.get("externalName"):
        return ServiceLocation(external_name=spec["externalName"])
    wanted = next((each for each in spec.get("ports") or () if each.get("port") == port), None)
    if wanted is None:
        raise ServiceUnreachable(f'no service port {port} found for service "{name}"')
    slices = await services.slices(namespace, name)
    found = [endpoint for each in slices for endpoint in ready_endpoints(each, wanted.get("name") or "")]
    if not found:
        raise ServiceUnreachable(f'no endpoints available for service "{name}"')
    return ServiceLocation(endpoints=found[:ENDPOINTS_MAX])


class ServiceResolver(AbstractResolver):
    """Resolves names of Services, and all others by another resolver."""

    def __init__(self, services: ServiceLookup, others: AbstractResolver) -> None:
        self._services = services
        self._others = others

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Returns the addresses of a host.

        Raises ServiceUnreachable, and the errors of the other resolver.
        """
        name, _, rest = host.partition(".")
        if not rest.endswith(_SUFFIX) or "." in rest.removesuffix(_SUFFIX):
            return await self._others.resolve(host, port, family)
        location = await locate(self._services, rest.removesuffix(_SUFFIX), name, port)
        if location.external_name:
            return await self._others.resolve(location.external_name, port, family)
        return [_result(host, address, endpoint_port) for address, endpoint_port in location.endpoints]

    async def close(self) -> None:
        await self._others.close()


def ready_endpoints(described: Document, port_name: str) -> list[tuple[str, int]]:
    """Returns the addresses of the ready endpoints in a slice, with the port of the given name."""
    port = next(
        (each.get("port") for each in described.get("ports") or () if (each.get("name") or "") == port_name),
        None,
    )
    if port is None or described.get("addressType") == "FQDN":
        return []
    return [
        (address, port)
        for endpoint in described.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready") is not False
        for address in endpoint.get("addresses") or ()
    ]


def _result(host: str, address: str, port: int) -> ResolveResult:
    return {
        "hostname": host,
        "host": address,
        "port": port,
        "family": socket.AF_INET6 if ":" in address else socket.AF_INET,
        "proto": 0,
        "flags": socket.AI_NUMERICHOST,
    }
