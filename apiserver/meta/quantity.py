"""Quantities: numbers with a suffix, as `500m`, `1.5Gi` or `12e6`, and their canonical form. Rows R15-R17.

As in Kubernetes, decimal quantities have no largest value; those with a binary suffix are capped at 2^63 - 1.
Values below a billionth are rounded away from zero. A text that Kubernetes treats as canonical is not
changed, although some numbers then have several (`1.500` and `1500m`).

Kubernetes has no suffix for 10^21 and more, and writes such a number without any: 1000E becomes 1. Here it
keeps its value, with the largest suffix, or as a power of ten.

The work is bounded: Kubernetes has no limit, and computes for minutes with 1e999999999. Here numbers are
digits and an exponent, and the zeros are never written out.

Source: k8s.io/apimachinery, pkg/api/resource: quantity.go, amount.go, suffix.go.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_UP, Context, Decimal
from functools import total_ordering
from typing import Final

from apiserver.meta.text_caches import text_cache

# The most digits of a quantity: to add two of so many takes half a microsecond, to parse one a tenth of a
# millisecond. Kubernetes has no bound.
DIGITS_MAX: Final = 10_000
# Every quantity has a shorter text, and so has each sum: digits, zeros up to a suffix, and an exponent.
LENGTH_MAX: Final = DIGITS_MAX + 256
# Longer texts are hardly ever seen twice, and would fill the caches.
_CACHED_LENGTH_MAX: Final = 64
# Kubernetes keeps exponents in 32 bits, and uses the low bits of larger ones: 1e4294967296 is 1.
EXPONENT_MAX: Final = (1 << 31) - 1
# Numbers from this power of ten on are not written out, nor counted with as integers.
_WRITTEN_OUT_BELOW: Final = 200
_COUNTED_MAX: Final = 10**_WRITTEN_OUT_BELOW
# Computes exactly with up to so many digits, and rounds beyond them away from zero, as Kubernetes rounds.
EXACT: Final = Context(prec=DIGITS_MAX, Emax=MAX_EMAX, Emin=MIN_EMIN, rounding=ROUND_UP)

_BINARY_LARGEST: Final = Decimal((1 << 63) - 1)
_NANO: Final = -9
# encoding/json writes numbers between these without an exponent.
_DIGITS_FROM: Final = 1e-6
_DIGITS_BELOW: Final = 1e21
# Texts with more digits are not held as integers of 64 bits. A binary suffix stands for about as many digits
# as three tenths of its exponent.
_HELD_DIGITS_MAX: Final = 18
_BINARY_DIGITS_MAX: Final = 14

_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_DECIMAL_SUFFIXES: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIXES: Final = {exponent: suffix for suffix, exponent in _BINARY.items()}

# Sign, leading zeros, digits, decimal places, suffix. That there are no digits at all is a zero.
_SYNTAX: Final = re.compile(
    r"([+-]?)(0*)((?:[1-9][0-9]*)?)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)", re.ASCII
)
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)

_WRONG_FORMAT: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_WRONG_SUFFIX: Final = "unable to parse quantity's suffix"
_TOO_LONG: Final = f"quantities must not have more than {DIGITS_MAX} digits"
_WRONG_NUMBER: Final = "unable to parse numeric part of quantity"


class InvalidQuantity(ValueError):
    """A text that is not a valid quantity. The message is for the client."""


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An exact number and its format: `BinarySI`, `DecimalSI` or `DecimalExponent`.

    scale: the power of ten, where Kubernetes holds the parsed value as a 64-bit integer times it; None if it
        holds it in arbitrary precision. For sums only CEL sets it (`cel.library.quantity`).
    text: the canonical text, if it was parsed from that.
    """

    value: Decimal
    form: str = "DecimalSI"
    scale: int | None = None
    text: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.value == other.value

    def __lt__(self, other: Quantity) -> bool:
        return self.value < other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __str__(self) -> str:
        """Returns the canonical text: an integer with the largest suffix possible."""
        return self.text or _canonical(self.value, self.form)

    def __add__(self, other: Quantity) -> Quantity:
        """Returns the sum, in the format of an operand that is not zero."""
        return Quantity(EXACT.add(self.value, other.value), self.form if self.value else other.form)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(EXACT.subtract(self.value, other.value), self.form if self.value else other.form)

    @property
    def is_whole(self) -> bool:
        return self.value == self.value.to_integral_value()

    def rounded_up(self) -> int:
        """Returns the next whole number; for numbers beyond all practical values, a power of ten."""
        if self.value.adjusted() >= _WRITTEN_OUT_BELOW:
            return _COUNTED_MAX if self.value > 0 else -_COUNTED_MAX
        return int(self.value.to_integral_value(rounding=ROUND_CEILING))

    def with_scale(self, scale: int) -> Quantity:
        """Returns the quantity without digits below this power of ten, rounded away from zero. It is never
        finer.
        """
        if self.scale is not None and self.scale >= scale:
            return self
        return Quantity(_rounded(self.value, scale), self.form, None if self.scale is None else scale)


