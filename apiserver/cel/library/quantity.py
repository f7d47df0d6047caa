"""The library of quantities: `quantity('1.5Gi')`.

Source: k8s.io/apiserver pkg/cel/library/quantity.go. Kubernetes holds a quantity as a number with a power of
ten, or in arbitrary precision where it does not fit. The difference is visible: `isInteger()` is only true of
the former, and not of one with a negative power.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, Inexact
from typing import Any, ClassVar, Final

from apiserver.cel import types
from apiserver.cel.declarations import Library, named_types
from apiserver.cel.functions import STRING_FACTOR, Overload, method
from apiserver.cel.library.shared_costs import of_text
from apiserver.cel.types import BOOL, DOUBLE, INT, STRING, Type
from apiserver.cel.values import INT_MAX, INT_MIN, EvaluationError
from apiserver.meta.quantity import DIGITS_MAX, EXACT, InvalidQuantity, Quantity, parse_quantity

# Raises Inexact rather than lose a digit.
_EXACTLY: Final = Context(prec=DIGITS_MAX, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[Inexact])
# Sums below this power of ten cost what Kubernetes counts.
_DIGITS_FREE: Final = 200

QUANTITY: Final = types.opaque("kubernetes.Quantity")


@dataclass(frozen=True, slots=True)
class CelQuantity:
    cel_type: ClassVar[Type] = QUANTITY
    quantity: Quantity


def _quantity(text: str) -> CelQuantity:
    try:
        return CelQuantity(parse_quantity(text))
    except InvalidQuantity as invalid:
        raise EvaluationError(str(invalid)) from None


def _is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except InvalidQuantity:
        return False
    return True


def _whole(quantity: Quantity) -> int | None:
    if quantity.scale is None or quantity.scale < 0 or not INT_MIN <= quantity.value <= INT_MAX:
        return None
    return int(quantity.value)


def _as_integer(cel: CelQuantity) -> int:
    number = _whole(cel.quantity)
    if number is None:
        raise EvaluationError("cannot convert value to integer")
    return number


def _as_float(cel: CelQuantity) -> float:
    """Returns the value as a double, approximately, since it is rounded twice; infinite beyond its range."""
    value, scale = cel.quantity.value, cel.quantity.scale
    if scale is None:
        exponent = value.as_tuple().exponent
        assert isinstance(exponent, int)
        scale = exponent
    power = 10.0**scale if scale <= sys.float_info.max_10_exp else math.inf
    return float(value.scaleb(-scale, EXACT)) * power


def _sign(cel: CelQuantity) -> int:
    return (cel.quantity.value > 0) - (cel.quantity.value < 0)


def _compare(a: CelQuantity, b: CelQuantity) -> int:
    return (a.quantity > b.quantity) - (a.quantity < b.quantity)


def _add(a: CelQuantity, b: CelQuantity) -> CelQuantity:
    return _held(a.quantity, b.quantity, _exactly(_EXACTLY.add, a.quantity, b.quantity))


def _subtract(a: CelQuantity, b: CelQuantity) -> CelQuantity:
    return _held(a.quantity, b.quantity, _exactly(_EXACTLY.subtract, a.quantity, b.quantity))


def _exactly(compute: Callable[[Decimal, Decimal], Decimal], a: Quantity, b: Quantity) -> Quantity:
    try:
        return Quantity(compute(a.value, b.value), a.form if a.value else b.form)
    except Inexact:
        raise EvaluationError(f"quantity has more than {DIGITS_MAX} digits") from None


def _cost_of_sum(args: Sequence[Any], result: CelQuantity) -> int:
    """Returns 1, like Kubernetes, unless the result has very many digits: then the cost of such a text."""
    value = result.quantity.value
    if value.adjusted() < _DIGITS_FREE:
        return 1
    return 1 + int(len(value.as_tuple().digits) * STRING_FACTOR)


def _held(a: Quantity, b: Quantity, result: Quantity) -> CelQuantity:
    """Returns a sum or difference, held in the finer power of ten of both if it fits there."""
    if a.scale is None or b.scale is None:
        return CelQuantity(result)
    if not b.value:
        scale = a.scale
    elif not a.value:
        scale = b.scale
    else:
        scale = min(a.scale, b.scale)
        if not all(_fits(each.value, scale) for each in (a, b, result)):
            return CelQuantity(result)
    return CelQuantity(replace(result, scale=scale))


def _fits(value: Decimal, scale: int) -> bool:
    """Whether a value is a 64-bit integer times that power of ten."""
    number = value.scaleb(-scale, EXACT)
    return number == number.to_integral_value() and INT_MIN <= number <= INT_MAX


def _of_int(number: int) -> CelQuantity:
    return CelQuantity(Quantity(Decimal(number), "DecimalExponent", 0))


def _sum_method(id_: str, arg: Type, call: Callable[..., CelQuantity]) -> tuple[Overload, ...]:
    return method(id_, (QUANTITY, arg), QUANTITY, call, _cost_of_sum)


QUANTITIES: Final = Library(
    "kubernetes.quantity",
    {
        "quantity": (Overload("string_to_quantity", (STRING,), QUANTITY, _quantity, call_cost=of_text()),),
        "isQuantity": (Overload("is_quantity_string", (STRING,), BOOL, _is_quantity, call_cost=of_text()),),
        # Kubernetes documents it as a method, and declares it as a function.
        "sign": (
            Overload("quantity_sign", (QUANTITY,), INT, _sign),
            *method("quantity_sign_method", (QUANTITY,), INT, _sign),
        ),
        "isGreaterThan": method(
            "quantity_is_greater_than", (QUANTITY, QUANTITY), BOOL, lambda a, b: a.quantity > b.quantity
        ),
        "isLessThan": method(
            "quantity_is_less_than", (QUANTITY, QUANTITY), BOOL, lambda a, b: a.quantity < b.quantity
        ),
        "compareTo": method("quantity_compare_to", (QUANTITY, QUANTITY), INT, _compare),
        "asApproximateFloat": method("quantity_get_float", (QUANTITY,), DOUBLE, _as_float),
        "asInteger": method("quantity_get_int", (QUANTITY,), INT, _as_integer),
        "isInteger": method(
            "quantity_is_integer", (QUANTITY,), BOOL, lambda cel: _whole(cel.quantity) is not None
        ),
        "add": (
            *_sum_method("quantity_add", QUANTITY, _add),
            *_sum_method("quantity_add_int", INT, lambda a, n: _add(a, _of_int(n))),
        ),
        "sub": (
            *_sum_method("quantity_sub", QUANTITY, _subtract),
            *_sum_method("quantity_sub_int", INT, lambda a, n: _subtract(a, _of_int(n))),
        ),
    },
    constants=named_types(QUANTITY),
    since=(1, 28),
)
