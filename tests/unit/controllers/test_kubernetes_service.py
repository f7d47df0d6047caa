"""The Service `kubernetes` and its endpoints, as the servers on a store keep them."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import pytest

from apiserver.controllers.kubernetes_service import (
    Endpoint,
    KubernetesService,
    KubernetesServiceReconciler,
    usable_endpoint,
)
from apiserver.meta.brand import Brand
from apiserver.meta.errors import NotFound
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_request import ProposedObject, WriteRequest
from apiserver.storage.embedded import EmbeddedStore
from tests.support.in_process import TABLE, resource, server

PORT: Final = {"name": "x", "port": 1, "protocol": "TCP", "targetPort": 1}
DISCOVERY: Final = "discovery.k8s.io"
SERVICE_IP: Final = ipaddress.ip_address("10.0.0.1")
WANTED: Final = KubernetesService(Brand(), SERVICE_IP, 6443)


def at(address: str, port: int = 6443) -> Endpoint:
    return Endpoint(ipaddress.ip_address(address), port)


ADDRESSES: Final = {
    "of a network": ("192.0.2.1", True),
    "of IPv6": ("2001:db8::1", True),
    "none": ("", False),
    "loopback": ("127.0.0.1", False),
    "loopback of IPv6": ("::1", False),
    "all": ("0.0.0.0", False),
    "link-local": ("169.254.0.1", False),
    "multicast": ("224.0.0.1", False),
}


@pytest.mark.parametrize(("address", "is_usable"), ADDRESSES.values(), ids=ADDRESSES)
def test_which_addresses_endpoints_may_have(address: str, is_usable: bool) -> None:
    assert (usable_endpoint(address, 1) is not None) is is_usable


async def reconciled(registry: Registry, *alive: Endpoint) -> bool:
    """Reconcile once, and return whether anything was written; the cache knows of it then."""

    async def found() -> Sequence[Endpoint]:
        return alive

    before = await registry.cache.revision_at()
    await KubernetesServiceReconciler(registry, ServedTable(TABLE), WANTED, found).reconcile()
    return await registry.cache.revision_at() != before


async def found(registry: Registry, kind: str, group: str = "", name: str = "kubernetes") -> dict[str, Any]:
    return (await registry.get(resource(kind, group), "default", name)).document()


async def test_what_a_new_store_gets(store: EmbeddedStore) -> None:
    async with server(store) as registry:
        assert await reconciled(registry, at("192.0.2.1"))
        service = await found(registry, "services")
        assert service["metadata"]["labels"] == {"component": "apiserver", "provider": "kubernetes"}
        assert service["spec"]["clusterIP"] == "10.0.0.1"
        assert service["spec"]["ports"] == [
            {"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}
        ]
        endpoints = await found(registry, "endpoints")
        assert endpoints["subsets"] == [
            {
                "addresses": [{"ip": "192.0.2.1"}],
                "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}],
            }
        ]
        part = await found(registry, "endpointslices", DISCOVERY)
        assert part["endpoints"] == [{"addresses": ["192.0.2.1"], "conditions": {"ready": True}}]
        assert not await reconciled(registry, at("192.0.2.1"))


async def test_all_servers_write_the_same(store: EmbeddedStore) -> None:
    """In whatever order they see each other, and whichever of them writes."""
    one, two, other_port = at("192.0.2.1"), at("192.0.2.2"), at("192.0.2.1", 7000)
    async with server(store) as registry:
        assert await reconciled(registry, one, two, other_port, two)
        assert not await reconciled(registry, other_port, two, one)
        subsets = (await found(registry, "endpoints"))["subsets"]
        assert [(len(each["addresses"]), each["ports"][0]["port"]) for each in subsets] == [
            (2, 6443),
            (1, 7000),
        ]
        part = await found(registry, "endpointslices", DISCOVERY, "kubernetes-ipv4-7000")
        assert part["endpoints"][0]["addresses"] == ["192.0.2.1"]
        assert part["metadata"]["labels"] == {"kubernetes.io/service-name": "kubernetes"}


async def test_what_is_gone_is_removed(store: EmbeddedStore) -> None:
    one, other = at("192.0.2.1"), at("2001:db8::1", 7000)
    async with server(store) as registry:
        await reconciled(registry, one, other)
        assert await reconciled(registry, other)
        # A slice of another type of address is deleted first, and made anew once the cache knows of that.
        await reconciled(registry, other)
        assert not await reconciled(registry, other)
        part = await found(registry, "endpointslices", DISCOVERY)
        assert (part["addressType"], part["endpoints"][0]["addresses"]) == ("IPv6", ["2001:db8::1"])
        with pytest.raises(NotFound):
            await found(registry, "endpointslices", DISCOVERY, "kubernetes-ipv6-7000")
        assert (await found(registry, "services"))["spec"]["ports"][0]["targetPort"] == 7000


async def test_the_last_endpoint_stays(store: EmbeddedStore) -> None:
    """A server that knows of none may be wrong."""
    async with server(store) as registry:
        await reconciled(registry, at("192.0.2.1"))
        assert not await reconciled(registry)


async def test_what_others_have_changed_is_put_right(store: EmbeddedStore) -> None:
    async with server(store) as registry:
        await reconciled(registry, at("192.0.2.1"))
        for kind, group, change in (
            ("services", "", {"spec": {"ports": [PORT]}}),
            ("endpoints", "", {"subsets": []}),
            ("endpointslices", DISCOVERY, {"endpoints": []}),
        ):
            before = await found(registry, kind, group)
            await registry.update(
                WriteRequest(resource=resource(kind, group), namespace="default", name="kubernetes"),
                partial(changed, change),
            )
            assert await reconciled(registry, at("192.0.2.1"))
            after = await found(registry, kind, group)
            assert without_metadata(after) == without_metadata(before)
            assert after["metadata"]["uid"] == before["metadata"]["uid"]


async def test_labels_of_others_stay(store: EmbeddedStore) -> None:
    async with server(store) as registry:
        await reconciled(registry, at("192.0.2.1"))
        labelled = {"metadata": {"labels": {"mine": "x"}}}
        await registry.update(
            WriteRequest(resource=resource("endpoints", ""), namespace="default", name="kubernetes"),
            partial(changed, labelled),
        )
        assert await reconciled(registry, at("192.0.2.1"))
        assert (await found(registry, "endpoints"))["metadata"]["labels"] == {
            "endpointslice.kubernetes.io/skip-mirror": "true",
            "mine": "x",
        }


def changed(change: dict[str, Any], stored: StoredObject) -> ProposedObject:
    document = stored.document()
    for name, value in change.items():
        document[name] = {**document[name], **value} if isinstance(value, dict) else value
    return ProposedObject(document)


def without_metadata(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != "metadata"}
