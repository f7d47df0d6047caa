"""Whole numbers that are written with a fraction or an exponent, as 3.0 and 1e2.

They are integers in YAML, and where Kubernetes makes Go objects of maps; to a decoder of JSON they are not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

# Larger ones have no integer in Go.
_WHOLE_MAX: Final = float(1 << 63)


def is_whole(value: float) -> bool:
    """Is a float one that becomes an integer of 64 bits?"""
    return value.is_integer() and -_WHOLE_MAX <= value < _WHOLE_MAX


def has_whole(value: Any) -> bool:
    """Is a whole number that is no integer in a decoded value?"""
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
    """Put integers in place of all other whole numbers in a decoded value."""
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
