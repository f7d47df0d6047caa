"""Comparable types, and the overloads of functions that order values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from apiserver.cel import types
from apiserver.cel.functions import Overload
from apiserver.cel.types import Type
from apiserver.cel.values import NO_SUCH_OVERLOAD, Duration, EvaluationError, Timestamp, UInt

COMPARABLE: Final = {
    "int": types.INT,
    "uint": types.UINT,
    "double": types.DOUBLE,
    "bool": types.BOOL,
    "duration": types.DURATION,
    "timestamp": types.TIMESTAMP,
    "string": types.STRING,
    "bytes": types.BYTES,
}
_NUMBERS: Final = frozenset({int, UInt, float})
_KINDS: Final = _NUMBERS | {bool, Duration, Timestamp, str, bytes}


def overloads(
    make: Callable[[str, Type], Overload], names: Iterable[str] = tuple(COMPARABLE)
) -> tuple[Overload, ...]:
    """Returns an overload for each type of items."""
    return tuple(make(name, COMPARABLE[name]) for name in names)


def are_alike(items: Iterable[Any]) -> bool:
    """Whether all items are of the same comparable type."""
    kinds = set(map(type, items))
    return len(kinds) <= 1 and kinds <= _KINDS


def check_comparable(items: Iterable[Any]) -> None:
    """Check that all items can be compared; numbers can be, across their types. Raises EvaluationError."""
    kinds = set(map(type, items))
    if not (kinds <= _NUMBERS or (len(kinds) == 1 and kinds <= _KINDS)):
        raise EvaluationError(NO_SUCH_OVERLOAD)
