"""Evaluates expressions of policies within a cost budget: conditions and variables. Pure.

Source: k8s.io/apiserver, pkg/admission/plugin/cel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any, Final, NamedTuple

from apiserver.admission.policies.policy import Expression, Policy
from apiserver.cel.costs import PER_CALL_LIMIT
from apiserver.cel.values import CostExceeded, EvaluationError
from apiserver.golang.quoting import aggregate
from apiserver.load.size_class import TakesLong

# Of all expressions of a policy together, for one request. kube-apiserver: RuntimeCELCostBudget.
COST_BUDGET: Final = 10_000_000
# The cost that is evaluated on the event loop, for one write: about 5 ms.
BOUNDED_COST_MAX: Final = 20_000
# What comes of an expression, as metrics have it.
NO_ERROR: Final = "no_error"
COMPILE_ERROR: Final = "compile_error"
OUT_OF_BUDGET_ERROR: Final = "out_of_budget"
INVALID_ERROR: Final = "invalid_error"
OUT_OF_BUDGET: Final = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)


class Budget:
    """The remaining cost budget of evaluations.

    bounded: how much of it may be spent on the event loop; None: all.
    """

    __slots__ = ("bounded", "left")

    def __init__(self, total: int, bounded: int | None) -> None:
        self.left = total
        self.bounded = bounded

    def spend(self, cost: int) -> None:
        self.left -= cost
        if self.bounded is not None:
            self.bounded -= cost

    def evaluate(self, expression: Expression, variables: Mapping[str, Any]) -> Any:
        """Returns the value of an expression, and charges its cost.

        Raises EvaluationError, CostExceeded; TakesLong if it costs more than may be spent here.
        """
        program, bounded = expression.program, self.bounded
        assert program is not None
        # Most expressions take a microsecond or two, and each write may have dozens: no calls of `min` here.
        limit = self.left if self.left < PER_CALL_LIMIT else PER_CALL_LIMIT
        if bounded is not None and bounded < limit:
            limit = bounded
        try:
            value, cost = program(variables, limit)
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


class PolicyVariables(dict[str, Any]):
    """The variables of a policy, each evaluated on first use."""

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
        if expression.program is None:
            raise EvaluationError(f'composited variable "{name}" fails to compile: {expression.error}')
        try:
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


class ConditionsCheck(NamedTuple):
    """The outcome of the conditions of a policy.

    is_met: whether the policy applies. failure: the error that prevents the decision and refuses the write; a
        text for the client.
    errors: the number of failed conditions. seconds: how long all of them took.
    """

    policy: str
    is_met: bool
    failure: str
    errors: int
    seconds: float


def check_conditions(policy: Policy, known: Mapping[str, Any], budget: Budget) -> ConditionsCheck:
    """Returns whether all conditions are met; a false one outweighs errors of others.

    budget: limits the cost on the event loop. Raises TakesLong.
    """
    began, is_false = perf_counter(), False
    own = Budget(COST_BUDGET, budget.bounded)
    errors: list[str] = []
    for condition in policy.conditions:
        if condition.program is None:
            errors.append(condition.error)
            continue
        try:
            if own.evaluate(condition, known) is False:
                is_false = True
                break
        except EvaluationError as error:
            errors.append(resulted_in(condition, error))
        except CostExceeded as error:
            errors.append(resulted_in(condition, error))
            break
    budget.bounded = own.bounded
    failure = aggregate(errors) if errors and not is_false and policy.is_required else ""
    is_met = not is_false and not errors
    return ConditionsCheck(policy.name, is_met, failure, len(errors), perf_counter() - began)


def resulted_in(expression: Expression, failure: Exception) -> str:
    return f"expression '{expression.text}' resulted in error: {failure}"
