"""Makes directories that only their owner can access, whatever the umask."""

from __future__ import annotations

from pathlib import Path
from typing import Final

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
