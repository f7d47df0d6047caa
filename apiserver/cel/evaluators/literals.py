"""Evaluators of lists, maps and messages that an expression makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apiserver.cel import values
from apiserver.cel.evaluators.frames import ABSENT, Evaluator, Frame
from apiserver.cel.types import Type
from apiserver.cel.values import EvaluationError, Message, OptionalValue


def make_list(items: Sequence[Evaluator], optional: frozenset[int]) -> Evaluator:
    if not optional:
        return lambda frame: [item(frame) for item in items]

    def evaluate(frame: Frame) -> list[Any]:
        made = []
        for place, item in enumerate(items):
            value = item(frame)
            if place in optional:
                if not isinstance(value, OptionalValue):
                    raise EvaluationError(
                        f"cannot initialize optional list element from non-optional value {value}"
                    )
                if not value.has_value:
                    continue
                value = value.value
            made.append(value)
        return made

    return evaluate


def make_map(entries: Sequence[tuple[Evaluator, Evaluator, bool]]) -> Evaluator:
    def evaluate(frame: Frame) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for evaluate_key, evaluate_value, is_optional in entries:
            key = _literal_key(evaluate_key(frame))
            value = evaluate_value(frame)
            if is_optional and (value := _entry(key, value)) is ABSENT:
                continue
            if key in made:
                raise EvaluationError("Failed with repeated key")
            made[key] = value
        return made

    return evaluate


def _literal_key(value: Any) -> Any:
    if type(value) is float:
        raise EvaluationError("unsupported key type: double")
    return values.map_key(value)


def _entry(key: Any, value: Any) -> Any:
    if not isinstance(value, OptionalValue):
        raise EvaluationError(f"cannot initialize optional entry '{key}' from non-optional value {value}")
    return value.value if value.has_value else ABSENT


def make_message(type_: Type, entries: Sequence[tuple[str, Evaluator, bool]]) -> Evaluator:
    def evaluate(frame: Frame) -> Message:
        made = {}
        for key, evaluate_value, is_optional in entries:
            value = evaluate_value(frame)
            if is_optional and (value := _entry(key, value)) is ABSENT:
                continue
            made[key] = value
        return Message(type_, made)

    return evaluate
