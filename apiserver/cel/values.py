"""Values of the language, and the Python types that represent them.

| type | in Python |
|---|---|
| null, bool, string, bytes, double | None, bool, str, bytes, float |
| int, uint | int, `UInt` |
| timestamp, duration | `Timestamp`, `Duration` |
| list | any list; `SetList` and `MapList` compare and add by the rules of their schemas; `ConcatenatedList` |
| map | dict, whose keys are str, int, UInt, or `map_key` of a bool |
| object | the dict in the document |
| message | `Message` |
| optional | `OptionalValue` |
| type | `types.Type` |
| opaque | an instance of a class with `cel_type: ClassVar[Type]` |

Documents are used as they are: no value is copied or wrapped.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Any, Final, Self

from apiserver.cel import types
from apiserver.cel.concatenation import ConcatenatedList
from apiserver.cel.types import Type

INT_MIN: Final = -(1 << 63)
INT_MAX: Final = (1 << 63) - 1
UINT_MAX: Final = (1 << 64) - 1
# The text of the error that no function takes values of these types.
NO_SUCH_OVERLOAD: Final = "no such overload"


class EvaluationError(Exception):
    """An expression without a value, because of an error; the message is for the client.

    cost: the cost of the evaluation until the error, set at its end.
    """

    cost: int = 0


class CostExceeded(Exception):
    """An evaluation beyond its cost limit. Unlike errors of calls, an expression cannot ignore it."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class UInt(int):
    """A non-negative number with a separate type. Arithmetic on it gives an int."""

    __slots__ = ()


class Timestamp(int):
    """A timestamp: nanoseconds since 1970 in UTC.

    offset: the UTC offset of the original text in seconds. It only affects the text of the timestamp.
    """

    offset: int

    def __new__(cls, nanoseconds: int, offset: int = 0) -> Self:
        self = super().__new__(cls, nanoseconds)
        self.offset = offset
        return self


class Duration(int):
    """A duration in nanoseconds."""

    __slots__ = ()


class BoolKey(enum.Enum):
    """Keys of maps that are bools: as bools they would be equal to 0 and 1."""

    FALSE = False
    TRUE = True


class SetList(list[Any]):
    """A list whose order does not matter (`x-kubernetes-list-type: set`)."""

    __slots__ = ()


class MapList(list[Any]):
    """A list of objects that some fields identify (`x-kubernetes-list-type: map`)."""

    __slots__ = ("keys",)

    def __init__(self, items: list[Any], keys: tuple[str, ...]) -> None:
        super().__init__(items)
        self.keys = keys

    def key_of(self, item: Any) -> Hashable:
        return tuple(identity(item.get(key)) for key in self.keys)


class OptionalValue:
    __slots__ = ("_value", "has_value")

    def __init__(self, value: Any = None, *, has_value: bool = True) -> None:
        self._value, self.has_value = value, has_value

    @property
    def value(self) -> Any:
        """The value inside. Raises EvaluationError if there is none."""
        if not self.has_value:
            raise EvaluationError("optional.none() dereference")
        return self._value


NONE: Final = OptionalValue(has_value=False)
# The classes of lists and their subclasses, for `isinstance`.
LIST_CLASSES: Final = (list, ConcatenatedList)


class Message:
    """A message that an expression made: `Name{field: value}`.

    fields: those that are set. A text field is set if it is not empty, as in Kubernetes.
    """

    __slots__ = ("fields", "type")

    def __init__(self, type_: Type, fields: dict[str, Any]) -> None:
        self.type = type_
        self.fields = {key: value for key, value in fields.items() if value != "" or not self._is_text(key)}

    def field(self, key: str) -> Any:
        """Returns the value of a field; for an unset one an empty text, or null, by its type."""
        if key in self.fields:
            return self.fields[key]
        return "" if self._is_text(key) else None

    def _is_text(self, key: str) -> bool:
        found = self.type.fields.get(key)
        return found is not None and found.type == types.STRING


_TYPES: Final[Mapping[type, Type]] = {
    type(None): types.NULL,
    bool: types.BOOL,
    int: types.INT,
    UInt: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    Timestamp: types.TIMESTAMP,
    Duration: types.DURATION,
    list: types.LIST_DYN,
    SetList: types.LIST_DYN,
    MapList: types.LIST_DYN,
    ConcatenatedList: types.LIST_DYN,
    dict: types.MAP_DYN,
    BoolKey: types.BOOL,
    Type: types.TYPE,
}
_OPTIONAL: Final = types.optional_of(types.DYN)


def type_of(value: Any) -> Type:
    """Returns the type of a value at run time: without the types of items in lists and maps."""
    known = _TYPES.get(type(value))
    if known is not None:
        return known
    if isinstance(value, OptionalValue):
        return _OPTIONAL
    if isinstance(value, Message):
        return value.type
    own = value.cel_type
    assert isinstance(own, Type)
    return own


def type_name(value: Any) -> str:
    """Returns the name of a value's type, like `int`, `google.protobuf.Timestamp`, `kubernetes.Quantity`."""
    found = type_of(value)
    return found.name or found.kind.value


