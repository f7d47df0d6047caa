"""The loops that macros make.

What a turn costs is what cel-go's accumulator costs it: reading it, testing it, adding to it. That it begins
as a constant, the empty list for one, costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from apiserver.cel import values
from apiserver.cel.evaluators.frames import EXCEEDED, NO_OVERLOAD, Evaluator, Frame
from apiserver.cel.functions import LIST_COST
from apiserver.cel.syntax import Macro
from apiserver.cel.types import Kind, Type
from apiserver.cel.values import CostExceeded, EvaluationError


class Part(NamedTuple):
    """A condition or a result, and what it always costs."""

    run: Evaluator
    cost: int
    is_constant: bool = False


class Iteration(NamedTuple):
    """items: of a frame, what the first variable becomes in each turn; a second is set with it.

    slot: of the first variable.
    """

    items: Callable[[Frame], Iterator[Any]]
    slot: int


_END: Final = object()
_READ: Final = 1
_CALL_COST: Final = 1


def turns(range_: Evaluator, slots: Sequence[int], *, of: Type) -> Iteration:
    if len(slots) == 2:
        return Iteration(_pairs(range_, slots[1]), slots[0])
    if of.kind is Kind.LIST:
        return Iteration(lambda frame: iter(range_(frame)), slots[0])
    return Iteration(lambda frame: iter(_items(range_(frame))), slots[0])


def _items(value: Any) -> Iterable[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, Mapping):
        return [values.key_value(key) for key in value]
    raise EvaluationError(f"got '{values.type_name(value)}', expected iterable type")


def _pairs(range_: Evaluator, slot: int) -> Callable[[Frame], Iterator[Any]]:
    def items(frame: Frame) -> Iterator[Any]:
        value = range_(frame)
        if isinstance(value, Mapping):
            for key, item in value.items():
                frame[slot] = item
                yield values.key_value(key)
        else:
            for place, item in enumerate(_items(value)):
                frame[slot] = item
                yield place

    return items


LoopCompiler: TypeAlias = Callable[[Iteration, Part | None, Part | None], tuple[Evaluator, int]]


def _all(turns: Iteration, condition: Part | None, result: Part | None) -> tuple[Evaluator, int]:
    return _until(turns, condition, verdict=False, test=_READ + _CALL_COST)


def _exists(turns: Iteration, condition: Part | None, result: Part | None) -> tuple[Evaluator, int]:
    return _until(turns, condition, verdict=True, test=_READ + _CALL_COST + _CALL_COST)


def _until(turns: Iteration, condition: Part | None, *, verdict: bool, test: int) -> tuple[Evaluator, int]:
    """Turns until the condition is the verdict, which outweighs errors. test: of whether to go on."""
    assert condition is not None
    (items, slot), (holds, cost, _) = turns, condition
    turn = test + _READ + cost

    def run(frame: Frame) -> Any:
        failed: EvaluationError | None = None
        found = items(frame)
        for item in found:
            frame[slot] = item
            left = frame[0] - turn
            frame[0] = left
            if left < 0:
                raise CostExceeded(EXCEEDED)
            try:
                if holds(frame) is not verdict:
                    continue
            except EvaluationError as error:
                failed = failed or error
                continue
            if next(found, _END) is not _END:
                frame[0] -= test
            return verdict
        if failed is not None:
            raise failed
        return not verdict

    return run, _READ


def _exists_one(turns: Iteration, condition: Part | None, result: Part | None) -> tuple[Evaluator, int]:
    assert condition is not None
    (items, slot), (holds, cost, _) = turns, condition

    def run(frame: Frame) -> bool:
        count = 0
        for item in items(frame):
            frame[slot] = item
            left = frame[0] - cost
            frame[0] = left
            if left < 0:
                raise CostExceeded(EXCEEDED)
            if holds(frame):
                count += 1
                frame[0] -= _READ + _CALL_COST
        return count == 1

    return run, _READ + _CALL_COST


def _filter(turns: Iteration, condition: Part | None, result: Part | None) -> tuple[Evaluator, int]:
    slot = turns.slot
    return _list(turns, condition, Part(lambda frame: frame[slot], _READ))


def _list(turns: Iteration, condition: Part | None, result: Part | None) -> tuple[Evaluator, int]:
    """Whatever the loop makes, in a list."""
    assert result is not None
    (items, slot), (make, cost, is_constant) = turns, result
    # What is added is a list of one, which is there already if that is a constant.
    adding = _READ + cost + (0 if is_constant else LIST_COST) + _CALL_COST
    if condition is None:
        # A loop of its own: to ask in each turn whether there is a condition takes a twentieth of it.
        def evaluate_all(frame: Frame) -> list[Any]:
            made = []
            for item in items(frame):
                frame[slot] = item
                left = frame[0] - adding
                frame[0] = left
                if left < 0:
                    raise CostExceeded(EXCEEDED)
                made.append(make(frame))
            return made

        return evaluate_all, _READ
    holds, test, _ = condition

    def run(frame: Frame) -> list[Any]:
        made = []
        for item in items(frame):
            frame[slot] = item
            left = frame[0] - test
            frame[0] = left
            if left < 0:
                raise CostExceeded(EXCEEDED)
            if holds(frame):
                frame[0] -= adding
                made.append(make(frame))
        return made

    return run, _READ


def _map(turns: Iteration, condition: Part | None, result: Part | None) -> tuple[Evaluator, int]:
    """The first variable is each one's key."""
    assert result is not None
    slot = turns.slot
    make, cost, _ = result
    return _entries(turns, condition, lambda frame: {values.map_key(frame[slot]): make(frame)}, cost + _READ)


def _merged(turns: Iteration, condition: Part | None, result: Part | None) -> tuple[Evaluator, int]:
    """What the loop makes are maps themselves."""
    assert result is not None
    return _entries(turns, condition, result.run, result.cost)


def _entries(turns: Iteration, condition: Part | None, make: Evaluator, cost: int) -> tuple[Evaluator, int]:
    items, slot = turns
    holds, test = (None, 0) if condition is None else condition[:2]
    adding = _READ + cost + _CALL_COST

    def run(frame: Frame) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for item in items(frame):
            frame[slot] = item
            left = frame[0] - test
            frame[0] = left
            if left < 0:
                raise CostExceeded(EXCEEDED)
            if holds is not None and not holds(frame):
                continue
            frame[0] -= adding
            entries = make(frame)
            if not isinstance(entries, Mapping):
                raise EvaluationError(NO_OVERLOAD)
            for key, value in entries.items():
                if key in made:
                    raise EvaluationError(f"insert failed: key {values.key_value(key)} already exists")
                made[key] = value
        return made

    return run, _READ


LOOPS: Final[Mapping[Macro, LoopCompiler]] = {
    "all": _all,
    "exists": _exists,
    "existsOne": _exists_one,
    "filter": _filter,
    "map": _list,
    "transformList": _list,
    "transformMap": _map,
    "transformMapEntry": _merged,
}
