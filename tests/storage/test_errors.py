"""The tree of errors that `storage.errors` draws is the one that storage raises."""

from __future__ import annotations

import re

from apiserver.storage import errors, snapshot_file, store_copy
from apiserver.storage.errors import StorageError

_INDENTATION = 4


def drawn() -> dict[str, str]:
    """Each class in the drawing, with the class above it."""
    above: list[str] = []
    parents: dict[str, str] = {}
    for line in (errors.__doc__ or "").splitlines():
        entry = re.match(r"(?P<branches>[ │]*)[├└]── (?P<name>\w+)", line)
        if entry is not None:
            depth = len(entry["branches"]) // _INDENTATION
            above[depth:] = [entry["name"]]
            parents[entry["name"]] = above[depth - 1] if depth > 1 else StorageError.__name__
    return parents


def test_the_drawing_shows_every_error_and_its_base() -> None:
    defined = [each for module in (errors, snapshot_file, store_copy) for each in vars(module).values()]
    bases = {
        each.__name__: each.__bases__[0].__name__
        for each in defined
        if isinstance(each, type) and issubclass(each, StorageError) and each is not StorageError
    }
    assert drawn() == bases
