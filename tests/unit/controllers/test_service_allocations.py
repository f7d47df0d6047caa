"""What Services have been given is repaired where it is lost, and taken from those who have it no more.

Source: kubernetes, pkg/registry/core/service/ipallocator/controller/repairip_test.go.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any, Final

import orjson
import pytest

from apiserver.controllers.event_recorder import EventRecorder
from apiserver.controllers.service_allocations import ServiceAllocationRepair
from apiserver.meta.errors import Invalid
from apiserver.meta.vocabulary import Document
from apiserver.metrics.resource_series import ServedNames
from apiserver.metrics.storage import ObservedStorage, StorageMetrics, resources_of_keys
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.write_request import ProposedObject, WriteRequest
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.errors import StorageUnavailable
from apiserver.storage.interface import MOST_RECENT, Delete, KeyRange, Page, Put, ReadAt, Storage
from apiserver.storage.keys import prefix_range
from tests.support.eventually import WITHIN_S, eventually
from tests.support.in_process import PREFIX, TABLE, resource, running, server

SERVICES: Final = resource("services", "")
ADDRESSES: Final = resource("ipaddresses", "networking.k8s.io")
EVENTS: Final = resource("events", "")
IP: Final = "10.0.0.7"
CLAIMS: Final = f"{PREFIX}/-/claims/"
IP_CLAIM: Final = f"{CLAIMS}clusterip/{IP}"
PORT_CLAIM: Final = f"{CLAIMS}nodeport/30007"
RECORD: Final = f"{PREFIX}/networking.k8s.io/ipaddresses/{IP}"
OWNER: Final = f"{PREFIX}/core/services/default/a"


class Cluster:
    """One server, and its store."""

    def __init__(self, store: Storage, registry: Registry) -> None:
        self.store, self.registry = store, registry
        served = ServedTable(TABLE)

        async def may_create(*_: Any) -> None:
            return None

        events = EventRecorder(registry, served, may_create, time.time, component="test")
        self.repair = ServiceAllocationRepair(registry, served, store, events, prefix=PREFIX, clock=time.time)

    async def create(self, name: str = "a", **spec: Any) -> Document:
        document = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {"type": "NodePort", "clusterIP": IP, "ports": [{"port": 80, "nodePort": 30007}], **spec},
        }
        SERVICES.check(document)
        request = WriteRequest(resource=SERVICES, namespace="default", name=name)
        return (await self.registry.create(request, ProposedObject(document))).found.document()

    async def write(self, *writes: Put | Delete) -> None:
        """Write something past all rules, and wait until the cache has it."""
        revision = await self.store.transact((), writes)
        await eventually(lambda: self.registry.cache.revision >= revision)

    async def compare(self) -> None:
        await self.repair.compare()
        revision = await self.store.current_revision()
        await eventually(lambda: self.registry.cache.revision >= revision)

    async def claims(self) -> dict[str, str]:
        page = await self.store.list(prefix_range(CLAIMS))
        return {item.key: item.value.decode() for item in page.items}

    async def record(self, key: str = RECORD) -> Document | None:
        stored = (await self.store.get(key)).stored
        return None if stored is None else orjson.loads(stored.value)


@pytest.fixture
async def cluster(store: EmbeddedStore) -> AsyncIterator[Cluster]:
    async with server(store) as registry:
        yield Cluster(store, registry)


PARENT: Final = {"resource": "services", "namespace": "default", "name": "a"}


async def test_what_a_service_has_is_recorded_with_it_and_goes_with_it(cluster: Cluster) -> None:
    await cluster.create()
    assert await cluster.claims() == {IP_CLAIM: OWNER, PORT_CLAIM: OWNER}
    record = await cluster.record()
    assert record is not None
    assert record["spec"] == {"parentRef": PARENT}
    assert record["metadata"]["labels"] == {
        "ipaddress.kubernetes.io/ip-family": "IPv4",
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    }
    found = (await cluster.registry.get(ADDRESSES, "", IP)).document()
    assert found["metadata"]["uid"]
    before = await cluster.store.current_revision()
    await cluster.compare()
    assert await cluster.store.current_revision() == before, "nothing is written where all is right"
    request = WriteRequest(resource=SERVICES, namespace="default", name="a")

    def external(now: Any) -> ProposedObject:
        document = now.document()
        spec = {"type": "ExternalName", "externalName": "example.com", "sessionAffinity": "None"}
        return ProposedObject({**document, "spec": spec})

    await cluster.registry.update(request, external)
    assert await cluster.claims() == {}
    assert await cluster.record() is None


async def test_an_address_that_somebody_else_has_recorded_is_not_handed_out(cluster: Cluster) -> None:
    await cluster.write(Put(RECORD, _address({"resource": "gateways", "name": "g"})))
    with pytest.raises(Invalid, match="already allocated"):
        await cluster.create()
    assert await cluster.claims() == {}
    assert (await cluster.create(clusterIP=""))["spec"]["clusterIP"] != IP


LOST: Final = {
    "all of it": (IP_CLAIM, PORT_CLAIM, RECORD),
    "the claim of the address": (IP_CLAIM,),
    "the claim of the port": (PORT_CLAIM,),
    "the IPAddress": (RECORD,),
}


@pytest.mark.parametrize("lost", LOST.values(), ids=LOST)
async def test_what_is_lost_is_repaired(cluster: Cluster, lost: tuple[str, ...]) -> None:
    await cluster.create()
    await cluster.write(*map(Delete, lost))
    await cluster.compare()
    assert await cluster.claims() == {IP_CLAIM: OWNER, PORT_CLAIM: OWNER}
    record = await cluster.record()
    assert record is not None
    assert record["spec"]["parentRef"] == PARENT
    with pytest.raises(Invalid):
        await cluster.create("b", ports=[{"port": 80}])


def _address(parent: Document | None = None, *, is_managed: bool = False, name: str = IP) -> bytes:
    meta: Document = {"name": name, "uid": "u"}
    if is_managed:
        meta["labels"] = {
            "ipaddress.kubernetes.io/ip-family": "IPv4",
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
        }
    spec = {"parentRef": parent or {**PARENT, "name": "gone"}}
    head = {"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress"}
    return orjson.dumps({**head, "metadata": meta, "spec": spec})


WRONG: Final = {
    "of a Service that does not exist": _address(is_managed=True),
    "of something else": _address({"resource": "gateways", "name": "g"}),
    "without labels": _address(PARENT),
}


@pytest.mark.parametrize("value", WRONG.values(), ids=WRONG)
async def test_an_address_with_a_wrong_record_gets_another(cluster: Cluster, value: bytes) -> None:
    await cluster.create()
    await cluster.write(Put(RECORD, value))
    await cluster.compare()
    record = await cluster.record()
    assert record is not None
    assert record["spec"]["parentRef"] == PARENT
    assert record["metadata"]["uid"] != "u"


async def test_what_nobody_has_any_more_is_free_again(cluster: Cluster) -> None:
    other = f"{CLAIMS}nodeport/30008"
    await cluster.create()
    await cluster.write(
        Put(other, OWNER.encode()), Put(f"{CLAIMS}nodeport/30009", b"/registry/core/services/default/gone")
    )
    await cluster.compare()
    assert await cluster.claims() == {IP_CLAIM: OWNER, PORT_CLAIM: OWNER}


# What is no Service as the API makes them.
MALFORMED: Final[dict[str, Document]] = {
    "addresses that are a number": {"clusterIPs": 7},
    "an address that is none": {"clusterIPs": ["x"]},
    "ports that are a text": {"clusterIPs": [IP], "type": "NodePort", "ports": "x"},
    "a port that is no number": {"clusterIPs": [IP], "type": "NodePort", "ports": [{"nodePort": "x"}]},
}


@pytest.mark.parametrize("spec", MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_service_keeps_its_claims_and_hides_no_other(
    cluster: Cluster, spec: Document
) -> None:
    await cluster.create("b", clusterIP="10.0.0.8", ports=[{"port": 80, "nodePort": 30008}])
    value = {"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "default", "name": "a"}}
    await cluster.write(
        Put(OWNER, orjson.dumps({**value, "spec": spec})),
        Put(IP_CLAIM, OWNER.encode()),
        Put(PORT_CLAIM, OWNER.encode()),
        Put(RECORD, _address(PARENT, is_managed=True)),
        Delete(f"{CLAIMS}nodeport/30008"),
    )
    is_first = asyncio.Event()
    running = asyncio.create_task(cluster.repair.run(is_first.set))
    await eventually(lambda: is_first.is_set() or running.done())
    running.cancel()
    await asyncio.wait([running])
    other = OWNER.replace("/a", "/b")
    assert await cluster.claims() == {
        IP_CLAIM: OWNER,
        PORT_CLAIM: OWNER,
        f"{CLAIMS}clusterip/10.0.0.8": other,
        f"{CLAIMS}nodeport/30008": other,
    }
    assert await cluster.record() is not None


@pytest.mark.parametrize(
    "value", [b'{"metadata":{"name":7},"spec":7}', b'{"metadata":{},"spec":{"parentRef":7}}']
)
async def test_a_malformed_address_hides_no_other(cluster: Cluster, value: bytes) -> None:
    orphan = f"{PREFIX}/networking.k8s.io/ipaddresses/10.0.0.9"
    await cluster.write(Put(RECORD, value), Put(orphan, _address(PARENT, is_managed=True, name="10.0.0.9")))
    await cluster.compare()
    assert await cluster.record(orphan) is None


# An IPAddress without a Service, and whether it stays.
ORPHANS: Final = {
    "one that was made for a Service": (_address(is_managed=True), False),
    "one that somebody has made": (_address({"resource": "gateways", "name": "g"}), True),
}


@pytest.mark.parametrize(("value", "stays"), ORPHANS.values(), ids=ORPHANS)
async def test_addresses_without_a_service(cluster: Cluster, value: bytes, stays: bool) -> None:
    await cluster.write(Put(RECORD, value))
    await cluster.compare()
    assert (await cluster.record() is not None) is stays


async def test_an_address_of_two_services_stays_with_one_and_the_other_is_told(cluster: Cluster) -> None:
    await cluster.create()
    twin = orjson.loads((await cluster.store.get(OWNER)).stored.value)  # type: ignore[union-attr]
    twin["metadata"] |= {"name": "twin", "uid": "other"}
    await cluster.write(Put(f"{PREFIX}/core/services/default/twin", orjson.dumps(twin)))
    async with running(cluster.repair.run(lambda: None)):
        await eventually(lambda: cluster.registry.count(EVENTS) == 2)
        page = await cluster.store.list(prefix_range(cluster.registry.prefix_of(EVENTS)))
        reasons = {orjson.loads(item.value)["reason"] for item in page.items}
        assert reasons == {"ClusterIPAlreadyAllocated", "PortAlreadyAllocated"}
    assert await cluster.claims() == {IP_CLAIM: OWNER, PORT_CLAIM: OWNER}


class Unavailable(ObservedStorage):
    """A store that does not list while it is down."""

    is_down = False

    async def list(self, keys: KeyRange, at: ReadAt = MOST_RECENT, *, limit: int = 0) -> Page:
        if self.is_down:
            raise StorageUnavailable("it is down")
        return await super().list(keys, at, limit=limit)


async def test_repairs_that_fail_are_counted(store: EmbeddedStore) -> None:
    """A store that does not answer does not end them."""
    async with server(store) as registry:
        unavailable = Unavailable(store, StorageMetrics(resources_of_keys(PREFIX), ServedNames()))
        cluster = Cluster(unavailable, registry)
        assert cluster.repair.failures == 0
        unavailable.is_down = True
        is_first = asyncio.Event()
        async with running(cluster.repair.run(is_first.set)):
            await eventually(lambda: cluster.repair.failures >= 1)
            assert not is_first.is_set()
            unavailable.is_down = False
            async with asyncio.timeout(WITHIN_S):
                await is_first.wait()
            failures = cluster.repair.failures
            await cluster.compare()
            assert cluster.repair.failures == failures


async def test_an_ip_address_that_is_deleted_is_back_at_once(cluster: Cluster) -> None:
    is_first = asyncio.Event()
    await cluster.create()
    async with running(cluster.repair.run(is_first.set)):
        await is_first.wait()
        first = await cluster.record()
        assert first is not None
        await cluster.write(Delete(RECORD))

        def is_back() -> bool:
            found = cluster.registry.cache.get_cached(RECORD)
            return found is not None and found.value is not None

        await eventually(is_back)
        again = await cluster.record()
        assert again is not None
        assert again["spec"] == first["spec"]
        # That cost one look; Services that come and go as they should cost none.
        adds = cluster.repair.queue.counters.adds
        await cluster.create("b", clusterIP="10.0.0.8", ports=[{"port": 80}])
        await cluster.registry.delete(DeleteRequest(SERVICES, "default", "b"))
        other = RECORD.replace(IP, "10.0.0.8")
        await eventually(lambda: cluster.registry.cache.get_cached(other) is None)
        await cluster.write(Delete(RECORD))
        await eventually(lambda: cluster.repair.queue.counters.adds == adds + 1)
