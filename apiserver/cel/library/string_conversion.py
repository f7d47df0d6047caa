"""Converts values to strings, as Go does."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

from apiserver.golang.formatting import number_text
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
    return number_text(float(number)) if has_exponent else f"{Decimal(repr(number)).normalize():f}"
