"""Finishes the deletion of namespaces: removes the objects in them, then the namespaces. Row A12.

Several servers on one store all run this; repeating a deletion is harmless.
Source: kubernetes, pkg/controller/namespace.
"""

from __future__ import annotations

from typing import Final

from apiserver.controllers.controller import Controller, Outcome, Requeue
from apiserver.controllers.informer import Informer, ListWatch, Notification
from apiserver.controllers.work_queue import Backoff, WorkQueue
from apiserver.errors import NotFound
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_request import Draft, WriteRequest
from storage.keys import prefix_range

FINALIZER: Final = "kubernetes"
# Objects with finalizers take their time; the namespace is looked at again after so long.
BACKOFF: Final = Backoff(base_s=1.0, max_s=15.0, factor=1.5)
# Namespaces that are emptied at the same time. kube-controller-manager: 10.
WORKERS: Final = 10


class NamespaceController:
    def __init__(self, registry: Registry, served: ServedTable) -> None:
        self._registry = registry
        self._served = served
        self.queue: WorkQueue[str] = WorkQueue("namespace", BACKOFF)

    async def run(self) -> None:
        """Look after namespaces until cancelled."""
        prefix = self._registry.prefix_of(self._namespaces())
        informer = Informer(
            ListWatch(self._registry.cache, prefix),
            self._on_namespace,
            wait_for_room=self.queue.wait_for_room,
        )
        await Controller(self.queue, self._reconcile, workers=WORKERS, informers=[informer]).run()

    def _on_namespace(self, notification: Notification) -> None:
        found = notification.new
        if found is not None and b'"deletionTimestamp"' in found.tail:  # `_empty` looks closer.
            self.queue.add(notification.name)

    async def _reconcile(self, name: str) -> Outcome:
        try:
            if not await self._empty(name):
                return Requeue()
            await self._finalize(name)
        except NotFound:
            pass  # It is gone already.
        return None

    async def _empty(self, name: str) -> bool:
        """Ask for the deletion of all objects in the namespace. Returns True if none is left.

        Raises NotFound if the namespace is not being deleted.
        """
        namespace = await self._registry.get(self._namespaces(), "", name)
        if "deletionTimestamp" not in namespace.document()["metadata"]:
            raise NotFound(self._namespaces().group_resource, name)
        is_empty = True
        for resource in self._stored_in_namespaces():
            folder = prefix_range(f"{self._registry.prefix_of(resource)}{name}/")
            listing = await self._registry.cache.list(folder)
            for version in listing.versions:
                object_name = version.key.rpartition("/")[2]
                try:
                    deleted = await self._registry.delete(DeleteRequest(resource, name, object_name))
                except NotFound:
                    continue
                is_empty = is_empty and deleted.is_removed
        return is_empty

    async def _finalize(self, name: str) -> None:
        """Remove our own finalizer; with the last one the namespace is removed."""
        namespaces = self._namespaces()

        def without_finalizer(found: StoredObject) -> Draft:
            document = found.document()
            spec = document.get("spec", {})
            left = [each for each in spec.get("finalizers", ()) if each != FINALIZER]
            return Draft({**document, "spec": {**spec, "finalizers": left} if left else {}})

        rules = namespaces.subresources["finalize"].update
        request = WriteRequest(resource=namespaces, namespace="", name=name, update=rules)
        await self._registry.update(request, without_finalizer)

    def _namespaces(self) -> ServedResource:
        found = self._served.find("", "v1", "namespaces")
        assert found is not None
        return found

    def _stored_in_namespaces(self) -> list[ServedResource]:
        """Returns each resource once, however many versions of it are served."""
        by_name = {r.stored_group_resource: r for r in self._served.current.resources if r.is_namespaced}
        return [resource for resource in by_name.values() if "delete" in resource.verbs]
