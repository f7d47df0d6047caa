"""Declarations of what expressions may call, and of what calls cost.

Functions are data: overloads with their types, what they do, and two costs: of a call that is made, and the
bounds of what a call could cost, for estimates. Costs are Kubernetes', since budgets are (k8s.io/apiserver
pkg/cel/library/cost.go, cel-go checker/cost.go and interpreter/runtimecost.go).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from apiserver.cel.types import Type

LIST_COST: Final = 10  # of making one; row R32 counts 40 with its items
MAP_COST: Final = 30
MESSAGE_COST: Final = 40
STRING_FACTOR: Final = 0.1  # per code point that is read
REGEX_FACTOR: Final = 0.25  # per code point of a pattern
UNBOUNDED: Final = (1 << 64) - 1  # of costs and sizes of which nothing is known; they do not go beyond


class Bounds(NamedTuple):
    """The least and the greatest value of a cost or a size. Sums and products end at UNBOUNDED."""

    low: int
    high: int

    def plus(self, other: Bounds) -> Bounds:
        return Bounds(min(self.low + other.low, UNBOUNDED), min(self.high + other.high, UNBOUNDED))

    def times(self, other: Bounds) -> Bounds:
        return Bounds(min(self.low * other.low, UNBOUNDED), min(self.high * other.high, UNBOUNDED))

    def scaled(self, factor: float) -> Bounds:
        """Rounded up."""
        return Bounds(_scaled(self.low, factor), _scaled(self.high, factor))

    def union(self, other: Bounds) -> Bounds:
        return Bounds(min(self.low, other.low), max(self.high, other.high))


def _scaled(number: int, factor: float) -> int:
    return UNBOUNDED if number >= UNBOUNDED else min(math.ceil(number * factor), UNBOUNDED)


NOTHING: Final = Bounds(0, 0)
ONE: Final = Bounds(1, 1)
ANY: Final = Bounds(0, UNBOUNDED)


class Argument(NamedTuple):
    """What an estimate knows of a call's argument (the receiver comes first).

    size: of strings, bytes, lists and maps, else ONE. constant: its value, where the text has it.
    """

    type: Type
    size: Bounds
    constant: Any = None


class CallEstimate(NamedTuple):
    """What a call could cost. cost: without that of its arguments. size: of its result, if it has one."""

    cost: Bounds
    size: Bounds | None = None


CallCost: TypeAlias = Callable[[Sequence[Any], Any], int]
CallEstimator: TypeAlias = Callable[[Sequence[Argument]], CallEstimate]


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """One way to call a function.

    id: as cel-go or Kubernetes call it, as `size_string`.
    args: types of the arguments; of a method the receiver's first.
    call: gets that many values of these types (of parameters and dyn any), raises EvaluationError.
    call_cost: from the arguments and the result: what a call has cost; None: 1.
    estimate: from what is known of the arguments: what a call could cost, and how large its result could be;
        None: 1, and nothing known.
    """

    id: str
    args: tuple[Type, ...]
    result: Type
    call: Callable[..., Any]
    call_cost: CallCost | None = None
    estimate: CallEstimator | None = None
    is_method: bool = field(default=False, kw_only=True)


def method(
    id_: str,
    args: tuple[Type, ...],
    result: Type,
    call: Callable[..., Any],
    call_cost: CallCost | None = None,
    estimate: CallEstimator | None = None,
) -> tuple[Overload, ...]:
    """Declares a method with one overload. args: the receiver's type first."""
    return (Overload(id_, args, result, call, call_cost, estimate, is_method=True),)
