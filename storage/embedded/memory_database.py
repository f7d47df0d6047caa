"""The tables of a store in memory, without any file: gone when the store is closed.

It is SQLite's VFS "memdb": connections of this process that name one database share its pages. Unlike with a
write-ahead log nobody reads while another writes, and whoever meets a lock sleeps for milliseconds and tries
again. So a group is committed while no read is under way (`storage.embedded.checkpoint_lock`): that takes
microseconds, where a file has its fsync.

Source: sqlite.org/src/file/src/memdb.c
"""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
from typing import Final

from storage.embedded.database import BUSY_TIMEOUT_MS, TABLES, configure
from storage.errors import StorageUnavailable

# The first release in which connections share a database of this VFS.
SQLITE_VERSION_MIN: Final = (3, 36, 0)
# Objects of a kilobyte or two leave less of such pages empty than of SQLite's usual ones of half the size: a
# sixth of what a fork's copy takes.
PAGE_BYTES: Final = 8_192
# Pages are in memory already; a connection needs copies only of those that it works on.
WRITER_CACHE_KIB: Final = 128
READER_CACHE_KIB: Final = 32
# Where a file says which journal who writes and who reads it needs: 2 is a write-ahead log, 1 is none.
# Source: sqlite.org/fileformat2.html, "The Database Header".
_JOURNAL_BYTES: Final = slice(18, 20)


class MemoryDatabase:
    """The database of one embedded store, in the memory of this process until `close`.

    SQLite lets it grow to 1 GiB, and then says that the disk is full.
    Raises StorageUnavailable if SQLite is too old for it.
    """

    log_path = None
    commits_exclude_reads = True

    def __init__(self, source: sqlite3.Connection | None = None) -> None:
        """source: whose database it is a copy of; without, it is empty."""
        if sqlite3.sqlite_version_info < SQLITE_VERSION_MIN:
            raise StorageUnavailable(
                f"a store in memory needs SQLite {'.'.join(map(str, SQLITE_VERSION_MIN))} or later; "
                f"this Python has {sqlite3.sqlite_version}"
            )
        # The slash makes it one for all connections.
        self._uri = f"file:/apiserver-{secrets.token_hex(8)}?vfs=memdb"
        # It is there for as long as a connection is.
        self._keeper = self._connect(READER_CACHE_KIB)
        if source is None:
            self._keeper.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            self._keeper.execute("PRAGMA auto_vacuum = INCREMENTAL")
            self._keeper.executescript(f"BEGIN; {TABLES} COMMIT;")
        else:
            _copy(source, self._keeper)

    def continue_at(self, revision: int) -> None:
        """Have a copy that nobody has opened yet go on above a revision that others may have seen.

        As in a restored store, what was before cannot be read any more: whoever asks for it is told to list
        again. Revisions of objects stay as they are.
        """
        self._keeper.execute(
            "UPDATE numbers SET value = max(value, ?) WHERE name IN ('revision', 'compacted')", (revision,)
        )

    @property
    def revision(self) -> int:
        """The revision that it has reached. No writer may be connected."""
        found: int = self._keeper.execute("SELECT value FROM numbers WHERE name = 'revision'").fetchone()[0]
        return found

    def copy(self) -> MemoryDatabase:
        """Returns an independent copy. No writer may be connected to this one."""
        return MemoryDatabase(self._keeper)

    def connect_writer(self) -> sqlite3.Connection:
        """Open the one connection that writes; one thread at a time may use it."""
        return self._connect(WRITER_CACHE_KIB)

    def connect_reader(self) -> sqlite3.Connection:
        connection = self._connect(READER_CACHE_KIB)
        connection.execute("PRAGMA query_only = ON")
        return connection

    def keep_reserve(self) -> None:
        """Does nothing: no disk can be full."""

    def release_reserve(self) -> None:
        """Does nothing: there is no reserve."""

    def close(self) -> None:
        """Forget everything. Other connections must be closed before."""
        self._keeper.close()

    def _connect(self, cache_kib: int) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._uri, uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY_TIMEOUT_MS / 1000
        )
        configure(connection, cache_kib)
        return connection


def _copy(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """Copy what a connection sees to a database in memory, which cannot have a write-ahead log."""
    (journal,) = source.execute("PRAGMA journal_mode").fetchone()
    if journal != "wal":
        source.backup(target)
        return
    pages = bytearray(source.serialize())
    pages[_JOURNAL_BYTES] = b"\x01\x01"
    with contextlib.closing(sqlite3.connect(":memory:")) as between:
        between.deserialize(pages)
        between.backup(target)
