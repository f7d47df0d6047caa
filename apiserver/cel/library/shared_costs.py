"""Costs of calls that several libraries share. Source: k8s.io/apiserver pkg/cel/library/cost.go."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from apiserver.cel.costs import PER_CALL_LIMIT
from apiserver.cel.functions import (
    ANY,
    LIST_COST,
    ONE,
    STRING_FACTOR,
    Argument,
    Bounds,
    CallCost,
    CallEstimate,
)
from apiserver.cel.types import Type, TypeKind
from apiserver.cel.values import LIST_CLASSES, CostExceeded

# Code points or bytes of one value, and items of one list, that a function makes. No object is as large.
TEXT_MAX: Final = 8 << 20
ITEMS_MAX: Final = 1_000_000

_SHORT_TEXT: Final = 10_000
_SIZED: Final = (str, bytes, Mapping, *LIST_CLASSES)


def actual_size(value: Any) -> int:
    """Returns the value of `size()`; 1 for values that have no size."""
    if isinstance(value, _SIZED):
        return len(value)
    size = getattr(value, "size", 1)
    return size if isinstance(size, int) else 1


def of_text(factor: float = 1) -> CallCost:
    """Returns the cost of reading the first argument, a string, that many times."""
    return lambda args, _: math.ceil(actual_size(args[0]) * factor * STRING_FACTOR)


def large_text_cost(length: int) -> int:
    """Returns 1, as Kubernetes does, unless a text is so large that making it takes long."""
    return 1 + math.ceil(max(length - _SHORT_TEXT, 0) * STRING_FACTOR)


def of_large_text(args: Sequence[Any], result: Any) -> int:
    return large_text_cost(len(args[0]))


def of_large_result(args: Sequence[Any], result: Any) -> int:
    return large_text_cost(actual_size(result))


def estimate_text(args: Sequence[Argument]) -> CallEstimate:
    """Estimate a call that reads a text, and whose result is as large as that."""
    size = args[0].size
    return CallEstimate(size.scaled(STRING_FACTOR), size)


def tree_traversal(value: Any) -> int:
    """Returns the cost of reading all parts of a value; strings cost as much as their bytes."""
    if isinstance(value, str):
        return int((len(value) if value.isascii() else len(value.encode())) * STRING_FACTOR)
    if isinstance(value, bytes):
        return int(len(value) * STRING_FACTOR)
    if isinstance(value, LIST_CLASSES):
        return sum(map(tree_traversal, value))
    if isinstance(value, dict):
        return sum(tree_traversal(key) + tree_traversal(item) for key, item in value.items())
    return 1


def of_tree_traversal(args: Sequence[Any], result: Any) -> int:
    return tree_traversal(args[0])


def element_size(list_type: Type) -> Bounds:
    """Returns the size of a list's items, as its schema bounds them."""
    size_max = list_type.element.size_max
    return ANY if size_max is None else Bounds(0, size_max)


def estimate_tree_traversal(args: Sequence[Argument]) -> CallEstimate:
    first = args[0]
    if first.type.kind is not TypeKind.LIST:
        return CallEstimate(first.size.scaled(STRING_FACTOR))
    each = ONE
    if first.type.element.kind in (TypeKind.STRING, TypeKind.BYTES):
        each = ONE.plus(element_size(first.type).scaled(STRING_FACTOR))
    return CallEstimate(first.size.times(each))


def of_list(factor: float, size: int) -> int:
    """Returns the cost of making a list; factor: the cost of each step."""
    return int(size * factor) + 1 + LIST_COST


def estimate_list(factor: float, size: Bounds) -> CallEstimate:
    fixed = 1 + LIST_COST
    return CallEstimate(size.scaled(factor).plus(Bounds(fixed, fixed)), size)


def check_cost(cost: float) -> None:
    """Refuse a call that certainly exceeds the cost limit of an evaluation. Raises CostExceeded.

    Use it before the call, whose cost is charged only afterwards, when it might have used up the memory.
    """
    if cost > PER_CALL_LIMIT:
        raise CostExceeded


def check_size(size: int, size_max: int = TEXT_MAX) -> None:
    """Refuse a result that is larger than any object. Raises CostExceeded."""
    if size > size_max:
        raise CostExceeded
