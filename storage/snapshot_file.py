"""The files of snapshots, of any store.

- *Atomic*: they are written under another name in the same directory, synced, then renamed. An earlier file
  of the name remains until then.
- *Private* (0600): they hold every Secret.
- *Checksummed*: the last 32 bytes are the SHA-256 of everything before. That is etcd's own form, so that
  etcd's tools accept what was saved from etcd; SQLite ignores bytes after its last page. Both databases write
  blocks of 512 bytes or multiples, so the length tells whether there is a checksum.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from apiserver.storage.errors import StorageError

CHECKSUM_BYTES: Final = hashlib.sha256().digest_size
BLOCK_BYTES: Final = 512
_CHUNK_BYTES: Final = 1024 * 1024


class SnapshotError(StorageError):
    """A snapshot cannot be made, read or restored; the message is one line and names the file."""


class SnapshotFile(NamedTuple):
    """A snapshot file with a correct checksum. size_bytes: the size with the checksum."""

    size_bytes: int
    sha256: str


@contextmanager
def atomic_replacement(path: Path) -> Iterator[Path]:
    """Yields an empty private file that is synced and replaces `path` if the block ends without an error.

    Otherwise it is deleted, with the files that SQLite may have put beside it. An OSError inside the block
    becomes a SnapshotError.
    """
    target = path.resolve()
    try:
        if target.exists() and not target.is_file():
            raise SnapshotError(f"cannot write {path}: it is not a regular file")
        part = target.with_name(f"{target.name[:100]}.{secrets.token_hex(8)}.part")
        try:
            # Within the block: an interrupt just after it was created must not leave it behind.
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            yield part
            _sync(part)
            part.replace(target)
            _sync(target.parent)
        finally:
            for suffix in ("", "-journal", "-wal", "-shm"):
                Path(f"{part}{suffix}").unlink(missing_ok=True)
    except OSError as error:
        raise SnapshotError(f"cannot write {path}: {error.strerror or error}") from error


def append_checksum(path: Path) -> SnapshotFile:
    """Append the checksum of a file to it. Raises OSError."""
    with path.open("r+b") as file:
        digest = hashlib.file_digest(file, "sha256")
        file.seek(0, os.SEEK_END)
        file.write(digest.digest())
        return SnapshotFile(file.tell(), digest.hexdigest())


def verify_checksum(path: Path, *, copy_to: Path | None = None, description: str = "") -> SnapshotFile:
    """Verify the checksum of a file, and copy everything before the checksum to `copy_to`.

    description: names the file in messages, instead of its path.
    Raises SnapshotError, and OSError when the copy cannot be written.
    """
    description = description or str(path)
    with _open(path, description) as file, open(copy_to or os.devnull, "wb") as copy:
        size = os.fstat(file.fileno()).st_size
        left = size - CHECKSUM_BYTES
        if left <= 0 or left % BLOCK_BYTES:
            raise SnapshotError(
                f"{description} does not end with a checksum:"
                " the file is incomplete, or was not created by `snapshot save`"
            )
        digest = hashlib.sha256()
        while left:
            chunk = _read(file, min(left, _CHUNK_BYTES), description)
            digest.update(chunk)
            copy.write(chunk)
            left -= len(chunk)
        stated = _read(file, CHECKSUM_BYTES, description)
    if digest.digest() != stated:
        raise SnapshotError(
            f"{description} is damaged: its SHA-256 is {digest.hexdigest()} and should be {stated.hex()}"
        )
    return SnapshotFile(size, stated.hex())


def first_bytes(path: Path, count: int) -> bytes:
    """Returns the first bytes of a file, which identify its type. Raises SnapshotError."""
    with _open(path, str(path)) as file:
        return file.read(count)


def _open(path: Path, description: str) -> BinaryIO:
    try:
        if path.exists() and not path.is_file():
            raise SnapshotError(f"cannot read {description}: it is not a regular file")
        return path.open("rb")
    except OSError as error:
        raise SnapshotError(f"cannot read {description}: {error.strerror or error}") from error


def _read(file: BinaryIO, count: int, description: str) -> bytes:
    try:
        chunk = file.read(count)
    except OSError as error:
        raise SnapshotError(f"cannot read {description}: {error.strerror or error}") from error
    if not chunk:
        raise SnapshotError(f"cannot read {description}: the file was truncated during the read")
    return chunk


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
