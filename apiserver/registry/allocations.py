"""Allocations: what one object has and no other may have, as the address of a Service in the cluster.

Each allocation has a store key of its own, which is created in the same transaction as the object that has
it, and deleted with it. So two objects cannot have the same, whichever servers they are written through,
and nothing is left behind that somebody would have to repair.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, Final, NamedTuple, Protocol

from apiserver.field_errors import FieldError
from apiserver.vocabulary import Document
from storage.interface import TRANSACTION_WRITES_MAX, Condition, Delete, Put, Storage
from storage.keys import INTERNAL_GROUP, prefix_range

# Another value is tried so often before the store is asked for everything that is allocated.
BLIND_ATTEMPTS_MAX: Final = 4
ATTEMPTS_MAX: Final = 8
# The object itself, its namespace, and something to spare.
ALLOCATIONS_MAX: Final = TRANSACTION_WRITES_MAX - 8


class Allocation(NamedTuple):
    """kind: of the pool, as `clusterip`. value: which of it. field: where the object has it, for errors."""

    kind: str
    value: str
    field: str


class AllocationKey(NamedTuple):
    """Identifies an allocation among those of all objects."""

    kind: str
    value: str


class Allocator(Protocol):
    """How objects of one resource get allocations. Pure; documents are of the hub version.

    A request is something that has to be chosen for an object; what it is made of is the allocator's
    business.
    """

    def allocations(self, document: Document) -> Sequence[Allocation]:
        """Returns what an object has."""
        ...

    def requests(self, document: Document, *, is_new: bool) -> Sequence[Any]:
        """Returns what has to be chosen for it."""
        ...

    def choose(self, request: Any, taken: Container[AllocationKey]) -> Allocation | None:
        """Returns something of the pool that is not among `taken`; None if nothing is left."""
        ...

    def assign(self, document: Document, request: Any, value: str) -> None:
        """Write what was chosen into the object."""
        ...

    def refusal(self, document: Document, allocation: Allocation) -> FieldError | None:
        """Returns why an object may not ask for something, whoever has it now."""
        ...

    def conflict(self, document: Document, allocation: Allocation) -> FieldError:
        """Returns the error for something that another object has."""
        ...

    def exhausted(self, request: Any) -> FieldError:
        """Returns the error for a pool of which nothing is left."""
        ...

    def too_many(self, document: Document) -> FieldError:
        """Returns the error for an object with more than ALLOCATIONS_MAX."""
        ...


class ExtraWrites(NamedTuple):
    """What a write adds to its transaction."""

    conditions: tuple[Condition, ...] = ()
    writes: tuple[Put | Delete, ...] = ()


NO_EXTRA_WRITES: Final = ExtraWrites()


class AllocationRefused(Exception):
    """What an object asks for cannot be had."""

    def __init__(self, error: FieldError) -> None:
        super().__init__(str(error))
        self.error = error


class ObjectAllocations:
    """The allocations of one object, through the attempts of one write.

    prefix: of all keys. owner: the object's key.
    """

    def __init__(self, store: Storage, allocator: Allocator, *, prefix: str, owner: str) -> None:
        self._store = store
        self._allocator = allocator
        # The folder's name is part of what is stored.
        self._prefix = f"{prefix}/{INTERNAL_GROUP}/claims"
        self._owner = owner
        self._attempts = 0
        self._taken: set[AllocationKey] = set()  # that we know of
        self._asked: set[str] = set()  # keys of what the last document named itself
        self._document: Document = {}
        self._added: dict[str, Allocation] = {}

    async def allocate(self, document: Document, old: Document | None, *, is_dry_run: bool) -> ExtraWrites:
        """Choose what `document` requests, put it in, and return what its write needs.

        old: None for a new object. Raises AllocationRefused, and the storage's errors.
        """
        allocator = self._allocator
        named = allocator.allocations(document)
        had = {self._key(each) for each in allocator.allocations(old)} if old is not None else set()
        for each in named:
            # What it has it keeps, though the pool may be another by now.
            if self._key(each) not in had and (error := allocator.refusal(document, each)):
                raise AllocationRefused(error)
        self._asked = {self._key(each) for each in named}
        own = {AllocationKey(each.kind, each.value) for each in named}
        for request in allocator.requests(document, is_new=old is None):
            chosen = allocator.choose(request, self._taken | own)
            if chosen is None:
                raise AllocationRefused(allocator.exhausted(request))
            allocator.assign(document, request, chosen.value)
            own.add(AllocationKey(chosen.kind, chosen.value))
        has = {self._key(each): each for each in allocator.allocations(document)}
        if len(has) + len(had) > ALLOCATIONS_MAX:
            raise AllocationRefused(allocator.too_many(document))
        self._document = document
        self._added = {key: each for key, each in has.items() if key not in had}
        if is_dry_run:
            for key, each in self._added.items():
                if key in self._asked and (await self._store.get(key)).stored is not None:
                    raise AllocationRefused(allocator.conflict(document, each))
        return ExtraWrites(
            tuple(Condition(key, 0) for key in self._added),
            (
                *(Put(key, self._owner.encode("utf-8", "surrogateescape")) for key in self._added),
                *_deletes(had - has.keys()),
            ),
        )

    async def may_retry(self, key: str) -> bool:
        """Returns whether a write failed because another object has `key`, and another value may be tried.

        Raises AllocationRefused if the object asks for that very one, or has no luck; and the storage's
        errors.
        """
        lost = self._added.get(key)
        if lost is None:
            return False
        self._attempts += 1
        if key in self._asked or self._attempts == ATTEMPTS_MAX:
            raise AllocationRefused(self._allocator.conflict(self._document, lost))
        self._taken.add(AllocationKey(lost.kind, lost.value))
        if self._attempts >= BLIND_ATTEMPTS_MAX:
            folder = f"{self._prefix}/{lost.kind}/"
            page = await self._store.list(prefix_range(folder))
            self._taken |= {AllocationKey(lost.kind, item.key.removeprefix(folder)) for item in page.items}
        return True

    def release(self, document: Document) -> tuple[Delete, ...]:
        """Returns what goes with the removal of `document`."""
        return _deletes({self._key(each) for each in self._allocator.allocations(document)})

    def _key(self, allocation: Allocation) -> str:
        return f"{self._prefix}/{allocation.kind}/{allocation.value}"


def _deletes(keys: set[str]) -> tuple[Delete, ...]:
    return tuple(Delete(key) for key in sorted(keys))
