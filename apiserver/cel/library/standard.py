"""The standard library: operators, conversions, strings, timestamps.

Source of the semantics: cel-spec doc/langdef.md; of ids and texts: cel-go common/stdlib and common/types.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any, Final

from apiserver.cel import costs, macros, types, values
from apiserver.cel.compatibility_version import CROSS_TYPE_COMPARISONS
from apiserver.cel.concatenation import CHUNK_ITEMS_MAX, AnyList, concatenated
from apiserver.cel.declarations import Library
from apiserver.cel.functions import CallCost, CallEstimator, Overload
from apiserver.cel.library import timestamps
from apiserver.cel.library.shared_costs import of_large_text
from apiserver.cel.library.string_conversion import double_text
from apiserver.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    LIST_A,
    MAP_A_B,
    NULL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    A,
    B,
    Type,
)
from apiserver.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Duration,
    EvaluationError,
    MapList,
    SetList,
    Timestamp,
    UInt,
)
from apiserver.golang.booleans import parse_bool
from apiserver.golang.regex import InvalidPattern, compile_pattern

_INT_OVERFLOW: Final = "integer overflow"
_UINT_OVERFLOW: Final = "unsigned integer overflow"


def _never(*args: Any) -> Any:
    raise AssertionError("is evaluated by the compiler")


# ---- arithmetic


def integer(number: int) -> int:
    """Returns the number. Raises EvaluationError if it does not fit into 64 bits."""
    if INT_MIN <= number <= INT_MAX:
        return number
    raise EvaluationError(_INT_OVERFLOW)


def unsigned(number: int) -> UInt:
    if 0 <= number <= UINT_MAX:
        return UInt(number)
    raise EvaluationError(_UINT_OVERFLOW)


def _product(a: int, b: int) -> int:
    """Multiply numbers only: `*` would repeat a string that is not of its declared type."""
    return int.__mul__(a, b)


def _divide(a: int, b: int) -> int:
    """Divide towards zero, as Go does."""
    if b == 0:
        raise EvaluationError("division by zero")
    quotient = abs(a) // abs(b)
    return integer(quotient if (a < 0) == (b < 0) else -quotient)


def _modulo(a: int, b: int) -> int:
    """Returns the remainder with the sign of the first number, as Go does."""
    if b == 0:
        raise EvaluationError("modulus by zero")
    if a == INT_MIN and b == -1:
        raise EvaluationError(_INT_OVERFLOW)
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


def _divide_doubles(a: float, b: float) -> float:
    if b == 0:
        if a == 0 or a != a:
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1.0, b)
    return a / b


def _add_lists(a: AnyList, b: AnyList) -> AnyList:
    """Add two lists. In sets and map lists, items of the second replace equal ones of the first (row R30)."""
    if type(a) is list:
        return [*a, *b] if len(a) + len(b) <= CHUNK_ITEMS_MAX else concatenated(a, b)
    if isinstance(a, SetList):
        known = {values.identity(item) for item in a}
        return SetList([*a, *(item for item in b if values.identity(item) not in known)])
    if isinstance(a, MapList):
        places: dict[Hashable, int] = {a.key_of(item): index for index, item in enumerate(a)}
        joined = list(a)
        for item in b:
            place = places.get(a.key_of(item))
            if place is None:
                joined.append(item)
            else:
                joined[place] = item
        return MapList(joined, a.keys)
    return concatenated(a, b)


# ---- conversions


def _no_conversion(of: Type, to: Type) -> EvaluationError:
    names = (each.kind.value for each in (of, to))
    return EvaluationError("type conversion error from '{}' to '{}'".format(*names))


_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,100}")
_UNSIGNED: Final = re.compile(r"[0-9]{1,100}")
# Possessive, so that not all ways to divide the digits of a long text that is no number are tried.
_DOUBLE: Final = re.compile(
    r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:e[+-]?[0-9]++)?|[+-]?inf(?:inity)?|nan", re.I
)
_HEX_DOUBLE: Final = re.compile(r"[+-]?0x(?:[0-9a-f]++(?:\.[0-9a-f]*+)?|\.[0-9a-f]++)p[+-]?[0-9]++", re.I)


def _text_to_int(text: str) -> int:
    if _INTEGER.fullmatch(text) and INT_MIN <= (number := int(text)) <= INT_MAX:
        return number
    raise _no_conversion(STRING, INT)


def _text_to_uint(text: str) -> UInt:
    if _UNSIGNED.fullmatch(text) and (number := int(text)) <= UINT_MAX:
        return UInt(number)
    raise _no_conversion(STRING, UINT)


def _text_to_double(text: str) -> float:
    is_hex = _HEX_DOUBLE.fullmatch(text) is not None
    if not is_hex and not _DOUBLE.fullmatch(text):
        raise _no_conversion(STRING, DOUBLE)
    try:
        number = float.fromhex(text) if is_hex else float(text)
    except OverflowError:
        raise _no_conversion(STRING, DOUBLE) from None
    if math.isinf(number) and "inf" not in text.lower():
        raise _no_conversion(STRING, DOUBLE)
    return number


def _text_to_bool(text: str) -> bool:
    if (value := parse_bool(text)) is None:
        raise _no_conversion(STRING, BOOL)
    return value


def _text_to_duration(text: str) -> Duration:
    found = timestamps.parse_duration_ns(text)
    if found is None:
        raise _no_conversion(STRING, DURATION)
    return Duration(found)


def _text_to_timestamp(text: str) -> Timestamp:
    found = timestamps.parse_timestamp(text)
    if found is None:
        raise _no_conversion(STRING, TIMESTAMP)
    return timestamps.timestamp(found, found.offset)


def _double_to_int(number: float) -> int:
    if math.isfinite(number) and float(INT_MIN) < number < float(INT_MAX):
        return int(number)
    raise EvaluationError(_INT_OVERFLOW)


def _double_to_uint(number: float) -> UInt:
    if math.isfinite(number) and 0 <= number < float(UINT_MAX):
        return UInt(number)
    raise EvaluationError(_UINT_OVERFLOW)


def _bytes_to_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def _same(value: Any) -> Any:
    return value


def _matches(text: str, pattern: str) -> bool:
    try:
        return compile_pattern(pattern).search(text)
    except InvalidPattern as error:
        raise EvaluationError(str(error)) from None


# ---- the tables


_COMPARED: Final = (costs.comparison, costs.comparison_worst)
_JOINED: Final = (costs.concatenation, costs.concatenation_worst)
# The names of types in the ids of overloads.
_NAMES: Final = {
    BOOL: "bool",
    INT: "int64",
    UINT: "uint64",
    DOUBLE: "double",
    STRING: "string",
    BYTES: "bytes",
    TIMESTAMP: "timestamp",
    DURATION: "duration",
}
_NUMBERS: Final = (INT, UINT, DOUBLE)


def _as_doubles(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Compare integers as the nearest doubles, though Python would be exact."""
    return lambda a, b: compare(float(a), float(b))


