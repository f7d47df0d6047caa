"""What objects hold exclusively: a key of its own for each thing, written together with the object.

Whoever writes an object that holds an address also creates the address's key, in the same transaction; who
lets go of it deletes the key. So two objects cannot have the same, whichever servers they are written
through, and nothing is left behind that somebody would have to repair.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, Final, NamedTuple, Protocol

from apiserver.field_errors import FieldError
from apiserver.vocabulary import Document
from storage.interface import TRANSACTION_WRITES_MAX, Condition, Delete, Put, Storage
from storage.keys import INTERNAL_GROUP, prefix_range

# Something else is tried so often before the store is asked for everything that is taken.
BLIND_ATTEMPTS_MAX: Final = 4
ATTEMPTS_MAX: Final = 8
# The object itself, its namespace, and something to spare.
ALLOCATIONS_MAX: Final = TRANSACTION_WRITES_MAX - 8


class Allocation(Protocol):
    """Something that one object has, and no other may have.

    kind: of what there is a pool. value: which one. field: where it stands, for errors.
    """

    @property
    def kind(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def field(self) -> str: ...


class Taken(NamedTuple):
    """What a claim is about."""

    kind: str
    value: str


class Allocator(Protocol):
    """How objects of one resource hold things. Pure; documents are in stored form.

    A want is something that has to be chosen for an object; what it is made of is its maker's business.
    """

    def claims(self, document: Document) -> Sequence[Allocation]:
        """What an object holds."""
        ...

    def allocation_requests(self, document: Document, *, is_new: bool) -> Sequence[Any]:
        """What has to be chosen for it."""
        ...

    def choose(self, want: Any, taken: Container[Taken]) -> Allocation | None:
        """Something of the pool that is not among `taken`; None if nothing is left."""
        ...

    def assign(self, document: Document, want: Any, value: str) -> None: ...

    def not_to_be_had(self, document: Document, claim: Allocation) -> FieldError | None:
        """Why an object may not ask for something, whoever has it now."""
        ...

    def is_taken(self, document: Document, claim: Allocation) -> FieldError:
        """The error for something that another object has."""
        ...

    def exhausted(self, want: Any) -> FieldError: ...

    def too_many(self, document: Document) -> FieldError:
        """The error for an object that holds more than HELD_MAX."""
        ...


class Change(NamedTuple):
    """What a write adds to its transaction."""

    conditions: tuple[Condition, ...] = ()
    writes: tuple[Put | Delete, ...] = ()


NO_EXTRA_WRITES: Final = Change()


class Refused(Exception):
    """What an object asks for cannot be had."""

    def __init__(self, error: FieldError) -> None:
        super().__init__(str(error))
        self.error = error


class ObjectAllocations:
    """One object on its way to what it wants, through the attempts of one write.

    prefix: of all keys. owner: the object's key.
    """

    def __init__(self, store: Storage, allocator: Allocator, *, prefix: str, owner: str) -> None:
        self._store = store
        self._allocator = allocator
        self._prefix = f"{prefix}/{INTERNAL_GROUP}/claims"
        self._owner = owner
        self._attempts = 0
        self._taken: set[Taken] = set()  # that we know of
        self._asked: set[str] = set()  # keys of what the last document named itself
        self._document: Document = {}
        self._added: dict[str, Allocation] = {}

    async def fill(self, document: Document, old: Document | None, *, is_dry_run: bool) -> Change:
        """Choose what `document` wants, put it in, and tell what its write needs. old: None for a new one.

        Raises Refused, and the storage's errors.
        """
        allocator = self._allocator
        named = allocator.claims(document)
        had = {self._key(claim) for claim in allocator.claims(old)} if old is not None else set()
        for claim in named:
            # What it has it keeps, though the pool may be another by now.
            if self._key(claim) not in had and (error := allocator.not_to_be_had(document, claim)):
                raise Refused(error)
        self._asked = {self._key(claim) for claim in named}
        own = {Taken(claim.kind, claim.value) for claim in named}
        for want in allocator.allocation_requests(document, is_new=old is None):
            chosen = allocator.choose(want, self._taken | own)
            if chosen is None:
                raise Refused(allocator.exhausted(want))
            allocator.assign(document, want, chosen.value)
            own.add(Taken(chosen.kind, chosen.value))
        held = {self._key(claim): claim for claim in allocator.claims(document)}
        if len(held) + len(had) > ALLOCATIONS_MAX:
            raise Refused(allocator.too_many(document))
        self._document = document
        self._added = {key: claim for key, claim in held.items() if key not in had}
        if is_dry_run:
            for key, claim in self._added.items():
                if key in self._asked and (await self._store.get(key)).stored is not None:
                    raise Refused(allocator.is_taken(document, claim))
        return Change(
            tuple(Condition(key, 0) for key in self._added),
            (
                *(Put(key, self._owner.encode("utf-8", "surrogateescape")) for key in self._added),
                *self._deletes(had - held.keys()),
            ),
        )

    async def may_retry(self, key: str) -> bool:
        """Whether a write failed because somebody else has `key`: then it may try again with another choice.

        Raises Refused if the object asks for that one, or has no luck; and the storage's errors.
        """
        claim = self._added.get(key)
        if claim is None:
            return False
        self._attempts += 1
        if key in self._asked or self._attempts == ATTEMPTS_MAX:
            raise Refused(self._allocator.is_taken(self._document, claim))
        self._taken.add(Taken(claim.kind, claim.value))
        if self._attempts >= BLIND_ATTEMPTS_MAX:
            folder = f"{self._prefix}/{claim.kind}/"
            page = await self._store.list(prefix_range(folder))
            self._taken |= {Taken(claim.kind, item.key.removeprefix(folder)) for item in page.items}
        return True

    def release(self, document: Document) -> tuple[Delete, ...]:
        """What goes with the removal of `document`."""
        return self._deletes({self._key(claim) for claim in self._allocator.claims(document)})

    def _key(self, claim: Allocation) -> str:
        return f"{self._prefix}/{claim.kind}/{claim.value}"

    def _deletes(self, keys: set[str]) -> tuple[Delete, ...]:
        return tuple(Delete(key) for key in sorted(keys))
