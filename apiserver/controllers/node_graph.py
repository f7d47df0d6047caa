"""Tells the Node authorizer which objects the pods of each node refer to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from apiserver.authz.node.graph import NodeGraph
from apiserver.authz.node.references import pod_references, volume_references
from apiserver.brand import Brand
from apiserver.controllers.informer import Informer, ListWatch, Notification
from apiserver.metrics.node_graph import NodeGraphMetrics
from apiserver.registry.served_resource import ResourceTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject

_NODE_NAME: Final = "spec.nodeName"
# What of a pod that is bound to a node may change, and refers to other objects.
_CHANGEABLE: Final = (b'"ephemeralContainers":', b'"resourceClaim', b'"extendedResourceClaimStatus":')


class NodeGraphInformer:
    """Keeps a `NodeGraph` up to date with the watch cache, from when a node asks for the first time."""

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
        handlers: dict[tuple[str, str], Callable[[Notification], None]] = {
            ("", "pods"): self._on_pod,
            ("", "persistentvolumes"): self._on_volume,
            (brand.group("storage"), "volumeattachments"): self._on_attachment,
            (brand.group("resource"), "resourceslices"): self._on_slice,
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
        """Raises TimeoutError."""
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

    def _on_pod(self, notification: Notification) -> None:
        place, old, new = (notification.namespace, notification.name), notification.old, notification.new
        if new is None:
            began = time.perf_counter()
            self._graph.remove_pod(place)
            self._observe(notification, "Pod", began)
            return
        try:
            node = new.fields(self._pod_fields)[_NODE_NAME]
            is_bound_before = node and old is not None and self._graph.node_of(place) == node
            if is_bound_before and not any(mark in new.tail for mark in _CHANGEABLE):
                return  # Nearly all writes of pods report their status.
            began = time.perf_counter()
            references = pod_references(new.document()) if node else frozenset()
        except Exception:  # Whatever is stored now, what it gave before it gives no longer.
            self._graph.remove_pod(place)
            raise
        self._graph.put_pod(place, node, references)
        if node:
            self._observe(notification, "Pod", began)

    def _on_volume(self, notification: Notification) -> None:
        began = time.perf_counter()
        # As for pods: what cannot be read gives nothing.
        self._graph.put_volume(notification.name, None)
        if notification.new is not None:
            self._graph.put_volume(notification.name, volume_references(notification.new.document()))
        self._observe(notification, "PV", began)

    def _on_attachment(self, notification: Notification) -> None:
        began = time.perf_counter()
        self._graph.put_attachment(notification.name, "")
        self._graph.put_attachment(notification.name, _named_node(notification.new))
        self._observe(notification, "VolumeAttachment", began)

    def _on_slice(self, notification: Notification) -> None:
        began = time.perf_counter()
        self._graph.put_slice(notification.name, "")
        self._graph.put_slice(notification.name, _named_node(notification.new))
        self._observe(notification, "ResourceSlice", began)

    def _observe(self, notification: Notification, kind: str, began: float) -> None:
        """Count a change of the graph. began: by perf_counter."""
        action = "Delete" if notification.new is None else "Add"
        self._metrics.changed(f"{action}{kind}", time.perf_counter() - began)


def _named_node(found: StoredObject | None) -> str:
    """Returns the node that the spec names; slices of 1.30 have no spec, and name it themselves."""
    document: Any = found.document() if found is not None else {}
    spec = document.get("spec", document)
    node = spec.get("nodeName") if isinstance(spec, dict) else None
    return node if isinstance(node, str) else ""