def parse_quantity(text: str) -> Quantity:
    """Parse a quantity. Raises InvalidQuantity."""
    return _parsed_before(text) if len(text) <= _CACHED_LENGTH_MAX else _parsed(text)


def _parsed(text: str) -> Quantity:
    if len(text) > LENGTH_MAX:
        raise InvalidQuantity(_TOO_LONG)
    match = _SYNTAX.fullmatch(text) if text else None
    if match is None:
        raise InvalidQuantity(_WRONG_FORMAT)
    sign, zeros, whole, places, suffix = match.groups(default="")
    if suffix in _DECIMAL:
        exponent, form = _DECIMAL[suffix], "DecimalSI"
    elif suffix in _BINARY:
        return _parse_binary(text, sign, whole, places, _BINARY[suffix])
    else:
        exponent, form = _exponent(suffix), "DecimalExponent"
    digits, scale = (whole or "0") + places, exponent - len(places)
    _check_length(digits)
    value = Decimal(f"{sign}{digits}E{scale}")
    if len(digits) <= _HELD_DIGITS_MAX and scale >= _NANO:
        is_canonical = scale % 3 == 0 and digits[0] != "0" and not digits.endswith("000")
        return Quantity(value, form, scale, text if is_canonical else "")
    if not (zeros or whole or places):
        raise InvalidQuantity(_WRONG_NUMBER)
    return Quantity(_rounded(value, _NANO), form)


_parsed_before: Final = text_cache(4_096)(_parsed)


def canonical_quantity(text: str) -> str:
    """Returns the canonical text of a quantity. Raises InvalidQuantity."""
    return _canonical_before(text) if len(text) <= _CACHED_LENGTH_MAX else str(_parsed(text))


@text_cache(4_096)
def _canonical_before(text: str) -> str:
    return str(_parsed_before(text))


def quantity_text(value: object) -> str:
    """Returns the text of a quantity in a document, where it may also be a number.

    A fraction has the text of Go's encoder: with an exponent if it is very small or large.
    """
    if not isinstance(value, float):
        return str(value)
    if not value or _DIGITS_FROM <= abs(value) < _DIGITS_BELOW:
        return f"{Decimal(repr(value)):f}".removesuffix(".0")
    return repr(value).replace("e-0", "e-")


def ratio_text(one: Decimal, other: Decimal) -> str:
    """Returns the ratio of a number to another, which is not zero, as Go's %f shows it."""
    ratio = float(one) / float(other)
    return f"{ratio:.6f}" if math.isfinite(ratio) else "NaN" if math.isnan(ratio) else f"{ratio:+}".title()


def _parse_binary(text: str, sign: str, whole: str, places: str, exponent: int) -> Quantity:
    digits = whole or "0"
    if not places and len(digits) + exponent * 3 // 10 <= _BINARY_DIGITS_MAX:
        number = int(digits)
        return Quantity(Decimal(f"{sign}{number << exponent}"), "BinarySI", 0, text if number % 8 else "")
    _check_length(digits + places)
    value = EXACT.multiply(Decimal(f"{sign}{digits}.{places}"), Decimal(1 << exponent))
    value = _rounded(value, _NANO)
    if abs(value) > _BINARY_LARGEST:
        value = _BINARY_LARGEST.copy_sign(value)
    return Quantity(value, "DecimalSI" if 0 < abs(value) < 1 else "BinarySI")


def _check_length(digits: str) -> None:
    if len(digits) > DIGITS_MAX and len(digits.rstrip("0")) > DIGITS_MAX:
        raise InvalidQuantity(_TOO_LONG)


def _exponent(suffix: str) -> int:
    match = _EXPONENT.fullmatch(suffix)
    if match is None or abs(exponent := int(match[1])) > EXPONENT_MAX:
        raise InvalidQuantity(_WRONG_SUFFIX)
    return exponent


def _rounded(value: Decimal, scale: int) -> Decimal:
    """Returns a number without the digits below a power of ten, rounded away from zero."""
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    if exponent >= scale:
        return value
    return value.quantize(Decimal((0, (1,), scale)), rounding=ROUND_UP, context=EXACT)


def _canonical(value: Decimal, form: str) -> str:
    if not value:
        return "0"
    is_written_out = value.adjusted() < _WRITTEN_OUT_BELOW
    if form == "BinarySI" and is_written_out and abs(value) >= 1024 and value == value.to_integral_value():
        number, exponent = int(value), 0
        while exponent < 60 and number % 1024 == 0:
            number, exponent = number // 1024, exponent + 10
        return f"{number}{_BINARY_SUFFIXES.get(exponent, '')}"
    value = value.normalize(EXACT)
    raw_exponent = value.as_tuple().exponent
    assert isinstance(raw_exponent, int)
    exponent = min(raw_exponent, EXPONENT_MAX) // 3 * 3
    if form != "DecimalExponent" and is_written_out:
        exponent = min(exponent, 18)
        suffix = _DECIMAL_SUFFIXES[exponent]
    else:
        suffix = f"e{exponent}" if exponent else ""
    zeros = "0" * (raw_exponent - exponent)
    return f"{value.scaleb(-raw_exponent, EXACT)}{zeros}{suffix}"
