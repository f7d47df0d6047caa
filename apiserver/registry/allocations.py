"""Manages allocations: values that no two objects may have, as the cluster IP of a Service.

Each allocation has its own key in the store, its *claim*, which is created in the same transaction as the
object that has it, and deleted with it. So two objects cannot have the same value, whichever servers they are
written through, and nothing is left behind. Some have a *record*, too: an object that clients see (an
IPAddress), and that may exist already, for another object. Clients may delete records; the claim holds
nevertheless.

A manually repaired store may lack claims, or have claims that no object uses;
`controllers.service_allocations` finds and repairs that.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Container, Sequence
from typing import Any, Final, NamedTuple, Protocol

from apiserver.meta import timestamps
from apiserver.meta.field_errors import FieldError
from apiserver.meta.vocabulary import Document, GroupResource, IPAddress, IPNetwork
from apiserver.registry.stored_object import encode, head_of
from apiserver.storage.interface import TRANSACTION_WRITES_MAX, Condition, Delete, Put, Storage
from apiserver.storage.keys import INTERNAL_GROUP, prefix_range, resource_prefix

# Another value is tried so often before the store is asked for everything that is allocated.
BLIND_ATTEMPTS_MAX: Final = 4
ATTEMPTS_MAX: Final = 8
# The object itself, its namespace, and something to spare.
ALLOCATIONS_MAX: Final = TRANSACTION_WRITES_MAX - 8


class Allocation(NamedTuple):
    """One value of a pool that an object has, or requests.

    kind: names the pool, as `clusterip`. field: where the object has the value, for errors.
    """

    kind: str
    value: str
    field: str


class AllocationKey(NamedTuple):
    """Identifies an allocation among those of all objects."""

    kind: str
    value: str


class AddressRange(NamedTuple):
    """The addresses of a network that objects may be given, as numbers; none if `last` is less than `first`.

    They exclude the network's own address, and the broadcast address of IPv4. Source:
    pkg/registry/core/service/ipallocator/ipallocator.go, NewIPAllocator and hostsPerNetwork.
    """

    first: int
    last: int

    @classmethod
    def of(cls, network: IPNetwork) -> AddressRange:
        has_broadcast = network.version == 4
        return cls(int(network.network_address) + 1, int(network.broadcast_address) - has_broadcast)

    @property
    def size(self) -> int:
        return max(0, self.last - self.first + 1)

    def has(self, address: IPAddress) -> bool:
        """Whether an address, which is of the network's family, is in the range."""
        return self.first <= int(address) <= self.last


class AllocationRecord(NamedTuple):
    """The object by which clients see an allocation: its document, without the fields that every new object
    gets.

    owner: the managedFields entry of a new record, without its time; it is the same for all.
    """

    resource: GroupResource
    document: Document
    owner: Document

    @property
    def name(self) -> str:
        return str(self.document["metadata"]["name"])

    def new_value(self, now: float) -> bytes:
        """Returns the stored form of a new record. now: seconds since 1970."""
        time = timestamps.to_text(now)
        meta = {
            **self.document["metadata"],
            "uid": str(uuid.uuid4()),
            "creationTimestamp": time,
            "managedFields": [{**self.owner, "time": time}],
        }
        head = head_of(self.document["apiVersion"], self.document["kind"])
        return encode({**self.document, "metadata": meta}, head)


