"""Finishes the deletion of namespaces: deletes the objects in them, then the namespaces (row A12).

Their status has the conditions of Kubernetes about remaining objects.

Pods are deleted first, and other objects when no pod is left: a running pod must not lose its permissions and
dependencies. Only the leader runs this; repeating a deletion is harmless.
Source: kubernetes, pkg/controller/namespace.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from apiserver.controller_runtime.controller import Controller, Outcome, Requeue
from apiserver.controller_runtime.informer import Informer, ListWatch, Notification
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.controllers.namespace_conditions import PODS, RemainingContent
from apiserver.meta import timestamps
from apiserver.meta.conditions import set_condition
from apiserver.meta.errors import ApiError, NotFound
from apiserver.meta.vocabulary import Document
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_request import KUBE_CONTROLLER_MANAGER, ProposedObject, WriteRequest
from apiserver.storage.interface import ReadAt
from apiserver.storage.keys import prefix_range

log = logging.getLogger(__name__)

FINALIZER: Final = "kubernetes"
# Objects with finalizers take their time; the namespace is looked at again after so long.
BACKOFF: Final = Backoff(base_s=1.0, max_s=15.0, factor=1.5)
# Namespaces that are emptied at the same time. kube-controller-manager: 10.
WORKERS: Final = 10
# Objects of each that are deleted at the same time.
DELETIONS_AT_ONCE: Final = 8
# Objects that are listed at a time: those that have been deleted need not stay in memory.
PAGE_OBJECTS: Final = 500


class OtherServers(Protocol):
    """The servers with other group versions, which may have objects in namespaces."""

    async def empty(self, namespace: str, remaining: RemainingContent) -> None:
        """Delete all objects in a namespace, and report the remaining ones to `remaining`."""
        ...


class NamespaceController:
    def __init__(
        self,
        registry: Registry,
        served: ServedTable,
        clock: Callable[[], float],
        others: OtherServers | None = None,
    ) -> None:
        """clock: seconds since 1970."""
        self._registry = registry
        self._served = served
        self._clock = clock
        self._others = others
        self.queue: WorkQueue[str] = WorkQueue("namespace", BACKOFF)

    async def run(self) -> None:
        """Delete the objects of namespaces until cancelled."""
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
            remaining = await self._empty(name)
            await self._report(name, remaining)
            if remaining:
                return Requeue()
            await self._finalize(name)
        except NotFound:
            pass  # It is gone already.
        return None

    async def _empty(self, name: str) -> RemainingContent:
        """Delete all objects in the namespace, and return the remaining ones.

        An object that cannot be deleted does not stop the others.
        Raises NotFound if the namespace is not being deleted, RevisionTooLarge if the cache is far behind.
        """
        namespace = await self._decoded(await self._registry.get(self._namespaces(), "", name))
        self._require_deleted(namespace)
        deleted_at = timestamps.from_text(namespace["metadata"]["deletionTimestamp"])
        deleted_for_s = self._clock() - (deleted_at or 0)
        remaining = RemainingContent()
        # Nothing is created there any more (`NamespaceLifecycle`), so that one revision is new enough for all
        # resources; each of some forty reads would wait until the cache has caught up with a busy store.
        at = ReadAt.not_older_than(await self._registry.cache.revision_at())
        for resource in self._stored_in_namespaces():
            await self._delete_all(resource, name, at, remaining)
            remaining.conclude(resource, name, deleted_for_s)
            if resource.group_resource == PODS and remaining.resources[PODS]:
                return remaining  # They may need the rest until they have ended.
        if self._others is not None:
            await self._others.empty(name, remaining)
        return remaining

    async def _delete_all(
        self, resource: ServedResource, name: str, at: ReadAt, remaining: RemainingContent
    ) -> None:
        """Delete all objects of a resource, and count the remaining ones.

        at: a revision since which nothing was created in the namespace.
        Several are deleted at a time, so that the store can commit them together.
        """
        keys = prefix_range(f"{self._registry.prefix_of(resource)}{name}/")
        while True:
            page = await self._registry.cache.list(keys, at, limit=PAGE_OBJECTS, counts_rest=False)
            names = [version.key.rpartition("/")[2] for version in page.versions]
            await self._delete_page(resource, name, names, remaining)
            if page.next_key is None:
                return
            keys = keys._replace(start=page.next_key)

    async def _delete_page(
        self, resource: ServedResource, namespace: str, names: Sequence[str], remaining: RemainingContent
    ) -> None:
        left = iter(names)

        async def delete_rest() -> None:
            for each in left:
                await self._delete(resource, namespace, each, remaining)

        tasks = [
            asyncio.create_task(delete_rest(), name="namespace-deletion")
            for _ in range(min(DELETIONS_AT_ONCE, len(names)))
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _delete(
        self, resource: ServedResource, namespace: str, name: str, remaining: RemainingContent
    ) -> None:
        """Delete an object."""
        try:
            deleted = await self._registry.delete(DeleteRequest(resource, namespace, name))
            if not deleted.is_removed:
                remaining.add(resource, await self._decoded(deleted.found))
        except NotFound:
            pass
        except ApiError as error:
            log.warning(
                "namespace: cannot delete %s %s/%s: %s", resource.group_resource, namespace, name, error
            )
            remaining.fail(f"{error}")

    async def _decoded(self, found: StoredObject) -> Document:
        return await self._registry.offload.document(found)

    async def _report(self, name: str, remaining: RemainingContent) -> None:
        """Report the remaining objects in the status of the namespace, if they have changed."""
        conditions, now = remaining.conditions(), timestamps.to_text(self._clock())

        def with_conditions(found: StoredObject) -> ProposedObject:
            document = found.document()
            self._require_deleted(document)
            for condition in conditions:
                set_condition(document, condition, now)
            return ProposedObject(document)

        request = self._request(name, "status")
        await self._registry.update(request, with_conditions)

    def _require_deleted(self, namespace: Document) -> None:
        meta = namespace["metadata"]
        if "deletionTimestamp" not in meta:
            raise NotFound(self._namespaces().group_resource, meta["name"])

    async def _finalize(self, name: str) -> None:
        """Remove the finalizer of Kubernetes; without finalizers the namespace is removed."""

        def without_finalizer(found: StoredObject) -> ProposedObject:
            document = found.document()
            spec = document.get("spec", {})
            left = [each for each in spec.get("finalizers", ()) if each != FINALIZER]
            return ProposedObject({**document, "spec": {**spec, "finalizers": left} if left else {}})

        await self._registry.update(self._request(name, "finalize"), without_finalizer)

    def _request(self, name: str, subresource: str) -> WriteRequest:
        namespaces = self._namespaces()
        return WriteRequest(
            resource=namespaces,
            namespace="",
            name=name,
            update=namespaces.subresources[subresource].update,
            writer=KUBE_CONTROLLER_MANAGER.at(subresource),
        )

    def _namespaces(self) -> ServedResource:
        return self._served.require("", "namespaces")

    def _stored_in_namespaces(self) -> list[ServedResource]:
        """Returns each stored resource once, whatever number of versions is served, and pods first."""
        by_name = {r.stored_group_resource: r for r in self._served.current.resources if r.is_namespaced}
        found = [each for each in by_name.values() if "delete" in each.verbs and not each.is_virtual]
        return sorted(found, key=lambda each: each.group_resource != PODS)
