"""Removes from the history what must be forgotten: one object, one namespace, or all before a moment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from apiserver.meta.errors import NotFound, ServiceUnavailable
from apiserver.meta.vocabulary import GroupResource
from apiserver.registry.history.past import PastReads
from apiserver.registry.history.recorder import CANNOT_RECORD
from apiserver.registry.history.writes import HistoryWrites, namespace_scope
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.store import Registry
from apiserver.storage.history.purges import Purged
from apiserver.storage.history.undo_log import UndoLog


class Purges:
    """Removes changes that are recorded when a purge begins. Those that are made later are recorded again.

    All methods raise ServiceUnavailable if the history cannot be written; then some changes may be removed.
    """

    def __init__(
        self, past: PastReads, history: UndoLog, writes: HistoryWrites, registry: Registry, prefix: str
    ) -> None:
        """prefix: of all keys."""
        self._past, self._history, self._writes = past, history, writes
        self._registry, self._prefix = registry, prefix

    async def of_object(self, resource: ServedResource, namespace: str, name: str) -> Purged:
        """Remove all changes of an object. Raises NotFound if there are none, and none were purged before."""
        key = self._registry.key(resource, namespace, name)
        missing = NotFound(resource.group_resource, name)
        return await self._purge(partial(self._writes.purge_key, key), key, missing)

    async def of_namespace(self, name: str) -> Purged:
        """Remove all changes of a Namespace, and of what is or was in it. Raises as `of_object`."""
        missing = NotFound(GroupResource("", "namespaces"), name)
        scope = namespace_scope(self._prefix, name)
        return await self._purge(partial(self._writes.purge_namespace, name), scope, missing)

    async def before(self, moment: str) -> Purged:
        """Remove all changes before a moment, that itself excluded. Raises BadRequest if it is none."""
        revision = await self._past.revision_before(moment)
        return await self._run(partial(self._writes.purge_until, revision))

    async def _purge(self, work: Callable[[], Awaitable[Purged]], scope: str, missing: NotFound) -> Purged:
        purged = await self._run(work)
        # A purge that is done again, as it could not be completed, may find nothing more to remove.
        if not purged.changes and not await self._past.read(partial(self._history.purged_since, scope, 0)):
            raise missing
        return purged

    async def _run(self, work: Callable[[], Awaitable[Purged]]) -> Purged:
        await self._past.complete()
        try:
            return await work()
        except CANNOT_RECORD as error:
            raise ServiceUnavailable(f"the history was not purged completely: {error}") from None
