"""Reads the changes of a segment over a separate connection, so that no write waits for a read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Final

from apiserver.storage.history.changes import KeyChange, RecordedChange, Span
from apiserver.storage.history.damage import SegmentDamaged, sqlite_errors
from apiserver.storage.history.purges import MARKS, digest
from apiserver.storage.history.rows import COLUMNS, FROM, NEWEST_FIRST, WRITE_BITS, id_range, recorded
from apiserver.storage.interface import KeyRange

# So that reading a value takes no longer than this many decodings.
DELTAS_MAX: Final = 31
CACHE_KIB: Final = 1_024


class SegmentReader:
    """The reads of one segment, by any thread, one query at a time. Those of a closed one find nothing.

    All raise SegmentDamaged, OSError.
    """

    def __init__(self, path: Path | None, in_memory: sqlite3.Connection, *, has_marks: bool) -> None:
        """path: of the file, which is opened by the first read; None for a segment of `in_memory`.

        has_marks: whether anything was purged.
        """
        self._path = path
        self._connection = None if path is not None else in_memory
        # Held by each read.
        self.lock = Lock()
        self._is_closed = False
        self.has_marks = has_marks

    def close(self) -> None:
        with self.lock:
            self._is_closed = True
            # That of memory is of who writes.
            if self._path is not None and self._connection is not None:
                self._connection.close()

    def changes_of(self, key: str, span: Span, limit: int) -> list[RecordedChange]:
        """Returns the last `limit` changes of a key in a span, the newest first. Raises SegmentDamaged."""
        return self._changes(key, span, limit, "DESC")

    def changes_to_whole(self, key: str, span: Span) -> list[RecordedChange]:
        """Returns the first changes of a key in a span, the oldest first: enough to decode the first one's
        value, unless newer segments are needed, too. Raises SegmentDamaged.
        """
        return self._changes(key, span, DELTAS_MAX + 1, "ASC")

    def _changes(self, key: str, span: Span, limit: int, order: str) -> list[RecordedChange]:
        rows = self._rows(
            f"SELECT {COLUMNS} {FROM} WHERE k.key = ? AND c.id BETWEEN ? AND ? ORDER BY c.id {order} LIMIT ?",
            (key, *id_range(span), limit),
        )
        return [recorded(key, row) for row in rows]

    def first_changes(self, keys: KeyRange, span: Span) -> dict[str, tuple[int, bool]]:
        """Returns the revision of the first change in a span of each key in a range that has any.

        With it, whether the key was created in the span.
        """
        rows = self._rows(
            "SELECT k.key, min(c.id), min(c.since) = 0 FROM keys k JOIN changes c ON c.key = k.id"
            " WHERE k.key >= ? AND k.key < ? AND c.id BETWEEN ? AND ? GROUP BY k.id",
            (keys.start, keys.end, *id_range(span)),
        )
        return {key: (row_id >> WRITE_BITS, bool(is_created)) for key, row_id, is_created in rows}

    def last_creation(self, key: str) -> int:
        """Returns the revision at which a key was last created; 0 if that is not recorded here."""
        rows = self._rows(
            "SELECT max(c.id) FROM keys k JOIN changes c ON c.key = k.id WHERE k.key = ? AND c.since = 0",
            (key,),
        )
        return int(rows[0][0] or 0) >> WRITE_BITS

    def revision_at(self, at_ms: int, recorded_until: int) -> int:
        """Returns the newest revision up to a time, as far as it is recorded; 0 if that is unknown.

        Times never decrease.
        """
        rows = self._rows("SELECT max(after) FROM spans WHERE at_ms <= ?", (at_ms,))
        found = int(rows[0][0] or 0)
        low, high = found + 1, recorded_until
        while low <= high:
            middle = (low + high) // 2
            rows = self._rows(
                "SELECT id, at_ms FROM changes WHERE id >= ? ORDER BY id LIMIT 1", (middle << WRITE_BITS,)
            )
            row_id, time_ms = rows[0] if rows else (0, at_ms + 1)
            revision = row_id >> WRITE_BITS
            if time_ms <= at_ms:
                found, low = revision, revision + 1
            else:
                high = middle - 1
        return found

    def purged_keys(self, scope: str, revision: int) -> frozenset[bytes]:
        """Returns the digests of the keys in a scope of which a change after a revision was purged.

        scope: a key, or a prefix of keys that ends with a slash. See `purges`.
        """
        if not self.has_marks:
            return frozenset()
        return frozenset(key for (key,) in self._rows(MARKS, (digest(scope), revision)))

    def purged_until(self, key: str) -> int:
        """Returns the last revision up to which changes of a key were purged; 0 if none were."""
        if not self.purged_keys(key, 0):
            return 0
        rows = self._rows("SELECT max(until) FROM purged WHERE scope = ?", (digest(key),))
        return int(rows[0][0] or 0) if rows else 0

    def changes(self, first: int, before: int) -> Iterator[KeyChange]:
        """Yields all changes with positions from `first` on and below `before`, the newest first.

        The values are read one at a time, and not kept. Other reads wait until the iterator is closed.
        """
        with self.lock, sqlite_errors():
            if self._is_closed:
                return
            for key, *row in self._open().execute(NEWEST_FIRST, (first, before - 1)):
                change = recorded(key, row)
                yield KeyChange(row[0], key, change.revision, change.author)

    def _rows(self, query: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        with self.lock, sqlite_errors():
            if self._is_closed:
                return []
            return self._open().execute(query, values).fetchall()

    def _open(self) -> sqlite3.Connection:
        """Returns the connection, which the first read opens."""
        if self._connection is not None:
            return self._connection
        assert self._path is not None
        if not self._path.exists():
            raise SegmentDamaged("the file was deleted")
        # SQLite must find its log, which a read-only connection does not create.
        uri = f"{self._path.absolute().as_uri()}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        self._connection = connection
        return connection
