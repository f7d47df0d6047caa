"""Implements `string.format()` as in Kubernetes: cel-go ext/formatting.go.

It writes lists and maps in the syntax of expressions, and numbers with a fraction in the format of the locale
en_US.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from apiserver.cel.library.shared_costs import TEXT_MAX, check_size
from apiserver.cel.library.string_conversion import double_text
from apiserver.cel.library.timestamps import format_duration, format_timestamp
from apiserver.cel.syntax import CreateList, CreateMap, Node
from apiserver.cel.types import Type, TypeKind
from apiserver.cel.values import (
    LIST_CLASSES,
    BoolKey,
    Duration,
    EvaluationError,
    Timestamp,
    UInt,
    key_value,
    type_name,
)
from apiserver.golang.quoting import go_quote

_PRECISION: Final = 6
PRECISION_MAX: Final = 1000

# Formats a value by a clause; precision is None if the clause has none.
Clause: TypeAlias = Callable[[Any, int | None], str]


class _Unfit(Exception):
    """A clause that does not accept values of this type."""


def format_text(text: str, args: list[Any]) -> str:
    """Replace the clauses of a text, such as `%s`, by formatted values. Raises EvaluationError."""
    parts: list[str] = []
    at = index = size = 0
    while (start := text.find("%", at)) >= 0:
        parts.append(text[at:start])
        if text.startswith("%%", start):
            parts.append("%")
            at = start + 2
            continue
        if index >= len(args):
            raise EvaluationError(f"index {index} out of range")
        if start + 1 >= len(text):
            raise EvaluationError("unexpected end of string")
        letter, precision, at = _clause(text, start + 1)
        if letter not in _CLAUSES:
            raise _unrecognized(letter)
        try:
            part = _CLAUSES[letter](args[index], precision)
        except _Unfit as unfit:
            complaint = _COMPLAINTS[letter.lower() if not unfit.args else "s"]
            given = unfit.args[0] if unfit.args else args[index]
            raise EvaluationError(
                f"error during formatting: {complaint}, was given {type_name(given)}"
            ) from None
        except RecursionError:
            raise EvaluationError("error during formatting: values are nested too deeply") from None
        parts.append(part)
        size += len(part)
        check_size(size)
        index += 1
    parts.append(text[at:])
    return "".join(parts)


def _clause(text: str, at: int) -> tuple[str, int | None, int]:
    """Returns the letter of a clause, its precision, and its end."""
    precision: int | None = None
    if text[at] == ".":
        end = at + 1
        while end < len(text) and text[end] in "0123456789":
            end += 1
        if end == len(text):
            raise _unparsable("error while parsing precision: could not find end of precision specifier")
        digits = text[at + 1 : end]
        if not digits:
            raise _unparsable(
                "error while parsing precision: error while converting precision to integer: strconv.Atoi: "
                'parsing "": invalid syntax'
            )
        if len(digits.lstrip("0")) > 4 or int(digits) > PRECISION_MAX:
            raise _unparsable(
                f"error while parsing precision: precision {digits[:20]} exceeds maximum allowed precision "
                f"{PRECISION_MAX}"
            )
        precision, at = int(digits), end
    return text[at], precision, at + 1


def _unparsable(message: str) -> EvaluationError:
    return EvaluationError(f"could not parse formatting clause: {message}")


def _unrecognized(letter: str) -> EvaluationError:
    return _unparsable(f'unrecognized formatting clause "{letter}"')


# ---- clauses


def _in_base(base: str) -> Clause:
    def clause(value: Any, _: int | None) -> str:
        if type(value) is int or type(value) is UInt:
            return format(int(value), base)
        if type(value) is bool and base == "b":
            return format(value, base)
        if base in "xX" and isinstance(value, str | bytes):
            raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
            return raw.hex() if base == "x" else raw.hex().upper()
        raise _Unfit

    return clause


_BASES: Final = {letter: _in_base(letter) for letter in "boxX"}


def _plain(value: Any) -> str | None:
    """Format a scalar; returns None for other values."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case BoolKey():
            return _plain(value.value)
        case Timestamp():
            return format_timestamp(value)
        case Duration():
            return format_duration(value)
        case int():
            return str(int(value))
        case float():
            return double_text(value)
        case str():
            return value
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None
        case Type():
            return value.name or value.kind.value
    return None


def _joined(parts: list[str], size: int) -> str:
    check_size(size)
    return ", ".join(parts)


def _nested(value: Any) -> str:
    """Format a list or a map, whose parts are literals."""
    if isinstance(value, LIST_CLASSES):
        parts, size = [], 0
        for item in value:
            parts.append(_literal(item))
            size += len(parts[-1]) + 2
            if size > TEXT_MAX:
                break
        return f"[{_joined(parts, size)}]"
    if not isinstance(value, dict):
        raise _Unfit(value)
    pairs = [(_literal(key_value(key)), _literal(item)) for key, item in value.items()]
    pairs.sort(key=lambda pair: pair[0])
    parts = [f"{key}:{text}" for key, text in pairs]
    return f"{{{_joined(parts, sum(map(len, parts)))}}}"


