"""The inputs that are kept: a text file for each target, a line for each input.

Bytes that are not printable ASCII are escaped as in Python, so that a change of the corpus can be read.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

DIRECTORY: Final = Path(__file__).parent / "corpus"


def load(name: str) -> list[bytes]:
    """Returns the kept inputs of a target, none if there is no file."""
    path = DIRECTORY / f"{name}.txt"
    if not path.exists():
        return []
    return [line.decode("unicode_escape").encode("latin-1") for line in path.read_bytes().splitlines()]


def save(name: str, inputs: Iterable[bytes]) -> None:
    (DIRECTORY / f"{name}.txt").write_bytes(text(inputs))


def text(inputs: Iterable[bytes]) -> bytes:
    """Returns the text of a file with each input once: the short ones first."""
    ordered = sorted(set(inputs), key=lambda each: (len(each), each))
    return b"".join(each.decode("latin-1").encode("unicode_escape") + b"\n" for each in ordered)
