"""Saves an embedded store, as of one revision, to a snapshot file, and restores a store from one.

*Saving* works while a server runs, from another process. One read transaction, which blocks no writer, sees
every write that was answered before, and no write in part. The pages are copied within it; the copy is
checked and synced after it has ended, because until then the server cannot empty its log. Nothing is written
to the store.

*The file* is a SQLite database followed by its SHA-256 (`storage.snapshot_file`); it includes the history.

*Restoring* makes the store continue above every revision that may have been used after the snapshot was
taken: the counter is raised by a large step, and everything before is marked as compacted. So a
resourceVersion, a watch or a continue token of the other history gets 410 Gone, and its client lists again;
the two histories cannot be confused. Source of the scheme: etcdutl snapshot restore, --bump-revision and
--mark-compacted. As in etcd, leases start again with their full TTL.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from apiserver.storage.embedded.database import BUSY_TIMEOUT_MS, FORMAT
from apiserver.storage.private_directories import lock, make_directory
from apiserver.storage.resource_version import REVISION_MAX
from apiserver.storage.snapshot_file import (
    SnapshotError,
    SnapshotFile,
    append_checksum,
    atomic_replacement,
    first_bytes,
    verify_checksum,
)

# What Kubernetes and etcd recommend for restores: more than a week of 1,500 writes a second.
BUMP_REVISION: Final = 1_000_000_000
# 4 MB: between two steps a signal can interrupt the copying.
STEP_PAGES: Final = 1_000
_MAGIC: Final = b"SQLite format 3\0"

_NUMBERS: Final = "SELECT name, value FROM numbers"
_KEYS: Final = """
    SELECT count(*) FROM (
        SELECT max(revision), create_revision FROM versions GROUP BY key HAVING create_revision > 0)
