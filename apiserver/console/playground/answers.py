"""The answer of the playground, and the evaluation of a compiled expression. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from apiserver.admission.policies.budget import BOUNDED_COST_MAX, Budget
from apiserver.admission.policies.policy import Expression
from apiserver.cel.compiler import Program
from apiserver.cel.costs import PER_CALL_LIMIT
from apiserver.cel.evaluators.frames import BUDGET, Frame
from apiserver.cel.functions import UNBOUNDED, Bounds
from apiserver.cel.json_values import JsonValues, NotJson, TooLarge
from apiserver.cel.syntax import Issue, position
from apiserver.cel.values import CostExceeded, EvaluationError
from apiserver.load.size_class import TakesLong
from apiserver.meta.vocabulary import Document

# What a question may cost, with all its variables: every user may ask, where policies are of administrators.
COST_MAX: Final = PER_CALL_LIMIT
# If expressions make patterns. Small ones cost as little as in Kubernetes, and take up to two milliseconds to
# compile, in which the event loop stands still.
PATTERNS_COST_MAX: Final = 20_000
# A longer result is for no person, and an expression can repeat a value many times.
RESULT_BYTES_MAX: Final = 256 * 1024
# What is converted to JSON on the event loop: a millisecond.
RESULT_BYTES_ON_LOOP_MAX: Final = 16 * 1024
# Messages may quote keys and names of any length.
MESSAGE_LENGTH_MAX: Final = 1_024
_NO_FORM: Final = "the result has no form in JSON"


class FoundIssue(NamedTuple):
    """An error in an expression, or what the type of an object says of it.

    line, column: from 1; 0 if it is about the whole expression.
    variable: the one whose expression it is in; empty for the expression itself.
    """

    message: str
    line: int = 0
    column: int = 0
    variable: str = ""

    def document(self) -> Document:
        variable = {"variable": self.variable} if self.variable else {}
        return {"line": self.line, "column": self.column, "message": self.message, **variable}


def found_issues(
    text: str, issues: Iterable[Issue], error: object, variable: str = ""
) -> Iterator[FoundIssue]:
    """Yields the issues of an expression; what the error says if it has none."""
    is_empty = True
    for issue in issues:
        line, column = (0, 0) if issue.offset is None else position(text, issue.offset)
        yield FoundIssue(cut(issue.message), line, column, variable)
        is_empty = False
    if is_empty:
        yield FoundIssue(cut(str(error)), variable=variable)


class EstimatedCost(NamedTuple):
    """The estimated cost of one evaluation.

    per_object: the most that all evaluations for one object cost. limit: that of definitions, for it.
    """

    bounds: Bounds
    per_object: int
    limit: int

    def document(self) -> Document:
        return {
            "min": self.bounds.low,
            "max": _known(self.bounds.high),
            "perObject": _known(self.per_object),
            "limit": self.limit,
        }


class Answer(NamedTuple):
    """The result of an expression.

    type: as messages show it; empty if the expression does not compile.
    cost: of the evaluation, with the variables that it has used; None if there was none. cost_max: its limit.
    estimated: for rules of known resources.
    error: why there is no result, though the expression compiles.
    issues: why it does not compile. warnings: what the types of the objects say of it.
    """

    result: Any = None
    type: str = ""
    cost: int | None = None
    estimated: EstimatedCost | None = None
    error: str | None = None
    issues: Sequence[FoundIssue] = ()
    warnings: Sequence[FoundIssue] = ()
    cost_max: int = COST_MAX

    def body(self) -> Document:
        """Returns the body of the response."""
        return {
            "result": self.result,
            "type": self.type or None,
            "cost": self.cost,
            "costLimit": self.cost_max,
            "estimatedCost": None if self.estimated is None else self.estimated.document(),
            "error": self.error,
            "issues": [issue.document() for issue in self.issues],
            "warnings": [issue.document() for issue in self.warnings],
        }


class Value(NamedTuple):
    """What an evaluation has come to."""

    result: Any
    cost: int
    error: str | None


class Abandoned(Exception):
    """Nobody waits for the answer any more."""


class Effort(NamedTuple):
    """How much work an answer is worth.

    is_bounded: only as much as the event loop allows. is_abandoned: whether nobody waits for the answer any
    more; it is called in the thread that does the work.
    """

    is_bounded: bool
    is_abandoned: Callable[[], bool] = lambda: False

    def check(self) -> None:
        """Call it before each step that may take long. Raises Abandoned."""
        if self.is_abandoned():
            raise Abandoned


class QuestionBudget(Budget):
    """The remaining cost of a question: of its expression and its variables together.

    Each expression of a policy has a separate limit; a chain of a hundred variables, each of which uses the
    next one, would spend a hundred times as much. Here a variable spends the budget of what uses it.
    """

    __slots__ = ("_effort", "_frames", "total")

    def __init__(self, effort: Effort, programs: Iterable[Program]) -> None:
        """programs: those of the expression and of all variables."""
        self.total = PATTERNS_COST_MAX if any(each.makes_patterns for each in programs) else COST_MAX
        super().__init__(self.total, BOUNDED_COST_MAX if effort.is_bounded else None)
        self._effort = effort
        # Those of the expressions that are being evaluated, each of which needs the value of the next one.
        self._frames: list[Frame] = []

    def evaluate(self, expression: Expression, variables: Mapping[str, Any]) -> Any:
        """Returns the value of an expression, as `Budget` does. Raises Abandoned, too."""
        self._effort.check()
        program, frames, depth = expression.program, self._frames, len(self._frames)
        assert program is not None
        limit = cost = frames[-1][BUDGET] if frames else self.left if self.bounded is None else self.bounded
        try:
            value, cost = program(variables, limit, frames)
        except EvaluationError as error:
            cost = error.cost
            raise
        except CostExceeded:
            if self.bounded is not None:
                raise TakesLong from None
            raise
        finally:
            del frames[depth:]
            if frames:
                frames[-1][BUDGET] -= cost
            else:
                self.spend(cost)
        return value


def evaluate(expression: Expression, variables: Mapping[str, Any], budget: Budget) -> Value:
    """Returns the value of an expression that compiles.

    Raises TakesLong if it takes longer than the event loop allows, DecisionNeeded, Abandoned.
    """
    before, result, error = budget.left, None, None
    try:
        value = budget.evaluate(expression, variables)
        result, error = _json(value, is_bounded=budget.bounded is not None)
    except (EvaluationError, CostExceeded) as failure:
        error = cut(str(failure))
    return Value(result, before - budget.left, error)


def _json(value: Any, *, is_bounded: bool) -> tuple[Any, str | None]:
    """Returns a value as JSON, or why it has no such form. Raises TakesLong."""
    try:
        made = JsonValues(RESULT_BYTES_ON_LOOP_MAX if is_bounded else RESULT_BYTES_MAX).of(value)
        orjson.dumps(made)  # It may be nested more deeply than can be sent.
    except NotJson as error:
        return None, cut(str(error))
    except TooLarge:
        if is_bounded:
            raise TakesLong from None
        return None, f"the result is larger than {RESULT_BYTES_MAX} bytes"
    except (AttributeError, orjson.JSONEncodeError):  # `variables` as a whole is no value.
        return None, _NO_FORM
    return made, None


def cut(text: str) -> str:
    return text if len(text) <= MESSAGE_LENGTH_MAX else f"{text[:MESSAGE_LENGTH_MAX]}…"


def _known(cost: int) -> int | None:
    """Returns an estimate; None if it is too large to be known."""
    return None if cost >= UNBOUNDED else cost
