"""The library that finds matches of patterns in strings. Source: k8s.io/apiserver
pkg/cel/library/regex.go.

The compiler passes constant patterns as `Regex`, compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from apiserver.cel import types
from apiserver.cel.costs import new_regex_search, regex_search_worst
from apiserver.cel.declarations import Library
from apiserver.cel.functions import Argument, Bounds, CallEstimate, Overload
from apiserver.cel.types import INT, STRING
from apiserver.cel.values import CostExceeded, EvaluationError
from apiserver.golang.regex import InvalidPattern, Regex, TooMuchWork, compile_pattern

_STRINGS: Final = types.list_of(STRING)


def _compiled(pattern: str | Regex) -> Regex:
    if isinstance(pattern, Regex):
        return pattern
    try:
        return compile_pattern(pattern)
    except InvalidPattern as invalid:
        raise EvaluationError(f"Illegal regex: {invalid}") from None


def _find(text: str, pattern: str | Regex) -> str:
    return _compiled(pattern).find(text) or ""


def _find_all(text: str, pattern: str | Regex, limit: int = -1) -> list[str]:
    try:
        return _compiled(pattern).find_all(text, limit)
    except TooMuchWork:
        raise CostExceeded from None


def _estimate(args: Sequence[Argument]) -> CallEstimate:
    return CallEstimate(regex_search_worst(args).cost, Bounds(0, args[0].size.high))


_COSTS: Final[dict[str, Any]] = {"is_method": True, "call_cost": new_regex_search, "estimate": _estimate}

REGEX: Final = Library(
    "kubernetes.regex",
    {
        "find": (Overload("string_find_string", (STRING, STRING), STRING, _find, **_COSTS),),
        "findAll": (
            Overload("string_find_all_string", (STRING, STRING), _STRINGS, _find_all, **_COSTS),
            Overload("string_find_all_string_int", (STRING, STRING, INT), _STRINGS, _find_all, **_COSTS),
        ),
    },
)
