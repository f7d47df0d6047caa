"""Converts values to strings, as Go does."""

from __future__ import annotations

import math
import re
from typing import Final

from apiserver.golang.formatting import number_text
from apiserver.golang.quoting import ESCAPES

_HALVES: Final = re.compile("[\ud800-\udfff]")  # of characters, in UTF-16


def cel_quoted(text: str) -> str:
    """Returns a text in quotation marks, with the escapes of the language: `strings.quote()`."""
    inner = _HALVES.sub("\ufffd", text.translate(ESCAPES))
    return f'"{inner}"'


def double_text(number: float) -> str:
    """Returns the shortest text of a number: `1e+06`, `0.5`, `+Inf`."""
    if not math.isfinite(number):
        return "NaN" if number != number else ("+Inf" if number > 0 else "-Inf")
    return number_text(float(number))
