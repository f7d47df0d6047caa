"""What a policy says about one write with one set of parameters. Pure.

Source: k8s.io/apiserver, pkg/admission/plugin/policy/validating/validator.go and pkg/admission/plugin/cel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from apiserver.admission.policies.policy import Expression, Policy, Validation
from apiserver.cel.admission import PARAMS, VARIABLES
from apiserver.cel.costs import PER_CALL_LIMIT
from apiserver.cel.values import CostExceeded, EvaluationError
from apiserver.registry.findings import TakesLong

# Of all expressions of a policy together, for one request. kube-apiserver: RuntimeCELCostBudget.
COST_BUDGET: Final = 10_000_000
# The cost that is evaluated on the event loop, for one write: about 5 ms.
BOUNDED_COST_MAX: Final = 20_000
MESSAGE_LENGTH_MAX: Final = 5 * 1024
_OUT_OF_BUDGET: Final = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)


class Denial(NamedTuple):
    """Why a write is not allowed. reason: as a Status has it. is_error: an expression has failed."""

    message: str
    reason: str = "Invalid"
    is_error: bool = False


class Budget:
    """What evaluations may still cost.

    bounded: how much of it may be spent where others wait; None: all.
    """

    def __init__(self, total: int, bounded: int | None) -> None:
        self.left = total
        self.bounded = bounded

    @property
    def of_call(self) -> int:
        most = min(self.left, PER_CALL_LIMIT)
        return most if self.bounded is None else min(most, self.bounded)

    def spend(self, cost: int) -> None:
        self.left -= cost
        if self.bounded is not None:
            self.bounded -= cost

    def evaluate(self, expression: Expression, variables: Mapping[str, Any]) -> Any:
        """Raises EvaluationError, CostExceeded; TakesLong if it costs more than may be spent here."""
        assert expression.program is not None
        limit = self.of_call
        try:
            value, cost = expression.program(variables, limit)
        except EvaluationError as error:
            self.spend(error.cost)
            raise
        except CostExceeded:
            self.spend(limit)
            if self.bounded is not None and self.bounded <= 0:
                raise TakesLong from None
            raise
        self.spend(cost)
        return value


class _Variables(dict[str, Any]):
    """The variables of a policy: each is evaluated when it is first used."""

    def __init__(
        self, expressions: Sequence[tuple[str, Expression]], budget: Budget, others: dict[str, Any]
    ) -> None:
        super().__init__()
        self._expressions = dict(expressions)
        self._budget = budget
        self._others = others
        self._failed: dict[str, str] = {}

    def __missing__(self, name: str) -> Any:
        if name in self._failed:
            raise EvaluationError(self._failed[name])
        expression = self._expressions[name]
        try:
            if expression.program is None:
                raise EvaluationError(expression.error)
            value = self._budget.evaluate(expression, self._others)
        except (EvaluationError, CostExceeded) as error:
            text = f'composited variable "{name}" fails to evaluate: {error}'
            self._failed[name] = text
            raise EvaluationError(text) from None
        self[name] = value
        return value

    def __contains__(self, name: object) -> bool:
        return name in self._expressions

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self._expressions else default


def denials(policy: Policy, variables: Mapping[str, Any], params: Any, budget: Budget) -> list[Denial]:
    """Returns why a policy does not allow a write; nothing if it does.

    variables: those of the request. params: the object that a binding refers to; None if there is none.
    Raises TakesLong.
    """
    known = dict(variables)
    if policy.params is not None:
        known[PARAMS] = params
    if policy.conditions:
        conditions = Budget(COST_BUDGET, budget.bounded)
        unmet = _unmet(policy, known, conditions)
        budget.bounded = conditions.bounded
        if unmet is not None:
            return unmet
    known[VARIABLES] = _Variables(policy.variables, budget, known)
    found: list[Denial] = []
    for validation in policy.validations:
        denial = _validated(policy, validation, known, budget)
        if denial is not None:
            found.append(denial)
    for annotation in policy.audit_annotations:
        error = _error(annotation, known, budget)
        if error and policy.is_required:
            found.append(Denial(error, is_error=True))
    return found


def _unmet(policy: Policy, known: Mapping[str, Any], budget: Budget) -> list[Denial] | None:
    """Returns what follows if not all conditions are met, which is nothing if one is false; else None."""
    errors: list[str] = []
    for condition in policy.conditions:
        if condition.program is None:
            errors.append(condition.error)
            continue
        try:
            if budget.evaluate(condition, known) is False:
                return []
        except EvaluationError as error:
            errors.append(_resulted_in(condition, error))
        except CostExceeded as error:
            errors.append(_resulted_in(condition, error))
            break
    if not errors:
        return None
    if not policy.is_required:
        return []
    return [Denial(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]", is_error=True)]


def _validated(
    policy: Policy, validation: Validation, known: Mapping[str, Any], budget: Budget
) -> Denial | None:
    expression = validation.expression
    if expression.program is None:
        error = f"compilation error: {expression.error}"
    elif budget.left <= 0:
        error = _OUT_OF_BUDGET
    else:
        try:
            if budget.evaluate(expression, known) is True:
                return None
            return Denial(_message(validation, known, budget), validation.reason)
        except (EvaluationError, CostExceeded) as failure:
            error = _resulted_in(expression, failure)
    return Denial(error, is_error=True) if policy.is_required else None


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
        return _resulted_in(expression, failure)
    return ""


def _resulted_in(expression: Expression, failure: Exception) -> str:
    return f"expression '{expression.text}' resulted in error: {failure}"
