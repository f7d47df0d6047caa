"""What calls cost, in the ways that libraries share. Source: k8s.io/apiserver pkg/cel/library/cost.go."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from apiserver.cel.functions import (
    ANY,
    LIST_COST,
    ONE,
    REGEX_FACTOR,
    STRING_FACTOR,
    Argument,
    Bounds,
    CallCost,
    CallEstimate,
    CallEstimator,
)
from apiserver.cel.types import Kind, Type
from apiserver.cel.values import CostExceeded

# No evaluation may cost more (k8s.io/apiserver pkg/apis/cel, PerCallLimit). What is sure to cost more is not
# begun: a price is asked for only after the call, which could by then have taken all memory.
EVALUATION_COST_MAX: Final = 1_000_000
# Code points or bytes of one value, and items of one list, that a function makes. No object is as large.
TEXT_MAX: Final = 8 << 20
ITEMS_MAX: Final = 1_000_000

_SHORT_TEXT: Final = 10_000


def actual_size(value: Any) -> int:
    """As `size()` has it; 1 of values that have none."""
    if isinstance(value, str | bytes | list | Mapping):
        return len(value)
    size = getattr(value, "size", 1)
    return size if isinstance(size, int) else 1


def of_text(factor: float = 1) -> CallCost:
    """To read the first argument, that many times."""
    return lambda args, _: math.ceil(actual_size(args[0]) * factor * STRING_FACTOR)


def large_text_cost(length: int) -> int:
    """1, as Kubernetes has it, unless a text is so large that to make it takes long."""
    return 1 + math.ceil(max(length - _SHORT_TEXT, 0) * STRING_FACTOR)


def of_large_text(args: Sequence[Any], result: Any) -> int:
    return large_text_cost(len(args[0]))


def of_large_result(args: Sequence[Any], result: Any) -> int:
    return large_text_cost(actual_size(result))


def estimate_text(factor: float = 1, *, has_its_size: bool = False) -> CallEstimator:
    """has_its_size: the result is as large as the first argument."""

    def estimate(args: Sequence[Argument]) -> CallEstimate:
        size = args[0].size
        return CallEstimate(size.scaled(factor * STRING_FACTOR), size if has_its_size else None)

    return estimate


def regex_search(args: Sequence[Any], result: Any) -> int:
    """To look for a pattern, the second argument, in a text."""
    return regex_cost(len(args[0]), len(args[1]))


def regex_cost(text_length: int, pattern_length: int) -> int:
    """An empty text is not free, since the pattern may be dear."""
    return math.ceil((1.0 + text_length) * STRING_FACTOR) * math.ceil(pattern_length * REGEX_FACTOR)


def traversal(value: Any) -> int:
    """To look at all that is in a value, of texts at each byte."""
    if isinstance(value, str):
        return int((len(value) if value.isascii() else len(value.encode())) * STRING_FACTOR)
    if isinstance(value, bytes):
        return int(len(value) * STRING_FACTOR)
    if isinstance(value, list):
        return sum(map(traversal, value))
    if isinstance(value, dict):
        return sum(traversal(key) + traversal(item) for key, item in value.items())
    return 1


def of_tree_traversal(args: Sequence[Any], result: Any) -> int:
    return traversal(args[0])


def element_size(list_type: Type) -> Bounds:
    """Of a list's items, as its schema bounds them."""
    size_max = list_type.element.size_max
    return ANY if size_max is None else Bounds(0, size_max)


def estimate_tree_traversal(args: Sequence[Argument]) -> CallEstimate:
    first = args[0]
    if first.type.kind is not Kind.LIST:
        return CallEstimate(first.size.scaled(STRING_FACTOR))
    each = ONE
    if first.type.element.kind in (Kind.STRING, Kind.BYTES):
        each = ONE.plus(element_size(first.type).scaled(STRING_FACTOR))
    return CallEstimate(first.size.times(each))


def of_list(factor: float, size: int) -> int:
    """To make a list; factor: what each of that many steps costs."""
    return int(size * factor) + 1 + LIST_COST


def estimate_list(factor: float, size: Bounds) -> CallEstimate:
    fixed = 1 + LIST_COST
    return CallEstimate(size.scaled(factor).plus(Bounds(fixed, fixed)), size)


def too_much() -> CostExceeded:
    """Not an error of the call, which an expression might ignore, and call again."""
    return CostExceeded("operation cancelled: actual cost limit exceeded")


def check_cost(cost: float) -> None:
    """Raises CostExceeded for what no evaluation may cost."""
    if cost > EVALUATION_COST_MAX:
        raise too_much()


def check_size(size: int, size_max: int = TEXT_MAX) -> None:
    """Raises CostExceeded for results that are larger than any object."""
    if size > size_max:
        raise too_much()
