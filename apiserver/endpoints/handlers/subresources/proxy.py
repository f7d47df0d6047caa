"""Handles the subresource `proxy` of services, pods and nodes by finding the backend of each request.

Names are `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`; the default scheme is `http`. Certificates of backends in
the cluster cannot be verified: with `https` any is accepted, as in kube-apiserver. Source: k8s.io/kubernetes,
pkg/registry/core/{service,pod,node}, ResourceLocation.
"""

from __future__ import annotations

import functools
import random
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar

from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.handlers.subresources.connect import Connector
from apiserver.endpoints.handlers.subresources.kubelets import Kubelets
from apiserver.endpoints.reverse_proxy.errors import BackendRequestFailed, BackendUnreachable, NoBackend
from apiserver.endpoints.reverse_proxy.forwarder import Forwarder
from apiserver.endpoints.reverse_proxy.links import escaped, joined
from apiserver.endpoints.reverse_proxy.target import ProxyBackend, ProxyTarget
from apiserver.meta.errors import ApiError, BadRequest, NotFound
from apiserver.meta.options import ListOptions
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.storage.event_loop_turns import in_turns
from apiserver.storage.interface import MOST_RECENT
from apiserver.webhooks.addresses import AddressDenied, AddressRules, NotProxyable
from apiserver.webhooks.tls import unverified_context

_T = TypeVar("_T")

_DEFAULT_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}
_PORT_MAX: Final = 65_535
_PROXYABLE: Final = AddressRules((), only_proxyable=True)


class Address(NamedTuple):
    """The address in the name that the path of a proxied request has. port: empty if there is none."""

    scheme: str
    name: str
    port: str


def parse_address(text: str) -> Address | None:
    """Parses `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`; returns None for anything else.

    Source: k8s.io/apimachinery, pkg/util/net, SplitSchemeNamePort.
    """
    match text.split(":"):
        case [name]:
            address = Address("", name, "")
        case [name, port]:
            address = Address("", name, port)
        case ["" | "http" | "https" as scheme, name, port]:
            address = Address(scheme, name, port)
        case _:
            return None
    return address if address.name else None


@functools.cache
def insecure_context() -> ssl.SSLContext:
    """Returns the shared TLS context for servers whose certificate cannot be verified."""
    return unverified_context()


def proxy_connectors(
    registry: Registry,
    forwarder: Forwarder,
    kubelets: Kubelets,
    slices: Callable[[], ServedResource | None],
    endpoints: Callable[[], ServedResource | None],
    service_label: str,
) -> Mapping[str, Connector]:
    """Returns the connectors of `proxy`, of Services, pods and nodes.

    slices, endpoints: return the resources EndpointSlices and Endpoints.
    service_label: by which EndpointSlices name their Service.
    """
    context = insecure_context()
    services = _Services(registry, slices, endpoints, service_label)

    def target(call: ApiCall, backend: ProxyBackend) -> ProxyTarget:
        info = call.info
        path = joined("", "/".join(info.rest)) if info.rest else ""
        if info.path.endswith("/") and not path.endswith("/"):
            path += "/"
        namespace = f"/namespaces/{info.namespace}" if info.namespace else ""
        prefix = f"/api/{info.version}{namespace}/{info.resource}/{info.name}/{info.subresource}"
        query = call.request.raw_path.partition("?")[2]
        return ProxyTarget(backend, escaped(path), query, escaped(prefix))

    def backend(scheme: str, host: str, port: int) -> ProxyBackend:
        return ProxyBackend(host, port, context if scheme == "https" else None, only_proxyable=True)

    async def read(call: ApiCall, address: Address, reading: Callable[[Document], _T]) -> _T:
        """Returns the result of reading the object of a name. Raises NotFound, and the errors of
        `reading`.
        """
        found = await registry.get(call.resource, call.info.namespace, address.name, MOST_RECENT)
        return await call.offload.read(found, reading)

    async def to_service(call: ApiCall, _: Document) -> None:
        address = _address_of(call, "service")
        port_name = await read(call, address, functools.partial(_port_name, port=address.port))
        host, port = await services.endpoint(call, address.name, port_name)
        await forwarder.forward(call, target(call, backend(address.scheme, host, port)))

    async def to_pod(call: ApiCall, _: Document) -> None:
        address = _address_of(call, "pod")
        host, first_port = await read(call, address, _address_of_pod)
        _require_proxyable(host)
        port = address.port or first_port
        number = _number(port) if port else _DEFAULT_PORTS[address.scheme or "http"]
        await forwarder.forward(call, target(call, backend(address.scheme, host, number)))

    async def to_node(call: ApiCall, _: Document) -> None:
        address = _address_of(call, "node")
        kubelet = await read(call, address, kubelets.backend_of)
        if address.port in ("", str(kubelet.port)):
            await forwarder.forward(call, target(call, kubelet))
            return
        found = backend(address.scheme, kubelet.host, _number(address.port))
        await _require_addresses(forwarder, found)
        await forwarder.forward(call, target(call, found))

    return {"services/proxy": to_service, "pods/proxy": to_pod, "nodes/proxy": to_node}


