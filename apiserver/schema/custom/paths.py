"""Where a value stands in a document, and how messages write it."""

from __future__ import annotations

from typing import TypeAlias


class Key(str):
    """A step to a value of a map, as against a step to a field."""

    __slots__ = ()


# The way from the root as links, so that a step costs nothing until it is told: names of fields, `Key`s, and
# indexes of lists.
Path: TypeAlias = "tuple[Path | None, str | int]"


def plain(path: Path | None) -> str:
    """`spec.limits.cpu[0]`: keys are written as fields are."""
    return _text(path, keys_in_brackets=False)


def bracketed(path: Path | None) -> str:
    """`spec.limits[cpu][0]`: keys are told from fields."""
    return _text(path, keys_in_brackets=True)


def _text(path: Path | None, *, keys_in_brackets: bool) -> str:
    steps = []
    while path is not None:
        path, step = path
        steps.append(step)
    text = ""
    for step in reversed(steps):
        if isinstance(step, int) or (keys_in_brackets and isinstance(step, Key)):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text
