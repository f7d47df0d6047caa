"""The interface of every store, and the guarantees of each call.

A store maps keys (text) to values (bytes) and counts its writes: every write transaction gets the next
*revision* of one counter. No revision is used twice, not even after a crash or after compaction.
The names and meanings are etcd's, so that etcd needs no translation.

All calls can be cancelled. A cancelled read leaves nothing behind. A write that is cancelled before it
reached the store did not happen; after that it may have happened.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple, Protocol, Self

# etcd refuses larger requests by default (--max-request-bytes); every store has the same limit so that data
# can move from one to another.
VALUE_BYTES_MAX: Final = 1_572_864
# etcd's --max-txn-ops. A note takes the place of one write.
TRANSACTION_WRITES_MAX: Final = 128
# Of the note of a transaction: far more than the names of a user and a client take, and little beside values.
NOTE_BYTES_MAX: Final = 64 * 1024

NO_LEASE: Final = 0

# What all encrypted values begin with, and what is said of one where nothing decrypts it.
ENCRYPTED_PREFIX: Final = b"k8s:enc:"
READ_ENCRYPTED: Final = "identity transformer tried to read encrypted data"


class UnreadableValue(bytes):
    """Replaces a value that could not be decrypted: no bytes, and the reason.

    is_temporary: whether it may be possible later.
    """

    cause: str
    is_temporary: bool

    def __new__(cls, cause: str, *, is_temporary: bool) -> Self:
        self = super().__new__(cls)
        self.cause, self.is_temporary = cause, is_temporary
        return self


class Stored(NamedTuple):
    """A key with its value and its revisions, as the store holds them."""

    key: str
    value: bytes
    create_revision: int  # the revision at which the key was created, last if it was deleted in between
    mod_revision: int  # the revision of its last write
    lease: int = NO_LEASE


class KeyRange(NamedTuple):
    """The keys from `start` (inclusive) to `end` (exclusive), in byte order."""

    start: str
    end: str

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.start <= key < self.end


class Consistency(enum.Enum):
    """The required freshness of a read without an exact revision."""

    MOST_RECENT = "most recent"  # sees every write that was answered before the read began
    ANY = "any"  # any state; a store without a cache gives the most recent one
    NOT_OLDER_THAN = "not older than"  # at least as new as `ReadAt.revision`
    EXACT = "exact"  # precisely the state at `ReadAt.revision`


class ReadAt(NamedTuple):
    """The revision at which a read may be answered: one of the four meanings of resourceVersion.

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
    """The result of `Storage.get`: the value, if there is one, and the revision it was read at."""

    stored: Stored | None
    revision: int


class Page(NamedTuple):
    """The result of `Storage.list`: up to `limit` values in key order, read at one revision."""

    items: Sequence[Stored]
    revision: int
    more: bool  # whether the range has more keys with a value at `revision`, behind the last item


class Event(NamedTuple):
    """One write or deletion of one key. `value` is None when the key was deleted.

    note: that of its transaction; empty if it has none. See `Storage.transact`.
    """

    key: str
    value: bytes | None
    create_revision: int  # 0 for a deletion
    mod_revision: int
    lease: int = NO_LEASE
    note: bytes = b""

    @property
    def is_create(self) -> bool:
        return self.value is not None and self.create_revision == self.mod_revision


class EventBatch(NamedTuple):
    """A batch of a watch: events in revision order, never a part of a transaction.

    revision: all events up to and including it have been delivered, by this batch or an earlier one. A batch
        without events only reports progress.
    """

    events: Sequence[Event]
    revision: int


class Condition(NamedTuple):
    """A condition that holds while `key` was last written at `mod_revision`; 0 means while it has no
    value.
    """

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

    The first batch arrives as soon as the watch is established, with or without events.
    Iteration raises `RevisionCompacted` when the start has left the history and `StorageUnavailable`
    when the connection broke; the caller resumes after the last revision it received.
    """

    def __aiter__(self) -> AsyncIterator[EventBatch]: ...

    async def request_progress(self) -> None:
        """Requests a batch whose revision is at least the store's current one.

        The iteration yields it, with or without events, and only after every event up to its revision. A
        store whose reports do not keep this order ensures it in another way. A store may drop a request, so
        ask again after a while. Raises StorageUnavailable.
        """
        ...

    async def close(self) -> None: ...


class Storage(Protocol):
    """A store, as this module describes it; every method raises StorageUnavailable when it cannot respond."""

    async def current_revision(self) -> int:
        """Returns the store's revision, at least that of any write answered before the call began."""
        ...

    async def get(self, key: str, at: ReadAt = MOST_RECENT) -> Read:
        """Returns the value of `key`, or None if there is none, with the revision of the read.

        Raises RevisionCompacted or RevisionTooLarge when the revision in `at` is gone or not reached yet.
        """
        ...

    async def list(self, keys: KeyRange, at: ReadAt = MOST_RECENT, *, limit: int = 0) -> Page:
        """Returns the values in `keys`, in key order, all of one revision; at most `limit` of them (0: all).

        Raises as `get` does. A next page is `KeyRange(last.key + "\\0", keys.end)` read exactly at the
        revision of the first.
        """
        ...

    async def count(self, keys: KeyRange, at: ReadAt = MOST_RECENT) -> int:
        """Returns the number of keys of the range that have a value. Raises as `get` does."""
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

    async def transact(
        self, conditions: Sequence[Condition], writes: Sequence[Put | Delete], *, note: bytes = b""
    ) -> int:
        """Do all writes at one revision and return it, if all conditions hold.

        note: bytes about the transaction, at most NOTE_BYTES_MAX, which watches deliver with its events for
            as long as they can deliver the values. It changes no key and no value. A watch of a part of the
            keys below the server's prefix may lack it.
        Deleting a key without value changes nothing; if no write changes anything the current revision
        is returned; with a note a store may count the transaction all the same. Each key may be written
        once, and there are at most TRANSACTION_WRITES_MAX writes, one less with a note.
        Raises RevisionMismatch (for the first condition that does not hold), ValueTooLarge,
        LeaseNotFound, StorageFull, OutcomeUnknown.
        """
        ...

    def watch(self, keys: KeyRange, *, after: int) -> Watch:
        """Watch all events in `keys` with a revision above `after`, each once and in order.

        `after` may be ahead of the current revision: the watch then waits.
        """
        ...

    async def compact(self, revision: int) -> None:
        """Drop the versions that only reads before `revision` could see; `revision` itself stays readable.

        Compacting to a revision that is already compacted does nothing.
        Raises RevisionTooLarge.
        """
        ...

    async def grant_lease(self, ttl_s: int) -> int:
        """Make a lease: keys written with it are deleted when it expires, `ttl_s` after the last renewal."""
        ...

    async def renew_lease(self, lease: int) -> None:
        """Start the lease's time again. Raises LeaseNotFound."""
        ...

    async def revoke_lease(self, lease: int) -> None:
        """End the lease now and delete its keys. Raises LeaseNotFound."""
        ...

    async def size_bytes(self) -> int:
        """Returns the size of the store's database in bytes, including free pages in its files."""
        ...

    async def check_health(self) -> None:
        """Return if reads and writes work.

        Raises StorageFull if only reads work, and StorageUnavailable if nothing does, with the reason.
        """
        ...

    async def close(self) -> None:
        """Release all resources. Calls in flight may still finish; later ones raise StorageUnavailable."""
        ...
