"""Definitions that are being deleted: first their objects go, then they.

No object comes into being meanwhile: that the definition is not being deleted is a condition of its creation
(`keeping.Family.guard`). Source: k8s.io/apiextensions-apiserver, pkg/controller/finalizer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from apiserver.apiextensions import definitions
from apiserver.apiextensions.definition_conditions import (
    ESTABLISHED,
    TERMINATING,
    cleanup_finalizer,
    is_condition_true,
    set_condition,
)
from apiserver.brand import Brand
from apiserver.errors import ApiError, NotFound
from apiserver.meta import timestamps
from apiserver.meta.options import DeleteOptions, WriteOptions
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import CorruptObject, StoredObject
from apiserver.registry.strategy import UpdateStrategy
from apiserver.vocabulary import Document
from storage.errors import StorageError
from storage.keys import prefix_range

log = logging.getLogger(__name__)

# Objects with finalizers take their time; they are looked at again after so long.
RETRY_S: Final = 0.05
RETRY_MAX_S: Final = 5.0
# Objects that are deleted at the same time.
WORKERS: Final = 16

_IN_PROGRESS: Final = {
    "type": TERMINATING,
    "status": "True",
    "reason": "InstanceDeletionInProgress",
    "message": "CustomResource deletion is in progress",
}
_COMPLETED: Final = {
    "type": TERMINATING,
    "status": "False",
    "reason": "InstanceDeletionCompleted",
    "message": "removed all instances",
}
_NEVER_ESTABLISHED: Final = {
    "type": TERMINATING,
    "status": "False",
    "reason": "NeverEstablished",
    "message": "resource was never established",
}


class DefinitionFinalizer:
    """resource: that of definitions. stored: what the objects of a definition are stored as, by its name."""

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
        self._finalizer = cleanup_finalizer(brand)
        self._stored = stored
        self._clock = clock
        self._working: dict[str, asyncio.Task[None]] = {}

    def begin(self, tasks: asyncio.TaskGroup, name: str) -> None:
        """Finish the deletion of a definition, unless that is under way."""
        if name not in self._working:
            task = self._working[name] = tasks.create_task(self._finish(name), name=f"definition-{name}")
            task.add_done_callback(lambda _: self._working.pop(name, None))

    async def _finish(self, name: str) -> None:
        retry_s = RETRY_S
        while True:
            try:
                if await self._try_to_finish(name):
                    return
            except NotFound:
                return
            except (ApiError, StorageError, CorruptObject) as error:
                log.warning("the definition %s cannot be removed yet: %s", name, error)
            except Exception:  # An object that breaks us must not stop the others' deletion, or the server.
                log.exception("the definition %s cannot be removed yet", name)
            await asyncio.sleep(retry_s)
            retry_s = min(retry_s * 1.5, RETRY_MAX_S)

    async def _try_to_finish(self, name: str) -> bool:
        """Do what can be done; True if nothing is left to do. Raises NotFound."""
        definition = (await self._registry.get(self._resource, "", name)).document()
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
        """Ask for the deletion of all objects; True if none is left."""
        prefix = self._registry.prefix_of(resource)
        listing = await self._registry.cache.list(prefix_range(prefix))
        keys = iter([version.key for version in listing.versions])
        remaining = 0

        async def work() -> None:
            nonlocal remaining
            for key in keys:
                namespace, _, name = key[len(prefix) :].rpartition("/")
                try:
                    deleted = await self._registry.delete(resource, namespace, name, DeleteOptions())
                except NotFound:
                    continue  # Somebody else was faster.
                remaining += not deleted.is_removed

        workers = (work() for _ in range(min(WORKERS, len(listing.versions))))
        for outcome in await asyncio.gather(*workers, return_exceptions=True):
            if outcome is not None:
                raise outcome
        return not remaining

    async def _write(self, name: str, condition: Document, *, is_done: bool) -> None:
        """Tell how far it is; with the last finalizer the definition is removed."""
        now = timestamps.to_text(self._clock())

        def told(current: StoredObject) -> Document:
            definition = current.document()
            if not self._is_ours(definition):
                return definition
            set_condition(definition, condition, now)
            if is_done:
                meta = definition["metadata"]
                meta["finalizers"] = [each for each in meta["finalizers"] if each != self._finalizer]
            return definition

        await self._registry.update(self._resource, "", name, told, WriteOptions(), strategy=UpdateStrategy())
