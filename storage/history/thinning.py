"""Drops versions of little interest from a segment, and notes where, and how many they were.

Dropping the version that a change has made removes this change, and the next change of the key gets the value
before it. So a version can be dropped only if the segment has a newer change of the key.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from apiserver.storage.history import deltas
from apiserver.storage.history.changes import Cipher
from apiserver.storage.history.past_values import RecordedVersion, Value
from apiserver.storage.history.rows import COLUMNS, FROM, WRITE_BITS, checksum, recorded

# What is looked at in one go: others use the thread in between. So many rows take some tenths of a second.
KEYS_MAX: Final = 25
ROWS_MAX: Final = 1_000
# Rows of one key whose values are in memory at the same time.
PART_ROWS: Final = 33
# Only in segments that are thinned: each takes a page.
TABLES: Final = (
    # `id`: of a row of `changes`. So many versions before it were dropped, the first of them made at the
    # revision `first`, at the time `at_ms`.
    """
    CREATE TABLE IF NOT EXISTS thinned (
        id INTEGER PRIMARY KEY,
        key INTEGER NOT NULL,
        count INTEGER NOT NULL,
        first INTEGER NOT NULL,
        at_ms INTEGER NOT NULL
    )
    """,
    # The last row that was looked at.
    "CREATE TABLE IF NOT EXISTS thinned_until (id INTEGER NOT NULL)",
)
# The keys of a range that had dropped versions at a revision.
KEYS_AT: Final = """
    SELECT k.key FROM thinned t JOIN keys k ON k.id = t.key
    WHERE t.id >= ? AND t.first <= ? AND k.key >= ? AND k.key < ?
"""
# The last revision after another one, and up to a time, at which dropped versions of a key began.
BEGUN_UNTIL: Final = "SELECT max(first) FROM thinned WHERE first > ? AND at_ms <= ?"
# How many versions were dropped before changes of a key.
COUNTS_OF: Final = """
    SELECT t.id, t.count FROM thinned t JOIN keys k ON k.id = t.key WHERE k.key = ? AND t.id BETWEEN ? AND ?
"""
# CROSS JOIN: as for the first changes of keys in `segment_reader`.
_KEYS: Final = """
    SELECT k.id, k.key, count(*), min(c.id), max(c.id) FROM keys k CROSS JOIN changes c ON c.key = k.id
    WHERE k.id >= ? AND (k.id > ? OR c.id > ?) AND c.id > ? AND c.id <= ? GROUP BY k.id ORDER BY k.id
"""
_ROW_AT: Final = "SELECT id FROM changes WHERE key = ? AND id >= ? ORDER BY id LIMIT 1 OFFSET ?"
# With the row before the first one, whose version had no newer change when it was looked at.
_ROWS_OF_KEY: Final = """
    SELECT c.id, c.since FROM changes c JOIN keys k ON k.id = c.key WHERE k.key = ?
    AND c.id >= coalesce((SELECT max(id) FROM changes WHERE key = k.id AND id < ?), ?)
    AND c.id <= coalesce((SELECT min(id) FROM changes WHERE key = k.id AND id > ?), ?)
    ORDER BY c.id LIMIT ?
