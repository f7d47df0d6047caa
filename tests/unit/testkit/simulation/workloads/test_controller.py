"""What the controller of workloads does when it knows less than the store.

Source of the rules: kubernetes, pkg/controller/controller_ref_manager.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from apiserver.controller_runtime.informer import Informer, ListWatch, Notification
from apiserver.controller_runtime.work_queue import WorkQueue
from apiserver.load.size_class import SizeClass
from apiserver.meta.options import DeleteOptions
from apiserver.meta.owners import controller_of
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.store import Registry
from apiserver.registry.write_request import ProposedObject, WriteRequest
from apiserver.storage.embedded import EmbeddedStore
from apiserver.testkit.simulation.component import ClusterAccess
from apiserver.testkit.simulation.object_index import ObjectIndex
from apiserver.testkit.simulation.resources import REPLICA_SETS
from apiserver.testkit.simulation.workloads.controller import (
    PLANNED_ON_LOOP_MAX,
    WorkloadController,
    WorkloadKey,
)
from tests.support.eventually import eventually
from tests.support.in_process import resource, server
from tests.unit.testkit.simulation.access import access, cached, create, events

POD: Final = resource("pods", "")
REPLICA_SET: Final = resource("replicasets", "apps")
LABELS: Final = {"app": "web"}
SPEC: Final = {"containers": [{"name": "c", "image": "i"}]}


@dataclass(frozen=True, slots=True)
class Lagging(ClusterAccess):
    """A cluster whose informers tell of no change to a ReplicaSet after `is_silent` was set."""

    is_silent: asyncio.Event = field(default_factory=asyncio.Event)

    def informer(self, resource: GroupResource, index: ObjectIndex, queue: WorkQueue[Any]) -> Informer:
        def notify(notification: Notification) -> None:
            if resource != REPLICA_SETS or not self.is_silent.is_set():
                index.notify(notification)

        prefix = self.registry.prefix_of(self.resource(resource))
        return Informer(ListWatch(self.registry.cache, prefix), notify)


@asynccontextmanager
async def controlled(registry: Registry) -> AsyncIterator[tuple[Lagging, WorkloadController]]:
    cluster = access(registry, Lagging)
    controller = WorkloadController(cluster, events(registry))
    running = asyncio.create_task(controller.run())
    yield cluster, controller
    running.cancel()
    await asyncio.wait([running])


async def create_set(registry: Registry, replicas: int = 0) -> Document:
    template = {"metadata": {"labels": LABELS}, "spec": SPEC}
    spec = {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template}
    # It stays for a while when it is deleted.
    meta = {"name": "web", "finalizers": ["example.com/slow"]}
    return await create(registry, REPLICA_SET, {"metadata": meta, "spec": spec})


async def delete_set(registry: Registry) -> None:
    await registry.delete(DeleteRequest(REPLICA_SET, "default", "web", DeleteOptions()))


async def remove_set(registry: Registry) -> None:
    def without_finalizers(found: Document) -> Document:
        return {**found, "metadata": {**found["metadata"], "finalizers": []}}

    request = WriteRequest(resource=REPLICA_SET, namespace="default", name="web")
    await registry.update(request, lambda found: ProposedObject(without_finalizers(found.document())))
    await delete_set(registry)


async def replace_set(registry: Registry) -> None:
    await remove_set(registry)
    await create_set(registry)


UNNOTICED: Final[dict[str, Callable[[Registry], Awaitable[None]]]] = {
    "it is being deleted": delete_set,
    "it is gone": remove_set,
    "another one has its name": replace_set,
}


@pytest.mark.parametrize("happens", UNNOTICED.values(), ids=UNNOTICED)
async def test_nothing_is_adopted_by_what_is_deleted_unnoticed(
    store: EmbeddedStore, happens: Callable[[Registry], Awaitable[None]]
) -> None:
    async with server(store) as registry, controlled(registry) as (cluster, controller):
        await create_set(registry)

        await eventually(
            lambda: "observedGeneration" in (cached(registry, REPLICA_SET, "web").get("status") or {})
        )
        cluster.is_silent.set()
        await happens(registry)
        await create(registry, POD, {"metadata": {"name": "orphan", "labels": LABELS}, "spec": SPEC})

        def has_tried() -> bool:
            """It adopts the pod, or tries again later."""
            has_failed = controller.queue.failures(WorkloadKey(REPLICA_SETS, "default", "web")) > 0
            return has_failed or controller_of(cached(registry, POD, "orphan")) is not None

        await eventually(has_tried)
        assert controller_of((await registry.get(POD, "default", "orphan")).document()) is None


async def test_what_takes_long_is_planned_in_a_thread(store: EmbeddedStore) -> None:
    async with server(store) as registry, controlled(registry) as (cluster, _):
        in_thread = cluster.offload.lanes[SizeClass.LARGE]
        await create_set(registry, replicas=PLANNED_ON_LOOP_MAX)
        await eventually(lambda: registry.count(POD) == PLANNED_ON_LOOP_MAX)
        before = in_thread.done_total
        await create(registry, POD, {"metadata": {"name": "orphan", "labels": LABELS}, "spec": SPEC})
        await eventually(lambda: in_thread.done_total > before)
