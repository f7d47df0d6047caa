"""ServiceCIDRs extend the range of cluster IPs, and stay for as long as an address is from them.

https://kubernetes.io/docs/tasks/network/extend-service-ip-ranges/
"""

from __future__ import annotations

import ipaddress
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from apiserver.catalogue.builtins import Catalogue
from apiserver.catalogue.core.services.allocation import ServiceAllocator
from apiserver.controllers.service_cidrs import DefaultServiceCidr, ServiceCidrController, ServiceNetworks
from apiserver.meta.brand import Brand
from apiserver.meta.conditions import find_condition
from apiserver.meta.errors import Invalid
from apiserver.meta.vocabulary import Document
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.strategy import UpdateStrategy
from apiserver.registry.write_request import ProposedObject, WriteRequest
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.storage.embedded import EmbeddedStore
from tests.support.eventually import eventually
from tests.support.in_process import caught_up, running, server

FINALIZER: Final = "networking.k8s.io/service-cidr-finalizer"
# Six addresses.
OWN: Final = ipaddress.ip_network("10.9.8.0/29")
BY_SERVER: Final = UpdateStrategy()


class Cluster:
    """A server whose Services get few addresses."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.allocator = ServiceAllocator.for_networks([OWN], (30_000, 32_767), random.Random(0).randint)
        self.served = ServedTable(
            Catalogue(Brand(), BuiltinSchemas((1, 34)), service_allocator=self.allocator).resources()
        )
        self.cidrs = self.find("networking.k8s.io", "servicecidrs")

    def find(self, group: str, name: str) -> ServedResource:
        found = self.served.find(group, "v1", name)
        assert found is not None
        return found

    async def add_cidr(self, name: str, *cidrs: str, **condition: Any) -> None:
        document = {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "ServiceCIDR",
            "metadata": {"name": name},
            "spec": {"cidrs": list(cidrs)},
        }
        request = WriteRequest(resource=self.cidrs, namespace="", name=name, update=BY_SERVER)
        await self.registry.create(request, ProposedObject(document))

    async def delete_cidr(self, name: str) -> None:
        await self.registry.delete(DeleteRequest(self.cidrs, "", name))

    def cidr(self, name: str) -> Document | None:
        found = self.registry.cache.get_cached(self.registry.key(self.cidrs, "", name))
        return None if found is None or found.value is None else found.value.document()

    def readiness(self, name: str) -> tuple[str, str]:
        condition = find_condition(self.cidr(name) or {}, "Ready") or {}
        return condition.get("status", ""), condition.get("reason", "")

    async def add_service(self, name: str, ip: str = "") -> str:
        services = self.find("", "services")
        spec = {"ports": [{"port": 80}], **({"clusterIP": ip} if ip else {})}
        document = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
        services.check(document)
        request = WriteRequest(resource=services, namespace="default", name=name)
        made = (await self.registry.create(request, ProposedObject(document))).found.document()
        return str(made["spec"]["clusterIP"])

    async def delete_service(self, name: str) -> None:
        await self.registry.delete(DeleteRequest(self.find("", "services"), "default", name))

    def networks(self) -> list[str]:
        """The networks that have come since the start."""
        return [str(each) for found in self.allocator.further.networks.values() for each in found]


@asynccontextmanager
async def cluster_of(
    store: EmbeddedStore, clock: Callable[[], float] = time.time
) -> AsyncIterator[tuple[Cluster, ServiceCidrController]]:
    async with server(store) as registry:
        cluster = Cluster(registry)
        controller = ServiceCidrController(registry, cluster.served, Brand(), clock)
        networks = ServiceNetworks(registry, cluster.cidrs, cluster.allocator.further)
        async with running(controller.run(), networks.run()):
            yield cluster, controller


async def test_a_service_cidr_extends_the_range(store: EmbeddedStore) -> None:
    async with cluster_of(store) as (cluster, _):
        with pytest.raises(Invalid, match="does not match the current range"):
            await cluster.add_service("early", "10.9.9.1")
        await cluster.add_cidr("more", "10.9.9.0/28", "fd00:9::/112")
        await eventually(lambda: cluster.networks() == ["10.9.9.0/28", "fd00:9::/112"])
        assert cluster.readiness("more") == ("True", "")
        document = cluster.cidr("more")
        assert document is not None
        assert document["metadata"]["finalizers"] == [FINALIZER]
        assert await cluster.add_service("asked", "10.9.9.1") == "10.9.9.1"
        given = [ipaddress.ip_address(await cluster.add_service(f"s{n}")) for n in range(8)]
        assert len([each for each in given if each in OWN]) == 6, "the first network is used up first"
        with pytest.raises(Invalid, match="does not match the current range"):
            await cluster.add_service("broadcast", "10.9.9.15")


async def test_one_with_addresses_stays_and_gives_no_more(store: EmbeddedStore) -> None:
    async with cluster_of(store, lambda: time.time() + 60) as (cluster, _):
        await cluster.add_cidr("more", "10.9.9.0/28")
        await eventually(cluster.networks)
        await cluster.add_service("a", "10.9.9.1")
        await cluster.add_service("b", "10.9.8.1")
        await cluster.delete_cidr("more")
        await eventually(lambda: cluster.readiness("more") == ("False", "Terminating"))
        await eventually(lambda: not cluster.networks())
        with pytest.raises(Invalid, match="does not match the current range"):
            await cluster.add_service("late", "10.9.9.2")
        await cluster.delete_service("a")
        await eventually(lambda: cluster.cidr("more") is None)


async def test_one_whose_addresses_another_has_may_go(store: EmbeddedStore) -> None:
    async with cluster_of(store, lambda: time.time() + 60) as (cluster, _):
        await cluster.add_cidr("more", "10.9.9.0/28")
        await eventually(cluster.networks)
        await cluster.add_service("a", "10.9.9.1")
        await cluster.delete_cidr("more")
        await eventually(lambda: cluster.readiness("more") == ("False", "Terminating"))
        await cluster.add_cidr("larger", "10.9.0.0/16")
        await eventually(lambda: cluster.cidr("more") is None)
        # The last one that has it stays, also if two of them go.
        await cluster.add_cidr("twin", "10.9.0.0/16")
        await eventually(lambda: cluster.readiness("twin") == ("True", ""))
        await cluster.delete_cidr("twin")
        await eventually(lambda: cluster.cidr("twin") is None)
        await cluster.delete_cidr("larger")
        await eventually(lambda: cluster.readiness("larger") == ("False", "Terminating"))


async def test_one_with_an_address_that_another_does_not_give_stays(store: EmbeddedStore) -> None:
    """Source: pkg/api/servicecidr/servicecidr.go, PrefixContainsIP."""
    async with cluster_of(store, lambda: time.time() + 60) as (cluster, _):
        await cluster.add_cidr("wide", "10.9.0.0/16")
        await eventually(cluster.networks)
        await cluster.add_service("broadcast", "10.9.9.15")
        await cluster.add_cidr("narrow", "10.9.9.0/28")
        await eventually(lambda: cluster.readiness("narrow") == ("True", ""))
        await cluster.delete_cidr("wide")
        await eventually(lambda: cluster.readiness("wide") == ("False", "Terminating"))
        await cluster.delete_service("broadcast")
        await eventually(lambda: cluster.cidr("wide") is None)


async def test_the_last_look_is_some_time_after_the_deletion(store: EmbeddedStore) -> None:
    async with cluster_of(store) as (cluster, controller):
        await cluster.add_cidr("more", "10.9.9.0/28")
        await eventually(cluster.networks)
        await cluster.delete_cidr("more")
        await eventually(lambda: controller.queue.is_delayed("more"))
        assert cluster.cidr("more") is not None


# The networks of the command line, the ServiceCIDR that there is, and what becomes of it.
DEFAULT: Final[dict[str, tuple[list[str], list[str], list[str], str]]] = {
    "none yet": (["10.0.0.0/16"], [], ["10.0.0.0/16"], "True"),
    "the same": (["10.0.0.0/16"], ["10.0.0.0/16"], ["10.0.0.0/16"], "True"),
    "another": (["10.0.0.0/16"], ["10.9.0.0/16"], ["10.9.0.0/16"], ""),
    "a second family": (
        ["10.0.0.0/16", "fd00::/112"],
        ["10.0.0.0/16"],
        ["10.0.0.0/16", "fd00::/112"],
        "True",
    ),
    "the second family first": (["fd00::/112", "10.0.0.0/16"], ["10.0.0.0/16"], ["10.0.0.0/16"], ""),
}


@pytest.mark.parametrize(("own", "before", "after", "ready"), DEFAULT.values(), ids=DEFAULT)
async def test_the_service_cidr_of_the_command_line(
    store: EmbeddedStore, own: list[str], before: list[str], after: list[str], ready: str
) -> None:
    async with server(store) as registry:
        cluster = Cluster(registry)
        if before:
            await cluster.add_cidr("kubernetes", *before)
            await caught_up(registry)
        networks = [ipaddress.ip_network(each) for each in own]
        default = DefaultServiceCidr(registry, cluster.cidrs, networks, time.time)
        await default.reconcile()
        await caught_up(registry)
        await default.reconcile()
        document = (await registry.get(cluster.cidrs, "", "kubernetes")).document()
        assert document["spec"]["cidrs"] == after
        assert (find_condition(document, "Ready") or {}).get("status", "") == ready
        await cluster.delete_cidr("kubernetes")
        await eventually(lambda: cluster.cidr("kubernetes") is None)
        await default.reconcile()
        again = (await registry.get(cluster.cidrs, "", "kubernetes")).document()
        assert again["spec"]["cidrs"] == own
        assert find_condition(again, "Ready") is not None
