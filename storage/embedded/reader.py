"""Reads, each in its own transaction, on connections that do not wait for the writer."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, TypeVar

from apiserver.storage.embedded.checkpoint_lock import CheckpointLock
from apiserver.storage.embedded.memory_database import MemoryDatabase
from apiserver.storage.embedded.watch import HistoryPage
from apiserver.storage.errors import RevisionCompacted, RevisionTooLarge, StorageUnavailable
from apiserver.storage.interface import Consistency, Event, EventBatch, KeyRange, Page, Read, ReadAt, Stored

# Two threads: a long list must not delay a get. More would only compete for the interpreter's lock.
READER_THREADS: Final = 2
HISTORY_ROWS_MAX: Final = 1_000
_ROWS_MAX: Final = (1 << 63) - 1  # SQLite's largest integer

T = TypeVar("T")

_NUMBERS: Final = """
    SELECT (SELECT value FROM numbers WHERE name = 'revision'),
           (SELECT value FROM numbers WHERE name = 'compacted')
"""
_GET: Final = """
    SELECT key, value, create_revision, revision, lease FROM versions
    WHERE key = ? AND revision <= ? ORDER BY revision DESC LIMIT 1
"""
# With max() alone in the select list, SQLite takes the other columns from the row that has the maximum:
# https://www.sqlite.org/lang_select.html#bareagg
_LIST: Final = """
    SELECT key, value, create_revision, max(revision), lease FROM versions
    WHERE key >= ? AND key < ? AND revision <= ?
    GROUP BY key HAVING create_revision > 0 ORDER BY key LIMIT ?
"""
_COUNT: Final = """
    SELECT count(*) FROM (
        SELECT max(revision), create_revision FROM versions
        WHERE key >= ? AND key < ? AND revision <= ? GROUP BY key HAVING create_revision > 0)
"""
# With the signs SQLite does not look for the keys in their index, where most rows are of older revisions.
_HISTORY: Final = """
    SELECT key, value, create_revision, revision, lease, coalesce(note, x'') FROM versions
    WHERE revision > ? AND +key >= ? AND +key < ? ORDER BY revision, id LIMIT ?
"""
_SIZE: Final = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"


class ReaderThreads:
    """Runs reads in READER_THREADS threads, each with its own connection."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], checkpoint_lock: CheckpointLock) -> None:
        """checkpoint_lock: blocks reads while the writer empties the log."""
        self._connect = connect
        self._checkpoint_lock = checkpoint_lock
        self._threads = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="embedded-store-reader")
        self._thread_local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._reads: set[Future[Any]] = set()  # those that have not ended

    async def get(self, key: str, at: ReadAt) -> Read:
        def read(connection: sqlite3.Connection, revision: int) -> Read:
            row = connection.execute(_GET, (key, revision)).fetchone()
            return Read(Stored(*row) if row and row[2] else None, revision)

        return await self._read_at(read, at)

    async def list(self, keys: KeyRange, at: ReadAt, limit: int) -> Page:
        def read(connection: sqlite3.Connection, revision: int) -> Page:
            # One more than asked for, to know whether there is more.
            bounds = (keys.start, keys.end, revision, min(limit + 1, _ROWS_MAX) if limit else -1)
            items = [Stored(*row) for row in connection.execute(_LIST, bounds)]
            if limit and len(items) > limit:
                return Page(items[:limit], revision, more=True)
            return Page(items, revision, more=False)

        return await self._read_at(read, at)

    async def count(self, keys: KeyRange, at: ReadAt) -> int:
        def read(connection: sqlite3.Connection, revision: int) -> int:
            (count,) = connection.execute(_COUNT, (keys.start, keys.end, revision)).fetchone()
            return int(count)

        return await self._read_at(read, at)

    async def history(self, keys: KeyRange, after: int) -> HistoryPage:
        """Returns the first events in `keys` after a revision, with all events of each revision.

        Raises RevisionCompacted if some of them may have been deleted.
        """

        def read(connection: sqlite3.Connection) -> HistoryPage:
            revision, compacted = connection.execute(_NUMBERS).fetchone()
            if after < compacted:
                raise RevisionCompacted(requested=after, oldest=compacted)
            rows = connection.execute(_HISTORY, (after, keys.start, keys.end, HISTORY_ROWS_MAX)).fetchall()
            events = [Event(*row) for row in rows]
            if len(events) < HISTORY_ROWS_MAX:
                return HistoryPage(EventBatch(events, revision), is_last=True)
            # The last revision may have more events behind the limit, and is left for the next page. It is
            # not the only one: a transaction writes less than a page of keys.
            cut_off = events[-1].mod_revision
            whole = [event for event in events if event.mod_revision < cut_off]
            return HistoryPage(EventBatch(whole, whole[-1].mod_revision), is_last=False)

        return await self._in_transaction(read)

    async def size_bytes(self) -> int:
        """Returns the size of the database file, once the log is in it."""
        return await self._in_transaction(lambda connection: int(connection.execute(_SIZE).fetchone()[0]))

    async def copy(self) -> MemoryDatabase:
        """Returns a copy of the whole database, at one revision, in memory."""

        def copied() -> MemoryDatabase:
            with contextlib.closing(self._connect()) as connection:
                return MemoryDatabase.copy_of(connection)

        return await self._in_thread(copied)

    async def close(self) -> None:
        """Wait for the reads under way, and close the connections."""
        reads = list(self._reads)  # at once: threads remove theirs
        await asyncio.gather(*map(asyncio.wrap_future, reads), return_exceptions=True)
        self._threads.shutdown()  # They are idle.
        for connection in self._connections:
            connection.close()

    async def _read_at(self, read: Callable[[sqlite3.Connection, int], T], at: ReadAt) -> T:
        """Run `read` with the revision that `at` requests, which is checked in the same transaction."""

        def checked(connection: sqlite3.Connection) -> T:
            current, compacted = connection.execute(_NUMBERS).fetchone()
            if at.revision > current:
                raise RevisionTooLarge(requested=at.revision, current=current)
            if at.consistency is not Consistency.EXACT:
                return read(connection, current)
            if at.revision < compacted:
                raise RevisionCompacted(requested=at.revision, oldest=compacted)
            return read(connection, at.revision)

        return await self._in_transaction(checked)

    async def _in_transaction(self, read: Callable[[sqlite3.Connection], T]) -> T:
        def in_transaction() -> T:
            connection = self._connection()
            connection.execute("BEGIN")
            try:
                return read(connection)
            finally:
                connection.execute("ROLLBACK")

        return await self._in_thread(in_transaction)

    async def _in_thread(self, read: Callable[[], T]) -> T:
        """Run `read` while the writer does not exclude reads. Raises StorageUnavailable."""

        def counted() -> T:
            self._checkpoint_lock.begin_read()
            try:
                return read()
            finally:
                self._checkpoint_lock.end_read()

        try:
            reading = self._threads.submit(counted)
            self._reads.add(reading)
            reading.add_done_callback(self._reads.discard)
            return await asyncio.wrap_future(reading)
        except sqlite3.Error as error:
            raise StorageUnavailable(f"the embedded store cannot read: {error}") from error
        except RuntimeError as error:  # The pool has been shut down.
            raise StorageUnavailable("the store is closed") from error

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._thread_local, "connection", None)
        if connection is None:
            connection = self._thread_local.connection = self._connect()
            self._connections.append(connection)
        return connection
