"""The files that snapshots are kept in, whichever store they are of.

- *Whole or not there*: written under another name in the same directory, synced, then renamed. A file that
  stood there before stays until then.
- *Private* (0600): they hold every Secret.
- *With their checksum*: the last 32 bytes are the SHA-256 of all before. That is etcd's own form, so that
  etcd's tools take what was saved from etcd; SQLite does not mind bytes behind its last page. Both
  databases write blocks of 512 bytes or multiples, so the length tells whether there is a checksum.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from storage.errors import StorageError

CHECKSUM_BYTES: Final = hashlib.sha256().digest_size
BLOCK_BYTES: Final = 512
_CHUNK_BYTES: Final = 1024 * 1024


class SnapshotError(StorageError):
    """A snapshot cannot be made, read or restored; the message is one line and names the file."""


class SnapshotFile(NamedTuple):
    """A snapshot file whose checksum is right. size_bytes: with the checksum."""

    size_bytes: int
    sha256: str


@contextmanager
def atomic_replacement(path: Path) -> Iterator[Path]:
    """An empty private file that takes the place of `path`, synced, if the block ends well.

    If not, it is gone, with what SQLite may have put beside it. What the operating system refuses inside the
    block is told as a failure to write. Raises SnapshotError.
    """
    target = path.resolve()
    try:
        if target.exists() and not target.is_file():
            raise SnapshotError(f"cannot write {path}: it is no regular file")
        descriptor, name = tempfile.mkstemp(prefix=f"{target.name[:100]}.", suffix=".part", dir=target.parent)
        os.close(descriptor)
        part = Path(name)
        try:
            yield part
            _sync(part)
            part.replace(target)
            _sync(target.parent)
        finally:
            for suffix in ("", "-journal", "-wal", "-shm"):
                Path(name + suffix).unlink(missing_ok=True)
    except OSError as error:
        raise SnapshotError(f"cannot write {path}: {error.strerror or error}") from error


def seal(path: Path) -> SnapshotFile:
    """Put its checksum at the end of a file. Raises OSError."""
    with path.open("r+b") as file:
        digest = hashlib.file_digest(file, "sha256")
        file.seek(0, os.SEEK_END)
        file.write(digest.digest())
        return SnapshotFile(file.tell(), digest.hexdigest())


def verify_checksum(path: Path, *, copy_to: Path | None = None, called: str = "") -> SnapshotFile:
    """Compare a file with its checksum; what comes before that goes to `copy_to` on the way.

    called: what messages name in place of the path.
    Raises SnapshotError, and OSError when the copy cannot be written.
    """
    called = called or str(path)
    with _open(path, called) as file, open(copy_to or os.devnull, "wb") as copy:
        size = os.fstat(file.fileno()).st_size
        left = size - CHECKSUM_BYTES
        if left <= 0 or left % BLOCK_BYTES:
            raise SnapshotError(
                f"{called} does not end with a checksum: it is cut off, or was not made by `snapshot save`"
            )
        digest = hashlib.sha256()
        while left:
            chunk = _read(file, min(left, _CHUNK_BYTES), called)
            digest.update(chunk)
            copy.write(chunk)
            left -= len(chunk)
        stated = _read(file, CHECKSUM_BYTES, called)
    if digest.digest() != stated:
        raise SnapshotError(
            f"{called} is damaged: its SHA-256 is {digest.hexdigest()} and should be {stated.hex()}"
        )
    return SnapshotFile(size, stated.hex())


def first_bytes(path: Path, count: int) -> bytes:
    """What tells one kind of file from another. Raises SnapshotError."""
    with _open(path, str(path)) as file:
        return file.read(count)


def _open(path: Path, called: str) -> BinaryIO:
    try:
        if path.exists() and not path.is_file():
            raise SnapshotError(f"cannot read {called}: it is no regular file")
        return path.open("rb")
    except OSError as error:
        raise SnapshotError(f"cannot read {called}: {error.strerror or error}") from error


def _read(file: BinaryIO, count: int, called: str) -> bytes:
    try:
        chunk = file.read(count)
    except OSError as error:
        raise SnapshotError(f"cannot read {called}: {error.strerror or error}") from error
    if not chunk:
        raise SnapshotError(f"cannot read {called}: it became shorter meanwhile")
    return chunk


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
