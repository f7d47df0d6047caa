"""Costs of calls of the standard library, actual and estimated.

Sources: cel-go interpreter/runtimecost.go and checker/cost.go; k8s.io/apiserver pkg/apis/cel.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any, Final

from apiserver.cel.functions import ONE, REGEX_FACTOR, STRING_FACTOR, Argument, Bounds, CallEstimate
from apiserver.cel.values import LIST_CLASSES, MapList, SetList, extent
from apiserver.golang.regex import compilation_cost

# What one evaluation may cost by default: Kubernetes' PerCallLimit.
PER_CALL_LIMIT: Final = 1_000_000
_SIZED: Final = (str, bytes, dict, *LIST_CLASSES)


def size_of(value: Any) -> int:
    """Returns the size of strings, bytes, lists and maps; 1 for all other values."""
    return len(value) if isinstance(value, _SIZED) else 1


# ---- of calls that were made

# cel-go charges 1 for adding lists, which it does not copy, and nothing for what is within lists it compares.
# We charge 1 more for so many items each, so that a budget bounds time and memory; few items cost nothing.
ADDED_PER_COST: Final = 32
COMPARED_PER_COST: Final = 4
COMPARED_FREELY: Final = 8
# An entry of a map takes a dozen times as much memory as an item of a list.
LIST_ITEMS_PER_COST: Final = 4
MAP_ENTRIES_PER_COST: Final = 1
# More constants than this are in no literal that somebody writes.
LITERAL_ITEMS_FREE: Final = 32


def looking_at(count: int) -> int:
    """Returns the cost of comparing that many items and entries within values."""
    return max(count - COMPARED_FREELY, 0) // COMPARED_PER_COST


def literal_cost(free_items: int, items_per_cost: int) -> int:
    """Returns the cost of items of a list or map literal that cost nothing themselves, such as constants.

    A literal that is evaluated anew makes them anew. cel-go never charges for that.
    """
    return max(free_items - LITERAL_ITEMS_FREE, 0) // items_per_cost


def list_concatenation(args: Sequence[Any], result: Any) -> int:
    first, second = args
    if type(first) is SetList:  # All of both is looked at to find what is the same.
        return 1 + looking_at(extent(first) + extent(second))
    if type(first) is MapList:  # The keys of all items are made, which takes a microsecond each.
        return 1 + max(len(first) + size_of(second) - COMPARED_FREELY, 0)
    return 1 + (size_of(first) + size_of(second)) // ADDED_PER_COST


def string_traversal(args: Sequence[Any], result: Any) -> int:
    """Returns the cost of reading the first argument, a string or bytes, once."""
    return ceil(size_of(args[0]) * STRING_FACTOR)


def comparison(args: Sequence[Any], result: Any) -> int:
    return ceil(min(size_of(args[0]), size_of(args[1])) * STRING_FACTOR)


def concatenation(args: Sequence[Any], result: Any) -> int:
    return ceil((size_of(args[0]) + size_of(args[1])) * STRING_FACTOR)


def membership(args: Sequence[Any], result: Any) -> int:
    return size_of(args[1])


def containment(args: Sequence[Any], result: Any) -> int:
    return ceil(size_of(args[0]) * STRING_FACTOR) * ceil(size_of(args[1]) * STRING_FACTOR)


def regex_cost(text_length: int, pattern_length: int) -> int:
    """Returns the cost of matching a pattern. An empty text is not free, since the pattern may be long."""
    return ceil((1.0 + text_length) * STRING_FACTOR) * ceil(pattern_length * REGEX_FACTOR)


def regex_search(args: Sequence[Any], result: Any) -> int:
    """Returns the cost of matching the second argument, a pattern, in the first."""
    return regex_cost(len(args[0]), len(args[1]))


def new_regex_search(args: Sequence[Any], result: Any) -> int:
    """Returns the cost of matching a pattern that is not constant. Kubernetes does not count its compilation.

    Here it counts only for patterns that are so large that compiling many of them would take minutes.
    """
    return regex_search(args, result) + compilation_cost(args[1])


# ---- of calls that could be made


def conversion_to_bytes(args: Sequence[Argument]) -> CallEstimate:
    size = args[0].size
    return CallEstimate(size.scaled(STRING_FACTOR), Bounds(size.low, size.times(Bounds(4, 4)).high))


def conversion_from_bytes(args: Sequence[Argument]) -> CallEstimate:
    size = args[0].size
    return CallEstimate(size.scaled(STRING_FACTOR), Bounds(size.low // 4, size.high))


def prefix_worst(args: Sequence[Argument]) -> CallEstimate:
    return CallEstimate(args[1].size.scaled(STRING_FACTOR))


def membership_worst(args: Sequence[Argument]) -> CallEstimate:
    return CallEstimate(args[1].size)


def comparison_worst(args: Sequence[Argument]) -> CallEstimate:
    high = min(args[0].size.high, args[1].size.high)
    return CallEstimate(Bounds(min(high, 1), high).scaled(STRING_FACTOR))


def concatenation_worst(args: Sequence[Argument]) -> CallEstimate:
    size = args[0].size.plus(args[1].size)
    return CallEstimate(size.scaled(STRING_FACTOR), size)


def list_concatenation_worst(args: Sequence[Argument]) -> CallEstimate:
    return CallEstimate(ONE, args[0].size.plus(args[1].size))


def containment_worst(args: Sequence[Argument]) -> CallEstimate:
    return CallEstimate(args[0].size.scaled(STRING_FACTOR).times(args[1].size.scaled(STRING_FACTOR)))


def regex_search_worst(args: Sequence[Argument]) -> CallEstimate:
    text = args[0].size.plus(ONE).scaled(STRING_FACTOR)
    return CallEstimate(text.times(args[1].size.scaled(REGEX_FACTOR)))
