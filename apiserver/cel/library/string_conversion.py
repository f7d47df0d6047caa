"""Converts values to strings, as Go does."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

from apiserver.golang.quoting import ESCAPES

_HALVES: Final = re.compile("[\ud800-\udfff]")  # of characters, in UTF-16


def cel_quoted(text: str) -> str:
    """Returns a text in quotation marks, with the escapes of the language: `strings.quote()`."""
    inner = _HALVES.sub("\ufffd", text.translate(ESCAPES))
    return f'"{inner}"'


def double_text(number: float, *, has_exponent: bool = True) -> str:
    """Returns the shortest text of a number; has_exponent: of large and small ones with an exponent."""
    if not math.isfinite(number):
        return "NaN" if number != number else ("+Inf" if number > 0 else "-Inf")
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int)
    scientific = len(digits) - 1 + exponent if any(digits) else 0
    if not has_exponent or -4 <= scientific < 6:
        text = f"{Decimal((sign, digits, exponent)):f}"
        return text if any(digits) else ("-0" if sign else "0")
    mantissa = f"{digits[0]}" + (f".{''.join(map(str, digits[1:]))}" if len(digits) > 1 else "")
    return f"{'-' if sign else ''}{mantissa}e{scientific:+03d}"
