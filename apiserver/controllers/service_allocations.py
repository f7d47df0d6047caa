"""Repairs the allocations of Services: the claims of cluster IPs and node ports, and the IPAddresses.

Services that are written through this server cannot lack them. But users can delete IPAddresses; a store may
have been filled by a release without them, or been repaired by hand; and without a claim, an address would be
assigned a second time. So all Services are compared with all claims and IPAddresses before the server is
ready, and then every INTERVAL_S; a deleted or changed IPAddress is repaired immediately.

As in kube-apiserver it runs whatever controllers run, on every server: each repair is a transaction
conditional on everything that was read, so that two of them do no harm. A value that two Services have cannot
be repaired: an Event reports it. A malformed Service, which the API refuses but a store may have, is skipped,
and keeps all its claims.
Source: kubernetes, pkg/registry/core/service/ipallocator/controller/repairip.go, portallocator/controller.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import orjson

from apiserver.controller_runtime.controller import Controller, Outcome
from apiserver.controller_runtime.informer import Informer, ListWatch, Notification
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.controllers.event_recorder import EventRecorder
from apiserver.controllers.kept_objects import keep_forever
from apiserver.meta.vocabulary import Document
from apiserver.registry.allocations import Allocation, AllocationKeys, AllocationRecord, ResourceAllocator
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.storage.errors import RevisionMismatch, StorageError
from apiserver.storage.event_loop_turns import in_turns
from apiserver.storage.interface import ANY, Condition, Delete, Put, Storage, Stored
from apiserver.storage.keys import after, prefix_range

log = logging.getLogger(__name__)

# As kube-apiserver.
INTERVAL_S: Final = 180.0
BACKOFF: Final = Backoff(base_s=0.1, max_s=60.0)
# Services that are repaired at the same time: the server is not ready before.
REPAIRS_AT_ONCE: Final = 8
# Claims that are read at a time.
PAGE: Final = 500

Key = tuple[str, str]  # namespace and name of a Service


class _Changes(NamedTuple):
    """A repair: the versions that were read, and the necessary writes."""

    conditions: dict[str, Condition]
    writes: list[Put | Delete]

    def see(self, key: str, seen: Stored | None) -> None:
        self.conditions[key] = Condition(key, seen.mod_revision if seen is not None else 0)

    def add(self, key: str, seen: Stored | None, write: Put | Delete) -> None:
        self.see(key, seen)
        self.writes.append(write)


class ServiceAllocationRepair:
    """The controller that repairs the allocations of cluster IPs and node ports.

    prefix: that of all keys. clock: seconds since 1970. failures: the number of failed comparisons.
    """

    def __init__(
        self,
        registry: Registry,
        served: ServedTable,
        store: Storage,
        events: EventRecorder,
        *,
        prefix: str,
        clock: Callable[[], float],
    ) -> None:
        self._registry = registry
        self._served = served
        self._store = store
        self._events = events
        self._keys = AllocationKeys(prefix)
        self._clock = clock
        self.failures = 0
        self.queue: WorkQueue[Key] = WorkQueue("ipaddresses", BACKOFF)

    async def run(self, on_first: Callable[[], None]) -> None:
        """Repair allocations until cancelled. on_first: called once everything has been compared."""
        informers = []
        addresses = self._addresses()
        if addresses is not None:
            source = ListWatch(self._registry.cache, self._registry.prefix_of(addresses), lists=False)
            informers.append(Informer(source, self._on_address, wait_for_room=self.queue.wait_for_room))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._events.run())
            tasks.create_task(Controller(self.queue, self._reconcile, informers=informers).run())
            await keep_forever(self._registry, self._compare, INTERVAL_S, on_first)

    async def _on_address(self, notification: Notification) -> None:
        """Repair the Service that has an address, if the IPAddress is wrong."""
        for found in (notification.old, notification.new):
            if found is None or not found.head:
                continue
            parent = await self._registry.offload.read(found, _parent_of)
            key = _service_of(parent)
            if parent.get("resource") == "services" and await self._lacks_record(key, notification.name):
                self.queue.add(key)

    async def _lacks_record(self, service: Key, address: str) -> bool:
        """Returns whether the IPAddress of a Service's address is missing or wrong, as far as the cache
        knows.
        """
        found = self._cached_service(*service)
        if found is None:
            return False

        def records(service: Document) -> list[AllocationRecord | None]:
            allocator = self._allocator
            given = (each for each in allocator.allocations(service) if each.value == address)
            return [allocator.record(service, each) for each in given]

        for record in await self._registry.offload.read(found, records):
            if not await self._is_recorded(record):
                return True
        return False

    # ---- all of them

    async def _compare(self) -> None:
        try:
            await self.compare()
        except Exception:
            self.failures += 1
            raise

    async def compare(self) -> None:
        """Compare all Services with all claims and IPAddresses, and repair. Raises StorageError."""
        claims = {item.key: item async for item in self._claims()}
        has: set[str] = set()
        wrong: dict[Key, None] = {}
        prefix = self._registry.prefix_of(self._services())
        listing = await self._registry.cache.list(prefix_range(prefix), ANY)
        async for version in in_turns(listing.versions):
            found = version.value
            if found is None or not found.head:
                continue
            with _skipping(found.key):
                owner = self._keys.owner(found.key)
                for each, record in await self._registry.offload.read(found, self._given):
                    claim = claims.get(self._keys.claim(each))
                    has.add(self._keys.claim(each))
                    is_claimed = claim is not None and claim.value == owner
                    if not is_claimed or not await self._is_recorded(record):
                        namespace, _, name = found.key.removeprefix(prefix).rpartition("/")
                        wrong[namespace, name] = None
        await self._repair_all(wrong)
        async for item in in_turns([each for each in claims.values() if each.key not in has]):
            with _skipping(item.key):
                await self._drop_claim(item)
        await self._drop_orphans()

    async def _repair_all(self, services: Iterable[Key]) -> None:
        """Repair the allocations of all Services."""
        left = iter(services)

        async def repair_rest() -> None:
            for each in left:
                await self._repair(each)

        tasks = [asyncio.create_task(repair_rest()) for _ in range(REPAIRS_AT_ONCE)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _claims(self) -> AsyncIterator[Stored]:
        keys = prefix_range(self._keys.claims)
        while True:
            page = await self._store.list(keys, limit=PAGE)
            for item in page.items:
                yield item
            if not page.more:
                return
            keys = keys._replace(start=after(page.items[-1].key))

    async def _drop_claim(self, claim: Stored) -> None:
        """Delete a claim of a value that its owner does not have."""
        owner = claim.value.decode("utf-8", "surrogateescape")
        found = (await self._store.get(owner)).stored
        wanted = self._keys.allocation(claim.key)
        if found is not None and self._may_have(found, claim.key):
            return
        changes = _Changes({}, [])
        changes.see(owner, found)
        changes.add(claim.key, claim, Delete(claim.key))
        log.warning("releasing the %s %s, which no object uses anymore", *wanted)
        await self._commit(changes)

    async def _drop_orphans(self) -> None:
        """Delete the IPAddresses of this server for Services that no longer have them."""
        addresses = self._addresses()
        if addresses is None:
            return
        listing = await self._registry.cache.list(prefix_range(self._registry.prefix_of(addresses)), ANY)
        async for version in in_turns(listing.versions):
            found = version.value
            if found is None or not found.head:
                continue
            with _skipping(found.key):
                if not await self._is_given(found):
                    await self._drop_orphan(found.key)

    async def _is_given(self, address: StoredObject) -> bool:
        """Returns whether the Service that an IPAddress names has it, as far as the cache knows."""
        name, parent = await self._registry.offload.read(
            address, lambda document: (document["metadata"]["name"], _parent_of(document))
        )
        service = self._cached_service(*_service_of(parent))
        if service is None:
            return False
        return await self._registry.offload.read(service, lambda document: self._has_address(document, name))

    async def _drop_orphan(self, key: str) -> None:
        stored, address = await self._stored(key)
        if address is None:
            return
        owner = self._registry.key(self._services(), *_service_of(_parent_of(address)))
        found, service = await self._stored(owner)
        name = address["metadata"]["name"]
        if found is not None and (service is None or self._has_address(service, name)):
            return
        # One that users have created is theirs: it does not name a manager.
        example = self._allocator.record({"metadata": {"name": ""}}, Allocation("clusterip", name, ""))
        if example is None or not _has_labels(address, example):
            return
        changes = _Changes({}, [])
        changes.see(owner, found)
        changes.add(key, stored, Delete(key))
        log.warning("deleting the IPAddress %s, which no Service uses anymore", name)
        await self._commit(changes)

    def _has_address(self, service: Document, address: str) -> bool:
        return any((each.kind, each.value) == ("clusterip", address) for each, _ in self._given(service))

    def _given(self, service: Document) -> list[tuple[Allocation, AllocationRecord | None]]:
        """Returns the allocations of a Service, and their records.

        A malformed one raises any error, ValueError for an invalid address or port.
        """
        given = []
        for each in self._allocator.allocations(service):
            if each.kind == "nodeport" and not each.value.isdecimal():
                raise ValueError(f"{each.field} is not a port")
            given.append((each, self._allocator.record(service, each)))
        return given

    def _may_have(self, service: Stored, claim: str) -> bool:
        """Returns whether a Service may have the value of a claim, as a damaged or malformed one may."""
        document = _decoded(service.value)
        if document is not None:
            with _skipping(service.key):
                return claim in {self._keys.claim(each) for each, _ in self._given(document)}
        return True

    # ---- one of them

    async def _reconcile(self, key: Key) -> Outcome:
        await self._repair(key)
        return None

    async def _repair(self, key: Key) -> None:
        """Create the missing claims and IPAddresses of a Service's allocations. Raises StorageError."""
        owner = self._registry.key(self._services(), *key)
        found, document = await self._stored(owner)
        if document is None:
            return
        changes = _Changes({}, [])
        changes.see(owner, found)
        with _skipping(owner):
            for each, record in self._given(document):
                if not await self._add_claim(owner, each, changes):
                    self._report_duplicate(document, each)
                elif record is not None:
                    await self._add_record(record, changes)
            if changes.writes:
                log.warning("recording the missing allocations of the Service %s/%s", *key)
                await self._commit(changes)

    async def _add_claim(self, owner: str, allocation: Allocation, changes: _Changes) -> bool:
        """Add a claim; returns whether the allocation is the owner's, or can be."""
        key = self._keys.claim(allocation)
        claim = (await self._store.get(key)).stored
        value = self._keys.owner(owner)
        if claim is not None and claim.value == value:
            return True
        if claim is not None:
            other = claim.value.decode("utf-8", "surrogateescape")
            found = (await self._store.get(other)).stored
            if found is not None and self._may_have(found, key):
                return False
            changes.see(other, found)
        changes.add(key, claim, Put(key, value))
        return True

    async def _add_record(self, record: AllocationRecord, changes: _Changes) -> None:
        key = self._keys.record(record)
        stored, address = await self._stored(key)
        if not self._is_right(address, record):
            changes.add(key, stored, Put(key, record.new_value(self._clock())))

    def _report_duplicate(self, service: Document, allocation: Allocation) -> None:
        meta, is_ip = service["metadata"], allocation.kind == "clusterip"
        what = f"Cluster IP {allocation.value}" if is_ip else f"Port {allocation.value}"
        log.error(
            "%s of the Service %s/%s is also assigned to another Service; recreate one of the two Services",
            what,
            meta.get("namespace"),
            meta["name"],
        )
        self._events.warn(
            self._services(),
            meta.get("namespace", ""),
            meta["name"],
            meta.get("uid", ""),
            reason="ClusterIPAlreadyAllocated" if is_ip else "PortAlreadyAllocated",
            message=f"{what} was assigned to multiple services; please recreate service",
        )

    async def _commit(self, changes: _Changes) -> None:
        try:
            await self._store.transact(tuple(changes.conditions.values()), changes.writes)
        except RevisionMismatch:
            log.debug("another server changed the allocations first; comparing again at the next interval")

    # ---- what there is

    async def _stored(self, key: str) -> tuple[Stored | None, Document | None]:
        """Returns the stored value and its document; None if there is no readable one."""
        stored = (await self._store.get(key)).stored
        return stored, None if stored is None else _decoded(stored.value)

    @property
    def _allocator(self) -> ResourceAllocator:
        allocator = self._services().strategy.allocator
        assert allocator is not None
        return allocator

    def _is_right(self, found: Document | None, wanted: AllocationRecord) -> bool:
        if found is None:
            return False
        parent = _parent_of(found)
        expected = {"group": "", **wanted.document["spec"]["parentRef"]}
        is_of_it = all((parent.get(name) or "") == value for name, value in expected.items())
        return is_of_it and _has_labels(found, wanted)

    async def _is_recorded(self, record: AllocationRecord | None) -> bool:
        """Returns whether the required IPAddress, if any, exists, as far as the cache knows."""
        if record is None:
            return True
        found = self._registry.cache.get_cached(self._keys.record(record))
        if found is None or found.value is None or not found.value.head:
            return False
        return await self._registry.offload.read(
            found.value, lambda document: self._is_right(document, record)
        )

    def _cached_service(self, namespace: str, name: str) -> StoredObject | None:
        found = self._registry.cache.get_cached(self._registry.key(self._services(), namespace, name))
        return None if found is None or found.value is None or not found.value.head else found.value

    def _services(self) -> ServedResource:
        return self._served.require("", "services")

    def _addresses(self) -> ServedResource | None:
        record = self._allocator.record({"metadata": {"name": ""}}, Allocation("clusterip", "::", ""))
        return None if record is None else self._served.hub(record.resource.group, "ipaddresses")


@contextmanager
def _skipping(key: str) -> Iterator[None]:
    """Continue with the next object if one is malformed, which only other programs can store."""
    try:
        yield
    except StorageError:
        raise
    except Exception as error:
        log.warning("skipping the malformed object %s: %s: %s", key, type(error).__name__, error)


def _parent_of(address: Document) -> Document:
    """Returns the parent reference of an IPAddress."""
    found: Document = (address.get("spec") or {}).get("parentRef") or {}
    return found


def _service_of(parent: Document) -> Key:
    return parent.get("namespace") or "", parent.get("name") or ""


def _has_labels(found: Document, wanted: AllocationRecord) -> bool:
    labels = found["metadata"].get("labels") or {}
    return bool(wanted.document["metadata"]["labels"].items() <= labels.items())


def _decoded(value: bytes) -> Document | None:
    """Returns a stored document; None if it is unreadable."""
    try:
        document = orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) and isinstance(document.get("metadata"), dict) else None
