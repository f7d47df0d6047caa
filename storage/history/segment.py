"""One file of the history: the changes of some time, in SQLite.

A segment is written by one thread, and dropped as a whole. Each row has a checksum, so that altered bytes are
found; SQLite itself finds only a damaged structure.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from apiserver.storage.history import deltas, purges, rewrites, thinning
from apiserver.storage.history.changes import Author, Change, Cipher, RecordedChange, Span
from apiserver.storage.history.damage import SegmentDamaged, SegmentOutdated, sqlite_errors
from apiserver.storage.history.digests import KeyDigests
from apiserver.storage.history.purges import PurgedKey, WantedKeys
from apiserver.storage.history.rewrites import Rewritten
from apiserver.storage.history.rows import (
    COLUMNS,
    FROM,
    ID_MAX,
    NEWEST_FIRST,
    audit_bytes,
    checksum,
    numbered,
    parts,
    position_after,
    recorded,
)
from apiserver.storage.history.segment_reader import CACHE_KIB, DELTAS_MAX, SegmentReader
from apiserver.storage.history.thinning import Merge, OldRows

log = logging.getLogger(__name__)

FORMAT: Final = 3
_IN_MEMORY: Final = ":memory:"
# How long a write waits for another process, in milliseconds.
_BUSY_MS: Final = 5_000
# IDs of keys and authors that are kept in memory, of each.
_IDS_MAX: Final = 4_096

_TABLES: Final = """
CREATE TABLE keys (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE);
CREATE TABLE authors (id INTEGER PRIMARY KEY, author TEXT NOT NULL UNIQUE);
-- The revisions of which all changes are here, and when the first of them was the newest.
CREATE TABLE spans (after INTEGER PRIMARY KEY, until INTEGER NOT NULL, at_ms INTEGER NOT NULL);
-- `deltas`: how many rows of the key there are since the last one whose value is whole, which may be in a
-- segment before; 0 if this one's is.
-- `value`: see `deltas.py`; NULL if the key was created.
-- `id` is the revision, and what of its transaction this is: rows are appended, and pages are full.
CREATE TABLE changes (
    id INTEGER PRIMARY KEY,
    key INTEGER NOT NULL,
    since INTEGER NOT NULL,
    value BLOB,
    deltas INTEGER NOT NULL,
    is_deletion INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    author INTEGER NOT NULL,
    audit_id BLOB NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE INDEX changes_by_key ON changes (key);
"""
_FIND_KEYS: Final = "SELECT key, id FROM keys WHERE key IN "
_INSERT_KEYS: Final = "INSERT INTO keys (key) VALUES "
_INSERT: Final = "INSERT INTO changes VALUES "
_ROW: Final = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_LAST_DELTAS: Final = """
    SELECT k.key, c.deltas FROM keys k
    CROSS JOIN changes c ON c.id = (SELECT max(id) FROM changes WHERE key = k.id) WHERE k.key IN ({})
"""
_T = TypeVar("_T")
DeltasBefore: TypeAlias = Callable[[Sequence[str]], Mapping[str, int]]


class Segment:
    """The changes of one file. All but its `reader` is for one thread.

    path: None for one in memory.
    """

    def __init__(
        self,
        path: Path | None,
        cipher: Cipher,
        digest: KeyDigests,
        *,
        follows: bool = False,
        deltas_before: DeltasBefore = lambda keys: {},
    ) -> None:
        """Opens the file, or makes it. Raises SegmentDamaged, SegmentOutdated, OSError.

        follows: whether another process writes it. deltas_before: `last_deltas` of all segments before it.
        """
        self._deltas_before = deltas_before
        self.path, self._cipher, self._digest = path, cipher, digest
        name = _IN_MEMORY if path is None else f"{path.absolute().as_uri()}?mode={'ro' if follows else 'rwc'}"
        with sqlite_errors():
            self._connection = sqlite3.connect(
                name, _BUSY_MS / 1000, isolation_level=None, check_same_thread=False, uri=True
            )
        try:
            with sqlite_errors():
                if follows:
                    self._connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
                    self._require_format()
                else:
                    self._prepare()
                purges.require_digests(self._connection, digest, notes=not follows)
                self.spans = self._spans()
                has_marks = purges.has_marks(self._connection)
                dropped = purges.dropped_prefixes(self._connection)
                has_thinned = thinning.has_thinned(self._connection)
        except BaseException:
            self._connection.close()
            raise
        # One that follows reads over this connection, which has the snapshot.
        self.reader = SegmentReader(
            *(None if follows else path, self._connection, digest),
            has_marks=has_marks,
            has_thinned=has_thinned,
        )
        self.reader.dropped = dropped
        # Held by each write: in memory, reads use the same connection.
        self._alone = self.reader.lock if path is None else nullcontext()
        # What is looked up for each row; a statement would release the interpreter's lock, and wait for it.
        self._key_ids: dict[str, int] = {}
        self._authors: dict[Author, tuple[str, int]] = {}
        self._deltas: dict[int, int] = {}
        # What was thinned last, while versions are dropped.
        self._old: OldRows | None = None

    def _prepare(self) -> None:
        execute = self._connection.execute
        # What a crash of the machine loses is read from the store again.
        execute("PRAGMA synchronous = NORMAL")
        execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        execute("PRAGMA journal_mode = WAL")
        if self._version() == 0:
            self._connection.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {FORMAT}; COMMIT;")
        self._require_format()
        self._connection.executescript(purges.TABLES)
        self._clean_if_possible()
        try:
            execute(f"SELECT {COLUMNS} {FROM} LIMIT 0")
            execute("SELECT after, until, at_ms FROM spans LIMIT 0")
        except sqlite3.OperationalError as error:
            raise SegmentDamaged(str(error)) from None

    def _version(self) -> int:
        return int(self._connection.execute("PRAGMA user_version").fetchone()[0])

    def _require_format(self) -> None:
        version = self._version()
        if version == 0:
            raise OSError(f"{self.path} is being made")
        if version != FORMAT:
            raise SegmentOutdated(f"their format is {version}; this release reads {FORMAT}")

    def begin_snapshot(self) -> None:
        """Have all reads see what another process has written by now, and nothing that it writes later.

        It must end soon: until then, that process cannot complete a purge. Raises SegmentDamaged, OSError.
        """
        # One that could not be ended is of an earlier read.
        self.end_snapshot()
        with sqlite_errors():
            self._connection.execute("BEGIN")
            self.spans = self._spans()
            self.reader.has_marks = purges.has_marks(self._connection)
            self.reader.has_thinned = thinning.has_thinned(self._connection)
            self.reader.dropped = purges.dropped_prefixes(self._connection)

    def end_snapshot(self) -> None:
        """End the snapshot, if there is one. Raises SegmentDamaged, OSError."""
        if self._connection.in_transaction:
            with sqlite_errors():
                self._connection.execute("ROLLBACK")

    def _clean_if_possible(self) -> None:
        """Remove what purges and rewrites may have left. Nothing of a server depends on its history."""
        try:
            with sqlite_errors():
                purges.clean(self._connection)
        except OSError as error:
            log.error(
                "%s may still contain what was purged, or values under an earlier key; the next purge or "
                "start removes it: %s",
                *(self.path, error),
            )

    def _spans(self) -> list[Span]:
        return [
            Span(*row) for row in self._connection.execute("SELECT after, until FROM spans ORDER BY after")
        ]

    @property
    def size_bytes(self) -> int:
        """The size of the file, without its log."""
        with sqlite_errors():
            (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
            (page_bytes,) = self._connection.execute("PRAGMA page_size").fetchone()
        return int(pages) * int(page_bytes)

    def finish(self) -> None:
        """Note that nothing more is written: release memory, and the space of SQLite's log."""
        self.forget_ids()
        with sqlite_errors():
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        # The last connection that is closed empties SQLite's log, which one that only reads cannot do.
        self.reader.close()
        self._connection.close()

    # ---- writing

    def append(
        self,
        changes: Sequence[Change],
        span: Span,
        at_ms: int,
        dropped: Mapping[str, int],
        purged: Sequence[PurgedKey],
    ) -> None:
        """Add changes in one transaction. span: the revisions whose changes all are here then.

        at_ms: now, for a span that continues no other one. dropped: see `UndoLog.append`.
        purged: keys of which changes in the span are not added, as they were purged before.

        Raises OSError if the disk is full, for example; then nothing is added.
        """
        with sqlite_errors(), self._alone:
            with self._transaction():
                for part in parts(list(numbered(changes))):
                    self._insert(part)
                digests = {self._digest(prefix): revision for prefix, revision in dropped.items()}
                purges.mark_dropped(self._connection, digests)
                for each in purged:
                    purges.mark(self._connection, each, self._digest)
                    self.reader.has_marks = True
                self._extend(span, at_ms)
                spans = self._spans()
            self.spans = spans
            self.reader.dropped = {**self.reader.dropped, **digests}

    def purge(self, wanted: WantedKeys, scope: str) -> tuple[int, frozenset[str]]:
        """Remove all changes of some keys. Returns the number of changes, and the keys.

        scope: see `UndoLog.purge`.
        Raises OSError; then some of them may still be in the file, and the next purge or start removes them.
        """
        with self._purging():
            keys = purges.matching_keys(self._connection, wanted)
            count = purges.delete_keys(self._connection, keys, scope, self._digest) if keys else 0
        return count, frozenset(key for _, key in keys)

    def keys(self, wanted: WantedKeys) -> Sequence[str]:
        """Returns the wanted keys of which there are changes. Raises SegmentDamaged, OSError."""
        with sqlite_errors(), self._alone:
            return [key for _, key in purges.matching_keys(self._connection, wanted)]

    def purge_until(self, revision: int) -> purges.Purged:
        """Remove all changes up to a revision. Raises as `purge` does."""
        with self._purging():
            return purges.delete_until(self._connection, revision)

    def clean(self) -> None:
        """Remove what purges and rewrites may have left. Raises OSError."""
        with sqlite_errors(), self.reader.lock:
            purges.clean(self._connection)

    def shrink(self) -> None:
        """Do the same if it need not wait for another process that reads the file. Raises SegmentDamaged."""
        with sqlite_errors():
            self._connection.execute("PRAGMA busy_timeout = 0")
        try:
            self.clean()
        except OSError as error:
            log.info("%s gets smaller later: %s", self.path, error)
        finally:
            self._connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")

    @contextmanager
    def _purging(self) -> Iterator[None]:
        """Runs the body in a transaction without reads, and then rewrites the file if it has to be."""
        self.forget_ids()
        with sqlite_errors(), self.reader.lock:
            self._connection.execute("PRAGMA secure_delete = ON")
            with self._transaction():
                yield
                spans = self._spans()
            self.spans = spans
            self.reader.has_marks = True
            self.reader.dropped = purges.dropped_prefixes(self._connection)
            purges.clean(self._connection)

    def rewrite(self, position: int, is_wanted: Callable[[str], bool]) -> Rewritten:
        """Encrypt some values again, from a position on, until there are no more.

        Raises as `UndoLog.rewrite`, SegmentDamaged.
        """
        with sqlite_errors(), self._alone:
            found = rewrites.find(self._connection, self._cipher, position, is_wanted)
            if found.updates:
                with self._transaction():
                    rewrites.write(self._connection, found.updates)
                    purges.mark_unclean(self._connection)
        if not found.rewritten.position:
            self.clean()
        return found.rewritten

    def old_rows(self, before_ms: int, is_wanted: Callable[[str], bool]) -> OldRows | None:
        """Returns the next rows to thin, the same ones until they were; None at the end.

        Raises SegmentDamaged, OSError.
        """
        if (done := self._old) is None:
            last = self.reader.revision_at(before_ms - 1, self.spans[-1].until if self.spans else 0)
            done = OldRows(position_after(last) - 1, 0, 0, {})
        with sqlite_errors(), self._alone, self._transaction():
            found = thinning.old_rows(self._connection, done, is_wanted)
        if found is None:
            self._old = None
        return found

    def parts_of(self, old: OldRows) -> Iterator[tuple[str, Sequence[tuple[int, int]]]]:
        """Yields rows to thin, some of one key at a time. Raises SegmentDamaged, OSError.

        If the caller does not come to the end, `old_rows` returns these again.
        """
        for key, (first, last) in old.keys.items():
            while first <= last:
                with sqlite_errors(), self._alone:
                    rows = thinning.rows_of(self._connection, key, first, last)
                if len(rows) > 1:
                    yield key, rows
                # The next part begins with the last of these, whose version has a newer change there.
                first = rows[-1][0] if len(rows) == thinning.PART_ROWS else last + 1
        self._old = old

    def thin(self, key: str, merges: Sequence[Merge]) -> int:
        """Drop versions of a key. Returns their number. Raises as `UndoLog.thin`, SegmentDamaged."""
        if not merges:
            return 0
        with sqlite_errors(), self._alone, self._transaction():
            count = sum(thinning.merge(self._connection, self._cipher, key, each) for each in merges)
            # Its space is free when the file is rewritten.
            purges.mark_unclean(self._connection)
            self.reader.has_thinned = True
        self.forget_ids()
        return count

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Runs the body in a transaction, of which nothing remains if it raises."""
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        try:
            yield
            execute("COMMIT")
        except BaseException:
            self.forget_ids()
            # SQLite has done it itself if the disk is full.
            if self._connection.in_transaction:
                execute("ROLLBACK")
            raise

    def forget_ids(self) -> None:
        """Drop what is kept in memory for writing."""
        for each in (self._key_ids, self._authors, self._deltas):
            each.clear()

    def _extend(self, span: Span, at_ms: int) -> None:
        """Add revisions to the span that they continue, if there is one."""
        execute = self._connection.execute
        extended = execute("UPDATE spans SET until = ? WHERE until = ?", (span.until, span.after))
        if not extended.rowcount:
            execute("INSERT OR REPLACE INTO spans VALUES (?, ?, ?)", (*span, at_ms))

    def _insert(self, changes: Sequence[tuple[int, Change]]) -> None:
        new = self._find_ids([change.key for _, change in changes])
        replaced = {change.key for _, change in changes if change.previous is not None}
        if first := [key for key in new if key in replaced]:
            counts = self._deltas_before(first)
            self._deltas.update((self._key_ids[key], count) for key, count in counts.items())
        values: list[object] = []
        for row_id, change in changes:
            values += self._row(row_id, change)
        self._connection.execute(_INSERT + ", ".join([_ROW] * len(changes)), values)

    def _row(self, row_id: int, change: Change) -> Sequence[object]:
        key = self._key_ids[change.key]
        encoded, count = (None, 0) if change.previous is None else self._encoded(change, key)
        self._deltas[key] = count
        text, author = self._authors.get(change.author) or self._new_author(change.author)
        is_deletion, audit_id = int(change.newer is None), audit_bytes(change.audit_id)
        facts = (row_id, change.since, encoded, count, is_deletion, change.at_ms, text, audit_id)
        digest = checksum(change.key, facts)
        return (
            *(row_id, key, change.since, encoded, count, is_deletion, change.at_ms),
            *(author, audit_id, digest),
        )

    def _encoded(self, change: Change, key: int) -> tuple[bytes, int]:
        """Returns the previous value of a change, and the number for the column `deltas`."""
        assert change.previous is not None
        count = 0 if change.newer is None else self._deltas_of(key) + 1
        if change.newer is None or count > DELTAS_MAX:
            count, encoded = 0, deltas.encode_whole(change.previous)
        else:
            encoded = deltas.encode(change.previous, change.newer)
        return self._cipher.encrypt(change.key, encoded), count

    def _deltas_of(self, key: int) -> int:
        """Returns the column `deltas` of the last change of a key; 0 if there is none."""
        found = self._deltas.get(key)
        if found is None:
            row = self._connection.execute(
                "SELECT deltas FROM changes WHERE key = ? ORDER BY id DESC LIMIT 1", (key,)
            ).fetchone()
            found = 0 if row is None else int(row[0])
        return found

    def _find_ids(self, keys: Sequence[str]) -> Sequence[str]:
        """Look up the IDs of keys together, and give one to each that has none. Returns these keys."""
        if len(self._key_ids) >= _IDS_MAX or len(self._deltas) >= _IDS_MAX:
            self._key_ids.clear()
            self._deltas.clear()
        execute = self._connection.execute
        for part in parts([key for key in dict.fromkeys(keys) if key not in self._key_ids]):
            self._key_ids.update(execute(_FIND_KEYS + f"({', '.join('?' * len(part))})", part))
        new = [key for key in dict.fromkeys(keys) if key not in self._key_ids]
        for part in parts(new):
            last = execute(_INSERT_KEYS + ", ".join(["(?)"] * len(part)), part).lastrowid
            assert last is not None
            # SQLite counts up from the largest ID that there is. A purge may have deleted larger ones, but
            # also all rows that had them, and what was kept here of them.
            self._key_ids.update(zip(part, range(last - len(part) + 1, last + 1), strict=True))
        return new

    def _new_author(self, author: Author) -> tuple[str, int]:
        """Returns an author as text, and the row that has it."""
        if len(self._authors) >= _IDS_MAX:
            self._authors.clear()
        text = json.dumps(author)
        execute = self._connection.execute
        row = execute("SELECT id FROM authors WHERE author = ?", (text,)).fetchone()
        if row is None:
            row = (execute("INSERT INTO authors (author) VALUES (?)", (text,)).lastrowid,)
        found = self._authors[author] = text, int(row[0])
        return found

    # ---- what the thread that writes looks up

    @property
    def newest_ms(self) -> int:
        """The time of the last change, in milliseconds since 1970; 0 if there is none."""
        rows = self._rows("SELECT at_ms FROM changes ORDER BY id DESC LIMIT 1", ())
        return int(rows[0][0]) if rows else 0

    @property
    def begun_ms(self) -> int | None:
        """The time at which the first of its states was the newest; None if it has none.

        It has none if no changes could be added to it, or if all were purged.
        """
        begun: int | None = self._rows("SELECT min(at_ms) FROM spans", ())[0][0]
        return begun

    def last_change(self) -> tuple[str, RecordedChange] | None:
        """Returns the newest change, with its key. Raises SegmentDamaged."""
        rows = self._rows(f"{NEWEST_FIRST} LIMIT 1", (0, ID_MAX))
        return (rows[0][0], recorded(rows[0][0], rows[0][1:])) if rows else None

    def last_deltas(self, keys: Sequence[str]) -> Mapping[str, int]:
        """Returns the column `deltas` of the last change of each of some keys that has one.

        Raises SegmentDamaged, OSError.
        """
        found: dict[str, int] = {}
        with sqlite_errors(), self._alone:
            for part in parts(keys):
                query = _LAST_DELTAS.format(", ".join("?" * len(part)))
                found.update(self._connection.execute(query, part))
        return found

    def _rows(self, query: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        with sqlite_errors():
            return self._connection.execute(query, values).fetchall()
