"""Variables: what an expression is given, and what it binds itself."""

from __future__ import annotations

from typing import Any

from apiserver.cel.evaluators.frames import ABSENT, UNSET, Evaluator, Frame, spend
from apiserver.cel.values import EvaluationError


class _Failed:
    """Stands in a frame for a value that there is none of."""

    __slots__ = ("error",)

    def __init__(self, error: EvaluationError) -> None:
        self.error = error


def read(slot: int) -> Evaluator:
    return lambda frame: frame[slot]


def read_global(slot: int, name: str) -> Evaluator:
    def run(frame: Frame) -> Any:
        value = frame[slot]
        if value is ABSENT:
            raise EvaluationError(f"no such attribute(s): {name}")
        return value

    return run


def read_lazily(slot: int, value: Evaluator) -> Evaluator:
    """A binding: evaluated when it is first read, and never again."""

    def run(frame: Frame) -> Any:
        found = frame[slot]
        if found is UNSET:
            try:
                found = frame[slot] = value(frame)
            except EvaluationError as error:
                found = frame[slot] = _Failed(error)
        if type(found) is _Failed:
            raise found.error
        return found

    return run


def bound(slot: int, body: Evaluator) -> Evaluator:
    def run(frame: Frame) -> Any:
        frame[slot] = UNSET
        return body(frame)

    return run


def bound_at_once(slot: int, value: Evaluator, cost: int, body: Evaluator) -> Evaluator:
    """cost: which is charged for the value already. All that it has cost goes to the next slot."""

    def run(frame: Frame) -> Any:
        before = frame[0] + cost
        frame[slot] = value(frame)
        frame[slot + 1] = before - frame[0]
        return body(frame)

    return run


def read_again(slot: int) -> Evaluator:
    """Of a value that was bound at once, and costs as much again."""

    def run(frame: Frame) -> Any:
        spend(frame, frame[slot + 1])
        return frame[slot]

    return run
