"""Removes changes from a segment so that its files contain nothing of them, and marks what is missing.

A mark has no key, only digests: of the key, and of each prefix of it, so that reads of a range find it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from apiserver.storage.history import thinning
from apiserver.storage.history.damage import SegmentOutdated
from apiserver.storage.history.digests import KeyDigests
from apiserver.storage.history.rows import WRITE_BITS
from apiserver.storage.interface import KeyRange

# Says, as a mark, that rows were deleted, but that their bytes may still be in the file.
_UNCLEAN: Final = b""
# The revision of such a mark, which is 0 at first: the file is rewritten, but its log has not been emptied.
_REWRITTEN: Final = 1
NO_DROPS: Final[Mapping[str, int]] = MappingProxyType({})
TABLES: Final = """
-- The changes of a key up to revision `until` were purged. `scope`: the digest of the key, or of a prefix.
CREATE TABLE IF NOT EXISTS purged (
    scope BLOB NOT NULL,
    key BLOB NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
) WITHOUT ROWID;
-- The changes of a prefix of keys, of which `scope` is the digest, up to revision `until` were not recorded.
CREATE TABLE IF NOT EXISTS dropped (scope BLOB PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID;
-- `KeyDigests.check` of all digests of the segment.
CREATE TABLE IF NOT EXISTS digests (made_by BLOB PRIMARY KEY) WITHOUT ROWID;
"""
_UNUSED: Final = (
    "DELETE FROM keys WHERE id NOT IN (SELECT key FROM changes)",
    "DELETE FROM authors WHERE id NOT IN (SELECT author FROM changes)",
)


class Purged(NamedTuple):
    """What was removed: so many changes of so many objects."""

    changes: int
    objects: int


class WantedKeys(NamedTuple):
    """The keys in a range that match."""

    within: KeyRange
    matches: Callable[[str], bool]


class PurgedKey(NamedTuple):
    """A key of which changes up to a revision were purged. scope: the digest of the scope of the purge."""

    key: str
    until: int
    scope: bytes


def matching_keys(connection: sqlite3.Connection, wanted: WantedKeys) -> list[tuple[int, str]]:
    """Returns the IDs and names of the keys that are wanted."""
    rows = connection.execute("SELECT id, key FROM keys WHERE key >= ? AND key < ?", wanted.within)
    return [row for row in rows.fetchall() if wanted.matches(row[1])]


def delete_keys(
    connection: sqlite3.Connection, keys: Iterable[tuple[int, str]], scope: str, digest: KeyDigests
) -> int:
    """Delete all changes of keys, in a transaction, and mark that they are missing. Returns their number.

    scope: is marked, too, as if it were a prefix of the keys.
    """
    execute = connection.execute
    count = 0
    for key_id, key in keys:
        (newest,) = execute("SELECT max(id) FROM changes WHERE key = ?", (key_id,)).fetchone()
        if newest is None:
            continue
        mark(connection, PurgedKey(key, newest >> WRITE_BITS, digest(scope)), digest)
        thinning.forget_key(connection, key_id)
        count += execute("DELETE FROM changes WHERE key = ?", (key_id,)).rowcount
    _delete_unused(connection)
    return count


def mark(connection: sqlite3.Connection, purged: PurgedKey, digest: KeyDigests) -> None:
    """Mark, in a transaction, that changes of a key are missing."""
    scopes = [*map(digest, _scopes(purged.key)), purged.scope]
    marked = digest(purged.key)
    connection.executemany(
        "INSERT OR REPLACE INTO purged VALUES (?, ?, ?)", [(each, marked, purged.until) for each in scopes]
    )


def delete_until(connection: sqlite3.Connection, revision: int) -> Purged:
    """Delete all changes up to a revision, in a transaction. The segment begins there."""
    execute = connection.execute
    last_id = ((revision + 1) << WRITE_BITS) - 1
    count, objects, newest_ms = execute(
        "SELECT count(*), count(DISTINCT key), max(at_ms) FROM changes WHERE id <= ?", (last_id,)
    ).fetchone()
    execute("DELETE FROM changes WHERE id <= ?", (last_id,))
    execute("DELETE FROM purged WHERE until <= ? AND scope <> ?", (revision, _UNCLEAN))
    execute("DELETE FROM dropped WHERE until <= ?", (revision,))
    thinning.forget_until(connection, last_id)
    execute("DELETE FROM spans WHERE until < ?", (revision,))
    execute(
        "UPDATE spans SET after = ?, at_ms = max(at_ms, ?) WHERE after < ?",
        (revision, newest_ms or 0, revision),
    )
    _delete_unused(connection)
    return Purged(count, objects)


def _delete_unused(connection: sqlite3.Connection) -> None:
    for statement in _UNUSED:
        connection.execute(statement)
    mark_unclean(connection)


def mark_unclean(connection: sqlite3.Connection) -> None:
    """Mark that the file may still contain what was deleted or replaced."""
    connection.execute("INSERT OR REPLACE INTO purged VALUES (?, ?, 0)", (_UNCLEAN, _UNCLEAN))


def mark_dropped(connection: sqlite3.Connection, dropped: Mapping[bytes, int]) -> None:
    """Mark prefixes, by their digests, whose changes up to a revision were not recorded."""
    connection.executemany("INSERT OR REPLACE INTO dropped VALUES (?, ?)", dropped.items())


def dropped_prefixes(connection: sqlite3.Connection) -> dict[bytes, int]:
    """Returns up to which revisions changes were not recorded, by the digests of the prefixes."""
    return dict(connection.execute("SELECT scope, until FROM dropped"))


def require_digests(connection: sqlite3.Connection, digest: KeyDigests, *, notes: bool) -> None:
    """Check that a segment was written with the same digests: else no mark of it would be found.

    Raises SegmentOutdated if it was not.
    notes: whether to note that they are these, if it has none.
    """
    row = connection.execute("SELECT made_by FROM digests").fetchone()
    if row is not None and row[0] != digest.check:
        raise SegmentOutdated("digest.key is another one")
    if row is None and notes:
        connection.execute("INSERT INTO digests VALUES (?)", (digest.check,))


def has_marks(connection: sqlite3.Connection) -> bool:
    """Returns whether anything was purged."""
    return connection.execute("SELECT 1 FROM purged LIMIT 1").fetchone() is not None


def clean(connection: sqlite3.Connection) -> None:
    """Rewrite the file of a segment, and its log, if they may contain what was deleted.

    Raises OSError if another process reads the file. The file is then not rewritten, and never a second time
    for what was deleted before: SQLite's log would grow by the whole file each time.
    """
    execute = connection.execute
    marked = execute("SELECT until FROM purged WHERE scope = ?", (_UNCLEAN,)).fetchone()
    if marked is None:
        return
    if marked[0] != _REWRITTEN:
        _empty_log(connection)
        execute("VACUUM")
        execute("UPDATE purged SET until = ? WHERE scope = ?", (_REWRITTEN, _UNCLEAN))
    _empty_log(connection)
    execute("DELETE FROM purged WHERE scope = ?", (_UNCLEAN,))


def _empty_log(connection: sqlite3.Connection) -> None:
    busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise OSError("another process reads the history")


# The keys of a scope of which a change after a revision is missing.
MARKS: Final = "SELECT key FROM purged WHERE scope = ? AND until > ?"


def _scopes(key: str) -> list[str]:
    """Returns a key, and its prefixes that end with a slash."""
    return [key, *(key[: at + 1] for at, character in enumerate(key) if character == "/")]