class AllocationKeys:
    """The store keys of claims and records. prefix: that of all keys."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        # The folder's name is part of what is stored.
        self.claims = f"{prefix}/{INTERNAL_GROUP}/claims/"

    def claim(self, allocation: Allocation | AllocationKey) -> str:
        return f"{self.claims}{allocation.kind}/{allocation.value}"

    def allocation(self, claim: str) -> AllocationKey:
        """Returns the allocation that the key of a claim identifies."""
        kind, _, value = claim.removeprefix(self.claims).partition("/")
        return AllocationKey(kind, value)

    def record(self, record: AllocationRecord) -> str:
        return f"{resource_prefix(self._prefix, *record.resource)}{record.name}"

    def owner(self, key: str) -> bytes:
        """Returns the value of a claim for the object at `key`."""
        return key.encode("utf-8", "surrogateescape")


class ResourceAllocator(Protocol):
    """Chooses the allocations of one resource's objects. Pure; documents are of the hub version.

    A request is a value that has to be chosen for an object; its type is up to the allocator.
    """

    def allocations(self, document: Document) -> Sequence[Allocation]:
        """Returns the allocations that an object has."""
        ...

    def record(self, document: Document, allocation: Allocation) -> AllocationRecord | None:
        """Returns the record by which clients see an allocation, if there is one."""
        ...

    def requests(self, document: Document, *, is_new: bool) -> Sequence[Any]:
        """Returns the requests for values that have to be chosen."""
        ...

    def choose(self, request: Any, taken: Container[AllocationKey]) -> Allocation | None:
        """Returns a value of the pool that is not among `taken`; None if none is left."""
        ...

    def assign(self, document: Document, request: Any, value: str) -> None:
        """Writes a chosen value into the object."""
        ...

    def refusal(self, document: Document, allocation: Allocation) -> FieldError | None:
        """Returns why an object must not request a value, whether the value is free or not."""
        ...

    def conflict(self, document: Document, allocation: Allocation) -> FieldError:
        """Returns the error for a value that another object has."""
        ...

    def exhausted(self, request: Any) -> FieldError:
        """Returns the error for an exhausted pool."""
        ...

    def too_many(self, document: Document) -> FieldError:
        """Returns the error for an object with more than ALLOCATIONS_MAX."""
        ...


class AllocationObserver(Protocol):
    """Counts allocations. is_static: whether the object requested a specific value."""

    def allocated(self, allocation: Allocation, seconds: float, *, is_static: bool) -> None:
        """Counts an allocation that was stored. seconds: how long the allocation took."""
        ...

    def failed(self, allocation: Allocation, *, is_static: bool) -> None:
        """Counts a failed allocation; if a pool is exhausted, for any one of its values."""
        ...


class ExtraWrites(NamedTuple):
    """The writes that allocations add to the transaction of an object."""

    conditions: tuple[Condition, ...] = ()
    writes: tuple[Put | Delete, ...] = ()


NO_EXTRA_WRITES: Final = ExtraWrites()


class AllocationRefused(Exception):
    """The allocations that an object requests cannot be made."""

    def __init__(self, error: FieldError) -> None:
        super().__init__(str(error))
        self.error = error


class ObjectAllocations:
    """The allocations of one object, through the attempts of one write.

    prefix: that of all keys. owner: the object's key. clock: seconds since 1970.
    observer: is not called for dry runs.
    """

    def __init__(
        self,
        store: Storage,
        allocator: ResourceAllocator,
        *,
        prefix: str,
        owner: str,
        clock: Callable[[], float],
        observer: AllocationObserver | None = None,
    ) -> None:
        self._store = store
        self._allocator = allocator
        self._keys = AllocationKeys(prefix)
        self._owner = owner
        self._clock = clock
        self._observer = observer
        self._began = clock()
        self._attempts = 0
        self._taken: set[AllocationKey] = set()  # that we know of
        self._asked: set[str] = set()  # keys of what the last document named itself
        self._document: Document = {}
        # What the last write would have added, by the keys of claims, and of records.
        self._added: dict[str, Allocation] = {}
        self._recorded: dict[str, Allocation] = {}

    async def allocate(self, document: Document, old: Document | None, *, is_dry_run: bool) -> ExtraWrites:
        """Choose the values that `document` requests, set them, and return the writes that they need.

        old: None for a new object. Raises AllocationRefused, and the storage's errors.
        """
        allocator = self._allocator
        named = allocator.allocations(document)
        had = {self._keys.claim(each): each for each in allocator.allocations(old)} if old is not None else {}
        for each in named:
            # What it has it keeps, though the pool may be another by now.
            if self._keys.claim(each) not in had and (error := allocator.refusal(document, each)):
                self._failed(each, is_static=True, is_dry_run=is_dry_run)
                raise AllocationRefused(error)
        self._asked = {self._keys.claim(each) for each in named}
        own = {AllocationKey(each.kind, each.value) for each in named}
        for request in allocator.requests(document, is_new=old is None):
            chosen = allocator.choose(request, self._taken | own)
            if chosen is None:
                if (example := allocator.choose(request, frozenset())) is not None:
                    self._failed(example, is_static=False, is_dry_run=is_dry_run)
                raise AllocationRefused(allocator.exhausted(request))
            allocator.assign(document, request, chosen.value)
            own.add(AllocationKey(chosen.kind, chosen.value))
        has = {self._keys.claim(each): each for each in allocator.allocations(document)}
        if len(has) + len(had) > ALLOCATIONS_MAX:
            raise AllocationRefused(allocator.too_many(document))
        self._document = document
        self._added = {key: each for key, each in has.items() if key not in had}
        records = {
            self._keys.record(record): (each, record)
            for each in self._added.values()
            if (record := allocator.record(document, each)) is not None
        }
        self._recorded = {key: each for key, (each, _) in records.items()}
        if is_dry_run:
            await self._require_free(document)
        gone = [each for key, each in had.items() if key not in has]
        now = self._clock()
        return ExtraWrites(
            tuple(Condition(key, 0) for key in (*self._added, *records)),
            (
                *(Put(key, self._keys.owner(self._owner)) for key in self._added),
                *(Put(key, record.new_value(now)) for key, (_, record) in records.items()),
                *self._deletes(old or {}, gone),
            ),
        )

    async def _require_free(self, document: Document) -> None:
        """Require that no other object has a value that the document itself names."""
        for key, each in (*self._added.items(), *self._recorded.items()):
            is_asked = self._keys.claim(each) in self._asked
            if is_asked and (await self._store.get(key)).stored is not None:
                raise AllocationRefused(self._allocator.conflict(document, each))

    async def may_retry(self, key: str) -> bool:
        """Returns whether a write failed because another object has `key`, and another value may be tried.

        Raises AllocationRefused if the object requested that value, or after too many attempts; and the
        storage's errors.
        """
        lost = self._added.get(key) or self._recorded.get(key)
        if lost is None:
            return False
        self._attempts += 1
        self._failed(lost, is_static=self._keys.claim(lost) in self._asked, is_dry_run=False)
        if self._keys.claim(lost) in self._asked or self._attempts == ATTEMPTS_MAX:
            raise AllocationRefused(self._allocator.conflict(self._document, lost))
        self._taken.add(AllocationKey(lost.kind, lost.value))
        if self._attempts >= BLIND_ATTEMPTS_MAX:
            # All claims of the kind, and all records without a claim.
            folder = key.removesuffix(lost.value)
            page = await self._store.list(prefix_range(folder))
            self._taken |= {AllocationKey(lost.kind, item.key.removeprefix(folder)) for item in page.items}
        return True

    def stored(self) -> None:
        """Note that the last result of `allocate` has been written."""
        if self._observer is not None:
            seconds = max(0.0, self._clock() - self._began)
            for key, each in self._added.items():
                self._observer.allocated(each, seconds, is_static=key in self._asked)

    def _failed(self, allocation: Allocation, *, is_static: bool, is_dry_run: bool) -> None:
        if self._observer is not None and not is_dry_run:
            self._observer.failed(allocation, is_static=is_static)

    def release(self, document: Document) -> tuple[Delete, ...]:
        """Returns the writes that accompany the removal of `document`."""
        return self._deletes(document, self._allocator.allocations(document))

    def _deletes(self, document: Document, gone: Sequence[Allocation]) -> tuple[Delete, ...]:
        """Returns the writes that delete the allocations of `document`."""
        keys = {self._keys.claim(each) for each in gone}
        records = (self._allocator.record(document, each) for each in gone)
        keys.update(self._keys.record(record) for record in records if record is not None)
        return tuple(Delete(key) for key in sorted(keys))
