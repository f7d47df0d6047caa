"""Keeps the Service `default/kubernetes`, by which programs in a cluster find this server, with its
endpoints.

As in kube-apiserver it runs whatever controllers run: tools read the Service before they do anything. The
endpoints are those of all live servers on the store (`replicas`). All servers write the same, since all see
the same records; so they do not compete, and write nothing once it is correct.

Servers on different ports have Endpoints with a subset for each port, and an EndpointSlice for each port: the
first is `kubernetes`, as in Kubernetes, where all have one port.
Source: k8s.io/kubernetes, pkg/controlplane/controller/kubernetesservice, pkg/controlplane/reconcilers.
"""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeVar

from apiserver.controllers.kept_objects import KeptObject, cached, keep, keep_forever
from apiserver.meta.brand import Brand
from apiserver.meta.errors import ApiError, NotFound
from apiserver.meta.vocabulary import Document, IPAddress
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import CorruptObject
from apiserver.storage.errors import StorageError
from apiserver.storage.interface import ANY
from apiserver.storage.keys import prefix_range

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Any)

# kube-apiserver looks as often.
INTERVAL_S: Final = 10.0
NAMESPACE: Final = "default"
NAME: Final = "kubernetes"
PORT: Final = 443
_PORT_NAME: Final = "https"


class Endpoint(NamedTuple):
    """The address and port of one server."""

    address: IPAddress
    port: int

    @property
    def family(self) -> str:
        return f"IPv{self.address.version}"

    @property
    def order(self) -> tuple[int, int, int]:
        """The sort key of endpoints, as addresses of two families cannot be compared."""
        return self.address.version, int(self.address), self.port


def usable_endpoint(address: str, port: int) -> Endpoint | None:
    """Returns an endpoint; None if Endpoints may not have the address, as a loopback address."""
    if not address:
        return None
    ip = ipaddress.ip_address(address)
    if ip.is_loopback or ip.is_unspecified or ip.is_link_local or ip.is_multicast:
        return None
    return Endpoint(ip, port)


class KubernetesService(NamedTuple):
    """The required Service, Endpoints and EndpointSlices.

    cluster_ip: that of the Service. node_port: that of the Service, if it has one.
    port: that of this server, the Service's target port if there are no endpoints.
    """

    brand: Brand
    cluster_ip: IPAddress
    port: int
    node_port: int = 0

    def service(self, endpoints: Sequence[Endpoint], current: Document | None) -> Document:
        """Returns the required Service. current: the existing one, whose correct parts are kept."""
        ports = {each.port for each in endpoints} or {self.port}
        spec = {} if current is None else current["spec"]
        target = next((port.get("targetPort") for port in spec.get("ports") or ()), None)
        port: Document = {
            "name": _PORT_NAME,
            "protocol": "TCP",
            "port": PORT,
            "targetPort": target if target in ports else min(ports),
        }
        if self.node_port:
            port["nodePort"] = self.node_port
        wanted: Document = {"ports": [port], "type": "NodePort" if self.node_port else "ClusterIP"}
        if current is not None:
            return {**current, "spec": {**spec, **wanted}}
        return {
            "metadata": {
                "namespace": NAMESPACE,
                "name": NAME,
                "labels": {"component": "apiserver", "provider": "kubernetes"},
            },
            "spec": {
                "clusterIP": str(self.cluster_ip),
                "internalTrafficPolicy": "Cluster",
                "ipFamilyPolicy": "SingleStack",
                **wanted,
                "sessionAffinity": "None",
            },
        }

    def endpoints(self, endpoints: Sequence[Endpoint]) -> Document:
        """Returns the required Endpoints, which are not mirrored, as EndpointSlices exist."""
        return {
            "metadata": {
                "namespace": NAMESPACE,
                "name": NAME,
                "labels": {f"endpointslice.{self.brand.vendor}.io/skip-mirror": "true"},
            },
            "subsets": [
                {
                    "addresses": [{"ip": str(each.address)} for each in there],
                    "ports": [{"name": _PORT_NAME, "port": port, "protocol": "TCP"}],
                }
                for port, there in _grouped(endpoints, lambda each: each.port).items()
            ],
        }

    def slices(self, endpoints: Sequence[Endpoint]) -> dict[str, Document]:
        """Returns the required EndpointSlices, by name."""
        grouped = _grouped(endpoints, lambda each: (each.family, each.port))
        slices = {}
        for number, ((family, port), there) in enumerate(grouped.items()):
            name = NAME if not number else f"{NAME}-{family.lower()}-{port}"
            slices[name] = {
                "metadata": {
                    "namespace": NAMESPACE,
                    "name": name,
                    "labels": {f"{self.brand.vendor}.io/service-name": NAME},
                },
                "addressType": family,
                "endpoints": [
                    {"addresses": [str(each.address)], "conditions": {"ready": True}} for each in there
                ],
                "ports": [{"name": _PORT_NAME, "port": port, "protocol": "TCP"}],
            }
        return slices


