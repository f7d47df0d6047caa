"""Evaluators of operators that evaluate only some operands: `&&`, `||`, `?:`, `or`, `orValue`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apiserver.cel.evaluators.frames import Evaluator, Frame
from apiserver.cel.values import NO_SUCH_OVERLOAD, EvaluationError, OptionalValue


def boolean(evaluate: Evaluator, *, is_bool: bool) -> Evaluator:
    if is_bool:
        return evaluate

    def checked(frame: Frame) -> bool:
        value = evaluate(frame)
        if value is True or value is False:
            return value
        raise EvaluationError(NO_SUCH_OVERLOAD)

    return checked


def conjunction(terms: Sequence[Evaluator]) -> Evaluator:
    """Returns the evaluator of `&&`: false if a term is false, else the first error."""
    if len(terms) > 2:
        return _combined(terms, outweighing=False)
    left, right = terms

    def evaluate(frame: Frame) -> Any:
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

    return evaluate


def disjunction(terms: Sequence[Evaluator]) -> Evaluator:
    """Returns the evaluator of `||`: true if a term is true, else the first error."""
    return _combined(terms, outweighing=True)


def _combined(terms: Sequence[Evaluator], *, outweighing: bool) -> Evaluator:
    def evaluate(frame: Frame) -> Any:
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

    return evaluate


def conditional(condition: Evaluator, then: Evaluator, otherwise: Evaluator) -> Evaluator:
    return lambda frame: then(frame) if condition(frame) else otherwise(frame)


def alternative(optional: Evaluator, other: Evaluator, *, is_value: bool) -> Evaluator:
    """Returns the evaluator of `or` and `orValue`: the value of an optional, or else the alternative."""

    def evaluate(frame: Frame) -> Any:
        found = optional(frame)
        if not isinstance(found, OptionalValue):
            raise EvaluationError(NO_SUCH_OVERLOAD)
        if not found.has_value:
            return other(frame)
        return found.value if is_value else found

    return evaluate
