"""Reads the changes of a segment over a separate connection, so that no write waits for a read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Final

from apiserver.storage.history.changes import EncodedValue, KeyChange, RecordedChange, Span
from apiserver.storage.history.damage import SegmentDamaged, sqlite_errors
from apiserver.storage.history.digests import KeyDigests
from apiserver.storage.history.purges import MARKS
from apiserver.storage.history.rows import (
    COLUMNS,
    FROM,
    NEWEST_FIRST,
    WRITE_BITS,
    encoded_value,
    id_range,
    position_after,
    recorded,
)
from apiserver.storage.history.thinning import BEGUN_UNTIL, COUNTS_OF, KEYS_AT
from apiserver.storage.interface import KeyRange

# So that reading a value takes no longer than this many decodings.
DELTAS_MAX: Final = 31
CACHE_KIB: Final = 1_024
_FIRST_WHOLE: Final = """
    SELECT id FROM changes WHERE key = k.id AND id BETWEEN ? AND ? AND deltas = 0 ORDER BY id LIMIT 1
"""
# The first changes of keys, up to one with a whole value; in the order of the keys, as SQLite finds them.
_CHAINS: Final = f"""
    SELECT k.key, {COLUMNS} {FROM}
    WHERE c.id BETWEEN ? AND coalesce(({_FIRST_WHOLE}), ?) AND k.key IN ({{}}) ORDER BY k.key, c.id
"""
# CROSS JOIN: SQLite may not begin with all changes of the span, which are mostly of other keys.
_FIRST_CHANGES: Final = """
    SELECT k.key, min(c.id), sum(c.since = 0) FROM keys k CROSS JOIN changes c ON c.key = k.id
    WHERE k.key >= ? AND k.key < ? AND c.id BETWEEN ? AND ? GROUP BY k.key
"""


class SegmentReader:
    """The reads of one segment, by any thread, one query at a time. Those of a closed one find nothing.

    All raise SegmentDamaged, OSError.
    """

    def __init__(
        self,
        path: Path | None,
        in_memory: sqlite3.Connection,
        digest: KeyDigests,
        *,
        has_marks: bool,
        has_thinned: bool,
    ) -> None:
        """path: of the file, which is opened by the first read; None for a segment of `in_memory`.

        has_marks: whether anything was purged. has_thinned: whether versions were dropped: see `thinning`.
        """
        self._path, self._digest = path, digest
        self._connection = None if path is not None else in_memory
        # Held by each read.
        self.lock = Lock()
        self._is_closed = False
        self.has_marks, self.has_thinned = has_marks, has_thinned
        # Up to which revisions changes were not recorded, by the digests of prefixes of keys.
        self.dropped: Mapping[bytes, int] = {}

    def close(self) -> None:
        with self.lock:
            self._is_closed = True
            # That of memory is of who writes.
            if self._path is not None and self._connection is not None:
                self._connection.close()

    def changes_of(self, key: str, span: Span, limit: int) -> list[RecordedChange]:
        """Returns the last `limit` changes of a key in a span, the newest first. Raises SegmentDamaged."""
        rows = self._rows(
            f"SELECT {COLUMNS} {FROM} WHERE k.key = ? AND c.id BETWEEN ? AND ? ORDER BY c.id DESC LIMIT ?",
            (key, *id_range(span), limit),
        )
        changes = [recorded(key, row) for row in rows]
        if self.has_thinned and rows:
            found = self._rows(COUNTS_OF, (key, rows[-1][0], rows[0][0]))
            counts = {row_id >> WRITE_BITS: count for row_id, count in found}
            changes = [each._replace(thinned=counts.get(each.revision, 0)) for each in changes]
        return changes

    def thinned_at(self, keys: KeyRange, revision: int) -> frozenset[str]:
        """Returns the keys in a range of which the version at a revision was dropped. See `thinning`."""
        if not self.has_thinned:
            return frozenset()
        values = (position_after(revision), revision, keys.start, keys.end)
        return frozenset(key for (key,) in self._rows(KEYS_AT, values))

    def chains(self, keys: Sequence[str], span: Span) -> Iterator[tuple[str, EncodedValue]]:
        """Yields the values before the first changes of keys in a span, those of each key the oldest first:
        enough to decode the first of them, unless newer segments are needed, too.
        """
        first, last = id_range(span)
        query = _CHAINS.format(", ".join("?" * len(keys)))
        for key, *row in self._rows(query, (first, first, last, last, *keys)):
            yield key, encoded_value(key, row)

    def first_changes(self, keys: KeyRange, span: Span) -> dict[str, tuple[int, bool]]:
        """Returns the revision of the first change in a span of each key in a range that has any.

        With it, whether the key was created in the span.
        """
        rows = self._rows(_FIRST_CHANGES, (keys.start, keys.end, *id_range(span)))
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
        if found and self.has_thinned:
            rows = self._rows(BEGUN_UNTIL, (found, at_ms))
            found = int(rows[0][0] or found) if rows else found
        return found

    def purged_keys(self, scope: str, revision: int) -> frozenset[bytes]:
        """Returns the digests of the keys in a scope of which a change after a revision was purged.

        scope: a key, or a prefix of keys that ends with a slash. See `purges`.
        """
        if not self.has_marks:
            return frozenset()
        return frozenset(key for (key,) in self._rows(MARKS, (self._digest(scope), revision)))

    def dropped_until(self, prefix: str) -> int:
        """Returns the last revision up to which changes of a prefix of keys were not recorded, or 0."""
        return self.dropped.get(self._digest(prefix), 0)

    def purged_until(self, key: str) -> int:
        """Returns the last revision up to which changes of a key were purged; 0 if none were."""
        if not self.purged_keys(key, 0):
            return 0
        rows = self._rows("SELECT max(until) FROM purged WHERE scope = ?", (self._digest(key),))
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
