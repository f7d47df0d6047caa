"""The library of optional values: `optional.…`, `?.`, `[?…]`.

Source: cel-go cel/library.go, OptionalTypes. The compiler evaluates indexing, and `or` and `orValue`, whose
argument is only needed if there is no value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from apiserver.cel import types
from apiserver.cel.declarations import Library
from apiserver.cel.functions import Overload, method
from apiserver.cel.library.timestamps import TIMESTAMP_MIN
from apiserver.cel.macros import OPTIONAL_MACROS
from apiserver.cel.types import BOOL, INT, LIST_A, MAP_A_B, A, B
from apiserver.cel.values import NONE, EvaluationError, Message, OptionalValue, Timestamp

_OPTIONAL: Final = types.optional_of(A)
_OPTIONAL_B: Final = types.optional_of(B)
_OPTIONAL_LIST: Final = types.optional_of(LIST_A)
_OPTIONAL_MAP: Final = types.optional_of(MAP_A_B)
_OPTIONALS: Final = types.list_of(_OPTIONAL)


def is_zero(value: Any) -> bool:
    """Whether a value is the zero value of its type: null, false, 0, empty."""
    match value:
        case None:
            return True
        case Timestamp():
            return value == TIMESTAMP_MIN
        case bool() | int() | float() | str() | bytes() | list() | Mapping():
            return not value
        case OptionalValue():
            return not value.has_value
        case Message():
            # A message of known fields has no zero value in Kubernetes.
            return not (value.fields or value.type.fields)
    return False


def _never(*args: Any) -> Any:
    raise AssertionError("is evaluated by the compiler")


def _unwrap(items: list[Any]) -> list[Any]:
    for item in items:
        if not isinstance(item, OptionalValue):
            raise EvaluationError(f"value {item} is not optional")
    return [item.value for item in items if item.has_value]


OPTIONALS: Final = Library(
    "optional",
    {
        "optional.of": (Overload("optional_of", (A,), _OPTIONAL, OptionalValue),),
        "optional.ofNonZeroValue": (
            Overload(
                "optional_ofNonZeroValue",
                (A,),
                _OPTIONAL,
                lambda value: NONE if is_zero(value) else OptionalValue(value),
            ),
        ),
        "optional.none": (Overload("optional_none", (), _OPTIONAL, lambda: NONE),),
        "optional.unwrap": (Overload("optional_unwrap", (_OPTIONALS,), LIST_A, _unwrap),),
        "unwrapOpt": method("optional_unwrapOpt", (_OPTIONALS,), LIST_A, _unwrap),
        "value": method("optional_value", (_OPTIONAL,), A, lambda optional: optional.value),
        "hasValue": method("optional_hasValue", (_OPTIONAL,), BOOL, lambda optional: optional.has_value),
        "or": method("optional_or_optional", (_OPTIONAL, _OPTIONAL), _OPTIONAL, _never),
        "orValue": method("optional_orValue_value", (_OPTIONAL, A), A, _never),
        "first": method(
            "list_first", (LIST_A,), _OPTIONAL, lambda items: OptionalValue(items[0]) if items else NONE
        ),
        "last": method(
            "list_last", (LIST_A,), _OPTIONAL, lambda items: OptionalValue(items[-1]) if items else NONE
        ),
        "_[?_]": (
            Overload("list_optindex_optional_int", (LIST_A, INT), _OPTIONAL, _never),
            Overload("optional_list_optindex_optional_int", (_OPTIONAL_LIST, INT), _OPTIONAL, _never),
            Overload("map_optindex_optional_value", (MAP_A_B, A), _OPTIONAL_B, _never),
            Overload("optional_map_optindex_optional_value", (_OPTIONAL_MAP, A), _OPTIONAL_B, _never),
        ),
        "_[_]": (
            Overload("optional_list_index_int", (_OPTIONAL_LIST, INT), _OPTIONAL, _never),
            Overload("optional_map_index_value", (_OPTIONAL_MAP, A), _OPTIONAL_B, _never),
        ),
    },
    macros=OPTIONAL_MACROS,
    constants={"optional_type": (types.type_of_type(_OPTIONAL), types.optional_of(types.DYN))},
    since=(1, 28),
)
