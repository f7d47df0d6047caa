"""Objects in the store as the API makes none: they hold up none of the others in their namespace.

Damaged stores have them, and those that another server has filled.
"""

from __future__ import annotations

from typing import Any, Final

import orjson
import pytest

from apiserver.controllers.disruption.controller import DisruptionController
from apiserver.controllers.event_recorder import EventRecorder
from apiserver.controllers.resource_quotas import ResourceQuotaController
from apiserver.controllers.storage_protection import CLAIMS as CLAIM_PROTECTION
from apiserver.controllers.storage_protection import StorageProtection
from apiserver.load.offload import Offload
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import Document
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.strategy import UpdateStrategy
from apiserver.registry.write_request import ProposedObject, WriteRequest
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.interface import Delete, Put
from tests.support.eventually import eventually
from tests.support.in_process import TABLE, caught_up, resource, running, server

BUDGETS: Final = resource("poddisruptionbudgets", "policy")
CLAIMS: Final = resource("persistentvolumeclaims", "")
PODS: Final = resource("pods", "")
REPLICA_SETS: Final = resource("replicasets", "apps")
QUOTAS: Final = resource("resourcequotas", "")
CLAIM_SPEC: Final = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
POD_SPEC: Final = {"containers": [{"name": "c", "image": "i"}]}


class Cluster:
    """One server, written to past all rules."""

    def __init__(self, store: EmbeddedStore, registry: Registry) -> None:
        self.store, self.registry = store, registry
        self.served = ServedTable(TABLE)

    async def add(self, what: ServedResource, name: str, **fields: Any) -> None:
        document = {"apiVersion": what.api_version, "kind": what.kind, "metadata": {"name": name}, **fields}
        document["metadata"] = {"name": name, **fields.get("metadata", {})}
        what.check(document)
        request = WriteRequest(resource=what, namespace="default", name=name, update=UpdateStrategy())
        await self.registry.create(request, ProposedObject(document))
        if status := fields.get("status"):
            await self.registry.update(
                request, lambda now: ProposedObject({**now.document(), "status": status})
            )
        await caught_up(self.registry)

    async def add_malformed(self, what: ServedResource, name: str, **fields: Any) -> None:
        meta = {"name": name, "namespace": "default", "uid": name, **fields.pop("metadata", {})}
        value = {"apiVersion": what.api_version, "kind": what.kind, "metadata": meta, **fields}
        key = self.registry.key(what, "default", name)
        await self.store.create(key, orjson.dumps(value))
        await caught_up(self.registry)

    async def damage(self, what: ServedResource, name: str) -> bytes:
        """Returns the value as it was."""
        found = (await self.store.get(self.registry.key(what, "default", name))).stored
        assert found is not None
        await self.put(what, name, b"\0garbage!")
        return found.value

    async def put(self, what: ServedResource, name: str, value: bytes) -> None:
        await self.store.transact((), (Put(self.registry.key(what, "default", name), value),))
        await caught_up(self.registry)

    async def remove(self, what: ServedResource, name: str) -> None:
        await self.store.transact((), (Delete(self.registry.key(what, "default", name)),))
        await caught_up(self.registry)

    def document(self, what: ServedResource, name: str) -> Document:
        found = self.registry.cache.get_cached(self.registry.key(what, "default", name))
        assert found is not None
        assert found.value is not None
        return found.value.document()

    def status(self, what: ServedResource, name: str) -> Document:
        status: Document = self.document(what, name).get("status") or {}
        return status


async def test_disruption_budgets(store: EmbeddedStore) -> None:
    async with server(store) as registry:
        cluster = Cluster(store, registry)

        async def may_create(*_: Any) -> None:
            return None

        labels = {"labels": {"app": "a"}}
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await cluster.add(PODS, "p", metadata=labels, spec=POD_SPEC, status=ready)
        await cluster.add_malformed(PODS, "malformed", metadata={**labels, "ownerReferences": 7})
        await cluster.add_malformed(BUDGETS, "a", spec={"selector": 7})
        await cluster.add_malformed(BUDGETS, "b", spec={"selector": {}, "minAvailable": []})
        selector = {"matchLabels": {"app": "a"}}
        await cluster.add(BUDGETS, "c", spec={"selector": selector, "minAvailable": 1})
        events = EventRecorder(registry, cluster.served, may_create, lambda: 0.0, component="test")
        controller = DisruptionController(registry, cluster.served, events, lambda: 0.0)
        async with running(controller.run()):
            await eventually(lambda: cluster.status(BUDGETS, "c").get("expectedPods") == 2)
        assert cluster.status(BUDGETS, "c")["currentHealthy"] == 1


UNREADABLE: Final = {"a pod, which another owner may want": (PODS, "q"), "their owner": (REPLICA_SETS, "r")}


