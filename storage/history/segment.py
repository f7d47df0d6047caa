"""One file of the history: the changes of some time, in SQLite.

A segment is written by one thread, and dropped as a whole. Each row has a checksum, so that altered bytes are
found; SQLite itself finds only a damaged structure.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from apiserver.storage.history import deltas
from apiserver.storage.history.changes import Author, Change, Cipher, KeyChange, RecordedChange, Span
from apiserver.storage.interface import KeyRange

FORMAT: Final = 2
# So that reading a value takes no longer than this many decodings.
DELTAS_MAX: Final = 31
_CACHE_KIB: Final = 1_024
# A transaction has at most `TRANSACTION_WRITES_MAX` writes; other clients of etcd may raise that limit.
_WRITE_BITS: Final = 16
_IN_MEMORY: Final = ":memory:"
# IDs of keys and authors that are kept in memory, of each.
_IDS_MAX: Final = 4_096
_UUID_BYTES: Final = 16

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
# As in `storage.embedded.writer`: rows that are inserted together wait for the interpreter's lock once. It is
# a power of two, as `_parts` makes parts of such sizes.
ROWS_INSERTED_MAX: Final = 64
_FIND_KEYS: Final = "SELECT key, id FROM keys WHERE key IN "
_INSERT_KEYS: Final = "INSERT INTO keys (key) VALUES "
_INSERT: Final = "INSERT INTO changes VALUES "
_ROW: Final = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_COLUMNS: Final = "c.id, c.since, c.value, c.deltas, c.is_deletion, c.at_ms, a.author, c.audit_id, c.checksum"
_FROM: Final = "FROM changes c JOIN keys k ON k.id = c.key JOIN authors a ON a.id = c.author"
_NEWEST_FIRST: Final = f"SELECT k.key, {_COLUMNS} {_FROM} WHERE c.id BETWEEN ? AND ? ORDER BY c.id DESC"
_ID_MAX: Final = (1 << 63) - 1


_T = TypeVar("_T")


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
                for part in _parts(list(_numbered(changes))):
                    self._insert(part)
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
        self._find_ids([change.key for _, change in changes])
        values: list[object] = []
        for row_id, change in changes:
            values += self._row(row_id, change)
        self._connection.execute(_INSERT + ", ".join([_ROW] * len(changes)), values)

    def _row(self, row_id: int, change: Change) -> Sequence[object]:
        key = self._key_ids[change.key]
        encoded, count = (None, 0) if change.previous is None else self._encoded(change, key)
        self._deltas[key] = count
        text, author = self._authors.get(change.author) or self._new_author(change.author)
        is_deletion, audit_id = int(change.newer is None), _audit_bytes(change.audit_id)
        facts = (row_id, change.since, encoded, count, is_deletion, change.at_ms, text, audit_id)
        checksum = _checksum(change.key, facts)
        return (
            *(row_id, key, change.since, encoded, count, is_deletion, change.at_ms),
            *(author, audit_id, checksum),
        )

    def _encoded(self, change: Change, key: int) -> tuple[bytes, int]:
        """Returns the previous value of a change, and how many newer rows are needed to decode it."""
        assert change.previous is not None
        count = 0 if change.newer is None else self._deltas_of(key) + 1
        if change.newer is None or count > DELTAS_MAX:
            count, encoded = 0, deltas.encode_whole(change.previous)
        else:
            encoded = deltas.encode(change.previous, change.newer)
        return self._cipher.encrypt(change.key, encoded), count

    def _deltas_of(self, key: int) -> int:
        """Returns how many newer rows are needed to decode the value of the last change of a key."""
        found = self._deltas.get(key)
        if found is None:
            row = self._connection.execute(
                "SELECT deltas FROM changes WHERE key = ? ORDER BY id DESC LIMIT 1", (key,)
            ).fetchone()
            found = 0 if row is None else int(row[0])
        return found

    def _find_ids(self, keys: Sequence[str]) -> None:
        """Look up the IDs of keys together, and give one to each that has none."""
        if len(self._key_ids) >= _IDS_MAX or len(self._deltas) >= _IDS_MAX:
            self._key_ids.clear()
            self._deltas.clear()
        execute = self._connection.execute
        for part in _parts([key for key in dict.fromkeys(keys) if key not in self._key_ids]):
            self._key_ids.update(execute(_FIND_KEYS + f"({', '.join('?' * len(part))})", part))
        for part in _parts([key for key in dict.fromkeys(keys) if key not in self._key_ids]):
            last = execute(_INSERT_KEYS + ", ".join(["(?)"] * len(part)), part).lastrowid
            assert last is not None
            # Nothing is deleted here, so SQLite counts up from the largest ID.
            self._key_ids.update(zip(part, range(last - len(part) + 1, last + 1), strict=True))

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
        rows = self._rows(f"{_NEWEST_FIRST} LIMIT 1", (0, _ID_MAX))
        return (rows[0][0], _recorded(rows[0][0], rows[0][1:])) if rows else None

    def changes(self, first: int, before: int) -> Iterator[KeyChange]:
        """Yields all changes with positions from `first` on and below `before`, the newest first.

        Raises SegmentDamaged. The values are read one at a time, and not kept.
        """
        with self._errors():
            for key, *row in self._connection.execute(_NEWEST_FIRST, (first, before - 1)):
                change = _recorded(key, row)
                yield KeyChange(row[0], key, change.revision, change.author)

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


def _parts(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Yields items in parts of few sizes: SQLite keeps a compiled statement for each number of parameters."""
    at, size = 0, ROWS_INSERTED_MAX
    while at < len(items):
        while size > len(items) - at:
            size //= 2
        yield items[at : at + size]
        at += size


def position_after(revision: int) -> int:
    """Returns the first position after all changes at a revision. Positions are the IDs of rows."""
    return (revision + 1) << _WRITE_BITS


def revision_at_position(position: int) -> int:
    return position >> _WRITE_BITS


def _ids(span: Span) -> tuple[int, int]:
    """Returns the first and the last ID that a row of a span may have."""
    return position_after(span.after), position_after(span.until) - 1


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


def _checksum(key: str, facts: Sequence[Any]) -> int:
    """Returns the checksum of a row. facts: the columns of `_COLUMNS` before it."""
    row_id, since, encoded, count, is_deletion, at_ms, author, audit_id = facts
    # With their lengths, so that bytes do not move from one column to the next.
    size = -1 if encoded is None else len(encoded)
    head = f"{row_id} {since} {size} {count} {is_deletion} {at_ms} {len(audit_id)} {len(key)} {key}{author}"
    return zlib.crc32(encoded or b"", zlib.crc32(audit_id, zlib.crc32(head.encode())))


def _audit_bytes(audit_id: str) -> bytes:
    """Returns an audit ID in the fewest bytes: most are UUIDs."""
    if not audit_id:
        return b""
    try:
        short = bytes.fromhex(audit_id.replace("-", ""))
    except ValueError:
        short = b""
    if len(short) == _UUID_BYTES and _uuid_text(short.hex()) == audit_id:
        return b"u" + short
    return b"t" + audit_id.encode()


def _audit_text(audit_id: bytes) -> str:
    return _uuid_text(audit_id[1:].hex()) if audit_id[:1] == b"u" else audit_id[1:].decode()


def _uuid_text(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
