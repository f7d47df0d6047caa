"""Quantities: numbers with a suffix, as `500m`, `1.5Gi` or `12e6`, and their canonical form.

Source: k8s.io/apimachinery, pkg/api/resource/quantity.go. Rows R15-R17.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_UP, Context, Decimal
from functools import lru_cache, total_ordering
from typing import Final

# Every quantity has a shorter text; Kubernetes parses texts of any length.
LENGTH_MAX: Final = 256
# A number of LENGTH_MAX characters with a larger exponent is out of the range of quantities.
EXPONENT_MAX: Final = 10_000
# Larger numbers become this one; fractions of a billionth are rounded away from zero.
_LARGEST: Final = Decimal((1 << 63) - 1)
_SMALLEST: Final = Decimal("1e-9")
# More digits than the largest number with nine decimal places has.
_CONTEXT: Final = Context(prec=400)

_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_DECIMAL_SUFFIXES: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIXES: Final = {exponent: suffix for suffix, exponent in _BINARY.items()}

_SYNTAX: Final = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)([a-zA-Z]*)([+-]?\d*)", re.ASCII)
_LOOSE_SYNTAX: Final = re.compile(r"([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)

_WRONG_FORMAT: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_WRONG_SUFFIX: Final = "unable to parse quantity's suffix"
_WRONG_NUMBER: Final = "unable to parse numeric part of quantity"


class InvalidQuantity(ValueError):
    """The text is not a valid quantity. The message is for the client."""


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """A number and its format: `BinarySI`, `DecimalSI` or `DecimalExponent`."""

    value: Decimal
    form: str = "DecimalSI"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.value == other.value

    def __lt__(self, other: Quantity) -> bool:
        return self.value < other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __str__(self) -> str:
        """The canonical text: an integer with the largest suffix possible."""
        value = self.value
        if not value:
            return "0"
        if self.form == "BinarySI" and abs(value) >= 1024:
            number, exponent = int(value.to_integral_value(rounding=ROUND_UP)), 0
            while exponent < 60 and number % 1024 == 0:
                number, exponent = number // 1024, exponent + 10
            return f"{number}{_BINARY_SUFFIXES.get(exponent, '')}"
        sign, digits, raw_exponent = value.normalize(_CONTEXT).as_tuple()
        assert isinstance(raw_exponent, int)
        exponent = raw_exponent // 3 * 3
        number = int("".join(map(str, digits))) * 10 ** (raw_exponent - exponent)
        if self.form != "DecimalExponent" and exponent > 18:
            number, exponent = number * 10 ** (exponent - 18), 18
        if self.form == "DecimalExponent":
            suffix = f"e{exponent}" if exponent else ""
        else:
            suffix = _DECIMAL_SUFFIXES[exponent]
        return f"{'-' if sign else ''}{number}{suffix}"

    def rounded_up(self, unit: Decimal = Decimal(1)) -> int:
        """The quantity in a unit, rounded up. The unit `m` is Decimal("0.001")."""
        return int((self.value / unit).to_integral_value(rounding=ROUND_CEILING))


@lru_cache(maxsize=4096)
def parse_quantity(text: str) -> Quantity:
    """Parse a quantity. Values out of range are clamped, as in Kubernetes. Raises InvalidQuantity."""
    match = _SYNTAX.fullmatch(text) if len(text) <= LENGTH_MAX else None
    if match is None:
        raise InvalidQuantity(_WRONG_NUMBER if _looks_like_quantity(text) else _WRONG_FORMAT)
    sign, digits, letters, exponent_digits = match.groups()
    number = Decimal(f"{sign}{digits}")
    if letters in ("e", "E") and exponent_digits not in ("", "+", "-"):
        exponent = int(exponent_digits)
        if abs(exponent) > EXPONENT_MAX:
            raise InvalidQuantity(_WRONG_SUFFIX)
        return _clamped(number.scaleb(exponent, _CONTEXT), "DecimalExponent")
    if exponent_digits:
        raise InvalidQuantity(_WRONG_SUFFIX if _looks_like_quantity(text) else _WRONG_FORMAT)
    if letters in _DECIMAL:
        return _clamped(number.scaleb(_DECIMAL[letters], _CONTEXT), "DecimalSI")
    if letters in _BINARY:
        return _clamped(_CONTEXT.multiply(number, Decimal(1 << _BINARY[letters])), "BinarySI")
    raise InvalidQuantity(_WRONG_SUFFIX if _looks_like_quantity(text) else _WRONG_FORMAT)


@lru_cache(maxsize=4096)
def canonical_quantity(text: str) -> str:
    """The canonical text of a quantity. Raises InvalidQuantity."""
    return str(parse_quantity(text))


def _looks_like_quantity(text: str) -> bool:
    """Does a text match the regular expression in the messages?"""
    return len(text) <= LENGTH_MAX and _LOOSE_SYNTAX.fullmatch(text) is not None


def _clamped(value: Decimal, form: str) -> Quantity:
    if abs(value) > _LARGEST:
        value = _LARGEST.copy_sign(value)
    if value.as_tuple().exponent < -9:  # type: ignore[operator]  # it is a str only for NaN
        steps = (abs(value) / _SMALLEST).to_integral_value(rounding=ROUND_CEILING, context=_CONTEXT)
        value = (steps * _SMALLEST).copy_sign(value)
    if form == "BinarySI" and abs(value) < 1:
        form = "DecimalSI"
    return Quantity(value, form)
