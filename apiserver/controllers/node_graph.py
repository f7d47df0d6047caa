"""Keeps the Node authorizer informed of the objects that the pods of each node refer to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, Final, TypeVar

from apiserver.auth.authz.node.graph import NodeGraph
from apiserver.auth.authz.node.references import Reference, pod_references, volume_references
from apiserver.controller_runtime.informer import Informer, ListWatch, Notification
from apiserver.load.offload import run_unqueued
from apiserver.load.size_class import size_class
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import Document
from apiserver.metrics.controllers import NodeGraphMetrics
from apiserver.registry.served_resource import ResourceTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject

_T = TypeVar("_T")

_NODE_NAME: Final = "spec.nodeName"
# By group and resource: the kinds of the objects that name their node themselves.
_BOUND: Final = {
    ("storage", "volumeattachments"): "VolumeAttachment",
    ("resource", "resourceslices"): "ResourceSlice",
    ("certificates", "podcertificaterequests"): "PodCertificateRequest",
}
# What of a pod that is bound to a node may change, and refers to other objects.
_CHANGEABLE: Final = (b'"ephemeralContainers":', b'"resourceClaim', b'"extendedResourceClaimStatus":')


class NodeGraphInformer:
    """Keeps a `NodeGraph` up to date with the watch cache, from the first request of a node.

    Large objects are read in a thread; until that is done, their previous references hold.
    """

    def __init__(
        self,
        registry: Registry,
        table: ResourceTable,
        brand: Brand,
        graph: NodeGraph,
        metrics: NodeGraphMetrics,
    ) -> None:
        self._graph, self._metrics = graph, metrics
        graph.complete = self._complete
        self._is_wanted = asyncio.Event()
        self._informers = list(self._made(registry, table, brand))

    def _made(self, registry: Registry, table: ResourceTable, brand: Brand) -> Iterator[Informer]:
        handlers: dict[tuple[str, str], Callable[[Notification], Awaitable[None]]] = {
            ("", "pods"): self._on_pod,
            ("", "persistentvolumes"): self._on_volume,
            **{
                (brand.group(group), plural): partial(self._on_bound, plural, kind)
                for (group, plural), kind in _BOUND.items()
            },
        }
        for (group, plural), handler in handlers.items():
            resource = table.hub(group, plural)
            if resource is None:
                continue
            if plural == "pods":
                self._pod_fields = resource.selectable_fields
            source = ListWatch(registry.cache, registry.prefix_of(resource))
            yield Informer(source, handler, reports_missed_deletions=True)

    async def _complete(self, deadline: float) -> None:
        """Wait until the graph is complete."""
        self._is_wanted.set()
        async with asyncio.timeout_at(deadline):
            for informer in self._informers:
                await informer.has_synced.wait()
        self._graph.is_complete = True

    async def run(self) -> None:
        """Keep the graph up to date until cancelled."""
        await self._is_wanted.wait()
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run(), name="node-graph")

    async def _on_pod(self, notification: Notification) -> None:
        place, new, began = (notification.namespace, notification.name), notification.new, time.perf_counter()
        if new is None:
            self._graph.remove_pod(place)
            self._observe(notification, "Pod", began)
            return
        bound_to = self._graph.node_of(place) if notification.old is not None else ""
        try:
            read = await run_unqueued(size_class(len(new.tail)), self._read_pod, new, bound_to)
        except Exception:  # Whatever is stored now, what it gave before it gives no longer.
            self._graph.remove_pod(place)
            raise
        if read is None:
            return
        node, references = read
        self._graph.put_pod(place, node, references)
        if node:
            self._observe(notification, "Pod", began)

    def _read_pod(self, pod: StoredObject, bound_to: str) -> tuple[str, frozenset[Reference]] | None:
        """Returns the node and the references of a pod; None if they cannot have changed.

        bound_to: the node that it is known to be bound to; empty if unknown.
        """
        node = pod.fields(self._pod_fields)[_NODE_NAME]
        if node and bound_to == node and not any(mark in pod.tail for mark in _CHANGEABLE):
            return None  # Nearly all writes of pods report their status.
        return node, pod_references(pod.document()) if node else frozenset()

    async def _on_volume(self, notification: Notification) -> None:
        began, name, new = time.perf_counter(), notification.name, notification.new
        try:
            references = await _read(new, volume_references) if new is not None else None
        except Exception:  # As for pods: what cannot be read gives nothing.
            self._graph.put_volume(name, None)
            raise
        self._graph.put_volume(name, references)
        self._observe(notification, "PV", began)

    async def _on_bound(self, plural: str, kind: str, notification: Notification) -> None:
        """Handle an object of one of `_BOUND`."""
        place, new, began = (notification.namespace, notification.name), notification.new, time.perf_counter()
        try:
            node = await _read(new, _named_node) if new is not None else ""
        except Exception:  # As above.
            self._graph.put_bound(plural, place, "")
            raise
        self._graph.put_bound(plural, place, node)
        self._observe(notification, kind, began)

    def _observe(self, notification: Notification, kind: str, began: float) -> None:
        """Count a change of the graph. began: by perf_counter."""
        action = "Delete" if notification.new is None else "Add"
        self._metrics.changed(f"{action}{kind}", time.perf_counter() - began)


async def _read(found: StoredObject, reading: Callable[[Document], _T]) -> _T:
    return await run_unqueued(size_class(len(found.tail)), lambda: reading(found.document()))


def _named_node(document: Document) -> str:
    """Returns the node that the spec names, or the slice itself, as slices of 1.30 have no spec."""
    spec: Any = document.get("spec", document)
    node = spec.get("nodeName") if isinstance(spec, dict) else None
    return node if isinstance(node, str) else ""
