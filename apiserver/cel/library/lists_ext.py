"""The library of further functions on lists. Source: cel-go ext/lists.go, version 3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from apiserver.cel import types
from apiserver.cel.concatenation import AnyList
from apiserver.cel.declarations import Library, MacroError, MacroRule
from apiserver.cel.functions import (
    UNBOUNDED,
    Argument,
    Bounds,
    CallCost,
    CallEstimate,
    CallEstimator,
    Overload,
    method,
)
from apiserver.cel.library.ordering import are_alike, overloads
from apiserver.cel.library.shared_costs import actual_size, check_cost, estimate_list, of_list
from apiserver.cel.library.value_set import ValueSet
from apiserver.cel.syntax import Bind, Call, Comprehension, CreateList, Ident, Node, Select
from apiserver.cel.types import INT, LIST_A, LIST_DYN, Type, TypeKind
from apiserver.cel.values import LIST_CLASSES, EvaluationError

# The cost of comparing two items; that of strings is higher.
_COMPARE_FACTOR: Final = 2.0
_COMPARE_TEXT_FACTOR: Final = 2.1


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(
            f"cannot slice({start}, {end}), start index must be less than or equal to end index"
        )
    if len(items) < end:
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def _flatten(items: list[Any], depth: int = 1) -> list[Any]:
    """Replace the lists in a list by their items, to a depth."""
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    try:
        found = list(_flat(items, depth))
    except RecursionError:
        raise EvaluationError("lists are nested too deeply") from None
    check_cost(len(found))
    return found


def _flat(items: AnyList, depth: int) -> Iterator[Any]:
    for item in items:
        if depth and isinstance(item, LIST_CLASSES):
            yield from _flat(item, depth - 1)
        else:
            yield item


def _range(count: int) -> list[int]:
    check_cost(count)
    return list(range(count))


def _distinct(items: list[Any]) -> list[Any]:
    check_cost(_COMPARE_FACTOR * len(items) ** 2)
    members = ValueSet()
    return [item for item in items if members.add(item)]


def _sort_by(items: list[Any], keys: list[Any]) -> list[Any]:
    if len(items) != len(keys):
        raise EvaluationError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got "
            f"{len(items)} and {len(keys)} elements respectively"
        )
    check_cost(_COMPARE_FACTOR * len(keys) ** 2)
    if not are_alike(keys):
        is_one_kind = len(set(map(type, keys))) == 1
        raise EvaluationError(
            "list elements must be comparable" if is_one_kind else "list elements must have the same type"
        )
    return [items[index] for index in sorted(range(len(keys)), key=keys.__getitem__)]


def _sort_by_macro(offset: int, receiver: Node | None, args: tuple[Node, ...]) -> Node:
    """Expands `list.sortBy(x, key)`: the list, sorted by the keys that `list.map(x, key)` makes."""
    assert receiver is not None
    if not isinstance(receiver, CreateList | Select | Ident | Comprehension | Call):
        raise MacroError(
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
            receiver.offset,
        )
    if not isinstance(args[0], Ident):
        raise MacroError("argument is not an identifier", args[0].offset)
    name = "@__sortBy_input__"
    keys = Comprehension("map", (args[0].name,), Ident(name, offset=offset), None, args[1], offset=offset)
    call = Call("@sortByAssociatedKeys", (keys,), Ident(name, offset=offset), offset=offset)
    return Bind(name, receiver, call, offset=offset)


# ---- costs


def _cost_of_result(args: Sequence[Any], result: Any) -> int:
    return of_list(1, actual_size(result))


def _cost_of_flatten(args: Sequence[Any], result: Any) -> int:
    return of_list(args[1] if len(args) > 1 else 1, len(args[0]))


def _cost_of_compared(keys: int) -> CallCost:
    """Returns the cost of a sort. keys: the index of the argument with the sort keys."""

    def call_cost(args: Sequence[Any], result: Any) -> int:
        items = args[keys]
        is_text = bool(items) and isinstance(items[0], str | bytes)
        return of_list(_COMPARE_TEXT_FACTOR if is_text else _COMPARE_FACTOR, len(items) ** 2)

    return call_cost


def _constant(argument: Argument, otherwise: int) -> int:
    return max(argument.constant, 0) if type(argument.constant) is int else otherwise


def _estimate_slice(args: Sequence[Argument]) -> CallEstimate:
    start, end = _constant(args[1], 0), _constant(args[2], args[0].size.high)
    size = (end - start) % (UNBOUNDED + 1)
    return estimate_list(1, Bounds(size, size))


def _estimate_flatten(args: Sequence[Argument]) -> CallEstimate:
    depth = _constant(args[1], UNBOUNDED) if len(args) > 1 else 1
    return estimate_list(depth, args[0].size)


def _estimate_range(args: Sequence[Argument]) -> CallEstimate:
    size = _constant(args[0], UNBOUNDED)
    return estimate_list(1, Bounds(size, size))


def _estimate_compared(keys: int, type_: Type | None = None) -> CallEstimator:
    is_text = type_ is not None and type_.kind in (TypeKind.STRING, TypeKind.BYTES)
    factor = _COMPARE_TEXT_FACTOR if is_text else _COMPARE_FACTOR

    def estimate(args: Sequence[Argument]) -> CallEstimate:
        size = args[keys].size
        return estimate_list(factor, size.times(size))

    return estimate


# ---- declarations


def _sorting(name: str, type_: Type) -> Overload:
    own = types.list_of(type_)
    costs = _cost_of_compared(0), _estimate_compared(0, type_)
    return Overload(
        f"list_{type_.kind.value}_sort",
        (own,),
        own,
        lambda items: _sort_by(items, items),
        *costs,
        is_method=True,
    )


def _sorting_by(name: str, type_: Type) -> Overload:
    id_, args = f"list_{type_.kind.value}_sortByAssociatedKeys", (LIST_A, types.list_of(type_))
    costs = _cost_of_compared(1), _estimate_compared(1, type_)
    return Overload(id_, args, LIST_A, _sort_by, *costs, is_method=True)


LISTS_EXT: Final = Library(
    "cel.lib.ext.lists",
    {
        "slice": method("list_slice", (LIST_A, INT, INT), LIST_A, _slice, _cost_of_result, _estimate_slice),
        "flatten": (
            *method(
                "list_flatten",
                (types.list_of(LIST_A),),
                LIST_A,
                _flatten,
                _cost_of_flatten,
                _estimate_flatten,
            ),
            *method(
                "list_flatten_int", (LIST_DYN, INT), LIST_DYN, _flatten, _cost_of_flatten, _estimate_flatten
            ),
        ),
        "sort": overloads(_sorting),
        "@sortByAssociatedKeys": overloads(_sorting_by),
        "lists.range": (
            Overload(
                "lists_range",
                (INT,),
                types.list_of(INT),
                _range,
                call_cost=_cost_of_result,
                estimate=_estimate_range,
            ),
        ),
        "reverse": method(
            "list_reverse",
            (LIST_A,),
            LIST_A,
            lambda items: items[::-1],
            _cost_of_result,
            lambda args: estimate_list(1, args[0].size),
        ),
        "distinct": method(
            "list_distinct", (LIST_A,), LIST_A, _distinct, _cost_of_compared(0), _estimate_compared(0)
        ),
    },
    macros=(MacroRule("sortBy", 2, True, _sort_by_macro),),
    since=(1, 34),
)
