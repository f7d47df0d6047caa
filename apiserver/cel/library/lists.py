"""The library of Kubernetes' functions on lists. Source: k8s.io/apiserver pkg/cel/library/lists.go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from apiserver.cel import types
from apiserver.cel.declarations import Library
from apiserver.cel.functions import Overload
from apiserver.cel.library.ordering import check_comparable, overloads
from apiserver.cel.library.shared_costs import estimate_tree_traversal, of_tree_traversal
from apiserver.cel.types import BOOL, INT, LIST_A, A, Type
from apiserver.cel.values import INT_MAX, INT_MIN, UINT_MAX, Duration, EvaluationError, UInt, equal


def _is_sorted(items: list[Any]) -> bool:
    check_comparable(items)
    return not any(items[index] > items[index + 1] for index in range(len(items) - 1))


def _extreme(name: str, pick: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def call(items: list[Any]) -> Any:
        if not items:
            raise EvaluationError(f"{name} called on empty list")
        check_comparable(items)
        return pick(items)

    return call


def _sum(class_: Callable[[Any], Any], low: int, high: int, overflow: str) -> Callable[[list[Any]], Any]:
    def call(items: list[Any]) -> Any:
        check_comparable(items)
        total = 0
        for item in items:
            total += item
            if not low <= total <= high:
                raise EvaluationError(overflow)
        return class_(total)

    return call


def _sum_doubles(items: list[Any]) -> float:
    check_comparable(items)
    total = 0.0
    for item in items:
        total += item
    return total


_SUMS: Final = {
    "int": _sum(int, INT_MIN, INT_MAX, "integer overflow"),
    "uint": _sum(UInt, 0, UINT_MAX, "unsigned integer overflow"),
    "double": _sum_doubles,
    "duration": _sum(Duration, INT_MIN, INT_MAX, "duration overflow"),
}


def _index_of(items: list[Any], item: Any) -> int:
    for index, other in enumerate(items):
        if equal(other, item):
            return index
    return -1


def _last_index_of(items: list[Any], item: Any) -> int:
    for index in range(len(items) - 1, -1, -1):
        if equal(items[index], item):
            return index
    return -1


def _declared(id_: str, args: tuple[Type, ...], result: Type, call: Callable[..., Any]) -> Overload:
    return Overload(
        id_, args, result, call, is_method=True, call_cost=of_tree_traversal, estimate=estimate_tree_traversal
    )


def _of_items(id_: str, call: Callable[[list[Any]], Any]) -> tuple[Overload, ...]:
    """Returns overloads that return an item of a list of a comparable type. id_: with a place for the type's
    name.
    """
    return overloads(lambda name, type_: _declared(id_.format(name), (types.list_of(type_),), type_, call))


LISTS: Final = Library(
    "kubernetes.lists",
    {
        "isSorted": overloads(
            lambda name, type_: _declared(
                f"list_{name}_is_sorted_bool", (types.list_of(type_),), BOOL, _is_sorted
            )
        ),
        "sum": overloads(
            lambda name, type_: _declared(
                f"list_{name}_sum_{name}", (types.list_of(type_),), type_, _SUMS[name]
            ),
            _SUMS,
        ),
        "max": _of_items("list_{0}_max_{0}", _extreme("max", max)),
        "min": _of_items("list_{0}_min_{0}", _extreme("min", min)),
        "indexOf": (_declared("list_a_index_of_int", (LIST_A, A), INT, _index_of),),
        "lastIndexOf": (_declared("list_a_last_index_of_int", (LIST_A, A), INT, _last_index_of),),
    },
)
