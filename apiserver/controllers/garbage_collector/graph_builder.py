"""Keeps the graph of owners and dependents up to date, and finds the objects to check when it changes.

Source of the idea: kubernetes, pkg/controller/garbagecollector/graph_builder.go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from time import monotonic
from typing import Final, NamedTuple

from apiserver.controller_runtime.controller import Controller, Outcome
from apiserver.controller_runtime.informer import Informer, InformerCallbacks, ListWatch, Notification
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.controllers.event_recorder import EventRecorder
from apiserver.controllers.garbage_collector.graph import Changes, Graph, Owner, OwnerIdentity
from apiserver.controllers.garbage_collector.object_owners import (
    Malformed,
    OwnerReference,
    Ownership,
    may_be_deleted,
    may_concern_collector,
    may_have_owners,
    may_wait_for_collector,
    ownership,
)
from apiserver.controllers.garbage_collector.remote_owner_resolver import (
    ASK_AGAIN_S,
    PREFIX,
    OtherServers,
    RemoteOwnerResolver,
    key_of,
)
from apiserver.controllers.garbage_collector.resources import ObjectLocation, Resources
from apiserver.controllers.garbage_collector.rules import OwnerState
from apiserver.metrics.controllers import GarbageCollectorMetrics
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import CorruptObject, StoredObject
from apiserver.storage.event_loop_turns import in_turns
from apiserver.storage.keys import prefix_range
from apiserver.storage.watch_cache import KeyVersion, WatchCache

log = logging.getLogger(__name__)

BACKOFF: Final = Backoff(base_s=0.05, max_s=300.0)
# Owners that are looked at at the same time: one with very many dependents does not hold up all others.
WORKERS: Final = 4
# Whether an owner that is absent is in another namespace only matters for an Event, and one object may name
# 15,000 of them. So many namespaces are looked into in a second, which takes a few hundredths of it, and at
# once. When an owner is found, the references of its dependents count as well.
LOOKS_PER_S: Final = 20_000
LOOKS_AT_ONCE: Final = 100_000
# The owners of an object that are noted at once, which takes 2 ms; more are noted in turns.
OWNERS_AT_ONCE: Final = 500


class ObservedObject(NamedTuple):
    """An object from the cache. revision: that of its last change."""

    place: ObjectLocation
    revision: int
    ownership: Ownership


class LookupLimit:
    """Limits lookups: a number at once, and a number per second.

    clock: seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left = float(LOOKS_AT_ONCE)
        self._counted_at = clock()

    def are_allowed(self) -> bool:
        now = self._clock()
        self._left = min(LOOKS_AT_ONCE, self._left + (now - self._counted_at) * LOOKS_PER_S)
        self._counted_at = now
        return self._left > 0

    def note(self, count: int) -> None:
        """Count lookups; those beyond the limit count against later ones."""
        self._left -= count


# What to look at: an owner that has changed, or the prefix of keys of which changes may have been missed.
Change = Owner | str


