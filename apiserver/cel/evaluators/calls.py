"""Calls of functions, and of operators that are such."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any, Final

from apiserver.cel import costs, values
from apiserver.cel.evaluators.frames import (
    COST_WITHOUT_ARGUMENTS,
    EXCEEDED,
    NO_OVERLOAD,
    Evaluator,
    Frame,
    spend,
)
from apiserver.cel.functions import REGEX_FACTOR, STRING_FACTOR, CallCost, Overload
from apiserver.cel.types import Kind, Type
from apiserver.cel.values import (
    CostExceeded,
    Duration,
    EvaluationError,
    MapList,
    Message,
    Optional,
    SetList,
    Timestamp,
    UInt,
)


def call(
    function: Callable[..., Any], runs: Sequence[Evaluator], constant: tuple[Any, ...] = ()
) -> Evaluator:
    """constant: the second of two arguments, where that is known before."""
    if len(runs) == 1:
        (only,) = runs
        return lambda frame: function(only(frame))
    if len(runs) == 2:
        first, second = runs
        if constant:
            (known,) = constant
            return lambda frame: function(first(frame), known)
        return lambda frame: function(first(frame), second(frame))
    return lambda frame: function(*[run(frame) for run in runs])


def _evaluated(frame: Frame, runs: Sequence[Evaluator]) -> list[Any]:
    """Arguments of a call that is charged for once it is made."""
    try:
        return [each(frame) for each in runs]
    except EvaluationError:
        spend(frame, COST_WITHOUT_ARGUMENTS)
        raise


def call_with_cost(function: Callable[..., Any], call_cost: CallCost, runs: Sequence[Evaluator]) -> Evaluator:
    """A call costs the same whether it succeeds or fails, or else failing would be free."""
    if call_cost is costs.traversal and len(runs) == 2:
        return _reading_call(function, *runs)

    def run(frame: Frame) -> Any:
        args = _evaluated(frame, runs)
        try:
            result = function(*args)
        except EvaluationError:
            spend(frame, call_cost(args, None))
            raise
        left = frame[0] - call_cost(args, result)
        frame[0] = left
        if left < 0:
            raise CostExceeded(EXCEEDED)
        return result

    return run


def _reading_call(function: Callable[..., Any], first: Evaluator, second: Evaluator) -> Evaluator:
    """Of which the price is for reading the first argument, a text."""

    def run(frame: Frame) -> Any:
        try:
            value = first(frame)
        except EvaluationError:
            spend(frame, COST_WITHOUT_ARGUMENTS)
            raise
        left = frame[0] - ceil(len(value) * STRING_FACTOR)
        frame[0] = left
        if left < 0:
            raise CostExceeded(EXCEEDED)
        return function(value, second(frame))

    return run


def search(text: Evaluator, find: Callable[[str], bool], pattern_length: int) -> Evaluator:
    """`matches` of a pattern that is known."""
    factor = ceil(pattern_length * REGEX_FACTOR)

    def run(frame: Frame) -> bool:
        try:
            value = text(frame)
        except EvaluationError:
            spend(frame, COST_WITHOUT_ARGUMENTS)
            raise
        left = frame[0] - ceil((1.0 + len(value)) * STRING_FACTOR) * factor
        frame[0] = left
        if left < 0:
            raise CostExceeded(EXCEEDED)
        return find(value)

    return run


_CLASSES: Final[Mapping[Kind, frozenset[type]]] = {
    Kind.NULL: frozenset({type(None)}),
    Kind.BOOL: frozenset({bool}),
    Kind.INT: frozenset({int}),
    Kind.UINT: frozenset({UInt}),
    Kind.DOUBLE: frozenset({float}),
    Kind.STRING: frozenset({str}),
    Kind.BYTES: frozenset({bytes}),
    Kind.TIMESTAMP: frozenset({Timestamp}),
    Kind.DURATION: frozenset({Duration}),
    Kind.LIST: frozenset({list, SetList, MapList}),
    Kind.MAP: frozenset({dict}),
    Kind.TYPE: frozenset({Type}),
    Kind.OPTIONAL: frozenset({Optional}),
    Kind.OBJECT: frozenset({dict, Message}),
}


def _fits(value: Any, type_: Type) -> bool:
    """Whether a value is of the type, as far as that shows without looking far into it."""
    if type_.kind is Kind.DYN or type_.kind is Kind.PARAMETER:
        return True
    if type_.kind is Kind.OPAQUE:
        own = getattr(value, "cel_type", None)
        return isinstance(own, Type) and own.name == type_.name
    if type(value) not in _CLASSES[type_.kind]:
        return False
    return type_.kind is not Kind.LIST or not value or _fits(value[0], type_.element)


def dispatched(name: str, overloads: Sequence[Overload], runs: Sequence[Evaluator]) -> Evaluator:
    """Which of the overloads is called shows only in the values. name: as an error has it, if at all."""

    def run(frame: Frame) -> Any:
        args = _evaluated(frame, runs)
        for overload in overloads:
            if all(map(_fits, args, overload.args)):
                break
        else:
            spend(frame, 1)
            signature = ", ".join(map(values.type_name, args))
            raise EvaluationError(f"{NO_OVERLOAD}: {name}({signature})" if name else NO_OVERLOAD)
        call_cost = overload.call_cost
        try:
            result = overload.call(*args)
        except EvaluationError:
            spend(frame, 1 if call_cost is None else call_cost(args, None))
            raise
        left = frame[0] - (1 if call_cost is None else call_cost(args, result))
        frame[0] = left
        if left < 0:
            raise CostExceeded(EXCEEDED)
        return result

    return run
