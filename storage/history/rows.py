"""The rows of a segment: their columns, checksums, and what they say of a change."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar

from apiserver.storage.history.changes import Author, Change, EncodedValue, RecordedChange, Span
from apiserver.storage.history.damage import SegmentDamaged

# The ID of a row is its revision, and in so many lower bits the number of the change in its transaction.
# A transaction has at most `TRANSACTION_WRITES_MAX` writes; other clients of etcd may raise that limit.
WRITE_BITS: Final = 16
_UUID: Final = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Authors that are kept decoded: a megabyte, if clients send texts as long as they may be.
AUTHORS_KEPT_MAX: Final = 64
# As in `storage.embedded.writer`: rows that are inserted together wait for the interpreter's lock once. It is
# a power of two, as `parts` makes parts of such sizes.
ROWS_INSERTED_MAX: Final = 64
# What `recorded` and `encoded_value` take.
COLUMNS: Final = "c.id, c.since, c.value, c.deltas, c.is_deletion, c.at_ms, a.author, c.audit_id, c.checksum"
FROM: Final = "FROM changes c JOIN keys k ON k.id = c.key JOIN authors a ON a.id = c.author"
NEWEST_FIRST: Final = f"SELECT k.key, {COLUMNS} {FROM} WHERE c.id BETWEEN ? AND ? ORDER BY c.id DESC"
ID_MAX: Final = (1 << 63) - 1

_T = TypeVar("_T")


def numbered(changes: Iterable[Change]) -> Iterator[tuple[int, Change]]:
    """Yields changes with the IDs of their rows. All those of a transaction follow one another."""
    revision = number = 0
    for change in changes:
        number = number + 1 if change.revision == revision else 0
        revision = change.revision
        yield revision << WRITE_BITS | number, change


def position_after(revision: int) -> int:
    """Returns the first position after all changes at a revision. Positions are the IDs of rows."""
    return (revision + 1) << WRITE_BITS


def revision_at_position(position: int) -> int:
    return position >> WRITE_BITS


def id_range(span: Span) -> tuple[int, int]:
    """Returns the first and the last ID that a row of a span may have."""
    return position_after(span.after), position_after(span.until) - 1


def recorded(key: str, row: Sequence[Any]) -> RecordedChange:
    """Returns the change in a row of `COLUMNS`. Raises SegmentDamaged if the row was altered."""
    _require_unaltered(key, row)
    row_id, since, encoded, _, is_deletion, at_ms, author, audit_id, _ = row
    return RecordedChange(
        *(row_id >> WRITE_BITS, since, encoded, bool(is_deletion), at_ms, _author(author)),
        _audit_text(audit_id),
    )


def encoded_value(key: str, row: Sequence[Any]) -> EncodedValue:
    """Returns the value before a change, from a row of `COLUMNS`. Raises as `recorded` does."""
    _require_unaltered(key, row)
    row_id, since, encoded, count, *_ = row
    return EncodedValue(row_id >> WRITE_BITS, since, encoded, not count)


def _require_unaltered(key: str, row: Sequence[Any]) -> None:
    if checksum(key, row[:-1]) != row[-1]:
        raise SegmentDamaged(f"the change of {key} at revision {row[0] >> WRITE_BITS} was altered")


@lru_cache(maxsize=AUTHORS_KEPT_MAX)
def _author(text: str) -> Author:
    return Author(*json.loads(text))


def checksum(key: str, facts: Sequence[Any]) -> int:
    """Returns the checksum of a row. facts: the columns of `COLUMNS` before it."""
    row_id, since, encoded, count, is_deletion, at_ms, author, audit_id = facts
    # With their lengths, so that bytes do not move from one column to the next.
    size = -1 if encoded is None else len(encoded)
    head = f"{row_id} {since} {size} {count} {is_deletion} {at_ms} {len(audit_id)} {len(key)} {key}{author}"
    return zlib.crc32(encoded or b"", zlib.crc32(audit_id, zlib.crc32(head.encode())))


def audit_bytes(audit_id: str) -> bytes:
    """Returns an audit ID in the fewest bytes: most are UUIDs."""
    if not audit_id:
        return b""
    if _UUID.fullmatch(audit_id):
        return b"u" + bytes.fromhex(audit_id.replace("-", ""))
    return b"t" + audit_id.encode()


def _audit_text(audit_id: bytes) -> str:
    if audit_id[:1] != b"u":
        return audit_id[1:].decode()
    digits = audit_id[1:].hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def parts(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Yields items in parts of few sizes: SQLite keeps a compiled statement for each number of parameters."""
    at, size = 0, ROWS_INSERTED_MAX
    while at < len(items):
        while size > len(items) - at:
            size //= 2
        yield items[at : at + size]
        at += size
