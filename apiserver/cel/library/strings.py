"""The library of functions on strings: versions 0 and 2 of cel-go's ext/strings.go, as in Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from apiserver.cel import types
from apiserver.cel.declarations import Library
from apiserver.cel.functions import UNBOUNDED, Argument, Bounds, CallEstimate, Overload, method
from apiserver.cel.library.shared_costs import (
    ITEMS_MAX,
    actual_size,
    check_size,
    element_size,
    estimate_text,
    estimate_tree_traversal,
    of_large_result,
    of_text,
    of_tree_traversal,
)
from apiserver.cel.library.string_conversion import cel_quoted
from apiserver.cel.library.string_format import format_text
from apiserver.cel.types import INT, STRING
from apiserver.cel.values import NO_SUCH_OVERLOAD, EvaluationError

# White space as Unicode defines it; Python takes more for it.
_SPACE: Final = (
    "\t\n\v\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_UPPER, _LOWER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"
_TO_LOWER: Final = str.maketrans(_UPPER, _LOWER)
_TO_UPPER: Final = str.maketrans(_LOWER, _UPPER)
_STRINGS: Final = types.list_of(STRING)


def _out_of_range(index: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {index}")


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if not part:
        return start
    if start < 0:
        raise _out_of_range(start)
    return text.find(part, start)


def _last_index_of_from(text: str, part: str, start: int) -> int:
    """Returns the last index of a text. start: the last offset at which a match may begin."""
    if not part:
        return start
    if start < 0:
        raise _out_of_range(start)
    return -1 if start >= len(text) else text.rfind(part, 0, start + len(part))


def _lower_ascii(text: str) -> str:
    return text.lower() if text.isascii() else text.translate(_TO_LOWER)


def _upper_ascii(text: str) -> str:
    return text.upper() if text.isascii() else text.translate(_TO_UPPER)


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    growth = len(new) - len(old)
    if growth > 0:
        found = text.count(old)
        check_size(len(text) + growth * (found if count < 0 else min(found, count)))
    return text.replace(old, new, max(count, -1))


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    """Split a string. limit: the maximum of pieces; the last one has the rest."""
    if limit == 0:
        return []
    if not separator:
        if limit < 0 or limit >= len(text):
            check_size(len(text), ITEMS_MAX)
            return list(text)
        check_size(limit, ITEMS_MAX)
        return [*text[: limit - 1], text[limit - 1 :]]
    if len(text) > ITEMS_MAX:
        found = text.count(separator) + 1
        check_size(found if limit < 0 else min(found, limit), ITEMS_MAX)
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _substring(text: str, start: int) -> str:
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    return text[start:]


def _substring_between(text: str, start: int, end: int) -> str:
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise _out_of_range(index)
    return text[start:end]


def _join(parts: list[Any], separator: str = "") -> str:
    try:
        size = sum(map(len, parts)) + len(separator) * max(len(parts) - 1, 0)
        check_size(size)
        return separator.join(parts)
    except TypeError:
        raise EvaluationError(NO_SUCH_OVERLOAD) from None


# ---- worst cases


def _estimate_replace(args: Sequence[Argument]) -> CallEstimate:
    size, old, new = (arg.size for arg in args[:3])
    # The longest result: of an empty text, new ones around each character; else as many of the smallest
    # replaced by the largest, unless that makes it shorter.
    if old.low == 0:
        longest = Bounds(0, size.high).plus(Bounds(0, 1)).times(new).high + size.high
    elif new.high <= old.low:
        longest = size.high
    else:
        longest = -(-size.high // old.low) * new.high
    if old.high == 0:
        shortest = (size.low + 1) * new.low + size.low
    elif old.high <= new.low:
        shortest = size.low
    else:
        shortest = -(-size.low // old.high) * new.low
    result = Bounds(min(shortest, UNBOUNDED), min(longest, UNBOUNDED))
    return CallEstimate(size.scaled(0.2), result)


def _estimate_split(args: Sequence[Argument]) -> CallEstimate:
    size = args[0].size
    limit = args[2].constant if len(args) > 2 else None
    pieces = limit % (1 << 64) if type(limit) is int else size.high
    return CallEstimate(size.scaled(0.2), Bounds(0, pieces))


def _estimate_join(args: Sequence[Argument]) -> CallEstimate:
    count = args[0].size
    size = count.times(element_size(args[0].type)) if args[0].type.parameters else Bounds(0, 0)
    if len(args) > 1:
        between = Bounds(max(count.low - 1, 0), max(count.high - 1, 0))
        size = size.plus(args[1].size.times(between))
    return CallEstimate(size.scaled(0.1), size)


def _cost_of_join(args: Sequence[Any], result: Any) -> int:
    return of_text(2)((result,), None) if actual_size(result) else 0


# ---- declarations


_READ: Final[dict[str, Any]] = {"call_cost": of_text(), "estimate": estimate_text}
_SOUGHT: Final[dict[str, Any]] = {"call_cost": of_tree_traversal, "estimate": estimate_tree_traversal}
_REPLACED: Final[dict[str, Any]] = {"call_cost": of_text(2), "estimate": _estimate_replace}
_SPLIT: Final[dict[str, Any]] = {"call_cost": of_text(2), "estimate": _estimate_split}
_JOINED: Final[dict[str, Any]] = {"call_cost": _cost_of_join, "estimate": _estimate_join}

_BASIC: Final[Mapping[str, tuple[Overload, ...]]] = {
    "charAt": method("string_char_at_int", (STRING, INT), STRING, _char_at),
    "indexOf": (
        *method("string_index_of_string", (STRING, STRING), INT, _index_of, **_SOUGHT),
        *method("string_index_of_string_int", (STRING, STRING, INT), INT, _index_of, **_SOUGHT),
    ),
    "lastIndexOf": (
        *method("string_last_index_of_string", (STRING, STRING), INT, str.rfind, **_SOUGHT),
        *method(
            "string_last_index_of_string_int", (STRING, STRING, INT), INT, _last_index_of_from, **_SOUGHT
        ),
    ),
    "lowerAscii": method("string_lower_ascii", (STRING,), STRING, _lower_ascii, **_READ),
    "upperAscii": method("string_upper_ascii", (STRING,), STRING, _upper_ascii, **_READ),
    "replace": (
        *method("string_replace_string_string", (STRING, STRING, STRING), STRING, _replace, **_REPLACED),
        *method(
            "string_replace_string_string_int", (STRING, STRING, STRING, INT), STRING, _replace, **_REPLACED
        ),
    ),
    "split": (
        *method("string_split_string", (STRING, STRING), _STRINGS, _split, **_SPLIT),
        *method("string_split_string_int", (STRING, STRING, INT), _STRINGS, _split, **_SPLIT),
    ),
    "substring": (
        *method("string_substring_int", (STRING, INT), STRING, _substring, **_READ),
        *method("string_substring_int_int", (STRING, INT, INT), STRING, _substring_between, **_READ),
    ),
    "trim": method("string_trim", (STRING,), STRING, lambda text: text.strip(_SPACE), **_READ),
    "join": (
        *method("list_join", (_STRINGS,), STRING, _join, **_JOINED),
        *method("list_join_string", (_STRINGS, STRING), STRING, _join, **_JOINED),
    ),
}
_PRINTING: Final[Mapping[str, tuple[Overload, ...]]] = {
    "format": method(
        "string_format", (STRING, types.LIST_DYN), STRING, format_text, call_cost=of_large_result
    ),
    "strings.quote": (Overload("strings_quote", (STRING,), STRING, cel_quoted, call_cost=of_large_result),),
}
KUBERNETES_STRINGS: Final = (
    Library("cel.lib.ext.strings", _BASIC),
    Library("cel.lib.ext.strings.2", _PRINTING, since=(1, 29)),
)