def _ordering(name: str, compare: Callable[[Any, Any], bool]) -> tuple[Overload, ...]:
    same = [
        Overload(
            f"{name}_{short}", (type_, type_), BOOL, compare, *(_COMPARED if type_ in (STRING, BYTES) else ())
        )
        for type_, short in _NAMES.items()
    ]
    across = [
        Overload(
            f"{name}_{_NAMES[a]}_{_NAMES[b]}",
            (a, b),
            BOOL,
            _as_doubles(compare) if DOUBLE in (a, b) else compare,
        )
        for a in _NUMBERS
        for b in _NUMBERS
        if a is not b
    ]
    return (*same, *across)


def _both_ways(id_: str, type_: Type) -> tuple[Overload, ...]:
    return (
        Overload(id_, (type_,), INT, len),
        Overload(f"{type_.kind.value}_size", (type_,), INT, len, is_method=True),
    )


def _conversions(result: Type, ways: Mapping[Type, Callable[[Any], Any]]) -> tuple[Overload, ...]:
    """Returns the overloads of a conversion. ways: the conversion for each type of value."""
    found = []
    for type_, convert in ways.items():
        call_cost: tuple[CallCost, CallEstimator | None] | tuple[()] = ()
        if (type_, result) == (STRING, BYTES):
            call_cost = (costs.string_traversal, costs.conversion_to_bytes)
        elif (type_, result) == (BYTES, STRING):
            call_cost = (costs.string_traversal, costs.conversion_from_bytes)
        elif type_ is STRING and result is not STRING:
            call_cost = (of_large_text, None)
        found.append(Overload(f"{_NAMES[type_]}_to_{_NAMES[result]}", (type_,), result, convert, *call_cost))
    return tuple(found)


def _text_method(
    id_: str, call: Callable[[Any, Any], bool], call_cost: CallCost, estimate: CallEstimator
) -> tuple[Overload, ...]:
    return (Overload(id_, (STRING, STRING), BOOL, call, call_cost, estimate, is_method=True),)


