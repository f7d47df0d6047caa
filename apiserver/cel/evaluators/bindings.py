"""Evaluators that read variables: those of the environment, and those that an expression binds."""

from __future__ import annotations

from typing import Any

from apiserver.cel.evaluators.frames import ABSENT, BUDGET, UNSET, Evaluator, Frame, charge
from apiserver.cel.values import EvaluationError


class _Failed:
    """Marks a slot of a frame whose value could not be evaluated."""

    __slots__ = ("error",)

    def __init__(self, error: EvaluationError) -> None:
        self.error = error


def read(slot: int) -> Evaluator:
    return lambda frame: frame[slot]


def read_global(slot: int, name: str) -> Evaluator:
    def evaluate(frame: Frame) -> Any:
        value = frame[slot]
        if value is ABSENT:
            raise EvaluationError(f"no such attribute(s): {name}")
        return value

    return evaluate


def read_lazily(slot: int, value: Evaluator) -> Evaluator:
    """Returns the evaluator of a binding, which evaluates it at the first read."""

    def evaluate(frame: Frame) -> Any:
        found = frame[slot]
        if found is UNSET:
            try:
                found = frame[slot] = value(frame)
            except EvaluationError as error:
                found = frame[slot] = _Failed(error)
        if type(found) is _Failed:
            raise found.error
        return found

    return evaluate


def bound(slot: int, body: Evaluator) -> Evaluator:
    def evaluate(frame: Frame) -> Any:
        frame[slot] = UNSET
        return body(frame)

    return evaluate


def bound_at_once(slot: int, value: Evaluator, cost: int, body: Evaluator) -> Evaluator:
    """Returns the evaluator that binds a value at once, and stores its cost in the next slot.

    cost: the cost that was already charged for the value.
    """

    def evaluate(frame: Frame) -> Any:
        before = frame[BUDGET] + cost
        frame[slot] = value(frame)
        frame[slot + 1] = before - frame[BUDGET]
        return body(frame)

    return evaluate


def read_again(slot: int) -> Evaluator:
    """Returns the evaluator that reads a value bound at once, which costs as much again."""

    def evaluate(frame: Frame) -> Any:
        charge(frame, frame[slot + 1])
        return frame[slot]

    return evaluate
