"""A server without HTTP that collects garbage, and what tests do with its objects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, NamedTuple

from apiserver.controllers.event_recorder import EventRecorder
from apiserver.controllers.garbage_collector.controller import GarbageCollector
from apiserver.controllers.garbage_collector.graph_builder import GraphBuilder
from apiserver.controllers.garbage_collector.remote_owner_resolver import ASK_AGAIN_S, OtherServers
from apiserver.meta.errors import NotFound
from apiserver.meta.options import DeleteOptions
from apiserver.meta.vocabulary import Document
from apiserver.metrics.controllers import GarbageCollectorMetrics
from apiserver.metrics.work_queues import WorkQueueMetrics
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_request import ProposedObject, WriteRequest
from apiserver.storage.interface import Storage
from apiserver.storage.keys import prefix_range
from tests.support.eventually import eventually
from tests.support.in_process import TABLE, resource, server

# A kind with namespaces, and one without.
CONFIG_MAP: Final = resource("configmaps", "")
CLUSTER_ROLE: Final = resource("clusterroles")


class Name(NamedTuple):
    """Which object: the cluster-scoped kind where there is no namespace."""

    namespace: str
    name: str

    @property
    def resource(self) -> ServedResource:
        return CONFIG_MAP if self.namespace else CLUSTER_ROLE


class Cluster:
    """The objects of one server, and its garbage collector."""

    def __init__(
        self, registry: Registry, served: ServedTable, others: OtherServers | None, ask_again_s: float
    ) -> None:
        self.registry = registry
        self.served = served
        self.events = EventRecorder(registry, served, _anywhere, lambda: 0.0, component="gc")
        self.metrics = GarbageCollectorMetrics()
        self.builder = GraphBuilder(
            registry, served, self.events, self.metrics, others, ask_again_s=ask_again_s
        )
        self._collector = GarbageCollector(registry, self.builder, WorkQueueMetrics())
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._running = asyncio.create_task(self._collector.run())

    async def kill(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])

    # ---- writes

    async def create(self, name: Name, *owners: Document, **meta: Any) -> str:
        """Returns the uid."""
        document = {
            "apiVersion": name.resource.api_version,
            "kind": name.resource.kind,
            "metadata": {"name": name.name, **({"ownerReferences": list(owners)} if owners else {}), **meta},
        }
        request = WriteRequest(resource=name.resource, namespace=name.namespace, name=name.name)
        written = await self.registry.create(request, ProposedObject(document))
        return str(written.found.document()["metadata"]["uid"])

    async def change(self, name: Name, **meta: Any) -> None:
        """Set fields of the metadata. An object that is gone stays so."""

        def transform(found: StoredObject) -> ProposedObject:
            document = found.document()
            document["metadata"] |= meta
            return ProposedObject(document)

        request = WriteRequest(resource=name.resource, namespace=name.namespace, name=name.name)
        with suppress(NotFound):
            await self.registry.update(request, transform)

    async def delete(self, name: Name, propagation: str = "") -> None:
        options = DeleteOptions(propagation=propagation)
        with suppress(NotFound):
            await self.registry.delete(DeleteRequest(name.resource, name.namespace, name.name, options))

    # ---- reads

    async def left(self, namespaces: Iterable[str], prefix: str = "") -> dict[Name, Document]:
        """Returns the metadata of what is left in namespaces, and of cluster-scoped objects with a prefix."""
        folders = [self.registry.prefix_of(CLUSTER_ROLE) + prefix]
        folders += [f"{self.registry.prefix_of(CONFIG_MAP)}{each}/" for each in namespaces]
        found: dict[Name, Document] = {}
        for folder in folders:
            for version in (await self.registry.cache.list(prefix_range(folder))).versions:
                assert version.value is not None
                meta = version.value.document()["metadata"]
                found[Name(meta.get("namespace", ""), meta["name"])] = meta
        return found

    def is_at_rest(self) -> bool:
        """Whether the collector has nothing to do, now or later."""
        queues = (self.builder.queue, self.builder.attempt_to_delete, self.builder.attempt_to_orphan)
        return not any(len(each) or each.longest_running_s() for each in queues)

    async def rest(self) -> None:
        """Wait until the collector knows all that was written, and has nothing to do."""

        async def check() -> bool:
            revision = await self.registry.cache.revision_at()
            await self.builder.wait_until_current(revision)
            return self.is_at_rest() and await self.registry.cache.revision_at() == revision

        is_so: bool = await eventually(check)
        assert is_so


async def _anywhere(resource: ServedResource, namespace: str, name: str) -> None:
    return None


def reference(name: Name, uid: str, *, blocks: bool = False, **other: Any) -> Document:
    owner: dict[str, Any] = {
        "apiVersion": name.resource.api_version,
        "kind": name.resource.kind,
        "name": name.name,
        "uid": uid,
    }
    return {**owner, **({"blockOwnerDeletion": True} if blocks else {}), **other}


@asynccontextmanager
async def cluster(
    store: Storage,
    *,
    starts: bool = True,
    others: OtherServers | None = None,
    ask_again_s: float = ASK_AGAIN_S,
) -> AsyncIterator[Cluster]:
    """One of the servers on a store. starts: its collector runs."""
    async with server(store) as registry:
        found = Cluster(registry, ServedTable(TABLE), others, ask_again_s)
        if starts:
            found.start()
        try:
            yield found
        finally:
            await found.kill()


def owners(meta: Mapping[str, Any]) -> list[str]:
    """The names of an object's owners."""
    return [each["name"] for each in meta.get("ownerReferences") or ()]
