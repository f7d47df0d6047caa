"""One file that holds an embedded store as it was at one revision, and a store made from it.

*Saving* works beside a running server, from another process: one read transaction, which makes nobody wait,
sees every write that was answered before and none by half. The copy goes page by page within it, and is
checked and synced after its end: as long as it lasts the server cannot empty its log. Nothing is written to
the store.

*The file* is a SQLite database with its SHA-256 behind it (`storage.snapshot_file`); the history is in it.

*Restoring* makes the store go on behind every revision that may have been given out after the snapshot was
taken: the counter is moved on by a wide step, and all before is marked as compacted. Whoever comes with a
resourceVersion, a watch or a continue token of the other history is told that it is gone (410), and lists
anew; nobody takes one history for the other. Source of the scheme: etcdutl snapshot restore,
--bump-revision and --mark-compacted. Leases, as in etcd, begin their time again.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from storage.embedded.database import BUSY_TIMEOUT_MS, FORMAT, lock
from storage.resource_version import REVISION_MAX
from storage.snapshot_file import (
    SnapshotError,
    SnapshotFile,
    atomic_replacement,
    first_bytes,
    seal,
    verify_checksum,
)

# Kubernetes' and etcd's advice for restores: more than a week of 1,500 writes a second.
BUMP_REVISION: Final = 1_000_000_000
# 4 MB: between two steps a signal may end the work.
STEP_PAGES: Final = 1_000
_MAGIC: Final = b"SQLite format 3\0"

_NUMBERS: Final = "SELECT name, value FROM numbers"
_KEYS: Final = """
    SELECT count(*) FROM (
        SELECT max(revision), create_revision FROM versions GROUP BY key HAVING create_revision > 0)
"""


class Snapshot(NamedTuple):
    """What a snapshot holds. compacted: the oldest revision that its history reaches back to."""

    revision: int
    compacted: int
    keys: int
    sealed: SnapshotFile


class _Contents(NamedTuple):
    revision: int
    compacted: int
    keys: int


def is_snapshot(path: Path) -> bool:
    """Whether the file looks like one of an embedded store. Raises SnapshotError if it cannot be read."""
    return first_bytes(path, len(_MAGIC)) == _MAGIC


def save(directory: Path, path: Path) -> Snapshot:
    """Write the store in `directory`, whether a server runs on it or not, to the file `path`.

    Blocks until that is done. A file that is there is replaced. Raises SnapshotError.
    """
    source = directory / "store.db"
    if not os.access(source, os.R_OK):
        reason = "cannot be read" if source.exists() else "does not exist"
        raise SnapshotError(f"there is no store in {directory}: {source} {reason}")
    if path.resolve().parent == directory.resolve():
        raise SnapshotError(f"cannot write {path}: that is the store's own directory")
    with atomic_replacement(path) as part:
        _copy(source, part)
        contents = _inspect(part, f"the copy of {source}")
        sealed = seal(part)
    return Snapshot(*contents, sealed)


def status(path: Path) -> Snapshot:
    """What a snapshot holds, once all of it has been checked. Raises SnapshotError."""
    sealed = verify_checksum(path)
    return Snapshot(*_inspect(path, str(path)), sealed)


def restore(
    path: Path,
    directory: Path,
    *,
    bump_revision: int = BUMP_REVISION,
    wall: Callable[[], float] = time.time,
) -> int:
    """Make a store in `directory`, which must not hold one, from a snapshot; returns its revision.

    bump_revision: how far the store's revision is ahead of the snapshot's; everything before can no longer be
        read. 0 leaves revision and history as they were, for a copy that clients of the original never see.
    Nothing is left behind by a failure but the directory. Raises SnapshotError, DataDirectoryError.
    """
    target = directory / "store.db"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = lock(directory / "store.lock")
    except OSError as error:
        raise SnapshotError(f"cannot use {directory}: {error.strerror or error}") from error
    try:
        for suffix in ("", "-wal", "-shm", "-journal"):
            if os.path.lexists(f"{target}{suffix}"):
                raise SnapshotError(f"{directory} holds a store already ({target.name}{suffix})")
        with atomic_replacement(target) as part:
            verify_checksum(path, copy_to=part)
            _inspect(part, str(path))
            return _finish_restore(part, bump_revision, wall())
    finally:
        os.close(held)


def _copy(source: Path, part: Path) -> None:
    with (
        _told(f"cannot copy {source}"),
        closing(_connect(source, "mode=ro")) as store,
        closing(_connect(part, "mode=rw")) as copy,
    ):
        # The copy needs no journal: if it does not get done it is thrown away.
        copy.execute("PRAGMA journal_mode = OFF")
        copy.execute("PRAGMA synchronous = OFF")
        store.execute("BEGIN")
        # A transaction gets its state at its first read. In it, writes by others do not start the copy over.
        _numbers(store, str(source))
        store.backup(copy, pages=STEP_PAGES, progress=_between_steps)
        store.execute("ROLLBACK")
        # So that the copy can be read without files beside it.
        copy.execute("PRAGMA journal_mode = DELETE")


def _between_steps(status: int, remaining: int, total: int) -> None:
    """Gives the interpreter the chance to take a signal."""


def _inspect(path: Path, called: str) -> _Contents:
    """Read a copy that nobody writes to, and check it. Raises SnapshotError."""
    with _told(f"{called} cannot be used"), closing(_connect(path, "mode=ro&immutable=1")) as connection:
        numbers = _numbers(connection, called)
        (damage,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if damage != "ok":
            raise SnapshotError(f"{called} is damaged: {' '.join(damage.split())}")
        (keys,) = connection.execute(_KEYS).fetchone()
        return _Contents(numbers["revision"], numbers["compacted"], keys)


def _numbers(connection: sqlite3.Connection, called: str) -> dict[str, int]:
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'numbers'").fetchone():
        raise SnapshotError(f"{called} is no store of this server")
    numbers = dict(connection.execute(_NUMBERS).fetchall())
    if numbers.get("format") != FORMAT:
        raise SnapshotError(f"{called} has format {numbers.get('format')}; this server reads {FORMAT}")
    return numbers


def _finish_restore(part: Path, bump_revision: int, now: float) -> int:
    """Make the copy a store; returns its revision."""
    with _told(f"cannot restore to {part.parent}"), closing(_connect(part, "mode=rw")) as connection:
        connection.execute("PRAGMA synchronous = OFF")  # It is synced as a whole.
        connection.execute("BEGIN IMMEDIATE")
        revision = _numbers(connection, str(part))["revision"] + bump_revision
        if revision > REVISION_MAX:
            raise SnapshotError(f"the revision would be {revision}; {REVISION_MAX} is the last one there is")
        if bump_revision:
            connection.execute(
                "UPDATE numbers SET value = ? WHERE name IN ('revision', 'compacted')", (revision,)
            )
        connection.execute("UPDATE leases SET expires_at = ? + ttl_s", (now,))
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
    return revision


def _connect(path: Path, how: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{how}", uri=True, isolation_level=None, timeout=BUSY_TIMEOUT_MS / 1000
    )


@contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise SnapshotError(f"{what}: {error}") from error
