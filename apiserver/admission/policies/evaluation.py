"""What a validating policy says about one write with one set of parameters. Pure.

Source: k8s.io/apiserver, pkg/admission/plugin/policy/validating/validator.go and pkg/admission/plugin/cel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from apiserver.admission.policies.budget import (
    OUT_OF_BUDGET,
    Budget,
    ConditionsFailed,
    PolicyVariables,
    meets_conditions,
    resulted_in,
)
from apiserver.admission.policies.policy import Expression, ValidatingPolicy, Validation
from apiserver.cel.admission import PARAMS, VARIABLES
from apiserver.cel.values import CostExceeded, EvaluationError

MESSAGE_LENGTH_MAX: Final = 5 * 1024


class Denial(NamedTuple):
    """Why a write is not allowed.

    reason: as a Status has it. is_error: an expression has failed.
    is_ignored: the policy's failurePolicy lets the write pass.
    is_final: it refuses the write whatever the binding's actions are.
    """

    message: str
    reason: str = "Invalid"
    is_error: bool = False
    is_ignored: bool = False
    is_final: bool = False


def denials(
    policy: ValidatingPolicy, variables: Mapping[str, Any], params: Any, budget: Budget
) -> list[Denial]:
    """Returns why a policy does not allow a write; nothing if it does.

    variables: those of the request. params: the object that a binding refers to; None if there is none.
    Raises TakesLong.
    """
    known = dict(variables)
    if policy.params is not None:
        known[PARAMS] = params
    try:
        if not meets_conditions(policy, known, budget):
            return []
    except ConditionsFailed as failed:
        return [Denial(str(failed), is_error=True)]
    if policy.variables:
        known[VARIABLES] = PolicyVariables(policy.variables, budget, known)
    found: list[Denial] = []
    for validation in policy.validations:
        denial = _validated(policy, validation, known, budget)
        if denial is not None:
            found.append(denial)
    for annotation in policy.audit_annotations:
        error = _error(annotation, known, budget)
        if error and policy.is_required:
            found.append(Denial(error, is_error=True, is_final=True))
    return found


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
    """Returns what a client is told. An expression for it that fails, or gives no line, does not count."""
    expression = validation.message_expression
    if expression is not None and expression.program is not None:
        try:
            text = budget.evaluate(expression, known)
        except (EvaluationError, CostExceeded):
            text = ""
        text = text.strip() if isinstance(text, str) and len(text) <= MESSAGE_LENGTH_MAX else ""
        if text and "\n" not in text:
            return text
    return validation.message or f"failed expression: {validation.expression.text}"


def _error(expression: Expression, known: Mapping[str, Any], budget: Budget) -> str:
    """Returns why an expression has no value; empty if it has one."""
    if expression.program is None:
        return f"compilation error: {expression.error}"
    try:
        budget.evaluate(expression, known)
    except (EvaluationError, CostExceeded) as failure:
        return resulted_in(expression, failure)
    return ""