@pytest.mark.parametrize(("what", "name"), UNREADABLE.values(), ids=UNREADABLE)
async def test_a_budget_allows_nothing_while_it_cannot_be_judged(
    store: EmbeddedStore, what: ServedResource, name: str
) -> None:
    """As many replicas as are wanted may be missing one; of how many are wanted nobody knows."""
    labels = {"labels": {"app": "a"}}
    template = {"metadata": labels, "spec": POD_SPEC}
    selector = {"matchLabels": {"app": "a"}}
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    async with server(store) as registry:
        cluster = Cluster(store, registry)

        async def may_create(*_: Any) -> None:
            return None

        replicas = {"replicas": 2, "selector": selector, "template": template}
        await cluster.add(REPLICA_SETS, "r", spec=replicas)
        uid = cluster.document(REPLICA_SETS, "r")["metadata"]["uid"]
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": uid, "controller": True}
        for pod in ("p", "q"):
            await cluster.add(
                PODS, pod, metadata={**labels, "ownerReferences": [owner]}, spec=POD_SPEC, status=ready
            )
        await cluster.add(BUDGETS, "b", spec={"selector": selector, "maxUnavailable": 1})
        events = EventRecorder(registry, cluster.served, may_create, lambda: 0.0, component="test")
        controller = DisruptionController(registry, cluster.served, events, lambda: 0.0)

        async def allows(count: int, reason: str) -> None:
            def check() -> bool:
                status = cluster.status(BUDGETS, "b")
                conditions = status.get("conditions") or [{}]
                return (status.get("disruptionsAllowed"), conditions[0].get("reason")) == (count, reason)

            await eventually(check)

        async with running(controller.run()):
            await allows(1, "SufficientPods")
            before = await cluster.damage(what, name)
            await allows(0, "SyncFailed")
            await cluster.put(what, name, before)
            await allows(1, "SufficientPods")


async def test_resource_quotas(store: EmbeddedStore) -> None:
    async with server(store) as registry:
        cluster = Cluster(store, registry)
        await cluster.add(PODS, "p", spec=POD_SPEC)
        await cluster.add_malformed(PODS, "malformed", spec=7)
        await cluster.add_malformed(QUOTAS, "a", spec={"hard": {"pods": "1"}}, status={"used": {"pods": []}})
        await cluster.add(QUOTAS, "b", spec={"hard": {"pods": "5"}})
        controller = ResourceQuotaController(registry, cluster.served, Brand(), Offload())
        async with running(controller.run()):
            # The malformed one may be one that counts.
            await eventually(lambda: cluster.status(QUOTAS, "b").get("used") == {"pods": "2"})


async def test_a_quota_gives_nothing_back_while_a_pod_cannot_be_read(store: EmbeddedStore) -> None:
    """Nobody knows how much it uses: with less than that the quota could be exceeded."""
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}
    hard = {"pods": "5", "requests.cpu": "5"}
    async with server(store) as registry:
        cluster = Cluster(store, registry)
        for name in ("p", "q"):
            await cluster.add(PODS, name, spec=spec)
        await cluster.add(QUOTAS, "a", spec={"hard": hard})
        controller = ResourceQuotaController(registry, cluster.served, Brand(), Offload())

        async def uses(quota: str, **used: str) -> None:
            wanted = {name.replace("_", "."): value for name, value in used.items()}
            await eventually(lambda: cluster.status(QUOTAS, quota).get("used") == wanted)

        async with running(controller.run()):
            await uses("a", pods="2", requests_cpu="2")
            await cluster.damage(PODS, "p")
            await cluster.remove(PODS, "q")
            await uses("a", pods="1", requests_cpu="2")
            await cluster.add(QUOTAS, "new", spec={"hard": hard})
            await uses("new", pods="1")  # Without an amount, nobody is admitted who uses some.
            await cluster.remove(PODS, "p")
            await uses("a", pods="0", requests_cpu="0")
            await uses("new", pods="0", requests_cpu="0")


async def test_a_claim_stays_while_a_pod_that_may_use_it_cannot_be_read(store: EmbeddedStore) -> None:
    finalizers = [CLAIM_PROTECTION.finalizer]
    async with server(store) as registry:
        cluster = Cluster(store, registry)
        await cluster.add(CLAIMS, "c", spec=CLAIM_SPEC, metadata={"finalizers": finalizers})
        await cluster.add(PODS, "p", spec=POD_SPEC)
        await cluster.damage(PODS, "p")
        await registry.delete(DeleteRequest(CLAIMS, "default", "c"))
        controller = StorageProtection(registry, cluster.served, CLAIM_PROTECTION)
        async with running(controller.run()):
            await eventually(lambda: controller.queue.failures("default"))
        assert cluster.document(CLAIMS, "c")["metadata"]["finalizers"] == finalizers
