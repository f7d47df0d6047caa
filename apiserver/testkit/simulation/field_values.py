"""Reads the values of fields that define the behavior of simulated pods, from a file or an annotation. Pure.

Each reader returns the value, or raises InvalidStage with the path below the field.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from apiserver.golang.durations import parse_duration

# Ten years, longer than any server runs.
DURATION_S_MAX: Final = 10 * 365 * 86_400.0

# The keys and indexes that lead to a field: ("stages", 0, "duration").
FieldPath: TypeAlias = tuple[str | int, ...]


class FilePosition(NamedTuple):
    """A position in a file. Lines and columns begin at 1."""

    line: int
    column: int


class InvalidStage(ValueError):
    """A stage is malformed, or contradicts itself.

    path: that of the field; empty for the whole. place: that of the field in the file; None if there is none.
    """

    def __init__(self, path: FieldPath, problem: str, place: FilePosition | None = None) -> None:
        text = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path)
        super().__init__(f"{text.removeprefix('.')}: {problem}" if path else problem)
        self.path, self.problem, self.place = path, problem, place

    def below(self, path: FieldPath) -> InvalidStage:
        """Returns the same error for a field below a path."""
        return InvalidStage((*path, *self.path), self.problem, self.place)


def one_of(known: tuple[str, ...]) -> Callable[[object], str]:
    def read(value: object) -> str:
        if not isinstance(value, str) or value not in known:
            raise InvalidStage((), f"must be one of {', '.join(known)}, not {_shown(value)}")
        return value

    return read


def whole(low: int, high: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise InvalidStage((), f"must be an integer from {low} to {high}, not {_shown(value)}")
        return value

    return read


def truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidStage((), f"must be true or false, not {_shown(value)}")
    return value


def text(length_max: int) -> Callable[[object], str]:
    def read(value: object) -> str:
        if not isinstance(value, str) or len(value) > length_max:
            raise InvalidStage((), f"must be a string of at most {length_max} characters")
        return value

    return read


def duration_s(value: object) -> float:
    problem = f"must be a duration like 500ms or 2s, or a number of seconds, not {_shown(value)}"
    if isinstance(value, str):
        try:
            value = parse_duration(value)
        except ValueError:
            raise InvalidStage((), problem) from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidStage((), problem)
    if not 0 <= value <= DURATION_S_MAX:
        raise InvalidStage((), f"must be from 0 to {DURATION_S_MAX:.0f} s")
    return float(value)


def _shown(value: object) -> str:
    """Returns a value as errors show it; for a list or a mapping, which may contain itself, only its type."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a mapping"
    return f"{value!r:.100}"
