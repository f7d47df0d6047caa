"""Evaluators of selections of fields and items: `a.b`, `a[b]`, `has(a.b)`, `a.?b`, `a[?b]`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from apiserver.cel import values
from apiserver.cel.evaluators.frames import ABSENT, BUDGET, Evaluator, Frame
from apiserver.cel.types import Type, TypeKind
from apiserver.cel.values import (
    LIST_CLASSES,
    NO_SUCH_OVERLOAD,
    NONE,
    EvaluationError,
    Message,
    OptionalValue,
    UInt,
)


def read_path(path: tuple[Any, ...]) -> Evaluator:
    """Returns the evaluator of `a.b.c` for plain maps, which nearly all are; it falls back for other
    values.
    """
    variable, slot, first, *rest = path

    def slowly(frame: Frame) -> Any:
        value = variable(frame)
        for key in (first, *rest):
            value = _found(frame, _field_of(value, key, key))
        return value

    # A string, a list and a number have no such items; only what is a map gets through.
    if not rest:

        def evaluate(frame: Frame) -> Any:
            try:
                return frame[slot][first]
            except (KeyError, TypeError):
                return slowly(frame)

        return evaluate
    if len(rest) == 1:
        second = rest[0]

        def evaluate_two(frame: Frame) -> Any:
            try:
                return frame[slot][first][second]
            except (KeyError, TypeError):
                return slowly(frame)

        return evaluate_two

    def evaluate_many(frame: Frame) -> Any:
        try:
            value = frame[slot][first]
            for key in rest:
                value = value[key]
        except (KeyError, TypeError):
            return slowly(frame)
        return value

    return evaluate_many


def select(operand: Evaluator, key: str, name: str, *, is_optional: bool) -> Evaluator:
    """Returns the evaluator of a field's selection. key: its name in documents. name: its name in the
    expression.
    """
    if is_optional:
        return lambda frame: _found(frame, _optionally(_find_field, operand(frame), key))

    def evaluate(frame: Frame) -> Any:
        value = operand(frame)
        try:
            return value[key]
        except (KeyError, TypeError):
            return _found(frame, _field_of(value, key, name))

    return evaluate


def _found(frame: Frame, value: Any) -> Any:
    """Returns a selected value. An optional selection without a result is free."""
    if value is NONE:
        frame[BUDGET] += 1  # which has been charged before
    return value


def _optionally(find: Callable[[Any, Any], Any], value: Any, key: Any) -> OptionalValue:
    """Returns, as an optional, the selection from a value, or from the value of an optional."""
    if isinstance(value, OptionalValue):
        if not value.has_value:
            return NONE
        value = value.value
    found = find(value, key)
    return NONE if found is ABSENT else OptionalValue(found)


def _fields_of(value: Any) -> Mapping[Any, Any] | None:
    if type(value) is dict:
        return value
    if isinstance(value, Message):
        return value.fields
    return value if isinstance(value, Mapping) else None


def _field_of(value: Any, key: str, name: str) -> Any:
    if isinstance(value, OptionalValue):
        return _optionally(_find_field, value, key)
    if isinstance(value, Message):
        return value.field(key)
    fields = _fields_of(value)
    if fields is None or key not in fields:
        raise EvaluationError(f"no such key: {name}")
    return fields[key]


def _find_field(value: Any, key: str) -> Any:
    """Returns a field's value; ABSENT if there is none."""
    fields = _fields_of(value)
    if fields is None:
        raise EvaluationError(f"no such key: {key}")
    return fields.get(key, ABSENT)


def has_field(operand: Evaluator, key: str) -> Evaluator:
    def evaluate(frame: Frame) -> bool:
        value = operand(frame)
        if type(value) is dict:
            return key in value
        if isinstance(value, OptionalValue):
            return _optionally(_find_field, value, key).has_value
        fields = _fields_of(value)
        return fields is not None and key in fields

    return evaluate


def index(operand: Evaluator, key: Evaluator, *, is_optional: bool, of: Type) -> Evaluator:
    if is_optional:
        return lambda frame: _found(frame, _optionally(_find_item, operand(frame), key(frame)))
    if of.kind is TypeKind.MAP and of.key.kind is TypeKind.STRING:

        def evaluate(frame: Frame) -> Any:
            found, at = operand(frame), key(frame)
            try:
                return found[at]
            except (KeyError, TypeError):
                return _found(frame, _item_of(found, at))

        return evaluate
    if of.kind is TypeKind.LIST:

        def evaluate_list(frame: Frame) -> Any:
            found, at = operand(frame), key(frame)
            if type(at) is int and 0 <= at < len(found):
                return found[at]
            return _item_of(found, at)

        return evaluate_list
    return lambda frame: _found(frame, _item_of(operand(frame), key(frame)))


def _item_of(value: Any, at: Any) -> Any:
    found = _find_item(value, at)
    if found is not ABSENT:
        return found
    shown = "true" if at is True else "false" if at is False else at
    if isinstance(value, LIST_CLASSES):
        raise EvaluationError(f"index out of bounds: {shown}")
    raise EvaluationError(f"no such key: {shown}")


def _find_item(value: Any, at: Any) -> Any:
    """Returns an item; ABSENT if there is none."""
    if isinstance(value, LIST_CLASSES):
        place = _list_index(at)
        return value[place] if 0 <= place < len(value) else ABSENT
    if isinstance(value, OptionalValue):
        return _optionally(_find_item, value, at)
    fields = _fields_of(value)
    if fields is None:
        raise EvaluationError(NO_SUCH_OVERLOAD)
    return fields.get(values.map_key(at), ABSENT)


def _list_index(at: Any) -> int:
    kind = type(at)
    if kind is int or kind is UInt:
        return int(at)
    if kind is float:
        if at.is_integer():
            return int(at)
        raise EvaluationError(f"unsupported index value {at} in list")
    raise EvaluationError(f"unsupported index type '{values.type_name(at)}' in list")