async def _require_addresses(forwarder: Forwarder, backend: ProxyBackend) -> None:
    """Require that requests may be proxied to addresses."""
    try:
        await forwarder.backends.require_addresses(backend)
    except (BackendRequestFailed, AddressDenied) as error:
        raise BadRequest(str(error)) from None


def _address_of(call: ApiCall, what: str) -> Address:
    """Returns the address in a name."""
    address = parse_address(call.info.name)
    if address is None:
        raise BadRequest(f'invalid {what} request "{call.info.name}"')
    return address


def _require_proxyable(host: str) -> None:
    """Require that an address is valid and may be proxied to."""
    try:
        _PROXYABLE.require_allowed(host)
    except (ValueError, NotProxyable):
        raise BadRequest(str(NotProxyable())) from None


def _address_of_pod(pod: Document) -> tuple[str, str]:
    """Returns the IP of a pod and its default port, which is empty if it has none."""
    host = (pod.get("status") or {}).get("podIP") or ""
    for container in pod["spec"].get("containers") or ():
        if ports := container.get("ports"):
            return host, str(ports[0]["containerPort"])
    return host, ""


def _port_name(service: Document, *, port: str) -> str:
    """Returns the name of a port of a Service. port: its number, or its name. Raises NoBackend."""
    if not (port.isascii() and port.isdigit()):
        return port
    ports = (service.get("spec") or {}).get("ports") or ()
    found = next((each for each in ports if str(each.get("port")) == port.lstrip("0")), None)
    if found is None:
        raise NoBackend(f'no service port {port} found for service "{service["metadata"]["name"]}"')
    return found.get("name") or ""


def _number(port: str) -> int:
    """Returns the number of a port."""
    if not (port.isascii() and port.isdigit()):
        raise BackendUnreachable(f"dial tcp: lookup tcp/{port}: unknown port")
    if len(port) > len(str(_PORT_MAX)) or not 0 < int(port) <= _PORT_MAX:
        raise BackendUnreachable(f"dial tcp: address {port}: invalid port")
    return int(port)


class _Services:
    """Finds the endpoints of Services."""

    def __init__(
        self,
        registry: Registry,
        slices: Callable[[], ServedResource | None],
        endpoints: Callable[[], ServedResource | None],
        service_label: str,
    ) -> None:
        self._registry = registry
        self._slices = slices
        self._endpoints = endpoints
        self._service_label = service_label

    async def endpoint(self, call: ApiCall, name: str, port_name: str) -> tuple[str, int]:
        """Returns address and port of a randomly chosen ready endpoint of a Service.

        Raises NotFound, NoBackend, BadRequest.
        """
        read = functools.partial(_ready_endpoints, port_name=port_name)
        slices = await self._slices_of(call.info.namespace, name)
        endpoints = [
            endpoint async for each in in_turns(slices) for endpoint in await call.offload.read(each, read)
        ]
        if not endpoints:
            raise await self._nothing_ready(call, name, slices)
        host, port = random.choice(endpoints)  # noqa: S311  to spread requests
        _require_proxyable(host)
        return host, port

    async def _nothing_ready(self, call: ApiCall, name: str, slices: Sequence[StoredObject]) -> ApiError:
        """Returns the error for a Service without a ready endpoint.

        As in Kubernetes its text depends on whether the Endpoints object is missing, is empty, or has no
        ready address or no such port.
        """
        found, resource = [*slices], self._endpoints()
        if resource is not None:
            with suppress(NotFound):
                found.append(await self._registry.get(resource, call.info.namespace, name, MOST_RECENT))
        if not found:
            return NotFound(call.resource.group_resource, name)
        async for each in in_turns(found):
            if await call.offload.read(each, _has_endpoints):
                return NoBackend(f'no endpoints available for service "{call.info.name}"')
        return NoBackend(f'no endpoints available for service "{name}"')

    async def _slices_of(self, namespace: str, service: str) -> Sequence[StoredObject]:
        resource = self._slices()
        if resource is None:
            return ()
        query = {"labelSelector": [f"{self._service_label}={service}"]}
        options = ListOptions.for_list(query, resource.known_fields, "")
        return (await self._registry.list(resource, namespace, options)).objects


def _has_endpoints(described: Document) -> bool:
    """Returns whether an EndpointSlice, or Endpoints, has any endpoints."""
    return bool(described.get("endpoints") or described.get("subsets"))


def _ready_endpoints(described: Document, port_name: str) -> list[tuple[str, int]]:
    """Returns the ready endpoints in a slice, with the port of the given name."""
    port = next(
        (each.get("port") for each in described.get("ports") or () if (each.get("name") or "") == port_name),
        None,
    )
    if port is None or described.get("addressType") == "FQDN":
        return []
    return [
        (endpoint["addresses"][0], port)
        for endpoint in described.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready") is not False and endpoint.get("addresses")
    ]
