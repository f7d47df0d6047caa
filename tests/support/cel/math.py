"""Functions on numbers: `math.…`. Source: cel-go ext/math.go."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any, Final

from apiserver.cel import types
from apiserver.cel.functions import Library, MacroError, MacroRule, Overload
from apiserver.cel.syntax import Call, Constant, CreateList, CreateMap, CreateMessage, Ident, Node
from apiserver.cel.types import BOOL, DOUBLE, INT, UINT, Type
from apiserver.cel.values import INT_MIN, NO_SUCH_OVERLOAD, UINT_MAX, EvaluationError, UInt

_BITS: Final = 64
_NUMBERS: Final = frozenset({int, UInt, float})
_SHORT: Final = {INT: "int", UINT: "uint", DOUBLE: "double"}


def _no_overload() -> EvaluationError:
    return EvaluationError(NO_SUCH_OVERLOAD)


# ---- the greatest and the least


def _extreme(is_better: Callable[[Any, Any], bool]) -> Callable[..., Any]:
    def pick(numbers: Sequence[Any]) -> Any:
        best = numbers[0]
        for number in numbers:
            if type(number) not in _NUMBERS:
                raise _no_overload()
            if len(numbers) > 1 and number != number:
                raise EvaluationError("NaN values cannot be ordered")
            if is_better(number, best):
                best = number
        return best

    return pick


def _extremes(name: str, is_better: Callable[[Any, Any], bool]) -> tuple[Overload, ...]:
    pick = _extreme(is_better)

    def of_list(numbers: list[Any]) -> Any:
        if not numbers:
            raise EvaluationError(f"math.@{name}(list) argument must not be empty")
        return pick(numbers)

    def of(*numbers: Any) -> Any:
        return pick(numbers)

    ones = [Overload(f"math_@{name}_{short}", (type_,), type_, of) for type_, short in _SHORT.items()]
    pairs = [
        Overload(
            f"math_@{name}_{short_a}_{short_b}" if a is not b else f"math_@{name}_{short_a}_{short_a}",
            (a, b),
            a if a is b else types.DYN,
            of,
        )
        for a, short_a in _SHORT.items()
        for b, short_b in _SHORT.items()
    ]
    lists = [
        Overload(f"math_@{name}_list_{short}", (types.list_of(type_),), type_, of_list)
        for type_, short in _SHORT.items()
    ]
    return (*ones, *pairs, *lists)


def _is_number(node: Node) -> bool:
    """Whether a node may be a number, as far as its literal shows."""
    if isinstance(node, Constant):
        return type(node.value) in _NUMBERS
    return not isinstance(node, CreateList | CreateMap | CreateMessage)


def _is_list_of_numbers(node: Node) -> bool:
    return isinstance(node, CreateList) and bool(node.items) and all(map(_is_number, node.items))


def _variadic(name: str, function: str) -> MacroRule:
    """`math.name(…)` for any number of arguments: of one, of two, or of a list."""
    full = f"math.{name}()"

    def expand(offset: int, receiver: Node | None, args: tuple[Node, ...]) -> Node:
        if not isinstance(receiver, Ident) or receiver.name != "math":
            return Call(name, args, receiver, offset=offset)
        if not args:
            raise MacroError(f"{full} requires at least one argument", receiver.offset)
        if len(args) == 1 and not (_is_number(args[0]) or _is_list_of_numbers(args[0])):
            raise MacroError(f"{full} invalid single argument value", args[0].offset)
        if len(args) > 1:
            for arg in args:
                if not _is_number(arg):
                    raise MacroError(f"{full} simple literal arguments must be numeric", arg.offset)
        if len(args) > 2:
            args = (CreateList(args, offset=offset),)
        return Call(function, args, offset=offset)

    return MacroRule(name, None, True, expand)


# ---- rounding and signs


def _whole(call: Callable[[float], float]) -> Callable[[float], float]:
    """Applies a function to finite numbers; others are returned as they are."""

    def rounded(number: float) -> float:
        return math.copysign(call(number), number) if math.isfinite(number) else number

    return rounded


def _round(number: float) -> float:
    """Rounds halves away from zero."""
    whole = math.trunc(number)
    return float(whole + math.copysign(1, number)) if abs(number - whole) >= 0.5 else float(whole)


def _abs(number: int) -> int:
    if number == INT_MIN:
        raise EvaluationError("integer overflow")
    return abs(number)


def _sign(number: Any) -> Any:
    if number != number:
        return number
    return type(number)((number > 0) - (number < 0))


def _square_root(number: float) -> float:
    return math.sqrt(number) if number >= 0 else math.nan


# ---- bits


def _signed(number: int) -> int:
    """Returns the int with these 64 bits."""
    number &= UINT_MAX
    return number - (UINT_MAX + 1) if number >> (_BITS - 1) else number


def _shift(name: str, call: Callable[[int, int], int]) -> tuple[Overload, ...]:
    def bits(number: int, count: int) -> int:
        if count < 0:
            raise EvaluationError(f"math.{name}() negative offset: {count}")
        return 0 if count >= _BITS else call(number & UINT_MAX, count) & UINT_MAX

    return (
        Overload(f"math_{name}_int_int", (INT, INT), INT, lambda n, count: _signed(bits(n, count))),
        Overload(f"math_{name}_uint_int", (UINT, INT), UINT, lambda n, count: UInt(bits(n, count))),
    )


def _bitwise(name: str, call: Callable[[int, int], int]) -> tuple[Overload, ...]:
    return (
        Overload(f"math_{name}_int_int", (INT, INT), INT, call),
        Overload(f"math_{name}_uint_uint", (UINT, UINT), UINT, lambda a, b: UInt(call(a, b))),
    )


def _doubles(name: str, result: Type, call: Callable[[float], Any]) -> tuple[Overload, ...]:
    return (Overload(f"math_{name}_double", (DOUBLE,), result, call),)


MATH: Final = Library(
    "cel.lib.ext.math",
    MappingProxyType(
        {
            "math.@max": _extremes("max", operator.gt),
            "math.@min": _extremes("min", operator.lt),
            "math.ceil": _doubles("ceil", DOUBLE, _whole(math.ceil)),
            "math.floor": _doubles("floor", DOUBLE, _whole(math.floor)),
            "math.round": _doubles("round", DOUBLE, _whole(_round)),
            "math.trunc": _doubles("trunc", DOUBLE, _whole(math.trunc)),
            "math.isNaN": _doubles("isNaN", BOOL, math.isnan),
            "math.isInf": _doubles("isInf", BOOL, math.isinf),
            "math.isFinite": _doubles("isFinite", BOOL, math.isfinite),
            "math.abs": (
                Overload("math_abs_double", (DOUBLE,), DOUBLE, abs),
                Overload("math_abs_int", (INT,), INT, _abs),
                Overload("math_abs_uint", (UINT,), UINT, UInt),
            ),
            "math.sign": tuple(
                Overload(f"math_sign_{short}", (type_,), type_, _sign) for type_, short in _SHORT.items()
            ),
            "math.sqrt": tuple(
                Overload(f"math_sqrt_{short}", (type_,), DOUBLE, _square_root)
                for type_, short in _SHORT.items()
            ),
            "math.bitAnd": _bitwise("bitAnd", operator.and_),
            "math.bitOr": _bitwise("bitOr", operator.or_),
            "math.bitXor": _bitwise("bitXor", operator.xor),
            "math.bitNot": (
                Overload("math_bitNot_int_int", (INT,), INT, operator.invert),
                Overload("math_bitNot_uint_uint", (UINT,), UINT, lambda n: UInt(~n & UINT_MAX)),
            ),
            "math.bitShiftLeft": _shift("bitShiftLeft", operator.lshift),
            "math.bitShiftRight": _shift("bitShiftRight", operator.rshift),
        }
    ),
    macros=(
        _variadic("greatest", "math.@max"),
        _variadic("least", "math.@min"),
    ),
)
