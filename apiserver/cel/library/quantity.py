"""Quantities: `quantity('1.5Gi')`. Source: k8s.io/apiserver pkg/cel/library/quantity.go.

Kubernetes holds a quantity as a number with a power of ten, or in arbitrary precision where it does not fit.
Which it is shows: `isInteger()` is true only of the former, and not of one with a negative power.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, Final

from apiserver.cel import types
from apiserver.cel.functions import ONE, CallEstimate, Library, Overload
from apiserver.cel.library.shared_costs import of_text
from apiserver.cel.types import BOOL, DOUBLE, INT, STRING, Type
from apiserver.cel.values import INT_MAX, INT_MIN, EvaluationError
from apiserver.meta.quantity import InvalidQuantity, parse_quantity

QUANTITY: Final = types.opaque("kubernetes.Quantity")

# Enough for sums of numbers of 28 digits, more than an evaluation can add.
_CONTEXT: Final = Context(prec=64)
_TEXT: Final = re.compile(r"[+-]?0*(\d*)(?:\.(\d*))?([a-zA-Z]*)([+-]?\d*)", re.ASCII)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DIGITS_MAX: Final = 18
_BINARY_DIGITS_MAX: Final = 15
_NANO: Final = -9


@dataclass(frozen=True, slots=True, eq=False)
class CelQuantity:
    """A quantity.

    power: of ten, if the value is held as a 64-bit integer times that; None if in arbitrary precision.
    """

    cel_type: ClassVar[Type] = QUANTITY
    value: Decimal
    power: int | None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CelQuantity) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


@lru_cache(maxsize=1024)
def _parse(text: str) -> CelQuantity:
    value = parse_quantity(text).value
    power = _power(text)
    return CelQuantity(value, power if power is not None and _fits(value, power) else None)


def _power(text: str) -> int | None:
    """Returns the power of ten that a text is held with; None if it is held in arbitrary precision."""
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    whole, fraction, letters, exponent = found.groups(default="")
    digits = len(whole or "0") + len(fraction)
    if letters in _BINARY:
        # The suffix stands for about as many digits.
        room = _BINARY_DIGITS_MAX - len(whole or "0") - int(_BINARY[letters] * 3 / 10) - 1
        return 0 if not fraction and room >= 0 else None
    power = (int(exponent) if exponent else _DECIMAL[letters]) - len(fraction)
    return power if digits <= _DIGITS_MAX and power >= _NANO else None


def _fits(value: Decimal, power: int) -> bool:
    """Whether a value is a 64-bit integer times that power of ten."""
    number = value.scaleb(-power, _CONTEXT)
    return number == number.to_integral_value() and INT_MIN <= number <= INT_MAX


def _quantity(text: str) -> CelQuantity:
    try:
        return _parse(text)
    except InvalidQuantity as invalid:
        raise EvaluationError(str(invalid)) from None


def _is_quantity(text: str) -> bool:
    try:
        _parse(text)
    except InvalidQuantity:
        return False
    return True


def _whole(quantity: CelQuantity) -> int | None:
    if quantity.power is None or quantity.power < 0 or not INT_MIN <= quantity.value <= INT_MAX:
        return None
    return int(quantity.value)


def _is_integer(quantity: CelQuantity) -> bool:
    return _whole(quantity) is not None


def _as_integer(quantity: CelQuantity) -> int:
    number = _whole(quantity)
    if number is None:
        raise EvaluationError("cannot convert value to integer")
    return number


def _as_float(quantity: CelQuantity) -> float:
    """Returns the value as a double, approximately, as it is rounded twice."""
    exponent = quantity.value.as_tuple().exponent
    assert isinstance(exponent, int)
    power = exponent if quantity.power is None else quantity.power
    number = float(quantity.value.scaleb(-power, _CONTEXT))
    return number if power == 0 else number * 10.0**power


def _sign(quantity: CelQuantity) -> int:
    return (quantity.value > 0) - (quantity.value < 0)


def _compare(a: CelQuantity, b: CelQuantity) -> int:
    return (a.value > b.value) - (a.value < b.value)


def _add(a: CelQuantity, b: CelQuantity) -> CelQuantity:
    value = _CONTEXT.add(a.value, b.value)
    if a.power is None or b.power is None:
        return CelQuantity(value, None)
    if not b.value:
        return CelQuantity(value, a.power)
    power = min(a.power, b.power) if a.value else b.power
    fits = all(_fits(number, power) for number in (a.value, b.value, value))
    return CelQuantity(value, power if fits else None)


def _subtract(a: CelQuantity, b: CelQuantity) -> CelQuantity:
    return _add(a, CelQuantity(-b.value, b.power))


def _of_int(number: int) -> CelQuantity:
    return CelQuantity(Decimal(number), 0)


def _method(id_: str, args: tuple[Type, ...], result: Type, call: Callable[..., Any]) -> Overload:
    return Overload(
        id_, (QUANTITY, *args), result, call, is_method=True, estimate=lambda _: CallEstimate(ONE)
    )


QUANTITIES: Final = Library(
    "kubernetes.quantity",
    MappingProxyType(
        {
            "quantity": (
                Overload("string_to_quantity", (STRING,), QUANTITY, _quantity, call_cost=of_text()),
            ),
            "isQuantity": (
                Overload("is_quantity_string", (STRING,), BOOL, _is_quantity, call_cost=of_text()),
            ),
            "sign": (_method("quantity_sign", (), INT, _sign),),
            "isGreaterThan": (
                _method("quantity_is_greater_than", (QUANTITY,), BOOL, lambda a, b: a.value > b.value),
            ),
            "isLessThan": (
                _method("quantity_is_less_than", (QUANTITY,), BOOL, lambda a, b: a.value < b.value),
            ),
            "compareTo": (_method("quantity_compare_to", (QUANTITY,), INT, _compare),),
            "asApproximateFloat": (_method("quantity_get_float", (), DOUBLE, _as_float),),
            "asInteger": (_method("quantity_get_int", (), INT, _as_integer),),
            "isInteger": (_method("quantity_is_integer", (), BOOL, _is_integer),),
            "add": (
                _method("quantity_add", (QUANTITY,), QUANTITY, _add),
                _method("quantity_add_int", (INT,), QUANTITY, lambda a, n: _add(a, _of_int(n))),
            ),
            "sub": (
                _method("quantity_sub", (QUANTITY,), QUANTITY, _subtract),
                _method("quantity_sub_int", (INT,), QUANTITY, lambda a, n: _subtract(a, _of_int(n))),
            ),
        }
    ),
    constants=MappingProxyType({QUANTITY.name: (types.type_of_type(QUANTITY), QUANTITY)}),
    since=(1, 28),
)
