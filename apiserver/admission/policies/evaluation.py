"""Evaluates a validating policy on one write with one set of parameters. Pure.

Source: k8s.io/apiserver, pkg/admission/plugin/policy/validating/validator.go and pkg/admission/plugin/cel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from apiserver.admission.policies.budget import (
    OUT_OF_BUDGET,
    Budget,
    ConditionsCheck,
    PolicyVariables,
    check_conditions,
    resulted_in,
)
from apiserver.admission.policies.policy import Expression, ValidatingPolicy, Validation
from apiserver.cel.admission import PARAMS, VARIABLES
from apiserver.cel.costs import PER_CALL_LIMIT
from apiserver.cel.values import CostExceeded, EvaluationError
from apiserver.meta.names import byte_length

MESSAGE_BYTES_MAX: Final = 5 * 1024
# A longer annotation is cut.
ANNOTATION_BYTES_MAX: Final = 10 * 1024


class Denial(NamedTuple):
    """The reason why a policy does not allow a write.

    reason: that of the Status. is_error: whether an expression has failed.
    is_ignored: whether the policy's failurePolicy allows the write.
    is_final: whether it refuses the write regardless of the binding's actions.
    number: that of the validation, from 0.
    """

    message: str
    reason: str = "Invalid"
    is_error: bool = False
    is_ignored: bool = False
    is_final: bool = False
    number: int = 0


class Evaluation(NamedTuple):
    """The result of a policy for a write. denials: why the write is not allowed; empty if it is.

    annotations: those for the audit event, by key.
    conditions: their outcome; None if the policy has none.
    """

    denials: Sequence[Denial] = ()
    annotations: Sequence[tuple[str, str]] = ()
    conditions: ConditionsCheck | None = None


_NOTHING: Final = Evaluation()


def holds(policy: ValidatingPolicy, variables: Mapping[str, Any], budget: Budget) -> bool:
    """Returns whether a policy allows a write, if that can be decided quickly.

    If not, the budget is unchanged, and `evaluate` decides. Most policies are a few short expressions that
    are true: evaluating them takes no longer than finding out what else a policy has.
    """
    left, bounded = budget.left, budget.bounded
    for program in policy.plain:
        limit = left if left < PER_CALL_LIMIT else PER_CALL_LIMIT
        if bounded is not None and bounded < limit:
            limit = bounded
        try:
            value, cost = program(variables, limit)
        except (EvaluationError, CostExceeded):
            return False
        if value is not True:
            return False
        left -= cost
        if bounded is not None:
            bounded -= cost
    budget.left, budget.bounded = left, bounded
    return bool(policy.plain)


def evaluate(
    policy: ValidatingPolicy, variables: Mapping[str, Any], params: Any, budget: Budget
) -> Evaluation:
    """Returns the result of a policy for a write.

    variables: those of the request. params: the object that a binding refers to; None if there is none.
    Raises TakesLong.
    """
    known = variables
    if policy.params is not None:
        known = {**known, PARAMS: params}
    conditions: ConditionsCheck | None = None
    if policy.conditions:
        conditions = check_conditions(policy, known, budget)
        if not conditions.is_met:
            failure = conditions.failure
            return Evaluation([Denial(failure, is_error=True)] if failure else (), (), conditions)
    if policy.variables:
        # They see each other.
        own = known = {**known}
        own[VARIABLES] = PolicyVariables(policy.variables, budget, own)
    found: list[Denial] = []
    for number, validation in enumerate(policy.validations):
        denial = _validated(policy, validation, known, budget)
        if denial is not None:
            found.append(denial._replace(number=number) if number else denial)
    annotations: list[tuple[str, str]] = []
    for key, expression in policy.audit_annotations:
        value, error = _annotation(expression, known, budget)
        if error and policy.is_required:
            found.append(Denial(error, is_error=True, is_final=True))
        elif value:
            annotations.append((key, _cut(value)))
    if found or annotations or conditions is not None:
        return Evaluation(found, annotations, conditions)
    return _NOTHING


def _validated(
    policy: ValidatingPolicy, validation: Validation, known: Mapping[str, Any], budget: Budget
) -> Denial | None:
    expression = validation.expression
    if expression.program is None:
        error = f"compilation error: {expression.error}"
    elif budget.left <= 0:
        error = OUT_OF_BUDGET
    else:
        try:
            if budget.evaluate(expression, known) is True:
                return None
            return Denial(_message(validation, known, budget), validation.reason)
        except (EvaluationError, CostExceeded) as failure:
            error = resulted_in(expression, failure)
    return Denial(error, is_error=True, is_ignored=not policy.is_required)


def _message(validation: Validation, known: Mapping[str, Any], budget: Budget) -> str:
    """Returns the message for the client. A message expression that fails, or does not return a line, is
    ignored.
    """
    expression = validation.message_expression
    if expression is not None and expression.program is not None:
        try:
            text = budget.evaluate(expression, known)
        except (EvaluationError, CostExceeded):
            text = ""
        text = text.strip() if isinstance(text, str) else ""
        if text and "\n" not in text and byte_length(text) <= MESSAGE_BYTES_MAX:
            return text
    return validation.message or f"failed expression: {validation.expression.text}"


def _cut(annotation: str) -> str:
    """Returns the characters that fit, dropping a partial last one, which Kubernetes shows as U+FFFD."""
    if byte_length(annotation) <= ANNOTATION_BYTES_MAX:
        return annotation
    return annotation.encode()[:ANNOTATION_BYTES_MAX].decode(errors="ignore")


def _annotation(expression: Expression, known: Mapping[str, Any], budget: Budget) -> tuple[str, str]:
    """Returns the value of an audit annotation, empty for none, and the error if it has no value."""
    if expression.program is None:
        return "", f"compilation error: {expression.error}"
    try:
        value = budget.evaluate(expression, known)
    except (EvaluationError, CostExceeded) as failure:
        return "", resulted_in(expression, failure)
    return (value.strip() if isinstance(value, str) else ""), ""
