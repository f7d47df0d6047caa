"""Finishes the deletion of definitions: removes their objects first, then the definitions.

No object is created meanwhile: a creation is conditional on its definition not being deleted
(`custom_resource_codec.CreationGuards`). Source: k8s.io/apiextensions-apiserver, pkg/controller/finalizer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from apiserver.controller_runtime.controller import Controller, Outcome, Requeue
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.custom_resources import definitions
from apiserver.custom_resources.definitions.conditions import (
    ESTABLISHED,
    TERMINATING,
    condition,
    set_definition_condition,
)
from apiserver.meta import timestamps
from apiserver.meta.brand import Brand
from apiserver.meta.conditions import is_condition_true
from apiserver.meta.errors import NotFound
from apiserver.meta.vocabulary import Document
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.strategy import UpdateStrategy
from apiserver.registry.write_request import KUBE_APISERVER, ProposedObject, WriteRequest
from apiserver.storage.keys import prefix_range

# Objects with finalizers take their time; they are looked at again after so long.
BACKOFF: Final = Backoff(base_s=0.05, max_s=5.0, factor=1.5)
# Definitions whose objects are deleted at the same time. kube-apiserver: 5.
WORKERS: Final = 5
# Objects of one definition that are deleted at the same time.
DELETIONS: Final = 16

_IN_PROGRESS: Final = condition(
    TERMINATING,
    holds=True,
    reason="InstanceDeletionInProgress",
    message="CustomResource deletion is in progress",
)
_COMPLETED: Final = condition(
    TERMINATING, holds=False, reason="InstanceDeletionCompleted", message="removed all instances"
)
_NEVER_ESTABLISHED: Final = condition(
    TERMINATING, holds=False, reason="NeverEstablished", message="resource was never established"
)


class DefinitionFinalizer:
    """The controller that Kubernetes calls crd_finalizer, whose keys are names of definitions.

    resource: that of definitions. stored: returns, for the name of a definition, the resource as which its
        objects are stored.
    """

    def __init__(
        self,
        registry: Registry,
        resource: ServedResource,
        brand: Brand,
        stored: Callable[[str], ServedResource | None],
        clock: Callable[[], float],
    ) -> None:
        self._registry = registry
        self._resource = resource
        self._finalizer = definitions.cleanup_finalizer(brand)
        self._stored = stored
        self._clock = clock
        self.queue: WorkQueue[str] = WorkQueue("crd_finalizer", BACKOFF)

    async def run(self) -> None:
        """Finish the deletion of the definitions in the queue until cancelled."""
        await Controller(self.queue, self._reconcile, workers=WORKERS).run()

    async def _reconcile(self, name: str) -> Outcome:
        try:
            return None if await self._try_to_finish(name) else Requeue()
        except NotFound:
            return None

    async def _try_to_finish(self, name: str) -> bool:
        """Do the possible steps of a deletion; returns whether none are left.

        Raises NotFound.
        """
        definition = await self._registry.offload.document(await self._registry.get(self._resource, "", name))
        if not self._is_ours(definition):
            return True
        if not is_condition_true(definition, ESTABLISHED):
            await self._write(name, _NEVER_ESTABLISHED, is_done=True)
            return True
        await self._write(name, _IN_PROGRESS, is_done=False)
        resource = self._stored(name)
        if resource is not None and not await self._empty(resource):
            return False
        await self._write(name, _COMPLETED, is_done=True)
        return True

    def _is_ours(self, definition: Document) -> bool:
        finalizers = definition["metadata"].get("finalizers") or ()
        return definitions.is_deleted(definition) and self._finalizer in finalizers

    async def _empty(self, resource: ServedResource) -> bool:
        """Delete all objects; returns whether none are left."""
        prefix = self._registry.prefix_of(resource)
        listing = await self._registry.cache.list(prefix_range(prefix))
        keys = iter([version.key for version in listing.versions])
        remaining = 0

        async def work() -> None:
            nonlocal remaining
            for key in keys:
                namespace, _, name = key[len(prefix) :].rpartition("/")
                try:
                    deleted = await self._registry.delete(DeleteRequest(resource, namespace, name))
                except NotFound:
                    continue  # Another server was faster.
                remaining += not deleted.is_removed

        workers = (work() for _ in range(min(DELETIONS, len(listing.versions))))
        for outcome in await asyncio.gather(*workers, return_exceptions=True):
            if outcome is not None:
                raise outcome
        return not remaining

    async def _write(self, name: str, new: Document, *, is_done: bool) -> None:
        """Write a condition; removing the last finalizer removes the definition."""
        now = timestamps.to_text(self._clock())

        def with_condition(current: StoredObject) -> ProposedObject:
            definition = current.document()
            if not self._is_ours(definition):
                return ProposedObject(definition)
            set_definition_condition(definition, new, now)
            if is_done:
                meta = definition["metadata"]
                meta["finalizers"] = [each for each in meta["finalizers"] if each != self._finalizer]
            return ProposedObject(definition)

        request = WriteRequest(
            resource=self._resource,
            namespace="",
            name=name,
            update=UpdateStrategy(),
            writer=KUBE_APISERVER.at("status"),
        )
        await self._registry.update(request, with_condition)