"""


class OldRows(NamedTuple):
    """Rows that may be thinned. until: the last one of all keys.

    last_key, last_row: the ID of the last of these keys, and the last row of it that is one of these.
    keys: the first and last row of each.
    """

    until: int
    last_key: int
    last_row: int
    keys: Mapping[str, tuple[int, int]]


class Merge(NamedTuple):
    """Versions to drop: those that the rows from `first` to `last` have made.

    row: the next row of the key, which gets the value `before` them. after: the value after that row; None
    if it is a deletion.
    """

    first: int
    last: int
    row: int
    before: Value
    after: bytes | None


def has_thinned(connection: sqlite3.Connection) -> bool:
    """Returns whether any version was dropped."""
    if not is_prepared(connection):
        return False
    return connection.execute("SELECT 1 FROM thinned LIMIT 1").fetchone() is not None


def is_prepared(connection: sqlite3.Connection) -> bool:
    """Returns whether the segment has the tables."""
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'thinned'").fetchone() is not None


def forget_key(connection: sqlite3.Connection, key_id: int) -> None:
    """Forget what was dropped of a key that is purged."""
    if is_prepared(connection):
        connection.execute("DELETE FROM thinned WHERE key = ?", (key_id,))


def forget_until(connection: sqlite3.Connection, last: int) -> None:
    """Forget what was dropped before rows that are purged. last: the last of these rows."""
    if is_prepared(connection):
        connection.execute("DELETE FROM thinned WHERE id <= ?", (last,))


def old_rows(
    connection: sqlite3.Connection, before: OldRows, is_wanted: Callable[[str], bool]
) -> OldRows | None:
    """Returns the rows to look at after others, in a transaction; None if there are none.

    That they were looked at is only noted at the end: until then, it may be done again.
    """
    execute = connection.execute
    for table in TABLES:
        execute(table)
    (done,) = execute("SELECT coalesce(max(id), 0) FROM thinned_until").fetchone()
    if before.until <= done:
        return None
    keys: dict[str, tuple[int, int]] = {}
    last_key = last_row = rows = 0
    begin = (before.last_key, before.last_key, before.last_row)
    for key_id, key, count, first, last in execute(_KEYS, (*begin, done, before.until)):
        if not is_wanted(key):
            continue
        if rows + count > ROWS_MAX:
            (last,) = execute(_ROW_AT, (key_id, first, ROWS_MAX - rows - 1)).fetchone()
        keys[key] = first, last
        last_key, last_row, rows = key_id, last, rows + count
        if len(keys) == KEYS_MAX or rows >= ROWS_MAX:
            break
    if keys:
        return OldRows(before.until, last_key, last_row, keys)
    execute("DELETE FROM thinned_until")
    execute("INSERT INTO thinned_until VALUES (?)", (before.until,))
    return None


def rows_of(connection: sqlite3.Connection, key: str, first: int, last: int) -> Sequence[tuple[int, int]]:
    """Returns the IDs of rows of a key, and their `since`; also of the row before them, and the one after."""
    return connection.execute(_ROWS_OF_KEY, (key, first, first, last, last, PART_ROWS)).fetchall()


def merges(
    rows: Sequence[tuple[int, int]],
    versions: Mapping[int, RecordedVersion],
    is_minor: Callable[[bytes, bytes], bool],
) -> Iterator[Merge]:
    """Yields what becomes of rows of a key. versions: by revision.

    is_minor: whether the second of two values differs from the first one in nothing that must be kept.
    """

    def value_at(revision: int) -> bytes | None:
        version = versions.get(revision)
        return None if version is None else version.value

    first: tuple[int, int] | None = None  # of the versions to drop
    last = 0
    for (row, since), following in zip(rows, (*rows[1:], None), strict=True):
        before, after = value_at(since), value_at(row >> WRITE_BITS)
        if following is not None and before and after and is_minor(before, after):
            first, last = first or (row, since), row
            continue
        begin = None if first is None else value_at(first[1])
        if first is not None and begin:
            version = versions.get(row >> WRITE_BITS)
            if version is not None and not version.is_lost:
                yield Merge(first[0], last, row, Value(begin, first[1]), after)
        first = None


def merge(connection: sqlite3.Connection, cipher: Cipher, key: str, what: Merge) -> int:
    """Drop versions, in a transaction. Returns their number. Raises SegmentDamaged, and as the cipher."""
    execute = connection.execute
    row = execute(f"SELECT c.key, {COLUMNS} {FROM} WHERE c.id = ?", (what.row,)).fetchone()
    key_id, facts = row[0], row[1:]
    recorded(key, facts)
    run = (key_id, what.first, what.row)
    # Older values need a whole one that is not farther away than before.
    (least,) = execute("SELECT min(deltas) FROM changes WHERE key = ? AND id BETWEEN ? AND ?", run).fetchone()
    is_whole = what.after is None or not least
    encoded = (
        deltas.encode_whole(what.before.value)
        if what.after is None or is_whole
        else deltas.encode(what.before.value, what.after)
    )
    count = 0 if is_whole else facts[3]
    changed = (what.row, what.before.revision, cipher.encrypt(key, encoded), count, *facts[4:-1])
    execute(
        "UPDATE changes SET since = ?, value = ?, deltas = ?, checksum = ? WHERE id = ?",
        (*changed[1:4], checksum(key, changed), what.row),
    )
    (begin_ms,) = execute("SELECT at_ms FROM changes WHERE id = ?", (what.first,)).fetchone()
    known, first, at_ms = execute(
        "SELECT coalesce(sum(count), 0), min(?, coalesce(min(first), ?)), min(?, coalesce(min(at_ms), ?))"
        " FROM thinned WHERE key = ? AND id BETWEEN ? AND ?",
        (*[what.first >> WRITE_BITS] * 2, *[begin_ms] * 2, *run),
    ).fetchone()
    between = (key_id, what.first, what.last)
    dropped = execute("DELETE FROM changes WHERE key = ? AND id BETWEEN ? AND ?", between).rowcount
    execute("DELETE FROM thinned WHERE key = ? AND id BETWEEN ? AND ?", between)
    execute(
        "INSERT OR REPLACE INTO thinned VALUES (?, ?, ?, ?, ?)",
        (what.row, key_id, known + dropped, first, at_ms),
    )
    return dropped
