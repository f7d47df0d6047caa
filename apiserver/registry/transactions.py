"""Writes objects in transactions, with their lease, their allocations and further conditions.

Each write is one transaction, done only if the object is at the revision that its writer has seen. If another
writer of the object was faster, `write_path`, or `delete_path`, begins again on the newer object.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple

from apiserver.meta.vocabulary import Document
from apiserver.registry.allocations import AllocationObserver, ExtraWrites, ObjectAllocations
from apiserver.registry.clock import SYSTEM_CLOCK, Clock
from apiserver.registry.guard import TransactionGuard
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.storage_form import StorageForms
from apiserver.registry.stored_object import StoredObject
from apiserver.storage.errors import LeaseNotFound, RevisionMismatch
from apiserver.storage.interface import NO_LEASE, Condition, Delete, Put, Storage, Stored
from apiserver.storage.lease_manager import LeaseManager

# Of values that never come back, because their transaction failed, no more are kept.
VALUES_MAX: Final = 1024
BYTES_MAX: Final = 8 * 1024 * 1024


class OwnWrites:
    """Remembers values that this server has written, until they return from the store by the cache's watch.

    They are known to be objects, so that they need not be parsed again to verify that, which would be a tenth
    of the work of a write. It is a `stored_version_decoder.KnownValues`: the last value of each key.
    """

    def __init__(self) -> None:
        self._values: OrderedDict[str, bytes] = OrderedDict()  # those written last at the end
        self._bytes = 0

    def add(self, key: str, value: bytes) -> None:
        """Remember a value that is about to be written, and forget the oldest ones beyond the limit."""
        before = self._values.pop(key, b"")
        self._values[key] = value
        self._bytes += len(value) - len(before)
        while len(self._values) > VALUES_MAX or self._bytes > BYTES_MAX:
            _, oldest = self._values.popitem(last=False)
            self._bytes -= len(oldest)

    def take(self, key: str, value: bytes) -> bool:
        """Returns whether exactly this value was written under the key, and forgets it."""
        if self._values.get(key) != value:
            return False
        del self._values[key]
        self._bytes -= len(value)
        return True


class WriteObservers(NamedTuple):
    """Callbacks for metrics of writes.

    allocations: counts the allocations of objects.
    lease_replaced: called for each lease that is replaced by the next one, with how often it was used.
    """

    allocations: AllocationObserver | None = None
    lease_replaced: Callable[[int], None] | None = None


NO_OBSERVERS: Final = WriteObservers()


class Transactions:
    """Writes objects of all resources in transactions.

    prefix: that of all keys. own_writes: records written values. forms: the forms of stored objects.
    note: returns the note about the author of a write, which is stored with it; None without a history.
    """

    def __init__(
        self,
        store: Storage,
        own_writes: OwnWrites,
        forms: StorageForms,
        *,
        prefix: str,
        clock: Clock = SYSTEM_CLOCK,
        observers: WriteObservers = NO_OBSERVERS,
        note: Callable[[], bytes] | None = None,
    ) -> None:
        self._note = note
        self._allocation_observer = observers.allocations
        self._store = store
        self._own_writes = own_writes
        self._forms = forms
        self._prefix = prefix
        self._clock = clock
        self._leases = LeaseManager(store, clock=clock.monotonic, replaced=observers.lease_replaced)

    def allocations(self, resource: ServedResource, key: str) -> ObjectAllocations | None:
        """Returns the allocations of an object, for one write; None if its objects have none."""
        allocator = resource.strategy.allocator
        if allocator is None:
            return None
        return ObjectAllocations(
            self._store,
            allocator,
            prefix=self._prefix,
            owner=key,
            clock=self._clock.time,
            observer=self._allocation_observer,
        )

    # ---- These return awaitables: separate coroutines would be one more to run.

    def create(
        self,
        resource: ServedResource,
        key: str,
        value: bytes,
        guards: Sequence[TransactionGuard],
        extra: ExtraWrites,
    ) -> Coroutine[Any, Any, int]:
        """Stores a new object, and returns its revision.

        Raises KeyExists for `key` or a key of `extra`, and the errors of `guards`.
        """
        value = self._to_be_stored(resource, key, value)

        if ttl_s := resource.strategy.ttl_s:
            return self._with_lease(ttl_s, lambda lease: self._create(key, value, lease, guards, extra))
        return self._create(key, value, NO_LEASE, guards, extra)

    def replace(
        self, resource: ServedResource, key: str, value: bytes, *, expected: int, extra: ExtraWrites
    ) -> Coroutine[Any, Any, int]:
        """Replaces an object, and returns its revision.

        Raises RevisionMismatch, and KeyExists for a key of `extra`.
        """
        value = self._to_be_stored(resource, key, value)
        if extra.writes:
            conditions = (Condition(key, expected), *extra.conditions)
            return self._store.transact(
                conditions, (Put(key, value), *extra.writes), note=self._author_note()
            )
        if ttl_s := resource.strategy.ttl_s:
            return self._with_lease(ttl_s, lambda lease: self._put(key, value, expected, lease))
        return self._put(key, value, expected)

    def mark(
        self, resource: ServedResource, key: str, value: bytes, *, expected: int
    ) -> Coroutine[Any, Any, int]:
        """Replaces an object whose deletion begins, which does not expire any more; raises as `replace`
        does.
        """
        return self._put(key, self._to_be_stored(resource, key, value), expected)

    def _put(self, key: str, value: bytes, expected: int, lease: int = NO_LEASE) -> Coroutine[Any, Any, int]:
        if self._note is None:
            return self._store.compare_and_put(key, value, expected=expected, lease=lease)
        return self._store.transact((Condition(key, expected),), (Put(key, value, lease),), note=self._note())

    def _author_note(self) -> bytes:
        """Returns the note about the author of a write of the running task; empty without a history."""
        return b"" if self._note is None else self._note()

    # ----

    async def _create(
        self, key: str, value: bytes, lease: int, guards: Sequence[TransactionGuard], extra: ExtraWrites
    ) -> int:
        held = [guard.condition for guard in guards]
        writes, note = (Put(key, value, lease), *extra.writes), self._author_note()
        while True:
            conditions = (*held, Condition(key, 0), *extra.conditions)
            try:
                return await self._store.transact(conditions, writes, note=note)
            except RevisionMismatch:
                if not guards:
                    raise
                held = [await guard.renew() for guard in guards]

    async def remove(self, resource: ServedResource, key: str, document: Document, *, expected: int) -> None:
        """Delete the object, together with its allocations.

        document: returns the stored object; only called if the resource has allocations.

        Raises RevisionMismatch.
        """
        allocations = self.allocations(resource, key)
        released = allocations.release(document) if allocations is not None else ()
        if released or self._note is not None:
            writes = (Delete(key), *released)
            await self._store.transact((Condition(key, expected),), writes, note=self._author_note())
        else:
            await self._store.compare_and_delete(key, expected=expected)

    async def stored(self, key: str) -> Stored | None:
        """Returns the current value of the store, past the cache."""
        return (await self._store.get(key)).stored

    async def remove_unread(self, key: str, *, expected: int) -> None:
        """Delete an object that cannot be decoded, without its allocations. Raises RevisionMismatch."""
        await self._store.transact((Condition(key, expected),), (Delete(key),), note=self._author_note())

    async def require(self, key: str, *, expected: int) -> None:
        """Check a revision without writing. Raises RevisionMismatch."""
        await self._store.transact((Condition(key, expected),), ())

    def is_up_to_date(self, resource: ServedResource, stored: StoredObject) -> bool:
        """Whether an object is stored in the version in which its type is stored now."""
        form = self._forms.shared.get(resource.stored_group_resource, resource.storage_form)
        return stored.stored_as == (None if form is None else form.api_version)

    def _to_be_stored(self, resource: ServedResource, key: str, value: bytes) -> bytes:
        """Returns a value in the version in which its type is stored."""
        # The form in which the resource is stored now; None for the hub version.
        form = self._forms.shared.get(resource.stored_group_resource, resource.storage_form)
        if form is not None:
            value = form.of_hub(value)
        self._own_writes.add(key, value)
        return value

    async def _with_lease(self, ttl_s: int, write: Callable[[int], Awaitable[int]]) -> int:
        """Call `write` with a lease."""
        lease = await self._leases.lease_for(ttl_s)
        try:
            return await write(lease)
        except LeaseNotFound:
            # It was revoked, or ended while the machine slept.
            self._leases.forget(lease)
            return await write(await self._leases.lease_for(ttl_s))
