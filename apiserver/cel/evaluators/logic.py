"""What decides what is evaluated: `&&`, `||`, `?:`, `or`, `orValue`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apiserver.cel.evaluators.frames import NO_OVERLOAD, Evaluator, Frame
from apiserver.cel.values import EvaluationError, Optional


def boolean(run: Evaluator, *, is_bool: bool) -> Evaluator:
    if is_bool:
        return run

    def checked(frame: Frame) -> bool:
        value = run(frame)
        if value is True or value is False:
            return value
        raise EvaluationError(NO_OVERLOAD)

    return checked


def conjunction(terms: Sequence[Evaluator]) -> Evaluator:
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


def disjunction(terms: Sequence[Evaluator]) -> Evaluator:
    """True if one term is, whatever errors others are; else the first error."""
    return _combined(terms, outweighing=True)


def _combined(terms: Sequence[Evaluator], *, outweighing: bool) -> Evaluator:
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


def conditional(condition: Evaluator, then: Evaluator, otherwise: Evaluator) -> Evaluator:
    return lambda frame: then(frame) if condition(frame) else otherwise(frame)


def alternative(optional: Evaluator, other: Evaluator, *, is_value: bool) -> Evaluator:
    """What an optional has, or else another one or a value."""

    def run(frame: Frame) -> Any:
        found = optional(frame)
        if not isinstance(found, Optional):
            raise EvaluationError(NO_OVERLOAD)
        if not found.has_value:
            return other(frame)
        return found.value if is_value else found

    return run
