"""Forgetting old versions without making writers wait, and giving the space back.

First the oldest readable revision is raised, in one small transaction: from then on no read may use what
is below. Then the rows go, a batch to a transaction, so that writes pass in between; a crash half-way
leaves rows that the next compaction takes. Last, free pages return to the file system, which they only do
once the log has been moved into the file.
"""

from __future__ import annotations

from typing import Final

from storage.embedded.writer import Transaction, Writer
from storage.errors import RevisionTooLarge

# Deleting 500 rows of 1 KB takes 2-4 ms; a writer that comes in between waits no longer than that.
BATCH_ROWS: Final = 500
BATCH_PAGES: Final = 500

_NUMBER: Final = "SELECT value FROM numbers WHERE name = ?"
_SET_NUMBER: Final = "UPDATE numbers SET value = ? WHERE name = ?"
_OBSOLETING: Final = """
    SELECT id, revision, key, create_revision, previous_revision FROM versions
    WHERE revision > ? AND revision <= ? ORDER BY revision, id LIMIT ?
"""


async def compact(writer: Writer, revision: int, *, makes_room: bool = False) -> None:
    """Forget everything that only reads before `revision` could see.

    makes_room: because the disk is full.
    Raises RevisionTooLarge; StorageUnavailable when cut short, which a later call makes good.
    """
    await writer.do(lambda transaction: _announce(transaction, revision), makes_room=makes_room)
    while not await writer.do(_forget_some, makes_room=makes_room):
        pass
    while not await writer.do(_return_pages, makes_room=makes_room):
        pass
    await writer.checkpoint(makes_room=makes_room)


def _announce(transaction: Transaction, revision: int) -> None:
    if revision > transaction.revision:
        raise RevisionTooLarge(requested=revision, current=transaction.revision)
    (compacted,) = transaction.connection.execute(_NUMBER, ("compacted",)).fetchone()
    if revision > compacted:
        transaction.connection.execute(_SET_NUMBER, (revision, "compacted"))


def _forget_some(transaction: Transaction) -> bool:
    """Delete what a batch of rows made obsolete; True when nothing below the compacted revision is left."""
    connection = transaction.connection
    (compacted,) = connection.execute(_NUMBER, ("compacted",)).fetchone()
    (forgotten,) = connection.execute(_NUMBER, ("forgotten",)).fetchone()
    rows = connection.execute(_OBSOLETING, (forgotten, compacted, BATCH_ROWS)).fetchall()
    is_last = len(rows) < BATCH_ROWS
    # A full batch may end within a revision: its rows are seen again next time, and what they made
    # obsolete is then gone already, which does no harm.
    reached = compacted if is_last else rows[-1][1] - 1
    obsolete = [(key, previous) for _, _, key, _, previous in rows if previous]
    deletions = [(row_id,) for row_id, revision, _, created, _ in rows if not created and revision <= reached]
    connection.executemany("DELETE FROM versions WHERE key = ? AND revision = ?", obsolete)
    connection.executemany("DELETE FROM versions WHERE id = ?", deletions)
    connection.execute(_SET_NUMBER, (reached, "forgotten"))
    return is_last


def _return_pages(transaction: Transaction) -> bool:
    """Give some free pages back; True when there are no more."""
    connection = transaction.connection
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    for _ in range(min(free, BATCH_PAGES)):
        # One by one: the pragma returns a row without columns for each page, at the first of which Python
        # takes it for done.
        connection.execute("PRAGMA incremental_vacuum(1)")
    return bool(free <= BATCH_PAGES)
