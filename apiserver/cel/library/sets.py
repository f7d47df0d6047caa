"""The library of sets, which are lists: `sets.…`. Source: cel-go ext/sets.go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from apiserver.cel.declarations import Library
from apiserver.cel.functions import ONE, Argument, CallCost, CallEstimate, CallEstimator, Overload
from apiserver.cel.library.shared_costs import actual_size, check_cost
from apiserver.cel.library.value_set import ValueSet
from apiserver.cel.types import BOOL, LIST_A


def _contains(whole: list[Any], part: list[Any]) -> bool:
    check_cost(len(whole) * len(part))
    members = ValueSet(whole)
    return all(item in members for item in part)


def _intersects(a: list[Any], b: list[Any]) -> bool:
    check_cost(len(a) * len(b))
    members = ValueSet(b)
    return any(item in members for item in a)


def _equivalent(a: list[Any], b: list[Any]) -> bool:
    check_cost(2 * len(a) * len(b))
    return _contains(a, b) and _contains(b, a)


def _call_cost(factor: int) -> CallCost:
    def call_cost(args: Sequence[Any], result: Any) -> int:
        return 1 + actual_size(args[0]) * actual_size(args[1]) * factor

    return call_cost


def _estimate(factor: int) -> CallEstimator:
    def estimate(args: Sequence[Argument]) -> CallEstimate:
        return CallEstimate(args[0].size.times(args[1].size).scaled(factor).plus(ONE))

    return estimate


SETS: Final = Library(
    "cel.lib.ext.sets",
    {
        f"sets.{name}": (
            Overload(
                f"list_sets_{name}_list",
                (LIST_A, LIST_A),
                BOOL,
                call,
                call_cost=_call_cost(factor),
                estimate=_estimate(factor),
            ),
        )
        for name, call, factor in (
            ("contains", _contains, 1),
            ("intersects", _intersects, 1),
            # Each must contain the other.
            ("equivalent", _equivalent, 2),
        )
    },
    since=(1, 29),
)