_PART_IDS: Final = {
    "getFullYear": "year",
    "getMonth": "month",
    "getDayOfYear": "day_of_year",
    "getDayOfMonth": "day_of_month",
    "getDate": "day_of_month_1_based",
    "getDayOfWeek": "day_of_week",
    "getHours": "hours",
    "getMinutes": "minutes",
    "getSeconds": "seconds",
    "getMilliseconds": "milliseconds",
}
_OF_DURATIONS: Final = frozenset({"getHours", "getMinutes", "getSeconds", "getMilliseconds"})


def _parts(name: str) -> tuple[Overload, ...]:
    short, get = _PART_IDS[name], timestamps.getter(name)
    found = [
        Overload(f"timestamp_to_{short}", (TIMESTAMP,), INT, get, is_method=True),
        Overload(f"timestamp_to_{short}_with_tz", (TIMESTAMP, STRING), INT, get, is_method=True),
    ]
    if name in _OF_DURATIONS:
        found.append(
            Overload(f"duration_to_{short}", (DURATION,), INT, timestamps.spans(name), is_method=True)
        )
    return tuple(found)


STANDARD: Final = Library(
    "standard",
    macros=macros.STANDARD,
    constants={
        name: (types.type_of_type(type_), type_)
        for name, type_ in {
            "bool": BOOL,
            "bytes": BYTES,
            "double": DOUBLE,
            "google.protobuf.Duration": DURATION,
            "int": INT,
            "list": LIST_A,
            "map": MAP_A_B,
            "null_type": NULL,
            "string": STRING,
            "google.protobuf.Timestamp": TIMESTAMP,
            "type": TYPE,
            "uint": UINT,
        }.items()
    },
    functions={
        "_&&_": (Overload("logical_and", (BOOL, BOOL), BOOL, _never),),
        "_||_": (Overload("logical_or", (BOOL, BOOL), BOOL, _never),),
        "_?_:_": (Overload("conditional", (BOOL, A, A), A, _never),),
        "!_": (Overload("logical_not", (BOOL,), BOOL, operator.not_),),
        "_==_": (Overload("equals", (A, A), BOOL, values.equal, *_COMPARED),),
        "_!=_": (Overload("not_equals", (A, A), BOOL, lambda a, b: not values.equal(a, b), *_COMPARED),),
        "_<_": _ordering("less", operator.lt),
        "_<=_": _ordering("less_equals", operator.le),
        "_>_": _ordering("greater", operator.gt),
        "_>=_": _ordering("greater_equals", operator.ge),
        "_+_": (
            Overload("add_bytes", (BYTES, BYTES), BYTES, operator.add, *_JOINED),
            Overload("add_double", (DOUBLE, DOUBLE), DOUBLE, operator.add),
            Overload(
                "add_duration_duration",
                (DURATION, DURATION),
                DURATION,
                lambda a, b: timestamps.duration(a + b),
            ),
            Overload(
                "add_duration_timestamp",
                (DURATION, TIMESTAMP),
                TIMESTAMP,
                lambda a, b: timestamps.timestamp(a + b, b.offset),
            ),
            Overload(
                "add_timestamp_duration",
                (TIMESTAMP, DURATION),
                TIMESTAMP,
                lambda a, b: timestamps.timestamp(a + b, a.offset),
            ),
            Overload("add_int64", (INT, INT), INT, lambda a, b: integer(a + b)),
            Overload(
                "add_list",
                (LIST_A, LIST_A),
                LIST_A,
                _add_lists,
                costs.list_concatenation,
                costs.list_concatenation_worst,
            ),
            Overload("add_string", (STRING, STRING), STRING, operator.add, *_JOINED),
            Overload("add_uint64", (UINT, UINT), UINT, lambda a, b: unsigned(a + b)),
        ),
        "_-_": (
            Overload("subtract_double", (DOUBLE, DOUBLE), DOUBLE, operator.sub),
            Overload(
                "subtract_duration_duration",
                (DURATION, DURATION),
                DURATION,
                lambda a, b: timestamps.duration(a - b),
            ),
            Overload("subtract_int64", (INT, INT), INT, lambda a, b: integer(a - b)),
            Overload(
                "subtract_timestamp_duration",
                (TIMESTAMP, DURATION),
                TIMESTAMP,
                lambda a, b: timestamps.timestamp(a - b, a.offset),
            ),
            Overload(
                "subtract_timestamp_timestamp",
                (TIMESTAMP, TIMESTAMP),
                DURATION,
                lambda a, b: timestamps.duration(a - b),
            ),
            Overload("subtract_uint64", (UINT, UINT), UINT, lambda a, b: unsigned(a - b)),
        ),
        "_*_": (
            # A text that is not of its declared type can be repeated by an int, not by this.
            Overload("multiply_double", (DOUBLE, DOUBLE), DOUBLE, lambda a, b: a * 1.0 * b),
            Overload("multiply_int64", (INT, INT), INT, lambda a, b: integer(_product(a, b))),
            Overload("multiply_uint64", (UINT, UINT), UINT, lambda a, b: unsigned(_product(a, b))),
        ),
        "_/_": (
            Overload("divide_double", (DOUBLE, DOUBLE), DOUBLE, _divide_doubles),
            Overload("divide_int64", (INT, INT), INT, _divide),
            Overload(
                "divide_uint64", (UINT, UINT), UINT, lambda a, b: UInt(_divide(a, b) if b else _divide(0, 0))
            ),
        ),
        "_%_": (
            Overload("modulo_int64", (INT, INT), INT, _modulo),
            Overload("modulo_uint64", (UINT, UINT), UINT, lambda a, b: UInt(_modulo(a, b))),
        ),
        "-_": (
            Overload("negate_double", (DOUBLE,), DOUBLE, operator.neg),
            Overload("negate_int64", (INT,), INT, lambda number: integer(-number)),
        ),
        "_[_]": (
            Overload("index_list", (LIST_A, INT), A, _never),
            Overload("index_map", (MAP_A_B, A), B, _never),
        ),
        "@in": (
            Overload("in_list", (A, LIST_A), BOOL, _never, costs.membership, costs.membership_worst),
            Overload("in_map", (A, MAP_A_B), BOOL, _never),
        ),
        "size": (
            *_both_ways("size_bytes", BYTES),
            *_both_ways("size_list", LIST_A),
            *_both_ways("size_map", MAP_A_B),
            *_both_ways("size_string", STRING),
        ),
        "type": (Overload("type", (A,), types.type_of_type(A), values.type_of),),
        "dyn": (Overload("to_dyn", (A,), DYN, _same),),
        "bool": _conversions(BOOL, {BOOL: _same, STRING: _text_to_bool}),
        "bytes": _conversions(BYTES, {BYTES: _same, STRING: str.encode}),
        "double": _conversions(DOUBLE, {DOUBLE: float, INT: float, STRING: _text_to_double, UINT: float}),
        "duration": _conversions(DURATION, {DURATION: _same, INT: Duration, STRING: _text_to_duration}),
        "int": _conversions(
            INT,
            {
                INT: _same,
                DOUBLE: _double_to_int,
                DURATION: int,
                STRING: _text_to_int,
                TIMESTAMP: lambda when: when // timestamps.SECOND,
                UINT: lambda number: integer(int(number)),
            },
        ),
        "string": _conversions(
            STRING,
            {
                STRING: _same,
                BOOL: lambda value: "true" if value else "false",
                BYTES: _bytes_to_text,
                DOUBLE: double_text,
                DURATION: timestamps.format_duration,
                INT: str,
                TIMESTAMP: timestamps.format_timestamp,
                UINT: str,
            },
        ),
        "timestamp": _conversions(
            TIMESTAMP,
            {
                TIMESTAMP: _same,
                INT: lambda seconds: timestamps.timestamp(_product(seconds, timestamps.SECOND)),
                STRING: _text_to_timestamp,
            },
        ),
        "uint": _conversions(
            UINT, {UINT: _same, DOUBLE: _double_to_uint, INT: unsigned, STRING: _text_to_uint}
        ),
        "contains": _text_method(
            "contains_string", operator.contains, costs.containment, costs.containment_worst
        ),
        "endsWith": _text_method(
            "ends_with_string", str.endswith, costs.string_traversal, costs.prefix_worst
        ),
        "startsWith": _text_method(
            "starts_with_string", str.startswith, costs.string_traversal, costs.prefix_worst
        ),
        "matches": (
            # Kubernetes estimates this form as 1, whatever the text, so we must.
            Overload("matches", (STRING, STRING), BOOL, _matches, costs.new_regex_search),
            *_text_method("matches_string", _matches, costs.new_regex_search, costs.regex_search_worst),
        ),
        **{name: _parts(name) for name in timestamps.PARTS},
    },
)
"""The library that every environment has."""


def _orderings(*, are_alike: bool) -> Mapping[str, tuple[Overload, ...]]:
    return {
        name: tuple(each for each in STANDARD.functions[name] if (each.args[0] is each.args[1]) is are_alike)
        for name in ("_<_", "_<=_", "_>_", "_>=_")
    }


KUBERNETES_STANDARD: Final = (
    replace(STANDARD, functions={**STANDARD.functions, **_orderings(are_alike=True)}),
    Library("cross-type numeric comparisons", _orderings(are_alike=False), since=CROSS_TYPE_COMPARISONS),
)
"""The same, where new expressions may be older than comparisons of numbers of different types."""
