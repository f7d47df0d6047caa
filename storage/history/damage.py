"""Tells damaged segments from those that cannot be used at present."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager


class SegmentDamaged(Exception):
    """A segment cannot be read: it was cut, altered or deleted."""


@contextmanager
def sqlite_errors() -> Iterator[None]:
    """Turns SQLite's errors about the content of a file into SegmentDamaged, and others into OSError."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise SegmentDamaged(str(error)) from None
        raise OSError(str(error)) from None
