"""Deletes objects whose owners are gone, and finishes foreground deletions.

Each step is decided on one version of an object, and done only if the object still has that version:
concurrent and repeated steps do no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from apiserver.controller_runtime.controller import Controller, Outcome, Requeue
from apiserver.controller_runtime.work_queue import WorkQueue
from apiserver.controllers.garbage_collector import rules
from apiserver.controllers.garbage_collector.graph import Owner
from apiserver.controllers.garbage_collector.graph_builder import GraphBuilder, ObservedObject, live_state
from apiserver.controllers.garbage_collector.object_owners import OwnerReference, Ownership
from apiserver.controllers.garbage_collector.remote_owner_resolver import key_of
from apiserver.controllers.garbage_collector.resources import ObjectLocation
from apiserver.controllers.garbage_collector.rules import Collect, OwnerState, Release
from apiserver.meta.errors import Conflict, NotFound
from apiserver.meta.object_meta import FINALIZER_FOREGROUND
from apiserver.meta.options import DeleteOptions
from apiserver.meta.vocabulary import Document
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_request import KUBE_CONTROLLER_MANAGER, ProposedObject, WriteRequest
from apiserver.storage.event_loop_turns import Turn, in_turns

# Concurrent deletions. kube-controller-manager has 20 (--concurrent-gc-syncs), but in a separate process:
# here requests wait for each, and with 20 creates kept 0.6 of their rate. With 7 of them, creates beside
# 10,000 dependents kept 0.71 (8: 0.68), which were gone in 6.9 s, and in 9.3 s on etcd (6: 10.1 s).
WORKERS: Final = 7
# So many owners are looked at whenever it is: nearly every object has one. If each waited for a turn, all
# workers together would delete one object in four rounds of a busy event loop.
OWNERS_AT_ONCE: Final = 16


class Collector:
    """The controller of the queue `attempt_to_delete`, whose keys are those of objects."""

    def __init__(self, registry: Registry, builder: GraphBuilder) -> None:
        self._registry = registry
        self._cache = registry.cache
        self._builder = builder
        self.queue: WorkQueue[str] = builder.attempt_to_delete

    async def run(self) -> None:
        """Collect until cancelled; nothing is deleted before the graph is complete."""
        await self._builder.wait_until_complete()
        await Controller(self.queue, self._reconcile, workers=WORKERS).run()

    async def _reconcile(self, key: str) -> Outcome:
        seen = self._builder.look_up(key)
        if seen is None:
            return None
        try:
            if seen.ownership.waits_for_dependents:
                return await self._finish(key, seen)
            if not seen.ownership.is_deleted:
                await self._decide(key, seen.place, seen.ownership)
        except NotFound:
            pass
        except Conflict:
            return Requeue()  # It is another one by now.
        return None

    # ---- objects that are not being deleted

    async def _decide(self, key: str, place: ObjectLocation, found: Ownership) -> None:
        """Decide about an object, and carry the decision out."""
        states = await self._states(key, place, found.owners)
        owner = self._builder.graph.owner(key, found.uid)
        verdict = rules.judge(found, states, has_dependents=owner is not None and owner.has_dependents)
        if isinstance(verdict, Release):
            references = verdict.references
            await self._change(place, found, lambda meta: rules.without_references(meta, references))
        elif isinstance(verdict, Collect):
            options = DeleteOptions(
                uid=found.uid, resource_version=found.resource_version, propagation=verdict.propagation
            )
            await self._registry.delete(DeleteRequest(*place, options))

    async def _states(
        self, key: str, place: ObjectLocation, owners: Sequence[OwnerReference]
    ) -> list[OwnerState]:
        """Returns the states of owners in their order, up to the first unknown one.

        An unknown one decides that the object is kept.
        """
        gone = frozenset(
            (owner.key.rpartition("/")[2], owner.uid)
            for owner in (link.owner for link in self._builder.graph.links(key))
            if owner.is_absent
        )
        states: list[OwnerState] = []
        if len(owners) <= OWNERS_AT_ONCE:
            for owner in owners:
                states.append(await self._state(place, owner, gone))
                if states[-1] is OwnerState.UNKNOWN:
                    break
            return states
        async for owner in in_turns(owners):
            states.append(await self._state(place, owner, gone))
            if states[-1] is OwnerState.UNKNOWN:
                break
        return states

    async def _state(
        self, place: ObjectLocation, reference: OwnerReference, gone: Collection[tuple[str, str]]
    ) -> OwnerState:
        """Returns the state of an owner."""
        graph, resources = self._builder.graph, self._builder.resources
        resource = resources.of_kind(reference.api_version, reference.kind)
        if resource is None:
            unserved = graph.owner(key_of(reference, place.namespace), reference.uid)
            if unserved is not None:
                state = self._builder.remote_owners.state(unserved)
                if state is not OwnerState.UNKNOWN:
                    return state
            # Its objects went before the type did, and may be known to be gone.
            was_known = (reference.name, reference.uid) in gone
            return OwnerState.ABSENT if was_known else OwnerState.UNKNOWN
        if resource.is_namespaced and not place.namespace:
            return OwnerState.UNKNOWN
        owner_key = resources.owner_key(resource, place.namespace, reference.name)
        owner = graph.owner(owner_key, reference.uid) or Owner(owner_key, reference.uid)
        return await live_state(self._cache, owner)

    # ---- objects that wait for their dependents

    async def _finish(self, key: str, seen: ObservedObject) -> Outcome:
        """Remove the finalizer of an object that nothing blocks any more; otherwise delete its dependents.

        Raises NotFound, Conflict, ApiError, and the storage's errors.
        """
        place, revision, found = seen
        await self._builder.wait_until_current(revision)
        owner = self._builder.graph.owner(key, found.uid)
        if owner is None or not owner.blocking:
            await self._change(place, found, lambda meta: rules.without_finalizer(meta, FINALIZER_FOREGROUND))
            return None
        if await self._waits_for_itself(key, found.uid):
            await self._change(place, found, rules.without_blocking)
        self._builder.queue.add(owner)
        # When the last of them goes it is looked at again; this is for what others may do meanwhile.
        return Requeue()

    async def _waits_for_itself(self, key: str, uid: str) -> bool:
        """Whether an object in foreground deletion is part of a cycle of objects that block each other."""
        graph, turn = self._builder.graph, Turn()
        seen: set[Owner] = set()
        waiting = [key]
        while waiting:
            for link in graph.links(waiting.pop()):
                owner = link.owner
                if not link.blocks or owner in seen:
                    continue
                if turn.is_over():
                    await turn.next()
                seen.add(owner)
                if owner.key == key and owner.uid == uid:
                    return True
                if self._is_waiting(owner):
                    waiting.append(owner.key)
        return False

    def _is_waiting(self, owner: Owner) -> bool:
        seen = self._builder.look_up(owner.key)
        if seen is None:
            return False
        return seen.ownership.uid == owner.uid and seen.ownership.waits_for_dependents

    async def _change(
        self, place: ObjectLocation, found: Ownership, change: Callable[[Document], None]
    ) -> None:
        await change_metadata(self._registry, place, found.uid, change)


async def change_metadata(
    registry: Registry, place: ObjectLocation, uid: str, change: Callable[[Document], None]
) -> None:
    """Change the metadata of one object, identified by its uid.

    change: changes it in place. Raises NotFound if another object has its name, and the errors of an update.
    """

    def transform(stored: StoredObject) -> ProposedObject:
        document = stored.document()
        if document["metadata"].get("uid") != uid:
            raise NotFound(place.resource.group_resource, place.name)
        change(document["metadata"])
        return ProposedObject(document)

    request = WriteRequest(
        resource=place.resource, namespace=place.namespace, name=place.name, writer=KUBE_CONTROLLER_MANAGER
    )
    await registry.update(request, transform)
