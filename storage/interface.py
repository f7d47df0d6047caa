"""The contract every store keeps, and what each call promises.

A store maps keys (text) to values (bytes) and counts its writes: every write transaction gets the next
*revision* of one counter, and revisions are never given out twice, not even after a crash or once the
history is compacted. The names and meanings are etcd's, so that etcd needs no translation.

All calls are cancellable. A read that is cancelled leaves nothing behind. A write that is cancelled
before it reached the store has not happened; after that it may have.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple, Protocol, Self

# etcd refuses larger requests by default (--max-request-bytes); every store keeps the same bound so that
# data can move from one to another.
VALUE_BYTES_MAX: Final = 1_572_864
# etcd's --max-txn-ops.
TRANSACTION_WRITES_MAX: Final = 128

NO_LEASE: Final = 0


class Stored(NamedTuple):
    """One value as the store holds it."""

    key: str
    value: bytes
    create_revision: int  # the revision at which the key came into being, this time
    mod_revision: int  # the revision of its last write
    lease: int = NO_LEASE


class KeyRange(NamedTuple):
    """The keys from `start` (inclusive) to `end` (exclusive), in byte order."""

    start: str
    end: str

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.start <= key < self.end


class Consistency(enum.Enum):
    """How fresh a read must be when no exact revision is asked for."""

    MOST_RECENT = "most recent"  # sees every write that was answered before the read began
    ANY = "any"  # whatever is at hand; a store without a cache gives the most recent state
    NOT_OLDER_THAN = "not older than"  # at least as new as `ReadAt.revision`
    EXACT = "exact"  # precisely the state at `ReadAt.revision`


class ReadAt(NamedTuple):
    """At which revision a read may be answered: the four meanings of resourceVersion for reads.

    Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions
    """

    consistency: Consistency
    revision: int = 0

    @classmethod
    def exactly(cls, revision: int) -> Self:
        return cls(Consistency.EXACT, revision)

    @classmethod
    def not_older_than(cls, revision: int) -> Self:
        return cls(Consistency.NOT_OLDER_THAN, revision)


MOST_RECENT: Final = ReadAt(Consistency.MOST_RECENT)
ANY: Final = ReadAt(Consistency.ANY)


class Read(NamedTuple):
    """The answer to `Storage.get`: the value, if there is one, and the revision it was read at."""

    stored: Stored | None
    revision: int


class Page(NamedTuple):
    """The answer to `Storage.list`: up to `limit` values in key order, read at one revision."""

    items: Sequence[Stored]
    revision: int
    more: bool  # whether keys of the range behind the last item had a value at `revision`


class Event(NamedTuple):
    """One change of one key. `value` is None when the key was deleted."""

    key: str
    value: bytes | None
    create_revision: int  # 0 for a deletion
    mod_revision: int
    lease: int = NO_LEASE

    @property
    def is_create(self) -> bool:
        return self.value is not None and self.create_revision == self.mod_revision


class EventBatch(NamedTuple):
    """What a watch yields: changes in revision order, whole transactions only.

    revision: everything up to and including it has been delivered, by this batch or an earlier one.
    A batch without events reports progress only.
    """

    events: Sequence[Event]
    revision: int


class Condition(NamedTuple):
    """True while `key` was last written at `mod_revision`; 0 means: while it has no value."""

    key: str
    mod_revision: int


class Put(NamedTuple):
    key: str
    value: bytes
    lease: int = NO_LEASE


class Delete(NamedTuple):
    key: str


class Watch(Protocol):
    """A running watch: iterate over it, and `close` it when done.

    The first batch comes as soon as the watch is established, with or without events.
    Iteration raises `RevisionCompacted` when the start has left the history and `StorageUnavailable`
    when the connection broke; the caller resumes after the last revision it was given.
    """

    def __aiter__(self) -> AsyncIterator[EventBatch]: ...

    async def request_progress(self) -> None:
        """Ask for a batch whose revision is not older than the store's is now.

        It comes through the iteration, with or without events, and only after every event up to its
        revision. A store whose reports cannot be trusted makes sure of this in another way. A store may
        drop a request, so ask again after a while. Raises StorageUnavailable.
        """
        ...

    async def close(self) -> None: ...


class Storage(Protocol):
    """See the module's text. Every method raises `StorageUnavailable` when the store cannot answer."""

    async def current_revision(self) -> int:
        """The store's revision; not older than any write answered before the call began."""
        ...

    async def get(self, key: str, at: ReadAt = MOST_RECENT) -> Read:
        """The value of `key`, or None in its place.

        Raises RevisionCompacted or RevisionTooLarge when `at` names a revision that is gone or to come.
        """
        ...

    async def list(self, keys: KeyRange, at: ReadAt = MOST_RECENT, *, limit: int = 0) -> Page:
        """The values in `keys`, in key order, all of one revision; at most `limit` of them (0: all).

        Raises as `get` does. A next page is `KeyRange(last.key + "\\0", keys.end)` read exactly at the
        revision of the first.
        """
        ...

    async def count(self, keys: KeyRange, at: ReadAt = MOST_RECENT) -> int:
        """How many keys of the range have a value. Raises as `get` does."""
        ...

    async def create(self, key: str, value: bytes, *, lease: int = NO_LEASE) -> int:
        """Write `key` if it has no value; returns the revision.

        Raises KeyExists, ValueTooLarge, LeaseNotFound, StorageFull, OutcomeUnknown.
        """
        ...

    async def compare_and_put(self, key: str, value: bytes, *, expected: int, lease: int = NO_LEASE) -> int:
        """Replace the value last written at `expected`; returns the new revision.

        The value is bound to `lease` from now on (to none, if that is NO_LEASE).
        Raises RevisionMismatch, ValueTooLarge, LeaseNotFound, StorageFull, OutcomeUnknown.
        """
        ...

    async def compare_and_delete(self, key: str, *, expected: int) -> int:
        """Delete the value last written at `expected`; returns the revision of the deletion.

        Raises RevisionMismatch, StorageFull, OutcomeUnknown.
        """
        ...

    async def transact(self, conditions: Sequence[Condition], writes: Sequence[Put | Delete]) -> int:
        """If all conditions hold, do all writes at one revision and return it; else do none.

        Deleting a key without value changes nothing; if no write changes anything the current revision
        is returned. Each key may be written once, and there are at most TRANSACTION_WRITES_MAX writes.
        Raises RevisionMismatch (for the first condition that does not hold), ValueTooLarge,
        LeaseNotFound, StorageFull, OutcomeUnknown.
        """
        ...

    def watch(self, keys: KeyRange, *, after: int) -> Watch:
        """All changes in `keys` with a revision above `after`, each once and in order.

        `after` may lie ahead of the current revision: the watch then waits.
        """
        ...

    async def compact(self, revision: int) -> None:
        """Forget what only reads before `revision` could see; `revision` itself stays readable.

        Compacting to a revision that is already compacted does nothing.
        Raises RevisionTooLarge.
        """
        ...

    async def grant_lease(self, ttl_s: int) -> int:
        """A new lease: keys written with it are deleted when it expires, `ttl_s` from the last renewal."""
        ...

    async def renew_lease(self, lease: int) -> None:
        """Start the lease's time again. Raises LeaseNotFound."""
        ...

    async def revoke_lease(self, lease: int) -> None:
        """End the lease now and delete its keys. Raises LeaseNotFound."""
        ...

    async def check_health(self) -> None:
        """Return if reads and writes can be answered; else raise StorageUnavailable saying why not."""
        ...

    async def close(self) -> None:
        """Let go of everything. Calls in flight may still finish; later ones raise StorageUnavailable."""
        ...
