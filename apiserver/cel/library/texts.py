"""How values of the language are written, as Go does it."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

_ESCAPES: Final = {
    "\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v",
    "\\": r"\\", '"': r"\"",
}  # fmt: skip
_HALVES: Final = re.compile("[\ud800-\udfff]")  # of characters, in UTF-16
_ESCAPED: Final = str.maketrans(_ESCAPES)


def quoted(text: str) -> str:
    """Between quotation marks, with all that cannot be printed escaped: Go's `%q`."""
    inner = text.translate(_ESCAPED)
    if not inner.isprintable():
        inner = "".join(c if c.isprintable() else _escaped(ord(c)) for c in inner)
    return f'"{inner}"'


def _escaped(code: int) -> str:
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def cel_quoted(text: str) -> str:
    """Between quotation marks, with the escapes that the language has: `strings.quote()`."""
    inner = _HALVES.sub("\ufffd", text.translate(_ESCAPED))
    return f'"{inner}"'


def double_text(number: float, *, has_exponent: bool = True) -> str:
    """The shortest text that is the number; has_exponent: for large and small ones."""
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
