"""Calls of functions, and of operators that are such."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any, Final

from apiserver.cel import costs, values
from apiserver.cel.evaluators.frames import EXCEEDED, NO_OVERLOAD, OF_NOTHING, Frame, Run, spend
from apiserver.cel.functions import REGEX_FACTOR, STRING_FACTOR, Overload, Price
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


def call(function: Callable[..., Any], runs: Sequence[Run], constant: tuple[Any, ...] = ()) -> Run:
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


def _evaluated(frame: Frame, runs: Sequence[Run]) -> list[Any]:
    """Arguments of a call that is charged for once it is made."""
    try:
        return [each(frame) for each in runs]
    except EvaluationError:
        spend(frame, OF_NOTHING)
        raise


def priced_call(function: Callable[..., Any], price: Price, runs: Sequence[Run]) -> Run:
    """A call costs the same whether it succeeds or fails, or else failing would be free."""
    if price is costs.traversal and len(runs) == 2:
        return _reading_call(function, *runs)

    def run(frame: Frame) -> Any:
        args = _evaluated(frame, runs)
        try:
            result = function(*args)
        except EvaluationError:
            spend(frame, price(args, None))
            raise
        left = frame[0] - price(args, result)
        frame[0] = left
        if left < 0:
            raise CostExceeded(EXCEEDED)
        return result

    return run


def _reading_call(function: Callable[..., Any], first: Run, second: Run) -> Run:
    """Of which the price is for reading the first argument, a text."""

    def run(frame: Frame) -> Any:
        try:
            value = first(frame)
        except EvaluationError:
            spend(frame, OF_NOTHING)
            raise
        left = frame[0] - ceil(len(value) * STRING_FACTOR)
        frame[0] = left
        if left < 0:
            raise CostExceeded(EXCEEDED)
        return function(value, second(frame))

    return run


def search(text: Run, find: Callable[[str], bool], pattern_length: int) -> Run:
    """`matches` of a pattern that is known."""
    factor = ceil(pattern_length * REGEX_FACTOR)

    def run(frame: Frame) -> bool:
        try:
            value = text(frame)
        except EvaluationError:
            spend(frame, OF_NOTHING)
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


def dispatched(name: str, overloads: Sequence[Overload], runs: Sequence[Run]) -> Run:
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
        price = overload.price
        try:
            result = overload.call(*args)
        except EvaluationError:
            spend(frame, 1 if price is None else price(args, None))
            raise
        left = frame[0] - (1 if price is None else price(args, result))
        frame[0] = left
        if left < 0:
            raise CostExceeded(EXCEEDED)
        return result

    return run
