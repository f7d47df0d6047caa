"""Tells damaged segments from those that cannot be used at present."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

# The name of the file that was damaged last.
DAMAGED: Final = "damaged"


class SegmentDamaged(Exception):
    """A segment cannot be read: it was cut, altered or deleted."""


class SegmentOutdated(Exception):
    """A segment is whole, but of another release, or of another key of digests. The message says of which."""


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


def put_aside(path: Path | None, error: SegmentDamaged) -> None:
    """Rename a damaged segment, of which only the last one is kept."""
    log.error("the history in %s is damaged; it is now a gap: %s", path or "memory", error)
    if path is not None:
        with suppress(FileNotFoundError):
            path.replace(path.with_name(DAMAGED))
        remove_log(path)


def remove_old_damaged(directory: Path, before_ms: int) -> None:
    """Remove what was kept of a damaged segment if it was written before a time. Raises OSError."""
    path = directory / DAMAGED
    with suppress(FileNotFoundError):
        if path.stat().st_mtime * 1000 < before_ms:
            path.unlink()


def remove_log(path: Path) -> None:
    """Remove the files that SQLite keeps beside a database."""
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
