"""Declarations of the functions that expressions may call, and of their costs.

Functions are data: overloads with their types, implementation, and two costs: that of an actual call, and the
bounds for estimates. Costs are those of Kubernetes, as are budgets (k8s.io/apiserver pkg/cel/library/cost.go,
cel-go checker/cost.go and interpreter/runtimecost.go).
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
UNBOUNDED: Final = (1 << 64) - 1  # of unknown costs and sizes; they do not go beyond


class Bounds(NamedTuple):
    """The bounds of a cost or a size. Sums and products end at UNBOUNDED."""

    low: int
    high: int

    def plus(self, other: Bounds) -> Bounds:
        return Bounds(min(self.low + other.low, UNBOUNDED), min(self.high + other.high, UNBOUNDED))

    def times(self, other: Bounds) -> Bounds:
        return Bounds(min(self.low * other.low, UNBOUNDED), min(self.high * other.high, UNBOUNDED))

    def scaled(self, factor: float) -> Bounds:
        """Returns the bounds multiplied by a factor, and rounded up."""
        return Bounds(_scaled(self.low, factor), _scaled(self.high, factor))

    def union(self, other: Bounds) -> Bounds:
        return Bounds(min(self.low, other.low), max(self.high, other.high))


def _scaled(number: int, factor: float) -> int:
    return UNBOUNDED if number >= UNBOUNDED else min(math.ceil(number * factor), UNBOUNDED)


NOTHING: Final = Bounds(0, 0)
ONE: Final = Bounds(1, 1)
ANY: Final = Bounds(0, UNBOUNDED)


class Argument(NamedTuple):
    """The known facts about a call's argument, for estimates. The receiver comes first.

    size: that of strings, bytes, lists and maps, else ONE. constant: its value, if it is a literal.
    """

    type: Type
    size: Bounds
    constant: Any = None


class CallEstimate(NamedTuple):
    """The estimate of a call. cost: without that of its arguments. size: that of its result, if it has
    one.
    """

    cost: Bounds
    size: Bounds | None = None


CallCost: TypeAlias = Callable[[Sequence[Any], Any], int]
CallEstimator: TypeAlias = Callable[[Sequence[Argument]], CallEstimate]


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """One overload of a function: its types, implementation and costs.

    id: its name in cel-go or Kubernetes, as `size_string`.
    args: the types of the arguments; for a method the receiver's first.
    call: the implementation. It gets values of these types (any for type parameters and dyn), and raises
        EvaluationError.
    call_cost: returns the cost of a call from the arguments and the result; None: 1.
    estimate: returns bounds for the cost and the size of the result from the known facts about the arguments;
        None: a cost of 1, and an unknown size.
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
    """Returns the declaration of a method with one overload. args: the receiver's type first."""
    return (Overload(id_, args, result, call, call_cost, estimate, is_method=True),)
