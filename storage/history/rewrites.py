"""Finds values of a segment that are not encrypted by the current key, and encrypts them again."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any, Final, NamedTuple

from apiserver.storage.history.changes import Cipher
from apiserver.storage.history.deltas import InvalidDelta
from apiserver.storage.history.rows import COLUMNS, FROM, checksum, recorded

# What is looked at, and written, in one go: others use the thread in between.
ROWS_MAX: Final = 2_000
BYTES_MAX: Final = 4 * 1024 * 1024
_WITH_VALUES: Final = f"SELECT k.key, {COLUMNS} {FROM} WHERE c.id >= ? AND c.value IS NOT NULL ORDER BY c.id"
_VALUE: Final = 2  # of the columns


class Rewritten(NamedTuple):
    """What became of some of the values: so many were encrypted again, or did not have to be.

    lost: how many cannot be decrypted, and stay as they are.
    position: where the rest begins, of which there may be nothing; 0 after the last one.
    """

    rewritten: int
    unchanged: int
    lost: int
    position: int


NOTHING: Final = Rewritten(0, 0, 0, 0)


class Found(NamedTuple):
    """What becomes of some values. updates: value, checksum and ID of the rows to write."""

    rewritten: Rewritten
    updates: list[tuple[bytes, int, int]]


def find(
    connection: sqlite3.Connection, cipher: Cipher, position: int, is_wanted: Callable[[str], bool]
) -> Found:
    """Encrypt values again, from a position on, without writing them. is_wanted: of a key.

    Raises SegmentDamaged, and as the cipher.
    """
    unchanged = lost = rows = size = 0
    updates: list[tuple[bytes, int, int]] = []
    last = -1
    with closing(connection.execute(_WITH_VALUES, (position,))) as found:
        for key, *row in found:
            last, rows, size = row[0], rows + 1, size + len(row[_VALUE])
            if is_wanted(key):
                try:
                    renewed = cipher.renewed(key, row[_VALUE])
                except InvalidDelta:
                    lost += 1
                else:
                    if renewed is None:
                        unchanged += 1
                    else:
                        updates.append((renewed, _checksum_with(key, row, renewed), last))
            if rows == ROWS_MAX or size > BYTES_MAX:
                break
    return Found(Rewritten(len(updates), unchanged, lost, last + 1), updates)


def _checksum_with(key: str, row: list[Any], value: bytes) -> int:
    """Returns the checksum of a row with another value. Raises SegmentDamaged if the row was altered."""
    recorded(key, row)
    return checksum(key, [*row[:_VALUE], value, *row[_VALUE + 1 : -1]])


def write(connection: sqlite3.Connection, updates: list[tuple[bytes, int, int]]) -> None:
    """Write values that were encrypted again, in a transaction."""
    connection.executemany("UPDATE changes SET value = ?, checksum = ? WHERE id = ?", updates)
