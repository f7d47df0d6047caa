"""Reads values and lists in documents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from apiserver.meta.vocabulary import Document


def at(document: Document, *steps: str) -> Any:
    """Returns the value at a path, or None."""
    value: Any = document
    for step in steps:
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


# Of lists as they are commonly long.
_INDEXES: Final = tuple(f"[{index}]" for index in range(32))


def items(value: Document, field: str, path: str) -> Iterable[tuple[str, Any]]:
    """Returns the items of a list, each with its path: `spec.ports[0]`."""
    found = value.get(field)
    if not found:
        return ()
    where = f"{path}.{field}" if path else field
    if len(found) <= len(_INDEXES):
        return zip(map(where.__add__, _INDEXES), found, strict=False)
    return ((f"{where}[{index}]", item) for index, item in enumerate(found))


def join(path: str, field: str) -> str:
    return f"{path}.{field}" if path else field
