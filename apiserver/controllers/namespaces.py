"""Namespaces that are being deleted: remove what is in them, then the namespaces themselves. Row A12.

Several servers on one store all run this; each deletion is harmless to repeat.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from apiserver.controllers.informer import follow_for_ever
from apiserver.errors import ApiError, NotFound
from apiserver.meta.options import DeleteOptions, WriteOptions
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import CorruptObject, StoredObject
from apiserver.vocabulary import Document
from storage.errors import StorageError
from storage.keys import prefix_range

log = logging.getLogger(__name__)

FINALIZER: Final = "kubernetes"
# What has finalizers of its own takes its time; the namespace is looked at again this much later.
RETRY_S: Final = 1.0
RETRY_MAX_S: Final = 15.0


class NamespaceController:
    def __init__(self, registry: Registry, table: Callable[[], ResourceTable]) -> None:
        self._registry = registry
        self._table = table
        self._working: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Look after namespaces until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            await follow_for_ever(
                self._registry.cache,
                self._registry.prefix_of(self._namespaces()),
                lambda _, found: self._begin(tasks, found),
            )

    def _begin(self, tasks: asyncio.TaskGroup, found: StoredObject | None) -> None:
        if found is None or b'"deletionTimestamp"' not in found.tail:
            return  # `_empty` looks closer.
        name = found.key.rpartition("/")[2]
        if name not in self._working:
            task = self._working[name] = tasks.create_task(self._finish(name), name=f"namespace-{name}")
            task.add_done_callback(lambda _: self._working.pop(name, None))

    async def _finish(self, name: str) -> None:
        """Empty a namespace and let it go, however often that has to be tried."""
        retry_s = RETRY_S
        while True:
            try:
                if await self._empty(name):
                    await self._finalize(name)
                    return
            except NotFound:
                return  # It is gone already.
            except (ApiError, StorageError, CorruptObject) as error:
                log.warning("namespace %s cannot be finished yet: %s", name, error)
            except Exception:  # An object that breaks us must not stop the others' deletion, or the server.
                log.exception("namespace %s cannot be finished yet", name)
            await asyncio.sleep(retry_s)
            retry_s = min(retry_s * 1.5, RETRY_MAX_S)

    async def _empty(self, name: str) -> bool:
        """Ask for the deletion of all that is in the namespace; True if nothing is left."""
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
                    deleted = await self._registry.delete(resource, name, object_name, DeleteOptions())
                except NotFound:
                    continue
                is_empty = is_empty and deleted.is_removed
        return is_empty

    async def _finalize(self, name: str) -> None:
        """Take our own finalizer off; with the last one the namespace is removed."""
        namespaces = self._namespaces()

        def without_finalizer(found: StoredObject) -> Document:
            document = found.document()
            spec = document.get("spec", {})
            left = [each for each in spec.get("finalizers", ()) if each != FINALIZER]
            return {**document, "spec": {**spec, "finalizers": left} if left else {}}

        rules = namespaces.subresources["finalize"].update
        await self._registry.update(namespaces, "", name, without_finalizer, WriteOptions(), strategy=rules)

    def _namespaces(self) -> ServedResource:
        found = self._table().find("", "v1", "namespaces")
        assert found is not None
        return found

    def _stored_in_namespaces(self) -> list[ServedResource]:
        """Each resource once, however many versions of it are served."""
        by_name = {r.stored_group_resource: r for r in self._table().resources if r.is_namespaced}
        return [resource for resource in by_name.values() if "delete" in resource.verbs]