class KubernetesServiceReconciler:
    """Writes the objects, and then checks repeatedly whether they are correct.

    alive: returns the endpoints of the servers on the store; None if this server does not manage endpoints.
    """

    def __init__(
        self,
        registry: Registry,
        served: ServedTable,
        wanted: KubernetesService,
        alive: Callable[[], Awaitable[Sequence[Endpoint]]] | None,
    ) -> None:
        self._registry = registry
        self._served = served
        self._wanted = wanted
        self._alive = alive

    async def run(self, on_first: Callable[[], None]) -> None:
        """Reconcile until cancelled. on_first: called once the Service exists, or cannot be created."""
        await keep_forever(self._registry, self.reconcile, INTERVAL_S, on_first)

    async def leave(self) -> None:
        """Remove this server, whose record must be gone, from the endpoints, if other servers are alive."""
        try:
            await self.reconcile()
        except StorageError as error:
            log.debug("cannot remove this server from the endpoints of the Service %s: %s", NAME, error)

    async def reconcile(self) -> None:
        """Write the objects that the watch cache shows as incorrect. Raises StorageError."""
        endpoints = list(set(await self._alive())) if self._alive is not None else []
        await self._keep(self._core("services"), NAME, lambda now: self._wanted.service(endpoints, now))
        await self._reconcile_endpoints(endpoints)

    async def _reconcile_endpoints(self, endpoints: Sequence[Endpoint]) -> None:
        if not endpoints:
            return  # Other servers may exist: kube-apiserver keeps the last endpoint, too.
        await self._keep(
            self._core("endpoints"), NAME, lambda now: _updated(self._wanted.endpoints(endpoints), now)
        )
        resource = self._served.hub(self._wanted.brand.group("discovery"), "endpointslices")
        if resource is None:
            return
        slices = self._wanted.slices(endpoints)
        for name in [NAME, *await self._slices_by_port(resource)]:
            if self._has_other_family(resource, name, slices.get(name, {})):
                await self._delete(resource, name)  # The field cannot be changed.
        for name, wanted in slices.items():
            await self._keep(resource, name, partial(_updated, wanted))

    def _has_other_family(self, resource: ServedResource, name: str, wanted: Document) -> bool:
        """Returns whether a slice has addresses of another family; a damaged one does not count."""
        try:
            current = cached(self._registry, resource, NAMESPACE, name)
        except CorruptObject:
            return False
        return current is not None and current.get("addressType") != wanted.get("addressType")

    async def _slices_by_port(self, resource: ServedResource) -> list[str]:
        """Returns the names of the slices of further ports that exist."""
        start = self._registry.key(resource, NAMESPACE, f"{NAME}-ipv")
        listing = await self._registry.cache.list(prefix_range(start), ANY)
        folder = len(start) - len(f"{NAME}-ipv")
        names = (version.key[folder:] for version in listing.versions if version.value is not None)
        return [name for name in names if _SLICE_NAME.fullmatch(name)]

    # ---- reading and writing

    def _core(self, resource: str) -> ServedResource:
        return self._served.require("", resource)

    def _keep(
        self, resource: ServedResource, name: str, wanted: Callable[[Document | None], Document]
    ) -> Awaitable[None]:
        return keep(self._registry, KeptObject(resource, NAMESPACE, name, wanted))

    async def _delete(self, resource: ServedResource, name: str) -> None:
        try:
            await self._registry.delete(DeleteRequest(resource, NAMESPACE, name))
        except NotFound:
            pass
        except (ApiError, CorruptObject) as error:
            log.warning("cannot delete %s %s/%s: %s", resource.kind, NAMESPACE, name, error)


_SLICE_NAME: Final = re.compile(rf"{NAME}-ipv[46]-[0-9]+")


def _updated(wanted: Document, current: Document | None) -> Document:
    """Returns `current` with the required content: labels are added to existing ones, the rest is
    replaced.
    """
    if current is None:
        return wanted
    meta = current["metadata"]
    labels = {**(meta.get("labels") or {}), **wanted["metadata"]["labels"]}
    return {**current, **wanted, "metadata": {**meta, "labels": labels}}


def _grouped(endpoints: Sequence[Endpoint], key: Callable[[Endpoint], K]) -> dict[K, list[Endpoint]]:
    """Groups endpoints, groups and their members in order."""
    return {
        each: list(there)
        for each, there in groupby(sorted(endpoints, key=lambda one: (key(one), one.order)), key=key)
    }
