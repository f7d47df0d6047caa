"""Directories that nobody else can look into, whatever the umask."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PRIVATE: Final = 0o700


def make_directory(path: Path, mode: int = PRIVATE) -> None:
    """Make a directory, and those above it that are missing. Raises OSError.

    Directories that are there stay as they are. `Path.mkdir` gives `mode` to the last one only, and lets the
    umask decide about those above it: who may write to one of them may replace what is below.
    """
    missing = [path]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for each in reversed(missing):
        each.mkdir(mode, exist_ok=True)