"""


class SnapshotContent(NamedTuple):
    """The contents of a snapshot, in numbers. compacted: the oldest revision that can be read from it."""

    revision: int
    compacted: int
    keys: int
    file: SnapshotFile


class _Contents(NamedTuple):
    revision: int
    compacted: int
    keys: int


def is_snapshot(path: Path) -> bool:
    """Whether the file looks like a snapshot of an embedded store. Raises SnapshotError if it cannot be
    read.
    """
    return first_bytes(path, len(_MAGIC)) == _MAGIC


def save(directory: Path, path: Path) -> SnapshotContent:
    """Copy the store in `directory`, whether a server uses it or not, to the file `path`.

    Blocks until the copy is complete, and replaces an existing file. Raises SnapshotError.
    """
    source = directory / "store.db"
    if not os.access(source, os.R_OK):
        reason = "cannot be read" if source.exists() else "does not exist"
        raise SnapshotError(f"there is no store in {directory}: {source} {reason}")
    # Unlike Path.resolve, this raises no RuntimeError for a loop of links.
    if os.path.dirname(os.path.realpath(path)) == os.path.realpath(directory):
        raise SnapshotError(f"cannot write {path}: this path is in the store's own directory")
    with atomic_replacement(path) as part:
        _copy(source, part)
        contents = _inspect(part, f"the copy of {source}")
        file = append_checksum(part)
    return SnapshotContent(*contents, file)


def status(path: Path) -> SnapshotContent:
    """Check a snapshot, and return its content. Raises SnapshotError."""
    file = verify_checksum(path)
    return SnapshotContent(*_inspect(path, str(path)), file)


def restore(
    path: Path, directory: Path, *, bump_revision: int = BUMP_REVISION, wall: Callable[[], float] = time.time
) -> int:
    """Make a store in `directory`, which must not hold one, from a snapshot; returns its revision.

    bump_revision: how far the store's revision is ahead of the snapshot's; everything before can no longer be
        read. 0 leaves revision and history as they were, for a copy that clients of the original never see.
    A failure leaves nothing behind but the directory. Raises SnapshotError, DataDirectoryError.
    """
    target = directory / "store.db"
    try:
        make_directory(directory)
        held = lock(directory / "store.lock")
    except OSError as error:
        raise SnapshotError(f"cannot use {directory}: {error.strerror or error}") from error
    try:
        for suffix in ("", "-wal", "-shm", "-journal"):
            if os.path.lexists(f"{target}{suffix}"):
                raise SnapshotError(f"{directory} already contains a store ({target.name}{suffix})")
        with atomic_replacement(target) as part:
            verify_checksum(path, copy_to=part)
            _inspect(part, str(path))
            return _finish_restore(part, bump_revision, wall())
    finally:
        os.close(held)


def _copy(source: Path, part: Path) -> None:
    with (
        failures_as(f"cannot copy {source}"),
        closing(connect(source, "mode=ro")) as store,
        closing(connect(part, "mode=rw")) as copy,
    ):
        # The copy needs no journal: a copy that is not finished is deleted.
        copy.execute("PRAGMA journal_mode = OFF")
        copy.execute("PRAGMA synchronous = OFF")
        store.execute("BEGIN")
        # A transaction is fixed to a state by its first read. Inside it, writes of other processes do not
        # restart the copy.
        read_numbers(store, str(source))
        store.backup(copy, pages=STEP_PAGES, progress=_between_steps)
        store.execute("ROLLBACK")
        # So that the copy can be read without files beside it.
        copy.execute("PRAGMA journal_mode = DELETE")


def _between_steps(status: int, remaining: int, total: int) -> None:
    """Lets the interpreter handle signals between steps."""


def _inspect(path: Path, description: str) -> _Contents:
    """Check an immutable copy, and read its content. Raises SnapshotError."""
    with (
        failures_as(f"{description} cannot be used"),
        closing(connect(path, "mode=ro&immutable=1")) as connection,
    ):
        numbers = read_numbers(connection, description)
        (damage,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if damage != "ok":
            raise SnapshotError(f"{description} is damaged: {' '.join(damage.split())}")
        (keys,) = connection.execute(_KEYS).fetchone()
        return _Contents(numbers["revision"], numbers["compacted"], keys)


def read_numbers(connection: sqlite3.Connection, description: str) -> dict[str, int]:
    """Returns the numbers of a store: its revision, and so on. Raises SnapshotError if it is not a store."""
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'numbers'").fetchone():
        raise SnapshotError(f"{description} is not a store of this server")
    numbers = dict(connection.execute(_NUMBERS).fetchall())
    if numbers.get("format") != FORMAT:
        raise SnapshotError(f"{description} has format {numbers.get('format')}; this server reads {FORMAT}")
    return numbers


def _finish_restore(part: Path, bump_revision: int, now: float) -> int:
    """Turn the copy into a store that a server can open, and return its revision."""
    with failures_as(f"cannot restore to {part.parent}"), closing(connect(part, "mode=rw")) as connection:
        connection.execute("PRAGMA synchronous = OFF")  # It is synced as a whole.
        connection.execute("BEGIN IMMEDIATE")
        revision = read_numbers(connection, str(part))["revision"] + bump_revision
        if revision > REVISION_MAX:
            raise SnapshotError(f"the revision would be {revision}; {REVISION_MAX} is the maximum")
        if bump_revision:
            connection.execute(
                "UPDATE numbers SET value = ? WHERE name IN ('revision', 'compacted')", (revision,)
            )
        connection.execute("UPDATE leases SET expires_at = ? + ttl_s", (now,))
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
    return revision


def connect(path: Path, how: str) -> sqlite3.Connection:
    """Opens a database. how: the parameters of its URI, as `mode=ro`."""
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{how}", uri=True, isolation_level=None, timeout=BUSY_TIMEOUT_MS / 1000
    )


@contextmanager
def failures_as(what: str) -> Iterator[None]:
    """Turns the errors of SQLite inside the block into SnapshotError, with what failed."""
    try:
        yield
    except sqlite3.Error as error:
        raise SnapshotError(f"{what}: {error}") from error
