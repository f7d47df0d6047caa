"""Reports the migration of objects, and its result, in the status of their CustomResourceDefinition.

After a successful migration objects are stored in the storage version only, and only that is listed in
`status.storedVersions`, so that other versions can be removed from the definition. If the definition has
changed meanwhile, it may have another storage version, and the list is not changed.
Source: kubernetes, pkg/controller/storageversionmigrator/migrationrunner.go (release 1.36). Unlike there, the
list is not changed after a failed migration, as objects may still be stored in other versions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.custom_resources.definitions import storage_version
from apiserver.custom_resources.definitions.conditions import STORAGE_MIGRATING, set_definition_condition
from apiserver.load.offload import Offload
from apiserver.meta import timestamps
from apiserver.meta.errors import NotFound
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_request import KUBE_CONTROLLER_MANAGER, ProposedObject, WriteRequest

_RUNNING: Final = "MigrationRunning"
_SUCCEEDED: Final = "MigrationSucceeded"
_FAILED: Final = "MigrationFailed"
_UPDATED: Final = "The migration has succeeded and the stored versions have been updated"
_CHANGED: Final = (
    "The migration has succeeded but the stored versions have not been updated due to a generation mismatch"
)


class MigratedDefinitions:
    """Reports storage version migrations in the status of CustomResourceDefinitions.

    definitions: the resource of CustomResourceDefinitions. clock: seconds since 1970.
    """

    def __init__(
        self,
        registry: Registry,
        served: ServedTable,
        definitions: GroupResource,
        offload: Offload,
        clock: Callable[[], float],
    ) -> None:
        self._registry, self._served, self._definitions = registry, served, definitions
        self._offload, self._clock = offload, clock

    async def begin(self, resource: GroupResource, migration: str) -> int | None:
        """Reports that a migration is running, and returns the definition's generation.

        Returns None if the resource has no definition.
        """

        running = {"status": "True", "reason": _RUNNING, "message": f"Migration {migration} is running"}
        return await self._write(resource, lambda _: running)

    async def end(self, resource: GroupResource, began_at: int | None, *, has_succeeded: bool) -> None:
        """Reports that a migration has ended. began_at: the result of `begin`."""
        if began_at is None:
            return

        def ended(definition: Document) -> Document:
            if not has_succeeded:
                return {"status": "False", "reason": _FAILED, "message": "The migration has failed"}
            is_same = definition["metadata"].get("generation") == began_at
            if is_same:
                definition["status"]["storedVersions"] = [storage_version(definition["spec"])]
            return {"status": "False", "reason": _SUCCEEDED, "message": _UPDATED if is_same else _CHANGED}

        await self._write(resource, ended)

    async def _write(self, resource: GroupResource, condition: Callable[[Document], Document]) -> int | None:
        """Set the condition that `condition` returns, and return the definition's generation."""
        definitions = self._served.hub(*self._definitions)
        if definitions is None or not resource.group:
            return None
        now = timestamps.to_text(self._clock())

        def written(found: StoredObject) -> ProposedObject:
            definition = found.document()
            new = {
                "type": STORAGE_MIGRATING,
                **condition(definition),
                "observedGeneration": definition["metadata"].get("generation"),
            }
            set_definition_condition(definition, new, now)
            return ProposedObject(definition)

        request = WriteRequest(
            resource=definitions,
            namespace="",
            name=f"{resource.resource}.{resource.group}",
            update=definitions.subresources["status"].update,
            writer=KUBE_CONTROLLER_MANAGER.at("status"),
        )
        try:
            written_one = (await self._registry.update(request, written)).found
        except NotFound:
            return None
        return await self._offload.read(written_one, _generation)


def _generation(definition: Document) -> int | None:
    generation: int | None = definition["metadata"].get("generation")
    return generation
