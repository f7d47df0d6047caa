"""The closures of operators, selections, literals and calls. `compiler` chooses among them.

All take and give runs: functions of a frame, whose first item is what is left of the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from apiserver.cel import costs, values
from apiserver.cel.costs import looking_at, size_of
from apiserver.cel.functions import REGEX_FACTOR, STRING_FACTOR, Overload, Price
from apiserver.cel.types import Kind, Type
from apiserver.cel.unify import SCALARS
from apiserver.cel.values import (
    NONE,
    BoolKey,
    CostExceeded,
    Duration,
    EvaluationError,
    MapList,
    Message,
    Optional,
    SetList,
    Timestamp,
    UInt,
)

if TYPE_CHECKING:
    from apiserver.cel.compiler import Code, Frame, Run

EXCEEDED: Final = "operation cancelled: actual cost limit exceeded"
NO_OVERLOAD: Final = "no such overload"
# What a call costs if there is no value to call it with, where the price is of values.
OF_NOTHING: Final = 1


class _Mark:
    """Stands in a frame for a value that is not there."""

    __slots__ = ()


ABSENT: Final = _Mark()
_UNSET: Final = _Mark()


class _Failed:
    """Stands in a frame for a value that there is none of."""

    __slots__ = ("error",)

    def __init__(self, error: EvaluationError) -> None:
        self.error = error


def spend(frame: Frame, cost: int) -> None:
    left = frame[0] - cost
    frame[0] = left
    if left < 0:
        raise CostExceeded(EXCEEDED)


def charged(run: Run, cost: int) -> Run:
    """Run, and charge for it."""
    if not cost:
        return run

    def charged_run(frame: Frame) -> Any:
        left = frame[0] - cost
        frame[0] = left
        if left < 0:
            raise CostExceeded(EXCEEDED)
        return run(frame)

    return charged_run


def in_steps(steps: Sequence[tuple[int, Run]], last: Run) -> Run:
    """One after the other, each into a slot that the next reads."""

    def run(frame: Frame) -> Any:
        for slot, step in steps:
            frame[slot] = step(frame)
        return last(frame)

    return run


# ---- variables


def read(slot: int) -> Run:
    return lambda frame: frame[slot]


def read_global(slot: int, name: str) -> Run:
    def run(frame: Frame) -> Any:
        value = frame[slot]
        if value is ABSENT:
            raise EvaluationError(f"no such attribute(s): {name}")
        return value

    return run


def read_lazily(slot: int, value: Run) -> Run:
    """A binding: evaluated when it is first read, and never again."""

    def run(frame: Frame) -> Any:
        found = frame[slot]
        if found is _UNSET:
            try:
                found = frame[slot] = value(frame)
            except EvaluationError as error:
                found = frame[slot] = _Failed(error)
        if type(found) is _Failed:
            raise found.error
        return found

    return run


def bound(slot: int, body: Run) -> Run:
    def run(frame: Frame) -> Any:
        frame[slot] = _UNSET
        return body(frame)

    return run


def bound_at_once(slot: int, value: Run, cost: int, body: Run) -> Run:
    """cost: which is charged for the value already. All that it has cost goes to the next slot."""

    def run(frame: Frame) -> Any:
        before = frame[0] + cost
        frame[slot] = value(frame)
        frame[slot + 1] = before - frame[0]
        return body(frame)

    return run


def read_again(slot: int) -> Run:
    """Of a value that was bound at once, and costs as much again."""

    def run(frame: Frame) -> Any:
        spend(frame, frame[slot + 1])
        return frame[slot]

    return run


# ---- selections


def read_path(path: tuple[Any, ...]) -> Run:
    """`a.b.c` of plain maps, which nearly all are; what else it may be is found out if that fails."""
    variable, slot, first, *rest = path

    def slowly(frame: Frame) -> Any:
        value = variable(frame)
        for key in (first, *rest):
            value = _found(frame, field_of(value, key, key))
        return value

    # A string, a list and a number have no such items; only what is a map gets through.
    if not rest:

        def run(frame: Frame) -> Any:
            try:
                return frame[slot][first]
            except (KeyError, TypeError):
                return slowly(frame)

        return run
    if len(rest) == 1:
        second = rest[0]

        def run_two(frame: Frame) -> Any:
            try:
                return frame[slot][first][second]
            except (KeyError, TypeError):
                return slowly(frame)

        return run_two

    def run_many(frame: Frame) -> Any:
        try:
            value = frame[slot][first]
            for key in rest:
                value = value[key]
        except (KeyError, TypeError):
            return slowly(frame)
        return value

    return run_many


def select(operand: Run, key: str, name: str, *, is_optional: bool) -> Run:
    if is_optional:
        return lambda frame: _found(frame, optional_field_of(operand(frame), key))

    def run(frame: Frame) -> Any:
        value = operand(frame)
        try:
            return value[key]
        except (KeyError, TypeError):
            return _found(frame, field_of(value, key, name))

    return run


def _found(frame: Frame, value: Any) -> Any:
    """What a selection has found. Where that is optional, and nothing is there, it costs nothing."""
    if value is NONE:
        frame[0] += 1  # which has been charged before
    return value


def field_of(value: Any, key: str, name: str) -> Any:
    """name: as the expression has it."""
    if isinstance(value, Optional):
        return optional_field_of(value, key)
    if isinstance(value, Message):
        value = value.fields
    if isinstance(value, Mapping) and key in value:
        return value[key]
    raise EvaluationError(f"no such key: {name}")


def optional_field_of(value: Any, key: str) -> Optional:
    if isinstance(value, Optional):
        if not value.has_value:
            return NONE
        value = value.value
    if isinstance(value, Message):
        value = value.fields
    if not isinstance(value, Mapping):
        raise EvaluationError(f"no such key: {key}")
    return Optional(value[key]) if key in value else NONE


def has_field(operand: Run, key: str) -> Run:
    def run(frame: Frame) -> bool:
        value = operand(frame)
        if type(value) is dict:
            return key in value
        if isinstance(value, Optional):
            return optional_field_of(value, key).has_value
        if isinstance(value, Message):
            return key in value.fields
        return isinstance(value, Mapping) and key in value

    return run


def index(operand: Run, key: Run, *, is_optional: bool, of: Type) -> Run:
    if is_optional:
        return lambda frame: _found(frame, optional_item_of(operand(frame), key(frame)))
    if of.kind is Kind.MAP and of.key.kind is Kind.STRING:

        def run(frame: Frame) -> Any:
            found, at = operand(frame), key(frame)
            try:
                return found[at]
            except (KeyError, TypeError):
                return _found(frame, item_of(found, at))

        return run
    if of.kind is Kind.LIST:

        def run_list(frame: Frame) -> Any:
            found, at = operand(frame), key(frame)
            if type(at) is int and 0 <= at < len(found):
                return found[at]
            return item_of(found, at)

        return run_list
    return lambda frame: _found(frame, item_of(operand(frame), key(frame)))


def item_of(value: Any, at: Any) -> Any:
    found = _find(value, at)
    if found is not ABSENT:
        return found
    shown = "true" if at is True else "false" if at is False else at
    if isinstance(value, list):
        raise EvaluationError(f"index out of bounds: {shown}")
    raise EvaluationError(f"no such key: {shown}")


def optional_item_of(value: Any, at: Any) -> Optional:
    if isinstance(value, Optional):
        if not value.has_value:
            return NONE
        value = value.value
    found = _find(value, at)
    return NONE if found is ABSENT else Optional(found)


def _find(value: Any, at: Any) -> Any:
    """ABSENT if there is none."""
    if isinstance(value, list):
        place = _list_index(at)
        return value[place] if 0 <= place < len(value) else ABSENT
    if isinstance(value, Optional):
        return optional_item_of(value, at)
    if isinstance(value, Message):
        value = value.fields
    if isinstance(value, Mapping):
        return value.get(values.map_key(at), ABSENT)
    raise EvaluationError(NO_OVERLOAD)


def _list_index(at: Any) -> int:
    kind = type(at)
    if kind is int or kind is UInt:
        return int(at)
    if kind is float:
        if at.is_integer():
            return int(at)
        raise EvaluationError(f"unsupported index value {at} in list")
    raise EvaluationError(f"unsupported index type '{values.type_name(at)}' in list")


# ---- truth


def boolean(run: Run, *, is_bool: bool) -> Run:
    if is_bool:
        return run

    def checked(frame: Frame) -> bool:
        value = run(frame)
        if value is True or value is False:
            return value
        raise EvaluationError(NO_OVERLOAD)

    return checked


def conjunction(terms: Sequence[Run]) -> Run:
    """False if one term is, whatever errors others are; else the first error."""
    if len(terms) > 2:
        return _combined(terms, outweighing=False)
    left, right = terms

    def run(frame: Frame) -> Any:
        try:
            if not left(frame):
                return False
        except EvaluationError as error:
            failed = error
        else:
            return right(frame)
        try:
            if not right(frame):
                return False
        except EvaluationError:
            pass
        raise failed

    return run


def disjunction(terms: Sequence[Run]) -> Run:
    """True if one term is, whatever errors others are; else the first error."""
    return _combined(terms, outweighing=True)


def _combined(terms: Sequence[Run], *, outweighing: bool) -> Run:
    def run(frame: Frame) -> Any:
        failed: EvaluationError | None = None
        for term in terms:
            try:
                if term(frame) is outweighing:
                    return outweighing
            except EvaluationError as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return not outweighing

    return run


def conditional(condition: Run, then: Run, otherwise: Run) -> Run:
    return lambda frame: then(frame) if condition(frame) else otherwise(frame)


def alternative(optional: Run, other: Run, *, is_value: bool) -> Run:
    """What an optional has, or else another one or a value."""

    def run(frame: Frame) -> Any:
        found = optional(frame)
        if not isinstance(found, Optional):
            raise EvaluationError("no such overload")
        if not found.has_value:
            return other(frame)
        return found.value if is_value else found

    return run


# ---- equality and membership

_SIZED: Final = frozenset({Kind.STRING, Kind.BYTES, Kind.LIST, Kind.MAP})
_NUMBERS: Final = frozenset({Kind.INT, Kind.UINT, Kind.DOUBLE})
# Kinds of which no value has a size, so that comparing two costs one.
_SIZELESS: Final = SCALARS - _SIZED
# Texts up to this length cost one to compare, or nothing if either is empty.
_SHORT: Final = 10
_DEEP: Final = frozenset({list, SetList, MapList, dict, Message, Optional})


def equality(left: Run, right: Run, left_type: Type, right_type: Type, *, is_equal: bool) -> tuple[Run, int]:
    """How it is evaluated, and what it always costs."""
    kind, other = left_type.kind, right_type.kind
    if kind in _SIZELESS and (kind is other or (kind in _NUMBERS and other in _NUMBERS)):
        if is_equal:
            return (lambda frame: left(frame) == right(frame)), 1
        return (lambda frame: left(frame) != right(frame)), 1
    if kind is Kind.STRING and other is Kind.STRING:
        return _text_equality(left, right, is_equal=is_equal), 0
    if kind in _SIZELESS or other in _SIZELESS:
        if is_equal:
            return (lambda frame: values.equal(left(frame), right(frame))), 1
        return (lambda frame: not values.equal(left(frame), right(frame))), 1

    def run(frame: Frame) -> bool:
        try:
            x, y = left(frame), right(frame)
        except EvaluationError:
            spend(frame, OF_NOTHING)
            raise
        spend(frame, ceil(min(size_of(x), size_of(y)) * STRING_FACTOR))
        return _are_equal(frame, x, y) is is_equal

    return run, 0


def _are_equal(frame: Frame, x: Any, y: Any) -> bool:
    """Charges for what is in them, too, which cel-go does not."""
    if type(x) not in _DEEP:
        return values.equal(x, y)
    left = [values.COMPARISONS_MAX]
    try:
        return values.equal_within(x, y, left)
    finally:
        spend(frame, looking_at(values.COMPARISONS_MAX - left[0]))


def _text_equality(left: Run, right: Run, *, is_equal: bool) -> Run:
    def run(frame: Frame) -> bool:
        try:
            x, y = left(frame), right(frame)
        except EvaluationError:
            spend(frame, OF_NOTHING)
            raise
        length = min(len(x), len(y))
        if length:
            frame[0] -= 1 if length <= _SHORT else ceil(length * STRING_FACTOR)
        return (x == y) is is_equal

    return run


_PLAIN: Final = frozenset({Kind.STRING, Kind.INT, Kind.BYTES, Kind.UINT})
_HASHED: Final = frozenset({str, int, UInt, float, bytes, bool})


def membership(item: Run, container: Run, item_type: Type, container_type: Type) -> tuple[Run, int]:
    """How it is evaluated, and what it always costs."""
    if container_type.kind is Kind.LIST:
        # Python compares as the language does where no bool can be among numbers.
        is_plain = item_type.kind in _PLAIN and container_type.element.kind is item_type.kind

        def run(frame: Frame) -> bool:
            try:
                value, found = item(frame), container(frame)
            except EvaluationError:
                spend(frame, OF_NOTHING)
                raise
            spend(frame, len(found))
            return bool(value in found) if is_plain else _is_in(frame, value, found)

        return run, 0
    if container_type.kind is Kind.MAP:
        return (lambda frame: _is_key(item(frame), container(frame))), 1

    def run_any(frame: Frame) -> bool:
        try:
            value, found = item(frame), container(frame)
        except EvaluationError:
            spend(frame, OF_NOTHING)
            raise
        if not isinstance(found, list):
            spend(frame, 1)
            return _is_key(value, found)
        spend(frame, len(found))
        return _is_in(frame, value, found)

    return run_any, 0


def _is_in(frame: Frame, value: Any, items: list[Any]) -> bool:
    return any(_are_equal(frame, value, item) for item in items)


def is_plain(value: Any) -> bool:
    """Whether a value holds no others, and is equal to what Python takes for equal, but for bools."""
    return type(value) in _HASHED


def membership_of_constants(item: Run, item_type: Type, items: Sequence[Any]) -> Run:
    """In a list of plain values, which costs nothing."""
    known = frozenset(BoolKey(each) if type(each) is bool else each for each in items if each == each)
    if item_type.kind in _PLAIN:
        return lambda frame: item(frame) in known

    def run(frame: Frame) -> bool:
        value = item(frame)
        if type(value) is bool:
            return BoolKey(value) in known
        return type(value) in _HASHED and value in known

    return run


def _is_key(value: Any, container: Any) -> bool:
    if isinstance(container, Message):
        container = container.fields
    if isinstance(container, Mapping):
        try:
            return values.map_key(value) in container
        except EvaluationError:
            return False
    raise EvaluationError(NO_OVERLOAD)


# ---- calls


def call(function: Callable[..., Any], args: Sequence[Code]) -> Run:
    runs = [arg.run for arg in args]
    if len(runs) == 1:
        (only,) = runs
        return lambda frame: function(only(frame))
    if len(runs) == 2:
        first, second = runs
        if args[1].constant:
            (constant,) = args[1].constant
            return lambda frame: function(first(frame), constant)
        return lambda frame: function(first(frame), second(frame))
    return lambda frame: function(*[run(frame) for run in runs])


def _evaluated(frame: Frame, runs: Sequence[Run]) -> list[Any]:
    """Arguments of a call that is charged for once it is made."""
    try:
        return [each(frame) for each in runs]
    except EvaluationError:
        spend(frame, OF_NOTHING)
        raise


def priced_call(function: Callable[..., Any], price: Price, runs: Sequence[Run]) -> Run:
    """A call costs the same whether it succeeds or fails, or else failing would be free."""
    if price is costs.traversal and len(runs) == 2:
        return _reading_call(function, *runs)

    def run(frame: Frame) -> Any:
        args = _evaluated(frame, runs)
        try:
            result = function(*args)
        except EvaluationError:
            spend(frame, price(args, None))
            raise
        left = frame[0] - price(args, result)
        frame[0] = left
        if left < 0:
            raise CostExceeded(EXCEEDED)
        return result

    return run


def _reading_call(function: Callable[..., Any], first: Run, second: Run) -> Run:
    """Of which the price is for reading the first argument, a text."""

    def run(frame: Frame) -> Any:
        try:
            value = first(frame)
        except EvaluationError:
            spend(frame, OF_NOTHING)
            raise
        left = frame[0] - ceil(len(value) * STRING_FACTOR)
        frame[0] = left
        if left < 0:
            raise CostExceeded(EXCEEDED)
        return function(value, second(frame))

    return run


def search(text: Run, find: Callable[[str], bool], pattern_length: int) -> Run:
    """`matches` of a pattern that is known."""
    factor = ceil(pattern_length * REGEX_FACTOR)

    def run(frame: Frame) -> bool:
        try:
            value = text(frame)
        except EvaluationError:
            spend(frame, OF_NOTHING)
            raise
        left = frame[0] - ceil((1.0 + len(value)) * STRING_FACTOR) * factor
        frame[0] = left
        if left < 0:
            raise CostExceeded(EXCEEDED)
        return find(value)

    return run


_CLASSES: Final[Mapping[Kind, frozenset[type]]] = {
    Kind.NULL: frozenset({type(None)}),
    Kind.BOOL: frozenset({bool}),
    Kind.INT: frozenset({int}),
    Kind.UINT: frozenset({UInt}),
    Kind.DOUBLE: frozenset({float}),
    Kind.STRING: frozenset({str}),
    Kind.BYTES: frozenset({bytes}),
    Kind.TIMESTAMP: frozenset({Timestamp}),
    Kind.DURATION: frozenset({Duration}),
    Kind.LIST: frozenset({list, SetList, MapList}),
    Kind.MAP: frozenset({dict}),
    Kind.TYPE: frozenset({Type}),
    Kind.OPTIONAL: frozenset({Optional}),
    Kind.OBJECT: frozenset({dict, Message}),
}


def _fits(value: Any, type_: Type) -> bool:
    """Whether a value is of the type, as far as that shows without looking far into it."""
    if type_.kind is Kind.DYN or type_.kind is Kind.PARAMETER:
        return True
    if type_.kind is Kind.OPAQUE:
        own = getattr(value, "cel_type", None)
        return isinstance(own, Type) and own.name == type_.name
    if type(value) not in _CLASSES[type_.kind]:
        return False
    return type_.kind is not Kind.LIST or not value or _fits(value[0], type_.element)


def dispatched(name: str, overloads: Sequence[Overload], runs: Sequence[Run]) -> Run:
    """Which of the overloads is called shows only in the values. name: as an error has it, if at all."""

    def run(frame: Frame) -> Any:
        args = _evaluated(frame, runs)
        for overload in overloads:
            if all(map(_fits, args, overload.args)):
                break
        else:
            spend(frame, 1)
            signature = ", ".join(map(values.type_name, args))
            raise EvaluationError(f"{NO_OVERLOAD}: {name}({signature})" if name else NO_OVERLOAD)
        price = overload.price
        try:
            result = overload.call(*args)
        except EvaluationError:
            spend(frame, 1 if price is None else price(args, None))
            raise
        left = frame[0] - (1 if price is None else price(args, result))
        frame[0] = left
        if left < 0:
            raise CostExceeded(EXCEEDED)
        return result

    return run


# ---- literals


def make_list(items: Sequence[Run], optional: frozenset[int]) -> Run:
    if not optional:
        return lambda frame: [item(frame) for item in items]

    def run(frame: Frame) -> list[Any]:
        made = []
        for place, item in enumerate(items):
            value = item(frame)
            if place in optional:
                if not isinstance(value, Optional):
                    raise EvaluationError(
                        f"cannot initialize optional list element from non-optional value {value}"
                    )
                if not value.has_value:
                    continue
                value = value.value
            made.append(value)
        return made

    return run


def make_map(entries: Sequence[tuple[Run, Run, bool]]) -> Run:
    def run(frame: Frame) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for key_run, value_run, is_optional in entries:
            key = _literal_key(key_run(frame))
            value = value_run(frame)
            if is_optional and (value := _entry(key, value)) is ABSENT:
                continue
            if key in made:
                raise EvaluationError("Failed with repeated key")
            made[key] = value
        return made

    return run


def _literal_key(value: Any) -> Any:
    if type(value) is float:
        raise EvaluationError("unsupported key type: double")
    return values.map_key(value)


def _entry(key: Any, value: Any) -> Any:
    if not isinstance(value, Optional):
        raise EvaluationError(f"cannot initialize optional entry '{key}' from non-optional value {value}")
    return value.value if value.has_value else ABSENT


def make_message(type_: Type, entries: Sequence[tuple[str, Run, bool]]) -> Run:
    def run(frame: Frame) -> Message:
        made = {}
        for key, value_run, is_optional in entries:
            value = value_run(frame)
            if is_optional and (value := _entry(key, value)) is ABSENT:
                continue
            made[key] = value
        return Message(type_, made)

    return run
