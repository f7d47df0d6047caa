"""Which values may be put in order, and the declarations of functions that do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from apiserver.cel import types
from apiserver.cel.functions import Overload
from apiserver.cel.types import Type
from apiserver.cel.values import Duration, EvaluationError, Timestamp, UInt

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
    """One for each type of items."""
    return tuple(make(name, COMPARABLE[name]) for name in names)


def are_alike(items: Iterable[Any]) -> bool:
    """Whether all are of one type, and that can be put in order."""
    kinds = set(map(type, items))
    return len(kinds) <= 1 and kinds <= _KINDS


def check_comparable(items: Iterable[Any]) -> None:
    """Raises EvaluationError unless each can be compared with each; numbers can across their types."""
    kinds = set(map(type, items))
    if not (kinds <= _NUMBERS or (len(kinds) == 1 and kinds <= _KINDS)):
        raise EvaluationError("no such overload")
