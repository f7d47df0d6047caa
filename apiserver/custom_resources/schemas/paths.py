"""Paths of values in documents, and their texts in messages."""

from __future__ import annotations

from typing import TypeAlias

from apiserver.meta.field_errors import field_below, item_below, key_below


class MapKey(str):
    """The step to a map's value; the step to a field is a plain str."""

    __slots__ = ()


# The parent's path and the last step: a field's name, a `MapKey`, or a list's index. None is the path of the
# root. Linked, so that a step costs little where no message needs it.
Path: TypeAlias = "tuple[Path | None, str | int]"


def plain(path: Path | None) -> str:
    """Returns the path with the keys of maps written as fields: `spec.limits.cpu[0]`."""
    return _text(path, keys_in_brackets=False)


def bracketed(path: Path | None) -> str:
    """Returns the path with the keys of maps in brackets: `spec.limits[cpu][0]`."""
    return _text(path, keys_in_brackets=True)


def _text(path: Path | None, *, keys_in_brackets: bool) -> str:
    steps = []
    while path is not None:
        path, step = path
        steps.append(step)
    text = ""
    for step in reversed(steps):
        if isinstance(step, int):
            text = item_below(text, step)
        elif keys_in_brackets and isinstance(step, MapKey):
            text = key_below(text, step)
        else:
            text = field_below(text, step)
    return text
