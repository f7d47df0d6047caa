"""The tables of a store in memory, without any file, until the store is closed.

It is SQLite's VFS "memdb": connections of this process that name one database share its pages. Unlike with a
write-ahead log no connection can read while another writes, and a connection that meets a lock sleeps for
milliseconds before it tries again. So a group is committed while no read is under way
(`storage.embedded.checkpoint_lock`): that takes microseconds, where a file has its fsync.

A database may begin with the versions of another one that no longer changes. These are not copied: each
connection reads the other database, too, and `versions` is a view of both. New versions, and those that
compaction may delete, are in `main.versions`.

Source: sqlite.org/src/file/src/memdb.c
"""

from __future__ import annotations

import secrets
import sqlite3
from typing import Final, Self

from apiserver.storage.embedded.database import BUSY_TIMEOUT_MS, TABLES, configure
from apiserver.storage.errors import StorageUnavailable

# The first release in which connections share a database of this VFS.
SQLITE_VERSION_MIN: Final = (3, 36, 0)
# Objects of a kilobyte or two leave less of such pages empty than of SQLite's usual ones of half the size: a
# sixth of what a copy takes.
PAGE_BYTES: Final = 8_192
# Pages are in memory already; a connection needs copies only of those that it works on.
WRITER_CACHE_KIB: Final = 128
READER_CACHE_KIB: Final = 32
# A view has one row in them.
TEMP_PAGE_BYTES: Final = 512
# A connection takes room for 20 pages of each database before anybody can say how many it may keep. Once it
# has given that back it takes room for those only: 0.1 MB in place of 0.5.
_SHRINK: Final = "PRAGMA shrink_memory"
# TEMP is for this connection only, and its name hides that of the table.
_BOTH: Final = """
    CREATE TEMP VIEW versions AS SELECT * FROM main.versions UNION ALL SELECT * FROM base.versions
"""
# "base_revision" is where the versions of the other database end: compaction keeps the deletions of its keys.
_BEGIN_WITH_BASE: Final = """
    BEGIN;
    INSERT OR REPLACE INTO main.numbers SELECT * FROM base.numbers;
    INSERT OR REPLACE INTO main.numbers
        SELECT 'base_revision', value FROM base.numbers WHERE name = 'revision';
    INSERT INTO main.leases SELECT * FROM base.leases;
    COMMIT;
"""
# The order of writes is kept; `id` is counted anew.
_COPY: Final = """
    BEGIN;
    INSERT OR REPLACE INTO copy.numbers SELECT * FROM main.numbers WHERE name != 'base_revision';
    INSERT INTO copy.leases SELECT * FROM main.leases;
    INSERT INTO copy.versions (revision, key, create_revision, previous_revision, lease, value, note)
        SELECT revision, key, create_revision, previous_revision, lease, value, note FROM versions
        ORDER BY revision, id;
    COMMIT;
"""


class MemoryDatabase:
    """The database of one embedded store, in the memory of this process until `close`.

    SQLite lets it grow to 1 GiB, and then reports a full disk.
    Raises StorageUnavailable if SQLite is too old for it.
    """

    log_path = None
    commits_exclude_reads = True

    def __init__(self, base: MemoryDatabase | None = None) -> None:
        """base: the complete, immutable copy that it begins with, which may be closed before this one."""
        if sqlite3.sqlite_version_info < SQLITE_VERSION_MIN:
            raise StorageUnavailable(
                f"a store in memory needs SQLite {'.'.join(map(str, SQLITE_VERSION_MIN))} or later; "
                f"this Python has {sqlite3.sqlite_version}"
            )
        # The slash makes it one for all connections.
        self._uri = f"file:/apiserver-{secrets.token_hex(8)}?vfs=memdb"
        self._base: str | None = None  # its URI
        # It is there for as long as a connection is.
        self._keeper = self._connect(READER_CACHE_KIB)
        self._keeper.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        self._keeper.execute("PRAGMA auto_vacuum = INCREMENTAL")
        self._keeper.executescript(f"BEGIN; {TABLES} COMMIT;")
        if base is not None:
            assert base._base is None
            # Read-only, so that no transaction locks it for others that begin with it.
            self._base = f"{base._uri}&mode=ro"
            self._attach_base(self._keeper)
            self._keeper.executescript(_BEGIN_WITH_BASE)
            self._keeper.execute(_SHRINK)

    @classmethod
    def copy_of(cls, connection: sqlite3.Connection) -> Self:
        """Returns an independent copy, at one revision, of the data that a connection to any embedded store
        reads.

        The connection must not be in a transaction, and must not be used for anything else afterwards.
        """
        copy = cls()
        try:
            connection.execute("ATTACH ? AS copy", (copy._uri,))
            connection.execute("PRAGMA query_only = OFF")
            connection.executescript(_COPY)
        except BaseException:
            copy.close()
            raise
        return copy

    def continue_at(self, revision: int) -> None:
        """Makes a database that is not open yet continue above a revision that clients may have seen.

        As in a restored store, earlier revisions cannot be read any more: clients that ask for one must list
        again. Revisions of objects do not change.
        """
        self._keeper.execute(
            "UPDATE numbers SET value = max(value, ?) WHERE name IN ('revision', 'compacted')", (revision,)
        )

    @property
    def revision(self) -> int:
        """The revision that the database has reached; no writer may be connected."""
        found: int = self._keeper.execute("SELECT value FROM numbers WHERE name = 'revision'").fetchone()[0]
        return found

    def connect_writer(self) -> sqlite3.Connection:
        """Open the one connection that writes; one thread at a time may use it."""
        return self._connect(WRITER_CACHE_KIB)

    def connect_reader(self) -> sqlite3.Connection:
        connection = self._connect(READER_CACHE_KIB)
        connection.execute("PRAGMA query_only = ON")
        return connection

    def keep_reserve(self) -> None:
        """Does nothing, as there is no disk."""

    def release_reserve(self) -> None:
        """Does nothing, as there is no reserve."""

    def close(self) -> None:
        """Discard the database; other connections must be closed before."""
        self._keeper.close()

    def _connect(self, cache_kib: int) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._uri, uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY_TIMEOUT_MS / 1000
        )
        configure(connection, cache_kib)
        if self._base is not None:
            self._attach_base(connection)
        connection.execute(_SHRINK)
        return connection

    def _attach_base(self, connection: sqlite3.Connection) -> None:
        """Make a connection, which already has tables, read both databases."""
        connection.execute("ATTACH ? AS base", (self._base,))
        connection.execute(f"PRAGMA base.cache_size = -{READER_CACHE_KIB}")
        # Of the database of temporary tables, which is made now.
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA page_size = {TEMP_PAGE_BYTES}")
        connection.execute(_BOTH)