# Kinds of numbers, which are equal across their types. bool is none of them.
_NUMBERS: Final = frozenset({int, UInt, float})
# Classes whose own equality is the language's, among themselves.
_PLAIN: Final = frozenset({str, int, UInt, float, bool, bytes, type(None), Timestamp, Duration})
# Values are nested no deeper than documents and expressions are; what is deeper is no document.
_LISTS: Final = frozenset({list, SetList, MapList, ConcatenatedList})


# As many as one comparison may look at; values that an expression nests in themselves have no end.
COMPARISONS_MAX: Final = 1 << 21


def equal(a: Any, b: Any) -> bool:
    """Returns whether two values are equal: numbers across their types, others only within theirs.

    Raises EvaluationError for values that are nested too deeply, or too large.
    """
    kind, other = type(a), type(b)
    if kind is other and kind in _PLAIN:
        return bool(a == b)
    if kind in _NUMBERS:
        return other in _NUMBERS and bool(a == b)
    return equal_within(a, b, [COMPARISONS_MAX])


def equal_within(a: Any, b: Any, left: list[int]) -> bool:
    """Returns whether two values are equal, within a limit of comparisons.

    left: the remaining number of items and entries to compare, in a list of one; it is reduced.
    """
    try:
        return _equal(a, b, left)
    except RecursionError:
        raise EvaluationError("values are nested too deeply to be compared") from None


def _equal(a: Any, b: Any, left: list[int]) -> bool:
    kind, other = type(a), type(b)
    if kind in _PLAIN:
        if kind in _NUMBERS:
            return other in _NUMBERS and bool(a == b)
        return kind is other and bool(a == b)
    if kind is dict:
        if other is not dict or len(a) != len(b):
            return False
        _look_at(len(a), left)
        return a.keys() == b.keys() and _equal_each(a.values(), [b[key] for key in a], left)
    if kind in _LISTS:
        if other not in _LISTS or len(a) != len(b):
            return False
        _look_at(len(a), left)
        return _equal_lists(a, b, left)
    if isinstance(a, Type):
        return isinstance(b, Type) and a.kind == b.kind and a.name == b.name
    if isinstance(a, OptionalValue):
        if not isinstance(b, OptionalValue) or a.has_value != b.has_value:
            return False
        return not a.has_value or _equal(a.value, b.value, left)
    if isinstance(a, Message):
        return isinstance(b, Message) and a.type == b.type and _equal(a.fields, b.fields, left)
    return kind is other and bool(a == b)


def _look_at(count: int, left: list[int]) -> None:
    left[0] -= count
    if left[0] < 0:
        raise EvaluationError("values are too large to be compared")


def _equal_lists(a: Collection[Any], b: Collection[Any], left: list[int]) -> bool:
    if isinstance(a, SetList) or isinstance(b, SetList):
        return {identity(item, left) for item in a} == {identity(item, left) for item in b}
    by_key = a if isinstance(a, MapList) else b
    if isinstance(by_key, MapList):
        others = {by_key.key_of(item): item for item in b}
        return all((key := by_key.key_of(item)) in others and _equal(item, others[key], left) for item in a)
    return _equal_each(a, b, left)


def _equal_each(a: Iterable[Any], b: Iterable[Any], left: list[int]) -> bool:
    for mine, its in zip(a, b, strict=True):
        kind = type(mine)
        if kind is type(its) and kind in _PLAIN:  # most are, and need no call
            if mine != its:
                return False
        elif not _equal(mine, its, left):
            return False
    return True


def identity(value: Any, left: list[int] | None = None) -> Hashable:
    """Returns a key that is equal for equal values, and only for these. left: as in `equal_within`."""
    kind = type(value)
    if kind is bool or kind is Timestamp or kind is Duration:
        return kind, value
    if kind in _LISTS or kind is dict:
        if left is not None:
            _look_at(len(value), left)
        if kind is dict:
            return dict, frozenset((key, identity(item, left)) for key, item in value.items())
        return list, tuple(identity(item, left) for item in value)
    hashable: Hashable = value
    return hashable


def extent(value: Any) -> int:
    """Returns the number of items and entries in a value, at any depth."""
    if type(value) in _LISTS:
        return len(value) + sum(map(extent, value))
    return len(value) + sum(map(extent, value.values())) if type(value) is dict else 0


def map_key(value: Any) -> Hashable:
    """Returns a value as the key of a map. Raises EvaluationError for values that cannot be one."""
    kind = type(value)
    if kind is str or kind is int or kind is UInt:
        hashable: Hashable = value
        return hashable
    if kind is bool:
        return BoolKey.TRUE if value else BoolKey.FALSE
    if kind is float:
        if value == value and value.is_integer():
            return int(value)
        return (float, repr(value))  # is never there
    raise EvaluationError(f"unsupported key type: {type_name(value)}")


def key_value(key: Hashable) -> Any:
    """Returns a map's key as a value."""
    return key.value if type(key) is BoolKey else key
