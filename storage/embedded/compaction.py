"""Compaction: deletes old revisions without making writers wait long, and frees their space.

First the oldest readable revision is raised, in one small transaction: from then on no read may use older
ones. Then the rows are deleted, a batch to a transaction, so that writes can come in between; after a crash
half-way the next compaction deletes the rest. Last, free pages are returned to the file system, which happens
only when the write-ahead log has been moved into the file.

A write that comes in between waits for one batch: some BATCH_S, and its commit. As for any write, that now
and then includes SQLite's own checkpoint, some 30 ms for CHECKPOINT_PAGES.
"""

from __future__ import annotations

import math
import sqlite3
import time
from functools import partial
from typing import Final

from apiserver.storage.embedded.writer import Transaction, WriterThread
from apiserver.storage.errors import RevisionTooLarge

# A batch ends after this time, which large values use up soon, or after so many rows or pages. (There must be
# more rows than one transaction writes.)
BATCH_S: Final = 0.004
BATCH_ROWS: Final = 500
BATCH_PAGES: Final = 500
# The clock is read after so many rows or so many bytes, whichever comes first: each takes less than 1 ms.
# With a statement for each row, each would have to get the interpreter's lock back from a busy event loop.
STEP_ROWS: Final = 32
STEP_BYTES: Final = 256 * 1024

_NUMBER: Final = "SELECT value FROM numbers WHERE name = ?"
_SET_NUMBER: Final = "UPDATE numbers SET value = ? WHERE name = ?"
# length() of a blob does not read it. The last column is whether the key has versions in a database that this
# one began with (`memory_database`): they stay, and without a deletion after them the key would be back.
_OBSOLETING: Final = """
    SELECT new.id, new.revision, new.create_revision, old.id, length(old.value), EXISTS (
        SELECT 1 FROM versions AS fixed WHERE fixed.key = new.key
        AND fixed.revision <= (SELECT value FROM numbers WHERE name = 'base_revision'))
    FROM main.versions AS new
    LEFT JOIN main.versions AS old ON old.key = new.key AND old.revision = new.previous_revision
    WHERE new.revision > ? AND new.revision <= ? ORDER BY new.revision, new.id LIMIT ?
"""
_DELETE: Final = "DELETE FROM main.versions WHERE id IN "


async def compact(writer: WriterThread, revision: int, *, frees_space: bool = False) -> None:
    """Delete everything that only reads before `revision` could see.

    frees_space: whether this is done because the disk is full.
    Raises RevisionTooLarge; StorageUnavailable when cut short, which a later call completes.
    """
    # On a full disk writers wait in any case, and small batches write more to the log, which may not fit.
    batch_s = math.inf if frees_space else BATCH_S
    await writer.do(
        lambda transaction: _raise_compacted_revision(transaction, revision), frees_space=frees_space
    )
    while not await writer.do(partial(_delete_obsolete_batch, batch_s=batch_s), frees_space=frees_space):
        pass
    while not await writer.do(partial(_return_pages, batch_s=batch_s), frees_space=frees_space):
        pass
    await writer.checkpoint(frees_space=frees_space)


def _raise_compacted_revision(transaction: Transaction, revision: int) -> None:
    if revision > transaction.revision:
        raise RevisionTooLarge(requested=revision, current=transaction.revision)
    (compacted,) = transaction.connection.execute(_NUMBER, ("compacted",)).fetchone()
    if revision > compacted:
        transaction.connection.execute(_SET_NUMBER, (revision, "compacted"))


def _delete_obsolete_batch(transaction: Transaction, *, batch_s: float) -> bool:
    """Delete the versions that a batch of rows made obsolete; True when none are left."""
    ends_at = time.monotonic() + batch_s
    connection = transaction.connection
    (compacted,) = connection.execute(_NUMBER, ("compacted",)).fetchone()
    (forgotten,) = connection.execute(_NUMBER, ("forgotten",)).fetchone()
    rows = connection.execute(_OBSOLETING, (forgotten, compacted, BATCH_ROWS)).fetchall()
    is_last = len(rows) < BATCH_ROWS
    # A batch may end within a revision: the next one reads its rows again, and finds that what they made
    # obsolete is gone already, which does no harm.
    reached = compacted if is_last else rows[-1][1] - 1
    row_ids: list[int] = []
    size_bytes = 0
    for row_id, revision, created, obsolete, obsolete_bytes, is_fixed in rows:
        if len(row_ids) >= STEP_ROWS or size_bytes >= STEP_BYTES:
            _delete(connection, row_ids)
            row_ids, size_bytes = [], 0
            if time.monotonic() >= ends_at:
                is_last, reached = False, revision - 1
                break
        if obsolete is not None:
            row_ids.append(obsolete)
            size_bytes += obsolete_bytes or 0
        # A deletion is deleted together with the version that it ended, which must not reappear.
        if not created and not is_fixed:
            row_ids.append(row_id)
    _delete(connection, row_ids)
    connection.execute(_SET_NUMBER, (reached, "forgotten"))
    return is_last


def _delete(connection: sqlite3.Connection, row_ids: list[int]) -> None:
    if row_ids:
        connection.execute(_DELETE + f"({', '.join('?' * len(row_ids))})", row_ids)


def _return_pages(transaction: Transaction, *, batch_s: float) -> bool:
    """Return some free pages to the file system; True when there are no more."""
    ends_at = time.monotonic() + batch_s
    connection = transaction.connection
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    for _ in range(min(free, BATCH_PAGES)):
        # One by one: the pragma returns a row without columns for each page, and Python stops at the first.
        connection.execute("PRAGMA incremental_vacuum(1)")
        if time.monotonic() >= ends_at:
            return False
    return bool(free <= BATCH_PAGES)
