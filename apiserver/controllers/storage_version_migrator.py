"""Rewrites the objects of a resource in its storage version, as a StorageVersionMigration requests.

Every object is written unchanged, through the stages of any write, which write only if other bytes would be
stored: in another version, or encrypted in another way. So an interrupted migration begins again, and no
object is written twice. Concurrent writes by others are in the storage version already. Objects that cannot
be written, perhaps because they are unreadable, do not prevent the others; the migration fails then, and
names some of them.
Source: kubernetes, pkg/controller/storageversionmigrator.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Final

from apiserver.catalogue.storagemigration.storage_version_migrations import (
    FAILED,
    RUNNING,
    SUCCEEDED,
    has_condition,
)
from apiserver.controller_runtime.controller import Controller, Outcome, Requeue
from apiserver.controller_runtime.informer import Notification, resource_informer
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.controllers.migrated_definitions import MigratedDefinitions
from apiserver.meta import timestamps
from apiserver.meta.errors import ApiError, Conflict, NotFound
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.metrics.controllers import StorageMigrationMetrics
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_request import KUBE_CONTROLLER_MANAGER, ProposedObject, WriteRequest
from apiserver.storage.interface import ANY
from apiserver.storage.keys import prefix_range

log = logging.getLogger(__name__)

BACKOFF: Final = Backoff(base_s=0.1, max_s=60.0)
# Resources that are migrated at the same time: their objects are written one after the other.
WORKERS: Final = 2
# How often the status says how far a migration is.
PROGRESS_S: Final = 5.0
# How many failed objects the status names.
TOLD_MAX: Final = 5
_REASONS: Final = {
    RUNNING: "StorageVersionMigrationInProgress",
    SUCCEEDED: "StorageVersionMigrationSucceeded",
    FAILED: "StorageVersionMigrationFailed",
}


class StorageVersionMigrator:
    """Carries out StorageVersionMigrations, whose resource is `migrations`. clock: seconds since 1970."""

    def __init__(
        self,
        registry: Registry,
        served: ServedTable,
        migrations: GroupResource,
        definitions: MigratedDefinitions,
        clock: Callable[[], float],
        metrics: StorageMigrationMetrics,
    ) -> None:
        self._registry, self._served, self._clock, self._metrics = registry, served, clock, metrics
        self._of_migrations, self._definitions = migrations, definitions
        # One migration of a resource after the other.
        self._active: set[GroupResource] = set()
        self.queue: WorkQueue[str] = WorkQueue("storage-version-migrator-controller", BACKOFF)

    async def run(self) -> None:
        """Migrate until cancelled."""
        informer = resource_informer(self._registry, self._migrations(), self._on_migration, queue=self.queue)
        await Controller(self.queue, self._reconcile, workers=WORKERS, informers=[informer]).run()

    def _on_migration(self, notification: Notification) -> None:
        if notification.new is not None:
            self.queue.add(notification.name)

    async def _reconcile(self, name: str) -> Outcome:
        try:
            migration = (await self._registry.get(self._migrations(), "", name, ANY)).document()
            if any(has_condition(migration, kind) for kind in (SUCCEEDED, FAILED)):
                return None
            named = migration["spec"]["resource"]
            wanted = GroupResource(named.get("group", ""), named["resource"])
            resource = self._resource(wanted)
            if resource is None:
                await self._tell(migration, FAILED, "resource does not exist in discovery")
                self._metrics.count_ended(FAILED)
                return None
            if wanted in self._active:
                return Requeue()
            self._active.add(wanted)
            try:
                failures = await self._migrate_all(migration, resource)
            finally:
                self._active.discard(wanted)
        except NotFound:
            return None
        except Conflict:  # It is another one by now.
            return Requeue()
        return await self._end(name, failures)

    async def _migrate_all(self, migration: Document, resource: ServedResource) -> list[str]:
        """Rewrite all objects of a resource, and report that in its definition, if it has one.

        Returns the errors of objects that could not be written. Raises Conflict, NotFound: see `_migrate`.
        """
        named, name = resource.group_resource, migration["metadata"]["name"]
        began_at = await self._definitions.begin(named, name)
        try:
            failures = await self._migrate(migration, resource)
        except (Conflict, NotFound):
            await self._definitions.end(named, began_at, has_succeeded=False)
            raise
        await self._definitions.end(named, began_at, has_succeeded=not failures)
        return failures

    async def _end(self, name: str, failures: list[str]) -> Outcome:
        kind, text = SUCCEEDED, ""
        if failures:
            kind, told = FAILED, "; ".join(failures[:TOLD_MAX])
            text = f"{len(failures)} objects could not be migrated: {told}"
        try:
            current = (await self._registry.get(self._migrations(), "", name, ANY)).document()
            await self._tell(current, kind, text)
        except NotFound:
            return None
        except Conflict:
            return Requeue()
        self._metrics.count_ended(kind)
        return None

    # ---- the objects

    async def _migrate(self, migration: Document, resource: ServedResource) -> list[str]:
        """Rewrite all objects of a resource; returns the errors of those that could not be written.

        Raises Conflict, NotFound if the migration was changed or deleted.
        """
        prefix, name = self._registry.prefix_of(resource), str(resource.group_resource)
        listing = await self._registry.cache.list(prefix_range(prefix), ANY)
        keys = [version.key for version in listing.versions]
        migration = await self._tell(migration, RUNNING, "", revision=listing.revision)
        told_at, failures = self._clock(), list[str]()
        for done, key in enumerate(keys):
            self._metrics.set_remaining(name, len(keys) - done)
            if self._clock() - told_at > PROGRESS_S:
                told_at = self._clock()
                migration = await self._tell(migration, RUNNING, f"{done} of {len(keys)} objects")
            namespace, _, last = key.removeprefix(prefix).rpartition("/")
            try:
                await self._write(resource, namespace, last)
            except ApiError as error:
                self._metrics.count_failed(name)
                failures.append(f"{f'{namespace}/' if namespace else ''}{last}: {error.message}")
                log.warning("cannot migrate %s to its storage version: %s", key, error.message)
            else:
                self._metrics.count_migrated(name)
        self._metrics.set_remaining(name, 0)
        return failures

    async def _write(self, resource: ServedResource, namespace: str, name: str) -> None:
        """Write an object unchanged, if other bytes are stored. Raises ApiError, and the storage's errors."""
        request = WriteRequest(resource=resource, namespace=namespace, name=name)
        # Others may have deleted it, or written it: then it is in the storage version.
        with contextlib.suppress(NotFound, Conflict):
            await self._registry.update(request, lambda found: ProposedObject(found.document()))

    # ---- what there is

    def _migrations(self) -> ServedResource:
        return self._served.require(*self._of_migrations)

    def _resource(self, wanted: GroupResource) -> ServedResource | None:
        """Returns a resource in the hub version, or else in one that clients see."""
        found = self._served.hub(*wanted)
        if found is not None:
            return found
        served = self._served.current.resources
        return next((each for each in served if each.group_resource == wanted and not each.is_virtual), None)

    # ---- the status

    async def _tell(
        self, migration: Document, kind: str, text: str, *, revision: int | None = None
    ) -> Document:
        """Set a condition to true, and return the updated migration.

        Raises Conflict, NotFound.

        revision: that of the list of the objects, if the status has none yet.
        """
        resource, meta = self._migrations(), migration["metadata"]
        now = timestamps.to_text(self._clock())

        def told(found: StoredObject) -> ProposedObject:
            document = found.document()
            document["metadata"]["resourceVersion"] = meta["resourceVersion"]
            status = document.get("status") or {}
            if revision is not None and not status.get("resourceVersion"):
                status["resourceVersion"] = str(revision)
            status["conditions"] = with_condition(status.get("conditions") or [], kind, text, now)
            return ProposedObject({**document, "status": status})

        rules = resource.subresources["status"].update
        request = WriteRequest(
            resource=resource,
            namespace="",
            name=meta["name"],
            update=rules,
            writer=KUBE_CONTROLLER_MANAGER.at("status"),
        )
        return (await self._registry.update(request, told)).found.document()


def with_condition(conditions: list[Document], kind: str, text: str, now: str) -> list[Document]:
    """Returns conditions one of which is set to true; an ended migration is no longer running."""
    kept = [each for each in conditions if each.get("type") != kind]
    if kind != RUNNING:
        kept = [
            {**each, "status": "False", "lastTransitionTime": now} if each.get("type") == RUNNING else each
            for each in kept
        ]
    since = next((each["lastTransitionTime"] for each in conditions if each.get("type") == kind), now)
    new = {
        "type": kind,
        "status": "True",
        "lastTransitionTime": since,
        "reason": _REASONS[kind],
        "message": text,
    }
    return [*kept, new]
