"""The file of a store, its tables, and the lock that keeps other processes out."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from pathlib import Path
from typing import Final

from apiserver.storage.errors import DataDirectoryError
from apiserver.storage.private_directories import lock, make_directory

FORMAT: Final = 1
# Disk space held back for compaction, which has to write even when the disk is full.
RESERVE_BYTES: Final = 4 * 1024 * 1024
# What SQLite keeps of the file in memory, for each connection. Writes come back to the same pages; most reads
# are answered by the watch cache, and others need little more than the inner pages of the trees.
WRITER_CACHE_KIB: Final = 8_192
READER_CACHE_KIB: Final = 2_048
# SQLite makes a checkpoint when the log has this many pages (16 MiB): after some 10,000 small writes, so that
# its two fsyncs cost little, and a start after a crash replays no more than that.
CHECKPOINT_PAGES: Final = 4_000
LOG_FILE_BYTES_KEPT: Final = 64 * 1024 * 1024
BUSY_TIMEOUT_MS: Final = 5_000

TABLES: Final = """
CREATE TABLE numbers (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO numbers VALUES
    ('format', 1),
    ('revision', 1),    -- the last one given out; etcd's first, too, is 1
    ('compacted', 0),   -- the oldest revision that can be read
    ('forgotten', 0);   -- up to here compaction has deleted what it may
-- One row for every write of a key, kept until compaction. `id` is the order of writes, within a
-- revision too. A row without value is a deletion. `previous_revision` is the row that this one made
-- obsolete: compaction need not look for it. `note` is that of the transaction; NULL if it has none.
CREATE TABLE versions (
    id INTEGER PRIMARY KEY,
    revision INTEGER NOT NULL,
    key TEXT NOT NULL,
    create_revision INTEGER NOT NULL,
    previous_revision INTEGER NOT NULL,
    lease INTEGER NOT NULL,
    value BLOB,
    note BLOB
);
-- Has create_revision (0 for a deletion) so that counting never reads the values.
CREATE UNIQUE INDEX versions_by_key ON versions (key, revision, create_revision);
CREATE INDEX versions_by_revision ON versions (revision);
CREATE INDEX versions_by_lease ON versions (lease) WHERE lease != 0;
CREATE TABLE leases (id INTEGER PRIMARY KEY, ttl_s INTEGER NOT NULL, expires_at REAL NOT NULL);
"""

# Errors of a file system or a quota that would come again at each attempt.
_LASTING: Final = frozenset({errno.EROFS, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EOPNOTSUPP})


class Database:
    """The directory of one embedded store, held for this process until `close`.

    durable: False leaves out the fsyncs, for tests.
    log_path: that of the write-ahead log. commits_exclude_reads: whether no read may run while a group is
        committed.
    Raises DataDirectoryError when the directory cannot be used.
    """

    commits_exclude_reads = False

    def __init__(self, directory: Path, *, durable: bool = True) -> None:
        self.path = directory / "store.db"
        self.log_path = directory / "store.db-wal"
        self._reserve = directory / "reserve"
        self._wants_reserve = True
        self._synchronous = "FULL" if durable else "OFF"
        try:
            make_directory(directory)
            self._lock = lock(directory / "store.lock")
        except OSError as error:
            raise DataDirectoryError(
                f"cannot use the data directory {directory}: {error.strerror}"
            ) from error
        try:
            self._prepare()
        except BaseException:
            os.close(self._lock)
            raise

    def connect_writer(self) -> sqlite3.Connection:
        """Open the one connection that writes; one thread at a time may use it."""
        connection = self._connect(WRITER_CACHE_KIB)
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit = {LOG_FILE_BYTES_KEPT}")
        return connection

    def connect_reader(self) -> sqlite3.Connection:
        connection = self._connect(READER_CACHE_KIB)
        connection.execute("PRAGMA query_only = ON")
        return connection

    def keep_reserve(self) -> None:
        """Occupy RESERVE_BYTES of the disk, to be freed when the disk is full.

        Does nothing if they are occupied already, or if there is too little space.
        """
        if not self._wants_reserve:
            return
        try:
            descriptor = os.open(self._reserve, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            self._wants_reserve = error.errno not in _LASTING
            return
        try:
            free = os.fstatvfs(descriptor)
            if free.f_bavail * free.f_frsize >= RESERVE_BYTES * 2:
                os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
                self._wants_reserve = False
        except OSError as error:
            self.release_reserve()
            self._wants_reserve = error.errno not in _LASTING
        finally:
            os.close(descriptor)

    def release_reserve(self) -> None:
        """Free the reserve, because compaction needs space before it frees any."""
        self._wants_reserve = True
        with contextlib.suppress(OSError):
            self._reserve.unlink()

    def close(self) -> None:
        """Release the lock. Connections must be closed before."""
        os.close(self._lock)

    def _connect(self, cache_kib: int) -> sqlite3.Connection:
        # isolation_level=None: transactions begin and end where this package says so.
        connection = sqlite3.connect(
            self.path, isolation_level=None, check_same_thread=False, timeout=BUSY_TIMEOUT_MS / 1000
        )
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        configure(connection, cache_kib)
        return connection

    def _prepare(self) -> None:
        # SQLite would make it readable for all users, and would report errors in it.
        with contextlib.suppress(OSError):
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        try:
            with contextlib.closing(self._connect(READER_CACHE_KIB)) as connection:
                if connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                    self._check(connection)
                    _add_column_of_notes(connection)
                else:
                    # Must come before the first table; lets compaction give pages back to the file system.
                    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
                    connection.execute("PRAGMA journal_mode = WAL")
                    connection.executescript(f"BEGIN; {TABLES} COMMIT;")
        except sqlite3.DatabaseError as error:
            raise DataDirectoryError(
                f"{self.path} is damaged or is not a store of this server: {error}"
            ) from error
        os.chmod(self.path, 0o600)

    def _check(self, connection: sqlite3.Connection) -> None:
        """Check the file before changing it: it may be another program's, or from a later release."""
        row = connection.execute("SELECT value FROM numbers WHERE name = 'format'").fetchone()
        if row != (FORMAT,):
            raise DataDirectoryError(f"{self.path} has format {row and row[0]}; this server reads {FORMAT}")
        if _is_small(self.path):
            (damage,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if damage != "ok":
                raise DataDirectoryError(f"{self.path} is damaged: {' '.join(damage.split())}")


def _add_column_of_notes(connection: sqlite3.Connection) -> None:
    """Add the column that the first stores and snapshots lack, in place."""
    if not connection.execute("SELECT 1 FROM pragma_table_info('versions') WHERE name = 'note'").fetchone():
        connection.execute("ALTER TABLE versions ADD COLUMN note BLOB")


def configure(connection: sqlite3.Connection, cache_kib: int) -> None:
    """Sets the options that all connections have in common.

    cache_kib: the size of the page cache, in KiB.
    """
    # Some builds overwrite all that is deleted, which makes compaction write whatever it forgets. FAST
    # leaves whole pages as they are until they are used again.
    connection.execute("PRAGMA secure_delete = FAST")
    connection.execute(f"PRAGMA cache_size = -{cache_kib}")


# Checking a file reads all of it: 100 MB took 0.1 s, which is acceptable at a start; larger files are not
# checked.
QUICK_CHECK_BYTES_MAX: Final = 100 * 1024 * 1024


def _is_small(path: Path) -> bool:
    return path.stat().st_size <= QUICK_CHECK_BYTES_MAX
