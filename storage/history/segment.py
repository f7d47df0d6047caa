"""One file of the history: the changes of some time, in SQLite.

A segment is written by one thread, and dropped as a whole. Each row has a checksum, so that altered bytes are
found; SQLite itself finds only a damaged structure.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from apiserver.storage.history import deltas
from apiserver.storage.history.changes import Author, Change, Cipher, RecordedChange, Span
from apiserver.storage.interface import KeyRange

FORMAT: Final = 1
# So that reading a value takes no longer than this many decodings.
DELTAS_MAX: Final = 31
_CACHE_KIB: Final = 1_024
# A transaction has at most `TRANSACTION_WRITES_MAX` writes; other clients of etcd may raise that limit.
_WRITE_BITS: Final = 16
_IN_MEMORY: Final = ":memory:"
# IDs of keys and authors that are kept in memory, of each.
_IDS_MAX: Final = 4_096

_TABLES: Final = """
CREATE TABLE keys (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE);
CREATE TABLE authors (id INTEGER PRIMARY KEY, author TEXT NOT NULL UNIQUE);
-- The revisions of which all changes are here, and when the first of them was the newest.
CREATE TABLE spans (after INTEGER PRIMARY KEY, until INTEGER NOT NULL, at_ms INTEGER NOT NULL);
-- `deltas`: how many newer rows of the key are needed to decode the value. `value`: see `deltas.py`; NULL
-- if the key was created.
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
# As in `storage.embedded.writer`: rows that are inserted together wait for the interpreter's lock once.
ROWS_INSERTED_MAX: Final = 64
_INSERT: Final = "INSERT INTO changes VALUES "
_ROW: Final = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_COLUMNS: Final = "c.id, c.since, c.value, c.deltas, c.is_deletion, c.at_ms, a.author, c.audit_id, c.checksum"
_FROM: Final = "FROM changes c JOIN keys k ON k.id = c.key JOIN authors a ON a.id = c.author"


class _Ids(NamedTuple):
    """The statements that find the ID of a text, and give it one."""

    find: str
    insert: str


_KEY: Final = _Ids("SELECT id FROM keys WHERE key = ?", "INSERT INTO keys (key) VALUES (?)")
_AUTHOR: Final = _Ids("SELECT id FROM authors WHERE author = ?", "INSERT INTO authors (author) VALUES (?)")


class SegmentDamaged(Exception):
    """A segment cannot be read: it was cut or altered."""


