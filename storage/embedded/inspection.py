"""Reads the state of an embedded store from another process, whether a server uses the store or not.

The store is not changed, and a server is not held up, except that it cannot empty its log meanwhile. Beside
a store that no server uses, SQLite leaves an empty log and its index (store.db-wal, store.db-shm).
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple

from apiserver.storage.embedded.snapshot import connect, failures_as, read_numbers

# How many instructions SQLite executes before it looks at the time.
_INSTRUCTIONS: Final = 10_000


class StoreFiles(NamedTuple):
    """The files of a store. revision: the last one given out. log_bytes: the size of the write-ahead log.

    written_at: when the store was last written, in seconds since 1970.
    """

    path: Path
    revision: int
    size_bytes: int
    log_bytes: int
    written_at: float


def inspect(directory: Path) -> StoreFiles | None:
    """Returns the state of the store in a directory; None if there is none.

    Raises SnapshotError if the file is not a store of this server, and OSError.
    """
    path, log = directory / "store.db", directory / "store.db-wal"
    if not path.exists():
        return None
    with failures_as(f"{path} cannot be read"), closing(connect(path, "mode=ro")) as connection:
        revision = read_numbers(connection, str(path))["revision"]
        # Opening the file may touch the log, so that its time does not count unless it has content.
        log_bytes = log.stat().st_size if log.exists() else 0
    state = path.stat()
    written_at = max(state.st_mtime, log.stat().st_mtime if log_bytes else 0.0)
    return StoreFiles(path, revision, state.st_size, log_bytes, written_at)


def quick_check(path: Path, *, within_s: float) -> str | None:
    """Returns the damage in a store; empty if there is none, and None if the time is not enough.

    SQLite before 3.42 does not look at the time during the check. Raises SnapshotError.
    """
    ends_at = monotonic() + within_s
    with failures_as(f"{path} cannot be read"), closing(connect(path, "mode=ro")) as connection:
        connection.set_progress_handler(lambda: monotonic() > ends_at, _INSTRUCTIONS)
        try:
            (damage,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname == "SQLITE_INTERRUPT":
                return None
            raise
        return "" if damage == "ok" else " ".join(damage.split())
