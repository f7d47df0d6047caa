"""Evaluators of calls of functions and operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any, Final

from apiserver.cel import costs, values
from apiserver.cel.concatenation import ConcatenatedList
from apiserver.cel.evaluators.frames import BUDGET, COST_WITHOUT_ARGUMENTS, Evaluator, Frame, charge
from apiserver.cel.functions import REGEX_FACTOR, STRING_FACTOR, CallCost, Overload
from apiserver.cel.types import Type, TypeKind
from apiserver.cel.values import (
    NO_SUCH_OVERLOAD,
    CostExceeded,
    Duration,
    EvaluationError,
    MapList,
    Message,
    OptionalValue,
    SetList,
    Timestamp,
    UInt,
)


def call(
    function: Callable[..., Any], evaluators: Sequence[Evaluator], constant: tuple[Any, ...] = ()
) -> Evaluator:
    """Returns the evaluator of a call with a constant cost.

    constant: the second of two arguments in a tuple, if it is known.
    """
    if len(evaluators) == 1:
        (only,) = evaluators
        return lambda frame: function(only(frame))
    if len(evaluators) == 2:
        first, second = evaluators
        if constant:
            (known,) = constant
            return lambda frame: function(first(frame), known)
        return lambda frame: function(first(frame), second(frame))
    return lambda frame: function(*[evaluate(frame) for evaluate in evaluators])


def _evaluated(frame: Frame, evaluators: Sequence[Evaluator]) -> list[Any]:
    """Evaluate the arguments of a call whose cost depends on them."""
    try:
        return [each(frame) for each in evaluators]
    except EvaluationError:
        charge(frame, COST_WITHOUT_ARGUMENTS)
        raise


def call_with_cost(
    function: Callable[..., Any], call_cost: CallCost, evaluators: Sequence[Evaluator]
) -> Evaluator:
    """Returns the evaluator of a call whose cost depends on values. A failed call costs the same."""
    if call_cost is costs.string_traversal and len(evaluators) == 2:
        return _reading_call(function, *evaluators)

    def evaluate(frame: Frame) -> Any:
        args = _evaluated(frame, evaluators)
        try:
            result = function(*args)
        except EvaluationError:
            charge(frame, call_cost(args, None))
            raise
        left = frame[BUDGET] - call_cost(args, result)
        frame[BUDGET] = left
        if left < 0:
            raise CostExceeded
        return result

    return evaluate


def _reading_call(function: Callable[..., Any], first: Evaluator, second: Evaluator) -> Evaluator:
    """Returns the evaluator of a call that costs as much as reading its first argument, a string."""

    def evaluate(frame: Frame) -> Any:
        try:
            value = first(frame)
        except EvaluationError:
            charge(frame, COST_WITHOUT_ARGUMENTS)
            raise
        left = frame[BUDGET] - ceil(len(value) * STRING_FACTOR)
        frame[BUDGET] = left
        if left < 0:
            raise CostExceeded
        return function(value, second(frame))

    return evaluate


def search(text: Evaluator, find: Callable[[str], bool], pattern_length: int) -> Evaluator:
    """Returns the evaluator of `matches` with a constant pattern. It costs as much as `costs.regex_cost`."""
    factor = ceil(pattern_length * REGEX_FACTOR)

    def evaluate(frame: Frame) -> bool:
        try:
            value = text(frame)
        except EvaluationError:
            charge(frame, COST_WITHOUT_ARGUMENTS)
            raise
        left = frame[BUDGET] - ceil((1.0 + len(value)) * STRING_FACTOR) * factor
        frame[BUDGET] = left
        if left < 0:
            raise CostExceeded
        return find(value)

    return evaluate


_CLASSES: Final[Mapping[TypeKind, frozenset[type]]] = {
    TypeKind.NULL: frozenset({type(None)}),
    TypeKind.BOOL: frozenset({bool}),
    TypeKind.INT: frozenset({int}),
    TypeKind.UINT: frozenset({UInt}),
    TypeKind.DOUBLE: frozenset({float}),
    TypeKind.STRING: frozenset({str}),
    TypeKind.BYTES: frozenset({bytes}),
    TypeKind.TIMESTAMP: frozenset({Timestamp}),
    TypeKind.DURATION: frozenset({Duration}),
    TypeKind.LIST: frozenset({list, SetList, MapList, ConcatenatedList}),
    TypeKind.MAP: frozenset({dict}),
    TypeKind.TYPE: frozenset({Type}),
    TypeKind.OPTIONAL: frozenset({OptionalValue}),
    TypeKind.OBJECT: frozenset({dict, Message}),
}


def _fits(value: Any, type_: Type) -> bool:
    """Whether a value is of the type, as far as its first item shows."""
    if type_.kind is TypeKind.DYN or type_.kind is TypeKind.PARAMETER:
        return True
    if type_.kind is TypeKind.OPAQUE:
        own = getattr(value, "cel_type", None)
        return isinstance(own, Type) and own.name == type_.name
    if type(value) not in _CLASSES[type_.kind]:
        return False
    return type_.kind is not TypeKind.LIST or not value or _fits(value[0], type_.element)


def _shows_in_class(type_: Type) -> bool:
    """Whether the class of a value determines whether it is of the type."""
    if type_.kind is TypeKind.OPAQUE:
        return False
    return type_.kind is not TypeKind.LIST or type_.element.kind in (TypeKind.DYN, TypeKind.PARAMETER)


def dispatched(name: str, overloads: Sequence[Overload], evaluators: Sequence[Evaluator]) -> Evaluator:
    """Returns the evaluator of a call whose overload depends on the values.

    name: that of the function in errors; empty for operators.
    """

    # What was chosen for values of some classes, where these alone decide.
    known: dict[tuple[type, ...], Overload] = {}
    is_by_class = all(_shows_in_class(each) for overload in overloads for each in overload.args)

    def evaluate(frame: Frame) -> Any:
        args = _evaluated(frame, evaluators)
        classes = tuple(map(type, args))
        overload = known.get(classes)
        if overload is None:
            overload = next((each for each in overloads if all(map(_fits, args, each.args))), None)
            if overload is None:
                charge(frame, 1)
                signature = ", ".join(map(values.type_name, args))
                why = f"{NO_SUCH_OVERLOAD}: {name}({signature})" if name else NO_SUCH_OVERLOAD
                raise EvaluationError(why)
            if is_by_class:
                known[classes] = overload
        call_cost = overload.call_cost
        try:
            result = overload.call(*args)
        except EvaluationError:
            charge(frame, 1 if call_cost is None else call_cost(args, None))
            raise
        charge(frame, 1 if call_cost is None else call_cost(args, result))
        return result

    return evaluate