def _integer(value: Any, _: int | None) -> str:
    if type(value) is int or type(value) is UInt:
        return str(int(value))
    raise _Unfit


def _literal(value: Any) -> str:
    match value:
        case str():
            return go_quote(value)
        case bytes():
            return f"b{go_quote(_plain(value) or '')}"
        case Timestamp():
            return f'timestamp("{format_timestamp(value)}")'
        case Duration():
            return f'duration("{format_duration(value)}")'
        case float():
            return format(value, ".6f") if math.isfinite(value) else f'"{double_text(value)}"'
    plain = _plain(value)
    return _nested(value) if plain is None else plain


def _string(value: Any, _: int | None) -> str:
    plain = _plain(value)
    return _nested(value) if plain is None else plain


_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_SUPERSCRIPTS: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def _double(value: Any) -> float:
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    if type(value) is not float:
        raise _Unfit
    return value


def _localized(number: float) -> str:
    return "NaN" if number != number else ("∞" if number > 0 else "-∞")


def _fixed(value: Any, precision: int | None) -> str:
    number = _double(value)
    if not math.isfinite(number):
        return _localized(number)
    return format(number, f",.{_PRECISION if precision is None else precision}f")


def _scientific(value: Any, precision: int | None) -> str:
    """Format a number in scientific notation. precision: a width there, without an effect."""
    number = _double(value)
    if not math.isfinite(number):
        return _localized(number)
    mantissa, _, exponent = format(number, f".{_PRECISION}e").partition("e")
    return f"{mantissa}\u202f\u00d7\u202f10{exponent.removeprefix('+').translate(_SUPERSCRIPTS)}"


_COMPLAINTS: Final = {
    "s": (
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, "
        "durations, and timestamps"
    ),
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
    "o": "octal clause can only be used on integers",
}
_CLAUSES: Final[Mapping[str, Clause]] = {"s": _string, "d": _integer, "f": _fixed, "e": _scientific, **_BASES}

_INTEGERS: Final = frozenset({TypeKind.DYN, TypeKind.INT, TypeKind.UINT})
_FRACTIONS: Final = frozenset({TypeKind.DYN, TypeKind.DOUBLE, TypeKind.STRING})  # "NaN", for one
_TAKEN: Final[Mapping[str, frozenset[TypeKind]]] = {
    "s": frozenset(TypeKind)
    - {TypeKind.OPTIONAL, TypeKind.OBJECT, TypeKind.OPAQUE, TypeKind.PARAMETER, TypeKind.ERROR},
    "d": _INTEGERS,
    "f": _FRACTIONS,
    "e": _FRACTIONS,
    "b": _INTEGERS | {TypeKind.BOOL},
    "x": _INTEGERS | {TypeKind.STRING, TypeKind.BYTES},
    "o": _INTEGERS,
}


def misuse(text: str, args: Sequence[Node]) -> tuple[Node | None, str] | None:
    """Returns the problem of a format as far as types show, and the wrong argument if it is one."""
    at = index = 0
    while (start := text.find("%", at)) >= 0:
        if text.startswith("%%", start):
            at = start + 2
            continue
        if start + 1 >= len(text):
            return None, "unexpected end of string"
        if index >= len(args):
            return None, f"index {index} out of range"
        try:
            letter, _, at = _clause(text, start + 1)
        except EvaluationError as error:
            return None, str(error)
        taken = _TAKEN.get(letter.lower() if letter == "X" else letter)
        if taken is None:
            return None, str(_unrecognized(letter))
        unfit = _unfit(args[index], taken)
        if unfit is not None:
            given = unfit.type.name or unfit.type.kind.value
            return unfit, f"error during formatting: {_COMPLAINTS[letter.lower()]}, was given {given}"
        index += 1
    if len(args) > index:
        return None, f"too many arguments supplied to string.format (expected {index}, got {len(args)})"
    return None


def _unfit(node: Node, taken: frozenset[TypeKind]) -> Node | None:
    """Returns the node, or a node in a literal, whose type is not accepted; None if all are."""
    if node.type.kind not in taken:
        return node
    if TypeKind.LIST not in taken:
        return None
    within: list[Node] = []
    if isinstance(node, CreateList):
        within.extend(node.items)
    elif isinstance(node, CreateMap):
        within.extend(
            each for entry in node.entries for each in (entry.key, entry.value) if not isinstance(each, str)
        )
    return next((unfit for each in within if (unfit := _unfit(each, taken)) is not None), None)
