"""Every failure that storage raises, each a class with its facts as attributes.

    StorageError
    ├── KeyExists              a key to create already has a value
    ├── RevisionMismatch       a key to replace or delete has another revision
    ├── RevisionCompacted      the requested revision has left the history
    ├── RevisionTooLarge       the requested revision is in the future
    ├── RevisionOutOfReach     etcd is too far below a revision to be raised to it
    ├── ValueTooLarge          more bytes than one value may have
    ├── LeaseNotFound          the lease has expired or never was
    ├── StorageUnavailable     the store cannot answer now; nothing was written
    │   └── StorageFull        the store refuses writes until space is freed
    ├── EncryptionFailed       a value cannot be encrypted now; nothing was written
    ├── OutcomeUnknown         a write was cut off: it may have happened, or not
    ├── DataDirectoryError     the embedded store cannot use its files
    ├── SnapshotError          a snapshot cannot be made, read or restored (`storage.snapshot_file`)
    └── CopyError              a store cannot be copied (`storage.store_copy`)

Any other exception out of this package is a bug, here or in the caller.
`apiserver.meta.errors.from_storage` is the one table that turns these into what a client sees.
"""

from __future__ import annotations


class StorageError(Exception):
    """The base class of all storage failures."""


class KeyExists(StorageError):
    """A key that a create writes already has a value, last written at `mod_revision`."""

    def __init__(self, key: str, *, mod_revision: int) -> None:
        super().__init__(f"{key} already exists, written at revision {mod_revision}")
        self.key, self.mod_revision = key, mod_revision


class RevisionMismatch(StorageError):
    """The value was last written at `found` (0: there is none), not at the `expected` revision."""

    def __init__(self, key: str, *, expected: int, found: int) -> None:
        super().__init__(f"{key} is at revision {found}, expected {expected}")
        self.key, self.expected, self.found = key, expected, found


class RevisionCompacted(StorageError):
    """The requested revision has left the history; only a new list can recover."""

    def __init__(self, *, requested: int, oldest: int) -> None:
        super().__init__(f"revision {requested} is gone; the oldest kept is {oldest}")
        self.requested, self.oldest = requested, oldest


class RevisionTooLarge(StorageError):
    """The requested revision is in the future."""

    def __init__(self, *, requested: int, current: int) -> None:
        super().__init__(f"revision {requested} is in the future; the store is at {current}")
        self.requested, self.current = requested, current


class RevisionOutOfReach(StorageError):
    """etcd's revision is too far below the wanted one to be raised by writes."""

    def __init__(self, *, minimum: int, current: int) -> None:
        super().__init__(
            f"etcd is at revision {current}, but the copy must begin at revision {minimum}: first restore a"
            f" snapshot of this etcd with: etcdutl snapshot restore --bump-revision {minimum - current} "
            "--mark-compacted"
        )
        self.minimum, self.current = minimum, current


class ValueTooLarge(StorageError):
    """A value has more bytes than the store accepts."""

    def __init__(self, key: str, *, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"{key}: {size_bytes} bytes are over the limit of {limit_bytes}")
        self.key, self.size_bytes, self.limit_bytes = key, size_bytes, limit_bytes


class LeaseNotFound(StorageError):
    """The lease has expired, was revoked, or never existed."""

    def __init__(self, lease: int) -> None:
        super().__init__(f"lease {lease:x} does not exist")
        self.lease = lease


class StorageUnavailable(StorageError):
    """The store cannot respond now; the operation did not happen."""


class StorageFull(StorageUnavailable):
    """The store has no space left. Reads work, but writes fail until space is freed.

    etcd also accepts deletions, since 3.5.7 and 3.4.20; the embedded store does not.
    """


class EncryptionFailed(StorageError):
    """A value cannot be encrypted, since there is no key for it now; nothing was written."""

    def __init__(self, key: str, cause: str) -> None:
        super().__init__(cause)
        self.key = key


class OutcomeUnknown(StorageError):
    """A write was cut off before its response arrived, and may have happened. Read before you retry."""


class DataDirectoryError(StorageError):
    """The embedded store cannot use its files: in use by another process, damaged, or unreadable."""
