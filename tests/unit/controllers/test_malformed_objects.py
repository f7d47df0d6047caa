"""Objects in the store as the API makes none: they hold up none of the others in their namespace.

Damaged stores have them, and those that another server has filled.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, Final

import orjson

from apiserver.brand import Brand
from apiserver.controllers.disruption.controller import DisruptionController
from apiserver.controllers.event_recorder import EventRecorder
from apiserver.controllers.resource_quotas import ResourceQuotaController
from apiserver.registry.offload import Offload
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.strategy import UpdateStrategy
from apiserver.registry.write_request import Draft, WriteRequest
from apiserver.vocabulary import Document
from storage.embedded import EmbeddedStore
from tests.support.eventually import eventually
from tests.support.in_process import TABLE, caught_up, resource, server

BUDGETS: Final = resource("poddisruptionbudgets", "policy")
PODS: Final = resource("pods", "")
QUOTAS: Final = resource("resourcequotas", "")
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
        await self.registry.create(request, Draft(document))
        if status := fields.get("status"):
            await self.registry.update(request, lambda now: Draft({**now.document(), "status": status}))
        await caught_up(self.registry)

    async def add_malformed(self, what: ServedResource, name: str, **fields: Any) -> None:
        meta = {"name": name, "namespace": "default", "uid": name, **fields.pop("metadata", {})}
        value = {"apiVersion": what.api_version, "kind": what.kind, "metadata": meta, **fields}
        key = self.registry.key(what, "default", name)
        await self.store.create(key, orjson.dumps(value))
        await caught_up(self.registry)

    def status(self, what: ServedResource, name: str) -> Document:
        found = self.registry.cache.get_cached(self.registry.key(what, "default", name))
        assert found is not None
        assert found.value is not None
        status: Document = found.value.document().get("status") or {}
        return status


@asynccontextmanager
async def running(work: Awaitable[None]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(work)
    yield
    task.cancel()
    await asyncio.wait([task])


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


async def test_resource_quotas(store: EmbeddedStore) -> None:
    async with server(store) as registry:
        cluster = Cluster(store, registry)
        await cluster.add(PODS, "p", spec=POD_SPEC)
        await cluster.add_malformed(PODS, "malformed", spec=7)
        await cluster.add_malformed(QUOTAS, "a", spec={"hard": {"pods": "1"}}, status={"used": {"pods": []}})
        await cluster.add(QUOTAS, "b", spec={"hard": {"pods": "5"}})
        controller = ResourceQuotaController(registry, cluster.served, Brand(), Offload())
        async with running(controller.run()):
            await eventually(lambda: cluster.status(QUOTAS, "b").get("used") == {"pods": "1"})
