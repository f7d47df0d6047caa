"""Evaluators of `==`, `!=` and `in`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, Final

from apiserver.cel import values
from apiserver.cel.concatenation import AnyList, ConcatenatedList
from apiserver.cel.costs import looking_at, size_of
from apiserver.cel.evaluators.frames import BUDGET, COST_WITHOUT_ARGUMENTS, Evaluator, Frame, charge
from apiserver.cel.functions import STRING_FACTOR
from apiserver.cel.types import Type, TypeKind
from apiserver.cel.unification import SCALARS
from apiserver.cel.values import (
    LIST_CLASSES,
    NO_SUCH_OVERLOAD,
    BoolKey,
    EvaluationError,
    MapList,
    Message,
    OptionalValue,
    SetList,
    UInt,
)

_SIZED: Final = frozenset({TypeKind.STRING, TypeKind.BYTES, TypeKind.LIST, TypeKind.MAP})
_NUMBERS: Final = frozenset({TypeKind.INT, TypeKind.UINT, TypeKind.DOUBLE})
# Kinds whose values have no size, so that comparing two costs 1.
_SIZELESS: Final = SCALARS - _SIZED
# Strings up to this length cost 1 to compare, or nothing if either is empty.
_SHORT: Final = 10
_DEEP: Final = frozenset({list, SetList, MapList, ConcatenatedList, dict, Message, OptionalValue})


def comparison(
    left: Evaluator, right: Evaluator, left_type: Type, right_type: Type, *, is_equal: bool
) -> tuple[Evaluator, int]:
    """Returns the evaluator of a comparison, and its constant cost."""
    kind, other = left_type.kind, right_type.kind
    if kind in _SIZELESS and (kind is other or (kind in _NUMBERS and other in _NUMBERS)):
        if is_equal:
            return (lambda frame: left(frame) == right(frame)), 1
        return (lambda frame: left(frame) != right(frame)), 1
    if kind is TypeKind.STRING and other is TypeKind.STRING:
        return _text_equality(left, right, is_equal=is_equal), 0
    if kind in _SIZELESS or other in _SIZELESS:
        return (lambda frame: values.equal(left(frame), right(frame)) is is_equal), 1

    def evaluate(frame: Frame) -> bool:
        try:
            x, y = left(frame), right(frame)
        except EvaluationError:
            charge(frame, COST_WITHOUT_ARGUMENTS)
            raise
        charge(frame, ceil(min(size_of(x), size_of(y)) * STRING_FACTOR))
        return _are_equal(frame, x, y) is is_equal

    return evaluate, 0


def _are_equal(frame: Frame, x: Any, y: Any) -> bool:
    """Compare values, and charge for the values in them, too, which cel-go does not."""
    if type(x) not in _DEEP:
        return values.equal(x, y)
    left = [values.COMPARISONS_MAX]
    try:
        return values.equal_within(x, y, left)
    finally:
        charge(frame, looking_at(values.COMPARISONS_MAX - left[0]))


def _text_equality(left: Evaluator, right: Evaluator, *, is_equal: bool) -> Evaluator:
    def evaluate(frame: Frame) -> bool:
        try:
            x, y = left(frame), right(frame)
        except EvaluationError:
            charge(frame, COST_WITHOUT_ARGUMENTS)
            raise
        length = min(len(x), len(y))
        if length:
            frame[BUDGET] -= 1 if length <= _SHORT else ceil(length * STRING_FACTOR)
        return (x == y) is is_equal

    return evaluate


_PLAIN: Final = frozenset({TypeKind.STRING, TypeKind.INT, TypeKind.BYTES, TypeKind.UINT})
_HASHED: Final = frozenset({str, int, UInt, float, bytes, bool})


def membership(
    item: Evaluator, container: Evaluator, item_type: Type, container_type: Type
) -> tuple[Evaluator, int]:
    """Returns the evaluator of `in`, and its constant cost."""
    if container_type.kind is TypeKind.MAP:
        return (lambda frame: _is_key(item(frame), container(frame))), 1
    # Python compares as the language does where no bool can be among numbers.
    is_plain = (
        container_type.kind is TypeKind.LIST
        and item_type.kind in _PLAIN
        and container_type.element.kind is item_type.kind
    )

    def evaluate(frame: Frame) -> bool:
        try:
            value, found = item(frame), container(frame)
        except EvaluationError:
            charge(frame, COST_WITHOUT_ARGUMENTS)
            raise
        if not isinstance(found, LIST_CLASSES):
            charge(frame, 1)
            return _is_key(value, found)
        charge(frame, len(found))
        return bool(value in found) if is_plain else _is_in(frame, value, found)

    return evaluate, 0


def _is_in(frame: Frame, value: Any, items: AnyList) -> bool:
    return any(_are_equal(frame, value, item) for item in items)


def is_plain(value: Any) -> bool:
    """Whether a value contains no other values, and Python's equality applies to it, except for bools."""
    return type(value) in _HASHED


def membership_of_constants(item: Evaluator, item_type: Type, items: Sequence[Any]) -> Evaluator:
    """Returns the evaluator of `in` with a list of plain constants, which is free."""
    known = frozenset(BoolKey(each) if type(each) is bool else each for each in items if each == each)
    if item_type.kind in _PLAIN:
        return lambda frame: item(frame) in known

    def evaluate(frame: Frame) -> bool:
        value = item(frame)
        if type(value) is bool:
            return BoolKey(value) in known
        return type(value) in _HASHED and value in known

    return evaluate


def _is_key(value: Any, container: Any) -> bool:
    if isinstance(container, Message):
        container = container.fields
    if isinstance(container, Mapping):
        try:
            return values.map_key(value) in container
        except EvaluationError:
            return False
    raise EvaluationError(NO_SUCH_OVERLOAD)