class GraphBuilder:
    """The graph, the informers that feed it, and the queues of the objects to process.

    The keys of objects are added to two queues: `attempt_to_delete`, whose owners may be gone or which wait
    for their dependents to go, and `attempt_to_orphan`, whose dependents are to stay. A separate queue has
    the parts of the graph to check.

    remote_owners: the owners whose kinds are not served here. others: the servers that may serve them. looks:
    limits lookups in the namespaces of absent owners.
    """

    def __init__(
        self,
        registry: Registry,
        served: ServedTable,
        events: EventRecorder,
        metrics: GarbageCollectorMetrics,
        others: OtherServers | None = None,
        *,
        ask_again_s: float = ASK_AGAIN_S,
    ) -> None:
        self.graph = Graph()
        self.resources = Resources(served.current, registry)
        self.queue: WorkQueue[Change] = WorkQueue("garbage_collector_graph_changes", BACKOFF)
        self.attempt_to_delete: WorkQueue[str] = WorkQueue("garbage_collector_attempt_to_delete", BACKOFF)
        self.attempt_to_orphan: WorkQueue[str] = WorkQueue("garbage_collector_attempt_to_orphan", BACKOFF)
        self.looks = LookupLimit(monotonic)
        self.remote_owners = RemoteOwnerResolver(others, self.queue.add, ask_again_s=ask_again_s)
        self._registry = registry
        self._cache = registry.cache
        self._served = served
        self._events = events
        self._metrics = metrics
        # The keys of unreadable objects, whose owners are unknown, with their namespaces.
        self._unreadable: dict[str, str] = {}
        # Objects with many owners are linked one after another; and the key of that which is being linked.
        self._linking = asyncio.Lock()
        self._linked_in_turns: str | None = None
        # By the prefix of their keys. Most resources of most servers have no objects: an informer is started
        # with the first one, which `_waits` listens for. It has a function for each resource that ends that.
        self._informers: dict[str, Informer] = {}
        self._informing: dict[str, asyncio.Task[None]] = {}
        self._waits: dict[str, Callable[[], None]] = {}
        self._synced = asyncio.Event()
        self._progress = asyncio.Event()
        self._table_changed = asyncio.Event()
        self._remote_owner_changed = asyncio.Event()

    async def run(self) -> None:
        """Keep the graph up to date until cancelled."""
        unsubscribe = self._served.call_on_change(self._table_changed.set)
        unsubscribe_remote_owners = self.remote_owners.call_on_change(self._remote_owner_changed.set)
        self._table_changed.set()
        controller = Controller(self.queue, self._reconcile, workers=WORKERS)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(controller.run(), name=self.queue.name)
                tasks.create_task(self._events.run(), name="garbage-collector-events")
                tasks.create_task(self._note_remote_owners(), name="garbage-collector-elsewhere")
                while True:
                    await self._table_changed.wait()
                    self._table_changed.clear()
                    await self._follow_table()
        finally:
            unsubscribe()
            unsubscribe_remote_owners()
            for end_wait in self._waits.values():
                end_wait()
            self._waits.clear()
            informing = self._informing.values()
            for task in informing:
                task.cancel()
            await asyncio.gather(*informing, return_exceptions=True)

    async def wait_until_complete(self) -> None:
        """Return when the graph has all objects stored at the start."""
        await self._synced.wait()

    async def wait_until_current(self, revision: int) -> None:
        """Return when the graph has all changes up to a revision that the cache has reached."""
        await self._synced.wait()
        while not all(each.has_delivered(revision) for each in self._informers.values()):
            self._progress.clear()
            await self._progress.wait()

    def look_up(self, key: str) -> ObservedObject | None:
        """Returns an object from the cache; None if it is deleted, damaged, or not collected."""
        version, place = self._cache.get_cached(key), self.resources.place(key)
        if version is None or version.value is None or place is None:
            return None
        found = self._ownership(key, version.value)
        return ObservedObject(place, version.revision, found) if found is not None else None

    def require_readable(self, namespace: str) -> None:
        """Check that all objects that an owner in a namespace may have are readable. Raises CorruptObject."""
        for key, where in self._unreadable.items():
            if namespace in ("", where) and (found := self._cached(key)) is not None:
                found.require_sound()

    def _cached(self, key: str) -> StoredObject | None:
        """Returns an object from the cache; None if it is deleted."""
        version = self._cache.get_cached(key)
        return None if version is None else version.value

    # ---- what is served

    async def _follow_table(self) -> None:
        """Run informers for the currently served resources."""
        await self._cache.wait_until_filled()
        resources = Resources(self._served.current, self._registry)
        self.resources = resources
        for prefix in self._waits.keys() - resources.by_prefix.keys():
            self._waits.pop(prefix)()
        for prefix in self._informers.keys() - resources.by_prefix.keys():
            del self._informers[prefix]
            self._informing.pop(prefix).cancel()
            self.queue.add(prefix)
        self._progress.set()
        for prefix in resources.by_prefix.keys() - self._waits.keys():
            self._waits[prefix] = self._cache.on_change(prefix, partial(self._inform, prefix))
            self._inform(prefix)
        for informer in list(self._informers.values()):
            await informer.has_synced.wait()
        if not self._synced.is_set():
            self._synced.set()
            # Until now owners were not looked at as they came: most of them were about to be seen.
            self.queue.add("")
        await self._resolve()
        self._remote_owner_changed.set()

    def _inform(self, prefix: str) -> None:
        """Run an informer for a resource from now on, if it has objects."""
        if prefix not in self._informers and not self._cache.is_empty(prefix):
            self._informers[prefix] = informer = self._informer(prefix)
            self._informing[prefix] = asyncio.create_task(informer.run(), name="garbage-collector")

    async def _note_remote_owners(self) -> None:
        """Resolve owners on other servers, when these may serve their kinds by now."""
        while True:
            await self._remote_owner_changed.wait()
            self._remote_owner_changed.clear()
            if self._synced.is_set():
                async for owner in in_turns(self.graph.owners()):
                    if owner.key.startswith(PREFIX):
                        self.remote_owners.note(owner)

    def _informer(self, prefix: str) -> Informer:
        return Informer(
            ListWatch(self._cache, prefix, selects=self._concerns),
            self._on_object,
            callbacks=InformerCallbacks(
                on_batch=self._progress.set,
                on_failure=self._metrics.count_sync_error,
                on_listed=lambda: self._on_listed(prefix),
            ),
        )

    def _on_listed(self, prefix: str) -> None:
        if self._synced.is_set():
            self.queue.add(prefix)

    async def _resolve(self) -> None:
        """Look up again the owners that could not be looked up."""
        # Each dependent once, however many such owners it has.
        dependents: dict[str, None] = {}
        async for owner in in_turns(self.graph.owners()):
            if owner.key.startswith(PREFIX):
                dependents.update(dict.fromkeys(owner.dependents))
        async for key in in_turns(dependents):
            await self._look_up_again(key)

    # ---- changes

    def _concerns(self, found: StoredObject) -> bool:
        """Returns whether an object is in the graph, belongs there, or has a finalizer of the garbage
        collector.

        An unreadable one may.
        """
        if not found.head:
            return True
        return may_concern_collector(found) or self.graph.is_owner(found.key)

    def _on_object(self, notification: Notification) -> Awaitable[None] | None:
        """Handle a change of an object; returns the remaining work for one with many owners."""
        key, new = notification.key, notification.new
        if self._unreadable or (new is not None and not new.head):
            self._note_unreadable(key, new)
        if new is None:
            if self.graph.is_owner(key):
                self._on_owner_gone(key, notification.old)
            if self._is_linked_in_turns(key):
                return self._in_turn(key, partial(self._unlink_each, key))
            self._link(key, ())
            return None
        is_linked = may_have_owners(new) or self.graph.is_dependent(key)
        is_held = may_wait_for_collector(new)
        if not (is_linked or is_held) or (found := self._ownership(key, new)) is None:
            return None
        rest = self._relink(key, found) if is_linked else None
        if is_held:
            self._on_deleted(key, found)
        return rest

    def _note_unreadable(self, key: str, found: StoredObject | None) -> None:
        """Note whether an object is readable. found: None if it is deleted."""
        place = self.resources.place(key)
        if found is None or found.head:
            self._unreadable.pop(key, None)
        elif place is not None:
            self._unreadable[key] = place.namespace

    def _on_owner_gone(self, key: str, old: StoredObject | None) -> None:
        found = self._ownership(key, old) if old is not None else None
        if found is None:
            self.queue.add(key)  # Only the store can show which of its owners it was.
            return
        owner = self.graph.owner(key, found.uid)
        if owner is not None:
            owner.is_absent = True
            self.queue.add(owner)

    def _on_deleted(self, key: str, found: Ownership) -> None:
        if found.waits_for_dependents:
            self.attempt_to_delete.add(key)
        if found.orphans_dependents:
            self.attempt_to_orphan.add(key)

    def _ownership(self, key: str, found: StoredObject) -> Ownership | None:
        try:
            return ownership(found)
        except (CorruptObject, Malformed) as error:
            log.error("the garbage collector skips %s: %s", key, error)
            return None

    async def _look_up_again(self, key: str) -> None:
        """Look up the owners of a cached dependent again."""
        async with self._link_in_turns(key):
            cached, place = self._cached(key), self.resources.place(key)
            if cached is None:
                await self._unlink_each(key)
            elif place is not None and (found := self._ownership(key, cached)) is not None:
                await self._relink_each(key, place, found)

    def _is_linked_in_turns(self, key: str, owners: int = 0) -> bool:
        """Returns whether an object has too many owners to be linked at once. owners: the current number."""
        return max(owners, self.graph.count_links(key)) > OWNERS_AT_ONCE or key == self._linked_in_turns

    def _relink(self, key: str, found: Ownership) -> Awaitable[None] | None:
        """Note the owners of an object; returns the remaining work, if there are many."""
        place = self.resources.place(key)
        if place is None:
            return None  # It is not served any more, and will be looked at when it is.
        if self._is_linked_in_turns(key, len(found.owners)):
            return self._in_turn(key, partial(self._relink_each, key, place, found))
        names: list[OwnerIdentity] = []
        misplaced: list[OwnerReference] = []
        is_waited_for = False
        for reference in found.owners:
            name, is_misplaced, waits = self._name(place, reference)
            names.append(name)
            is_waited_for = is_waited_for or waits
            if is_misplaced:
                misplaced.append(reference)
        if self._link(key, names):
            for reference in misplaced:
                self._report(place, found, reference)
            if is_waited_for:
                self.attempt_to_delete.add(key)
        return None

    def _name(self, place: ObjectLocation, reference: OwnerReference) -> tuple[OwnerIdentity, bool, bool]:
        """Returns an owner for the graph, whether it is misplaced, and whether it may wait.

        place: that of the dependent.
        """
        owner = self.resources.of_kind(reference.api_version, reference.kind)
        if owner is None:
            return (
                OwnerIdentity(key_of(reference, place.namespace), reference.uid, reference.blocks),
                False,
                False,
            )
        if owner.is_namespaced and not place.namespace:
            nowhere = f"{PREFIX}{reference.api_version} {reference.kind}"
            return OwnerIdentity(nowhere, "", reference.blocks), True, False
        owner_key = self.resources.owner_key(owner, place.namespace, reference.name)
        version = self._cache.get_cached(owner_key)
        if version is None or version.value is None:
            return OwnerIdentity(owner_key, reference.uid, reference.blocks), False, False
        # The cache has the same text, which need not be kept twice.
        return (
            OwnerIdentity(version.key, reference.uid, reference.blocks),
            False,
            may_wait_for_collector(version.value),
        )

    @asynccontextmanager
    async def _link_in_turns(self, key: str) -> AsyncIterator[None]:
        """Wait until the owners of an object may be linked one by one, for one object at a time.

        Code that links all owners at once waits until that is done (`_is_linked_in_turns`).
        """
        async with self._linking:
            self._linked_in_turns = key
            try:
                yield
            finally:
                self._linked_in_turns = None

    async def _in_turn(self, key: str, work: Callable[[], Awaitable[None]]) -> None:
        async with self._link_in_turns(key):
            await work()

    async def _relink_each(self, key: str, place: ObjectLocation, found: Ownership) -> None:
        """Note the owners of an object, as `_relink` does, one by one.

        Meanwhile the graph has some of the new and of the old ones. Only one misplaced owner is reported.
        place: that of the object.
        """
        wanted: set[OwnerIdentity] = set()
        is_waited_for = is_other = False
        async for reference in in_turns(found.owners):
            name, is_misplaced, waits = self._name(place, reference)
            wanted.add(name)
            is_waited_for = is_waited_for or waits
            if self._note(key, self.graph.add(key, name)):
                is_other = True
                if is_misplaced:
                    self._report(place, found, reference)
        async for name in in_turns(self._names(key)):
            if name not in wanted:
                is_other = self._note(key, self.graph.discard(key, name)) or is_other
        if is_other and is_waited_for:
            self.attempt_to_delete.add(key)

    async def _unlink_each(self, key: str) -> None:
        """Note that an object is deleted."""
        async for name in in_turns(self._names(key)):
            self._note(key, self.graph.discard(key, name))

    def _names(self, key: str) -> Iterator[OwnerIdentity]:
        return (OwnerIdentity(link.owner.key, link.owner.uid, link.blocks) for link in self.graph.links(key))

    def _link(self, key: str, names: Iterable[OwnerIdentity]) -> bool:
        """Note the owners of an object; returns whether they have changed."""
        return self._note(key, self.graph.replace(key, names))

    def _note(self, key: str, changes: Changes | None) -> bool:
        """Schedule checks of the changes by an object's owners; returns whether there are any."""
        if changes is None:
            return False
        if changes.names_absent:
            self.attempt_to_delete.add(key)
        if self._synced.is_set():
            for owner in changes.new:
                self.queue.add(owner)
        for owner in changes.unblocked:
            self._on_unblocked(owner)
        return True

    def _on_unblocked(self, owner: Owner) -> None:
        cached = self._cached(owner.key)
        if cached is None or not may_wait_for_collector(cached):
            return
        if (found := self._ownership(owner.key, cached)) is not None:
            self._on_deleted(owner.key, found)

    def _report(self, place: ObjectLocation, found: Ownership, reference: OwnerReference) -> None:
        """Report in an Event that an object names an owner in a place where it cannot be."""
        owner = (
            f"[{reference.api_version}/{reference.kind}, namespace: {place.namespace}, "
            f"name: {reference.name}, uid: {reference.uid}]"
        )
        self._events.warn(
            place.resource,
            place.namespace,
            place.name,
            found.uid,
            reason="OwnerRefInvalidNamespace",
            message=f'ownerRef {owner} does not exist in namespace "{place.namespace}"',
        )

    # ---- looking at what has changed

    async def _reconcile(self, change: Change) -> Outcome:
        if isinstance(change, Owner):
            await self._look_at(change)
        else:
            await self._sweep(change)
        return None

    async def _look_at(self, owner: Owner) -> None:
        """Check the dependents of an owner that is gone, or waits for them."""
        if not owner.has_dependents:
            return
        if owner.key.startswith(PREFIX):
            await self._look_at_remote(owner)
            return
        was_absent = owner.is_absent
        state = await live_state(self._cache, owner)
        if state not in (OwnerState.ABSENT, OwnerState.WAITING):
            return
        if not was_absent and state is OwnerState.ABSENT:
            await self._report_misplaced(owner)
        async for key in in_turns(owner.dependents):
            if state is OwnerState.ABSENT or not self._is_being_deleted(key):
                self.attempt_to_delete.add(key)
                await self.attempt_to_delete.wait_for_room()

    async def _look_at_remote(self, owner: Owner) -> None:
        """Check the dependents of a remote owner by its state, and request the state if it is unknown."""
        state = self.remote_owners.state(owner)
        if state is OwnerState.UNKNOWN:
            self.remote_owners.note(owner)
            return
        async for key in in_turns(owner.dependents):
            # One that has only this owner stays as long as the owner is there.
            if state is not OwnerState.SOLID or self.graph.count_links(key) > 1:
                self.attempt_to_delete.add(key)
                await self.attempt_to_delete.wait_for_room()

    def _is_being_deleted(self, key: str) -> bool:
        cached = self._cached(key)
        if cached is None:
            return True
        if not may_be_deleted(cached):
            return False
        found = self._ownership(key, cached)
        return found is not None and found.is_deleted

    async def _sweep(self, prefix: str) -> None:
        """Check everything in the graph below a prefix, since changes of it may have been missed."""
        async for key in in_turns(list(self._unreadable)):
            if key.startswith(prefix):
                self._note_unreadable(key, self._cached(key))
        async for key in in_turns(self.graph.dependents()):
            if key.startswith(prefix) and self._cache.get_cached(key) is None:
                self._link(key, ())
        async for owner in in_turns(self.graph.owners()):
            if owner.key.startswith(prefix) and not owner.key.startswith(PREFIX):
                try:
                    is_solid = cached_state(self._cache, owner) is OwnerState.SOLID
                except CorruptObject:
                    continue
                if not is_solid:
                    self.queue.add(owner)

    async def _report_misplaced(self, owner: Owner) -> None:
        """Report to the dependents of an absent owner that it exists in another namespace.

        If too many were looked up just now, nothing is reported.
        """
        place = self.resources.place(owner.key)
        if place is None or not place.namespace or not self.looks.are_allowed():
            return
        if not await self._is_elsewhere(place.resource, place.name, owner.uid):
            return
        async for key in in_turns(owner.dependents):
            if (seen := self.look_up(key)) is not None:
                self.looks.note(len(seen.ownership.owners))
                for reference in seen.ownership.owners:
                    if reference.uid == owner.uid:
                        self._report(seen.place, seen.ownership, reference)

    async def _is_elsewhere(self, resource: ServedResource, name: str, uid: str) -> bool:
        """Returns whether an object of this name has this uid in any namespace."""
        namespaces = self._served.require("", "namespaces")
        listing = await self._cache.list(prefix_range(self._registry.prefix_of(namespaces)))
        self.looks.note(len(listing.versions))
        async for each in in_turns(listing.versions):
            namespace = each.key.rpartition("/")[2]
            key = self._registry.key(resource, namespace, name)
            if (cached := self._cached(key)) is not None:
                found = self._ownership(key, cached)
                if found is not None and found.uid == uid:
                    return True
        return False


# ---- what has become of an owner


def cached_state(cache: WatchCache[StoredObject], owner: Owner) -> OwnerState:
    """Returns the state of an owner in the cache. Raises CorruptObject."""
    return _state(cache.get_cached(owner.key), owner)


async def live_state(cache: WatchCache[StoredObject], owner: Owner) -> OwnerState:
    """Returns the state of an owner, whose absence is verified once in the store.

    Raises CorruptObject, and the storage's errors.
    """
    if owner.is_absent:
        return OwnerState.ABSENT
    state = cached_state(cache, owner)
    if state is OwnerState.ABSENT:
        state = _state(await cache.get(owner.key), owner)
        owner.is_absent = state is OwnerState.ABSENT
    return state


def _state(version: KeyVersion[StoredObject] | None, owner: Owner) -> OwnerState:
    if version is None or version.value is None:
        return OwnerState.ABSENT
    try:
        found = ownership(version.value)
    except Malformed:
        return OwnerState.UNKNOWN
    if found.uid != owner.uid:
        return OwnerState.ABSENT
    return OwnerState.WAITING if found.waits_for_dependents else OwnerState.SOLID
