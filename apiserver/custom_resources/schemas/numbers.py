"""Numbers by Go's rules: integers, types that they fit into, and their texts in messages.

Like Go's decoder, these functions treat integers of more than 64 bits as floats.
Sources: k8s.io/kube-openapi, pkg/validation/validate/values.go; github.com/go-openapi/swag, convert.go.
"""

from __future__ import annotations

import sys
from typing import Any, Final

INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1
_INT32_MIN: Final = -(1 << 31)
_INT32_MAX: Final = (1 << 31) - 1
# Greater integers have neighbours that are the same float.
SAFE_MAX: Final = (1 << 53) - 1
FLOAT_MAX: Final = sys.float_info.max
# The least double that does not round to a finite float of 32 bits.
FLOAT32_END: Final = 3.4028235677973366e38
_EPSILON: Final = 1e-9


def as_go(value: Any) -> Any:
    """Returns the value as Go decodes it: an integer of more than 64 bits becomes a float."""
    if type(value) is not int or INT64_MIN <= value <= INT64_MAX:
        return value
    try:
        return float(value)
    except OverflowError:
        return FLOAT_MAX if value > 0 else -FLOAT_MAX


def is_integral(value: float) -> bool:
    """Returns whether a float is an integer, apart from a rounding error."""
    if not -SAFE_MAX <= value <= SAFE_MAX:
        return False
    rounded = round(value)
    return value == rounded or abs(value - rounded) < _EPSILON * abs(rounded)


def fits(value: float, kind: str, text_format: str) -> bool:
    """Returns whether a number fits into the type `kind` with a format. kind: `integer`, `number` or
    empty.
    """
    if kind == "integer":
        low, high = (_INT32_MIN, _INT32_MAX) if text_format == "int32" else (INT64_MIN, INT64_MAX)
        return low <= value <= high and value == int(value)
    return text_format != "float" or abs(value) < FLOAT32_END


def is_multiple(value: float, factor: float) -> bool:
    """Returns whether a number is a multiple of another; nothing is a multiple of 0 or less."""
    if factor <= 0:
        return False
    if isinstance(value, int) and isinstance(factor, int):
        return value % factor == 0
    return is_integral(1 / factor * value if factor < 1 else value / factor)
