"""Releases the dependents of objects that are deleted with the finalizer `orphan`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from apiserver.controller_runtime.controller import Controller, Outcome, Requeue
from apiserver.controller_runtime.work_queue import WorkQueue
from apiserver.controllers.garbage_collector import rules
from apiserver.controllers.garbage_collector.collector import change_metadata
from apiserver.controllers.garbage_collector.graph_builder import GraphBuilder, ObservedObject
from apiserver.meta.errors import NotFound
from apiserver.meta.object_meta import FINALIZER_ORPHAN
from apiserver.registry.store import Registry

# Objects whose dependents are released at the same time, and how many of these. kube-controller-manager: 20
# of the first, and all of the second.
WORKERS: Final = 4
RELEASES: Final = 8


class Orphaning:
    """The controller of the queue `attempt_to_orphan`, whose keys are objects that are being deleted."""

    def __init__(self, registry: Registry, builder: GraphBuilder) -> None:
        self._registry = registry
        self._cache = registry.cache
        self._builder = builder
        self.queue: WorkQueue[str] = builder.attempt_to_orphan

    async def run(self) -> None:
        """Release dependents until cancelled."""
        await self._builder.wait_until_complete()
        await Controller(self.queue, self._reconcile, workers=WORKERS).run()

    async def _reconcile(self, key: str) -> Outcome:
        seen = self._builder.look_up(key)
        if seen is not None and seen.ownership.orphans_dependents:
            with suppress(NotFound):
                return await self._orphan(key, seen)
        return None

    async def _orphan(self, key: str, seen: ObservedObject) -> Outcome:
        """Release all dependents, then the object.

        Raises NotFound, CorruptObject (an unreadable object may be a dependent), ApiError, and the storage's
        errors.
        """
        place, revision, found = seen
        while True:
            # A dependent that is missed here would be deleted, once its owner is gone.
            await self._builder.wait_until_current(revision)
            owner = self._builder.graph.owner(key, found.uid)
            if owner is None or not owner.has_dependents:
                self._builder.require_readable(place.namespace)
                break
            if not await self._release_all(owner.dependents, found.uid):
                return Requeue()  # Their type is not served, or they are malformed: it waits for them.
            revision = await self._cache.revision_at()
        await change_metadata(
            self._registry, place, found.uid, lambda meta: rules.without_finalizer(meta, FINALIZER_ORPHAN)
        )
        return None

    async def _release_all(self, dependents: Sequence[str], uid: str) -> int:
        """Release all dependents, and return their number."""
        keys = iter(dependents)
        releasing = [asyncio.ensure_future(self._release(keys, uid)) for _ in range(RELEASES)]
        try:
            return sum(await asyncio.gather(*releasing))
        finally:
            for each in releasing:
                each.cancel()

    async def _release(self, keys: Iterator[str], uid: str) -> int:
        released = 0
        for key in keys:
            if (seen := self._builder.look_up(key)) is None:
                continue
            with suppress(NotFound):
                await change_metadata(
                    self._registry, seen.place, seen.ownership.uid, partial(rules.without_owner, uid=uid)
                )
                released += 1
        return released
