"""Evaluators of comprehensions, the loops of macros.

An iteration costs as much as cel-go's accumulator: reading it, testing it, adding to it. Its initial value is
a constant, such as the empty list, and is free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from apiserver.cel import values
from apiserver.cel.evaluators.frames import BUDGET, Evaluator, Frame
from apiserver.cel.functions import LIST_COST
from apiserver.cel.syntax import Macro
from apiserver.cel.types import Type, TypeKind
from apiserver.cel.values import LIST_CLASSES, NO_SUCH_OVERLOAD, CostExceeded, EvaluationError


class LoopPart(NamedTuple):
    """A condition or a result of a loop, and its constant cost."""

    evaluate: Evaluator
    cost: int
    is_constant: bool = False


class Iteration(NamedTuple):
    """The iteration of a loop over a value.

    items: returns the values of the first variable; a second one is set with it.
    slot: that of the first variable.
    """

    items: Callable[[Frame], Iterator[Any]]
    slot: int


_END: Final = object()
_READ_COST: Final = 1
_CALL_COST: Final = 1


def iteration(range_: Evaluator, slots: Sequence[int], *, of: Type) -> Iteration:
    if len(slots) == 2:
        return Iteration(_pairs(range_, slots[1]), slots[0])
    if of.kind is TypeKind.LIST:
        return Iteration(lambda frame: iter(range_(frame)), slots[0])
    return Iteration(lambda frame: iter(_items(range_(frame))), slots[0])


def _items(value: Any) -> Iterable[Any]:
    if isinstance(value, LIST_CLASSES):
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


LoopCompiler: TypeAlias = Callable[[Iteration, LoopPart | None, LoopPart | None], tuple[Evaluator, int]]


def _until(
    iteration: Iteration, condition: LoopPart | None, result: LoopPart | None, *, verdict: bool, test: int
) -> tuple[Evaluator, int]:
    """Returns the evaluator that iterates until the condition is the verdict; errors before do not count.

    test: the cost of testing whether to go on.
    """
    assert condition is not None
    (items, slot), (holds, cost, _) = iteration, condition
    iteration_cost = test + _READ_COST + cost

    def evaluate(frame: Frame) -> Any:
        failed: EvaluationError | None = None
        found = items(frame)
        for item in found:
            frame[slot] = item
            left = frame[BUDGET] - iteration_cost
            frame[BUDGET] = left
            if left < 0:
                raise CostExceeded
            try:
                if holds(frame) is not verdict:
                    continue
            except EvaluationError as error:
                failed = failed or error
                continue
            if next(found, _END) is not _END:
                frame[BUDGET] -= test
            return verdict
        if failed is not None:
            raise failed
        return not verdict

    return evaluate, _READ_COST


def _exists_one(
    iteration: Iteration, condition: LoopPart | None, result: LoopPart | None
) -> tuple[Evaluator, int]:
    assert condition is not None
    (items, slot), (holds, cost, _) = iteration, condition

    def evaluate(frame: Frame) -> bool:
        count = 0
        for item in items(frame):
            frame[slot] = item
            left = frame[BUDGET] - cost
            frame[BUDGET] = left
            if left < 0:
                raise CostExceeded
            if holds(frame):
                count += 1
                frame[BUDGET] -= _READ_COST + _CALL_COST
        return count == 1

    return evaluate, _READ_COST + _CALL_COST


def _filter(
    iteration: Iteration, condition: LoopPart | None, result: LoopPart | None
) -> tuple[Evaluator, int]:
    slot = iteration.slot
    return _list(iteration, condition, LoopPart(lambda frame: frame[slot], _READ_COST))


def _list(iteration: Iteration, condition: LoopPart | None, result: LoopPart | None) -> tuple[Evaluator, int]:
    assert result is not None
    (items, slot), (make, cost, is_constant) = iteration, result
    # What is added is a list of one, which is there already if that is a constant.
    adding = _READ_COST + cost + (0 if is_constant else LIST_COST) + _CALL_COST
    if condition is None:
        # A separate loop: testing in each iteration whether there is a condition takes 5 % of the time.
        def evaluate_all(frame: Frame) -> list[Any]:
            made = []
            for item in items(frame):
                frame[slot] = item
                left = frame[BUDGET] - adding
                frame[BUDGET] = left
                if left < 0:
                    raise CostExceeded
                made.append(make(frame))
            return made

        return evaluate_all, _READ_COST
    holds, test, _ = condition

    def evaluate(frame: Frame) -> list[Any]:
        made = []
        for item in items(frame):
            frame[slot] = item
            left = frame[BUDGET] - test
            frame[BUDGET] = left
            if left < 0:
                raise CostExceeded
            if holds(frame):
                frame[BUDGET] -= adding
                made.append(make(frame))
        return made

    return evaluate, _READ_COST


def _map(iteration: Iteration, condition: LoopPart | None, result: LoopPart | None) -> tuple[Evaluator, int]:
    """Returns the evaluator of a map of the results, whose keys are the first variable."""
    assert result is not None
    slot = iteration.slot
    make, cost, _ = result
    return _entries(
        iteration, condition, lambda frame: {values.map_key(frame[slot]): make(frame)}, cost + _READ_COST
    )


def _merged(
    iteration: Iteration, condition: LoopPart | None, result: LoopPart | None
) -> tuple[Evaluator, int]:
    """Returns the evaluator that merges the results, which are maps."""
    assert result is not None
    return _entries(iteration, condition, result.evaluate, result.cost)


def _entries(
    iteration: Iteration, condition: LoopPart | None, make: Evaluator, cost: int
) -> tuple[Evaluator, int]:
    items, slot = iteration
    holds, test = (None, 0) if condition is None else condition[:2]
    adding = _READ_COST + cost + _CALL_COST

    def evaluate(frame: Frame) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for item in items(frame):
            frame[slot] = item
            left = frame[BUDGET] - test
            frame[BUDGET] = left
            if left < 0:
                raise CostExceeded
            if holds is not None and not holds(frame):
                continue
            frame[BUDGET] -= adding
            entries = make(frame)
            if not isinstance(entries, Mapping):
                raise EvaluationError(NO_SUCH_OVERLOAD)
            for key, value in entries.items():
                if key in made:
                    raise EvaluationError(f"insert failed: key {values.key_value(key)} already exists")
                made[key] = value
        return made

    return evaluate, _READ_COST


LOOPS: Final[Mapping[Macro, LoopCompiler]] = {
    "all": partial(_until, verdict=False, test=_READ_COST + _CALL_COST),
    "exists": partial(_until, verdict=True, test=_READ_COST + _CALL_COST + _CALL_COST),
    "existsOne": _exists_one,
    "filter": _filter,
    "map": _list,
    "transformList": _list,
    "transformMap": _map,
    "transformMapEntry": _merged,
}
