"""Makes directories and files that only their owner can access, whatever the umask, and locks them."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from apiserver.storage.errors import DataDirectoryError

PRIVATE: Final = 0o700


def make_directory(path: Path, mode: int = PRIVATE) -> None:
    """Make a directory, and its missing parents. Raises OSError.

    Existing directories are not changed. `Path.mkdir` gives `mode` only to the last one and leaves the mode
    of its parents to the umask, but a user who can write to a parent can replace what is below it.
    """
    missing = [path]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for each in reversed(missing):
        each.mkdir(mode, exist_ok=True)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file that survives a crash of the machine, or leave the one before. Raises OSError."""
    made = path.with_name(f"{path.name}.new")
    with open(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    made.replace(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def lock(path: Path) -> int:
    """Lock `path` exclusively until the returned descriptor is closed, or the process ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = os.read(descriptor, 20).decode("ascii", "replace").strip()
        os.close(descriptor)
        raise DataDirectoryError(
            f"the data directory {path.parent} is in use by another server (process {owner or 'unknown'})"
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor
