"""Whole numbers with a fraction or an exponent, as 3.0 and 1e2.

They are integers in YAML, and where Kubernetes converts maps to Go objects; for a decoder of JSON they are
not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

# Larger ones have no integer in Go.
_WHOLE_MAX: Final = float(1 << 63)


def is_whole(value: float) -> bool:
    """Returns whether a float becomes an integer of 64 bits."""
    return value.is_integer() and -_WHOLE_MAX <= value < _WHOLE_MAX


def has_whole(value: Any) -> bool:
    """Returns whether a decoded value contains a whole number as a float."""
    todo = [value]
    while todo:
        each = todo.pop()
        if type(each) is float:
            if is_whole(each):
                return True
        elif type(each) is dict:
            todo += each.values()
        elif type(each) is list:
            todo += each
    return False


def make_whole(value: dict[str, Any] | list[Any]) -> None:
    """Replace all whole floats in a decoded value by integers."""
    todo: list[Any] = [value]
    while todo:
        each = todo.pop()
        members: Iterable[tuple[Any, Any]] = each.items() if type(each) is dict else enumerate(each)
        for key, member in members:
            if type(member) is float:
                if is_whole(member):
                    each[key] = int(member)
            elif type(member) is dict or type(member) is list:
                todo.append(member)