class Segment:
    """The changes of one file. path: None for one in memory."""

    def __init__(self, path: Path | None, cipher: Cipher) -> None:
        """Opens the file, or makes it. Raises SegmentDamaged, OSError."""
        self.path, self._cipher = path, cipher
        with self._errors():
            self._connection = sqlite3.connect(
                _IN_MEMORY if path is None else path, isolation_level=None, check_same_thread=False
            )
        try:
            with self._errors():
                self._prepare()
                self.spans = self._spans()
        except BaseException:
            self._connection.close()
            raise
        # What is looked up for each row; a statement would release the interpreter's lock, and wait for it.
        self._key_ids: dict[str, int] = {}
        self._authors: dict[Author, tuple[str, int]] = {}
        self._deltas: dict[int, int] = {}

    def _prepare(self) -> None:
        execute = self._connection.execute
        # What a crash of the machine loses is read from the store again.
        execute("PRAGMA synchronous = NORMAL")
        execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        execute("PRAGMA journal_mode = WAL")
        (version,) = execute("PRAGMA user_version").fetchone()
        if version == 0:
            self._connection.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {FORMAT}; COMMIT;")
        elif version != FORMAT:
            raise SegmentDamaged(f"its format is {version}, not {FORMAT}")
        try:
            execute(f"SELECT {_COLUMNS} {_FROM} LIMIT 0")
            execute("SELECT after, until, at_ms FROM spans LIMIT 0")
        except sqlite3.OperationalError as error:
            raise SegmentDamaged(str(error)) from None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raises SegmentDamaged for SQLite's errors about the content of the file, and OSError for others."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise SegmentDamaged(str(error)) from None
            raise OSError(str(error)) from None

    def _spans(self) -> list[Span]:
        return [
            Span(*row) for row in self._connection.execute("SELECT after, until FROM spans ORDER BY after")
        ]

    @property
    def size_bytes(self) -> int:
        """The size of the file, without its log."""
        with self._errors():
            (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
            (page_bytes,) = self._connection.execute("PRAGMA page_size").fetchone()
        return int(pages) * int(page_bytes)

    def finish(self) -> None:
        """Note that nothing more is written: release memory, and the space of SQLite's log."""
        self.forget_ids()
        with self._errors():
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        self._connection.close()

    # ---- writing

    def append(self, changes: Sequence[Change], span: Span, at_ms: int) -> None:
        """Add changes in one transaction. span: the revisions whose changes all are here then.

        at_ms: now, for a span that continues no other one.

        Raises OSError if the disk is full, for example; then nothing is added.
        """
        with self._errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                numbered = list(_numbered(changes))
                for at in range(0, len(numbered), ROWS_INSERTED_MAX):
                    self._insert(numbered[at : at + ROWS_INSERTED_MAX])
                self._extend(span, at_ms)
                spans = self._spans()
                self._connection.execute("COMMIT")
            except BaseException:
                self.forget_ids()
                # SQLite has done it itself if the disk is full.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            self.spans = spans

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
        values: list[object] = []
        for row_id, change in changes:
            values += self._row(row_id, change)
        self._connection.execute(_INSERT + ", ".join([_ROW] * len(changes)), values)

    def _row(self, row_id: int, change: Change) -> Sequence[object]:
        key = self._key_id(change.key)
        encoded, count = self._encoded(change, key)
        author, author_id = self._author(change.author)
        facts = (change.since, encoded, count, int(change.newer is None), change.at_ms)
        audit_id = _audit_bytes(change.audit_id)
        checksum = _checksum(change.key, (row_id, *facts, author, audit_id))
        return (row_id, key, *facts, author_id, audit_id, checksum)

    def _encoded(self, change: Change, key: int) -> tuple[bytes | None, int]:
        """Returns the previous value of a change, and how many newer rows are needed to decode it."""
        count, encoded = 0, None
        if change.previous is not None:
            count = 0 if change.newer is None else self._deltas_of(key) + 1
            if change.newer is None or count > DELTAS_MAX:
                count, encoded = 0, deltas.encode_whole(change.previous)
            else:
                encoded = deltas.encode(change.previous, change.newer)
            encoded = self._cipher.encrypt(change.key, encoded)
        if len(self._deltas) >= _IDS_MAX:
            self._deltas.clear()
        self._deltas[key] = count
        return encoded, count

    def _deltas_of(self, key: int) -> int:
        """Returns how many newer rows are needed to decode the value of the last change of a key."""
        found = self._deltas.get(key)
        if found is None:
            row = self._connection.execute(
                "SELECT deltas FROM changes WHERE key = ? ORDER BY id DESC LIMIT 1", (key,)
            ).fetchone()
            found = 0 if row is None else int(row[0])
        return found

    def _key_id(self, key: str) -> int:
        found = self._key_ids.get(key)
        if found is None:
            if len(self._key_ids) >= _IDS_MAX:
                self._key_ids.clear()
            found = self._key_ids[key] = self._id(_KEY, key)
        return found

    def _author(self, author: Author) -> tuple[str, int]:
        """Returns an author as text, and the row that has it."""
        found = self._authors.get(author)
        if found is None:
            if len(self._authors) >= _IDS_MAX:
                self._authors.clear()
            text = json.dumps(author)
            found = self._authors[author] = text, self._id(_AUTHOR, text)
        return found

    def _id(self, of: _Ids, text: str) -> int:
        found = self._connection.execute(of.find, (text,)).fetchone()
        if found is None:
            found = (self._connection.execute(of.insert, (text,)).lastrowid,)
        return int(found[0])

    # ---- reading

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
            f"SELECT {_COLUMNS} {_FROM} WHERE k.key = ? AND c.id BETWEEN ? AND ?"
            f" ORDER BY c.id {order} LIMIT ?",
            (key, *_ids(span), limit),
        )
        return [_recorded(key, row) for row in rows]

    @property
    def newest_ms(self) -> int:
        """The time of the last change, in milliseconds since 1970; 0 if there is none."""
        rows = self._rows("SELECT at_ms FROM changes ORDER BY id DESC LIMIT 1", ())
        return int(rows[0][0]) if rows else 0

    def first_changes(self, keys: KeyRange, span: Span) -> dict[str, tuple[int, bool]]:
        """Returns the revision of the first change in a span of each key in a range that has any.

        With it, whether the key was created in the span.
        """
        rows = self._rows(
            "SELECT k.key, min(c.id), min(c.since) = 0 FROM keys k JOIN changes c ON c.key = k.id"
            " WHERE k.key >= ? AND k.key < ? AND c.id BETWEEN ? AND ? GROUP BY k.id",
            (keys.start, keys.end, *_ids(span)),
        )
        return {key: (row_id >> _WRITE_BITS, bool(is_created)) for key, row_id, is_created in rows}

    def last_creation(self, key: str) -> int:
        """Returns the revision at which a key was last created; 0 if that is not recorded here."""
        rows = self._rows(
            "SELECT max(c.id) FROM keys k JOIN changes c ON c.key = k.id WHERE k.key = ? AND c.since = 0",
            (key,),
        )
        return int(rows[0][0] or 0) >> _WRITE_BITS

    def last_change(self) -> tuple[str, RecordedChange] | None:
        """Returns the newest change, with its key. Raises SegmentDamaged."""
        rows = self._rows(f"SELECT k.key, {_COLUMNS} {_FROM} ORDER BY c.id DESC LIMIT 1", ())
        return (rows[0][0], _recorded(rows[0][0], rows[0][1:])) if rows else None

    def revision_at(self, at_ms: int) -> int:
        """Returns the newest revision up to a time, as far as it is recorded; 0 if that is unknown.

        Times never decrease.
        """
        rows = self._rows("SELECT max(after) FROM spans WHERE at_ms <= ?", (at_ms,))
        found = int(rows[0][0] or 0)
        low, high = found + 1, self.spans[-1].until if self.spans else 0
        while low <= high:
            middle = (low + high) // 2
            rows = self._rows(
                "SELECT id, at_ms FROM changes WHERE id >= ? ORDER BY id LIMIT 1", (middle << _WRITE_BITS,)
            )
            row_id, time_ms = rows[0] if rows else (0, at_ms + 1)
            revision = row_id >> _WRITE_BITS
            if time_ms <= at_ms:
                found, low = revision, revision + 1
            else:
                high = middle - 1
        return found

    def _rows(self, query: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        with self._errors():
            return self._connection.execute(query, values).fetchall()


def _numbered(changes: Iterable[Change]) -> Iterator[tuple[int, Change]]:
    """Yields changes with the IDs of their rows. All those of a transaction follow one another."""
    revision = number = 0
    for change in changes:
        number = number + 1 if change.revision == revision else 0
        revision = change.revision
        yield revision << _WRITE_BITS | number, change


def _ids(span: Span) -> tuple[int, int]:
    """Returns the first and the last ID that a row of a span may have."""
    return (span.after + 1) << _WRITE_BITS, ((span.until + 1) << _WRITE_BITS) - 1


def _recorded(key: str, row: Sequence[Any]) -> RecordedChange:
    """Returns the change in a row of `_COLUMNS`. Raises SegmentDamaged if the row was altered."""
    *facts, checksum = row
    row_id, since, encoded, count, is_deletion, at_ms, author, audit_id = facts
    revision = row_id >> _WRITE_BITS
    if _checksum(key, facts) != checksum:
        raise SegmentDamaged(f"the change of {key} at revision {revision} was altered")
    return RecordedChange(
        *(revision, since, encoded, not count, bool(is_deletion), at_ms, Author(*json.loads(author))),
        _audit_text(audit_id),
    )


def _checksum(key: str, facts: Iterable[object]) -> int:
    """Returns the checksum of a row. facts: the columns of `_COLUMNS` before it."""
    checksum = zlib.crc32(key.encode())
    for fact in facts:
        data = fact if isinstance(fact, bytes) else repr(fact).encode()
        # With its length, so that bytes do not move from one column to the next.
        checksum = zlib.crc32(data, zlib.crc32(b"%d " % len(data), checksum))
    return checksum


def _audit_bytes(audit_id: str) -> bytes:
    """Returns an audit ID in the fewest bytes: most are UUIDs."""
    try:
        short = uuid.UUID(audit_id)
    except ValueError:
        return b"t" + audit_id.encode() if audit_id else b""
    return b"u" + short.bytes if str(short) == audit_id else b"t" + audit_id.encode()


def _audit_text(audit_id: bytes) -> str:
    return str(uuid.UUID(bytes=audit_id[1:])) if audit_id[:1] == b"u" else audit_id[1:].decode()
