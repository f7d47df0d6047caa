"""Evaluates all rules for one object, each at the place of its schema, within a budget.

Source: k8s.io/apiextensions-apiserver, pkg/apiserver/schema/cel/validation.go.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import suppress
from operator import itemgetter
from typing import Any, Final, NamedTuple, NoReturn

from apiserver.cel.compiler import Program
from apiserver.cel.costs import PER_CALL_LIMIT
from apiserver.cel.values import NO_SUCH_OVERLOAD, NONE, CostExceeded, EvaluationError, OptionalValue
from apiserver.custom_resources.rules.compilation import OLD_SELF, SELF, ValidationRule
from apiserver.custom_resources.rules.rule_tree import CompiledRule, RuleNode
from apiserver.custom_resources.schemas.correlation import Correlation
from apiserver.custom_resources.schemas.paths import MapKey, Path, bracketed
from apiserver.golang.quoting import go_quote
from apiserver.load.size_class import TakesLong
from apiserver.meta import field_errors
from apiserver.meta.field_errors import FieldError

# What all expressions for one object may cost.
OBJECT_COST_MAX: Final = 10_000_000
MESSAGE_BYTES_MAX: Final = 5 * 1024
# The most errors that are reported: a cheap rule may be violated by a million values.
ERRORS_MAX: Final = 1_000
# A unit of work takes about as long as a cost of 1: 0.05 us. Each value that has rules, and each evaluation,
# takes so much work besides its cost.
VALUE_WORK: Final = 30
# In the message that the budget is spent: how many of the costliest rules are shown, and of each one's text.
COSTLIEST_SHOWN: Final = 3
TEXT_SHOWN: Final = 80

UNLIMITED: Final = 1 << 62
# The path of an object's errors as a whole.
WHOLE_OBJECT: Final = "<nil>"
_NOTHING: Final[Mapping[str, Any]] = {}
_SPENT: Final = "running out of cost budget, no further validation rules will be run"


class ValueChange(NamedTuple):
    """A value correlated with its old one, with the objects that contain both; None without correlation."""

    here: Correlation | None
    above: Correlation | None

    def field(self, name: str) -> ValueChange:
        if self.here is None:
            return self
        if self.above is None and name in {"apiVersion", "kind"}:
            # Both have been converted to the version that is written.
            return UNKNOWN_CHANGE
        return ValueChange(self.here.field(name), self.here)

    def item(self, index: int) -> ValueChange:
        return self if self.here is None else ValueChange(self.here.item(index), self.here)

    @property
    def is_none(self) -> bool:
        known = self.here or self.above
        return known is not None and known.is_unchanged


UNKNOWN_CHANGE: Final = ValueChange(None, None)


class _Stopped(Exception):
    """The evaluation stops; the reason has been reported."""


class _NoMessage(Exception):
    """A message cannot be evaluated within the budget, which is reported instead."""


class Evaluation:
    """One evaluation of the rules for an object.

    errors, warnings: those found so far. Warnings are errors in values that an update does not change.
    budget: the remaining cost; less than 0 if rules were not evaluated because of it.
    """

    __slots__ = ("_spent", "_work_left", "budget", "errors", "warnings")

    def __init__(self, *, budget: int = OBJECT_COST_MAX, work_max: int = UNLIMITED) -> None:
        self.errors: list[FieldError] = []
        self.warnings: list[FieldError] = []
        self.budget = budget
        self._work_left = work_max
        self._spent: dict[CompiledRule, int] = {}

    def evaluate(self, node: RuleNode, new: Any, old: Any, path: Path | None, change: ValueChange) -> None:
        """Evaluates the rules of a node and below it, within the budget. Raises TakesLong."""
        with suppress(_Stopped):
            self._value(node, new, old, path, change)

    def _value(self, node: RuleNode, new: Any, old: Any, path: Path | None, change: ValueChange) -> None:
        """Evaluates the rules of a node and below it. Raises _Stopped and TakesLong."""
        if new is None:
            return
        if node.has_rules:
            self._rules(node, new, old, path, change)
        if type(new) is dict:
            was = old if type(old) is dict else _NOTHING
            if node.values is not None:
                for key, value in new.items():
                    self._value(node.values, value, was.get(key), (path, MapKey(key)), change.field(key))
            for name, child in node.properties:
                if name in new:
                    self._value(child, new[name], was.get(name), (path, name), change.field(name))
        elif type(new) is list and node.items is not None:
            by_key = items_by_key(old, node.map_keys)
            for index, item in enumerate(new):
                was_item = by_key.get(key_of_item(item, node.map_keys)) if by_key else None
                self._value(node.items, item, was_item, (path, index), change.item(index))

    def _rules(self, node: RuleNode, new: Any, old: Any, path: Path | None, change: ValueChange) -> None:
        if not node.is_compiled and self._work_left < UNLIMITED:
            self._work(node.compile_work())
        compiled = node.compiled
        if compiled.error is not None:
            self._fail(node, path, f"rule compiler initialization error: {compiled.error}")
            return
        self._work(VALUE_WORK)
        adapt = compiled.adapt
        variables = {SELF: new if adapt is None else adapt(new)}
        optional = variables
        if compiled.uses_old:
            optional = variables | {OLD_SELF: NONE}
            if old is not None:
                variables[OLD_SELF] = old if adapt is None else adapt(old)
                optional[OLD_SELF] = OptionalValue(variables[OLD_SELF])
        for rule in compiled.rules:
            known = optional if rule.rule.optional_old_self else variables
            if rule.program is None:
                if rule.error is not None:
                    self._fail(node, path, f"rule compile error: {rule.error}")
            elif (not rule.uses_old or OLD_SELF in known) and not self._holds(node, rule, known, path):
                # Messages get the old value itself, even if the rule gets it as an optional.
                self._report(node, rule, variables, new, path, change)

    def _holds(
        self, node: RuleNode, rule: CompiledRule, variables: dict[str, Any], path: Path | None
    ) -> bool:
        """Returns whether a rule holds; also True if it cannot be evaluated, which is a separate error."""
        assert rule.program is not None
        if self.budget <= 0:
            self._out_of_budget(node, path)
        try:
            return self._evaluated(rule, rule.program, variables) is True
        except CostExceeded as error:
            if self.budget <= PER_CALL_LIMIT:
                self._out_of_budget(node, path, rule)
            text = "no further validation rules will be run due to call cost exceeds limit for rule"
            self._fail(node, path, f"'{error}': {text}: {rule.rule.shown}")
            self._end()
        except EvaluationError as error:
            self._fail(node, path, _unevaluated(str(error), rule.rule))
            return True

    def _evaluated(self, rule: CompiledRule, program: Program, variables: dict[str, Any]) -> Any:
        """Returns the value of a rule or its message. Raises CostExceeded, EvaluationError and TakesLong."""
        self._work(VALUE_WORK)
        most = min(self.budget, PER_CALL_LIMIT)
        try:
            result = program(variables, min(most, self._work_left))
        except CostExceeded:
            if self._work_left < most:
                raise TakesLong from None
            raise
        except EvaluationError as error:
            self._spend(rule, error.cost)
            raise
        self._spend(rule, result.cost)
        return result.value

    def _report(
        self,
        node: RuleNode,
        rule: CompiledRule,
        variables: dict[str, Any],
        value: Any,
        path: Path | None,
        change: ValueChange,
    ) -> None:
        found = self.errors if rule.uses_old or not change.is_none else self.warnings
        where = _where(path)
        if rule.field_path:
            where = rule.field_path if path is None else f"{where}.{rule.field_path}"
        try:
            detail = self._message(rule, variables) or rule.rule.default_message
        except _NoMessage as error:
            found.append(field_errors.invalid(where, node.kind, str(error)))
            self._end()
        found.append(
            _error(where, _OMITTED if node.kind in _COLLECTIONS else value, detail, rule.rule.reason)
        )
        if len(found) >= ERRORS_MAX:
            raise _Stopped

    def _message(self, rule: CompiledRule, variables: dict[str, Any]) -> str:
        """Returns the value of messageExpression if it can be shown; otherwise nothing. Raises _NoMessage."""
        if rule.message is None or (rule.message_uses_old and OLD_SELF not in variables):
            return ""
        try:
            value = self._evaluated(rule, rule.message, variables)
        except CostExceeded:
            if self.budget <= PER_CALL_LIMIT:
                raise _NoMessage(f"messageExpression evaluation failed due to {_SPENT}") from None
            problem = "no further validation rules will be run due to call cost exceeds limit"
            source = go_quote(rule.rule.message_expression)
            raise _NoMessage(f"{problem} for messageExpression: {source}") from None
        except EvaluationError:
            return ""
        text: str = value.strip()
        return text if "\n" not in text and len(text.encode()) <= MESSAGE_BYTES_MAX else ""

    def _fail(self, node: RuleNode, path: Path | None, text: str) -> None:
        self.errors.append(field_errors.invalid(_where(path), node.kind, text))
        if len(self.errors) >= ERRORS_MAX:
            raise _Stopped

    def _work(self, amount: int) -> None:
        self._work_left -= amount
        if self._work_left < 0:
            raise TakesLong

    def _end(self) -> NoReturn:
        """Stops the evaluation, so that no more of the budget is spent."""
        self.budget = -1
        raise _Stopped

    def _spend(self, rule: CompiledRule, cost: int) -> None:
        self.budget -= cost
        self._work_left -= cost
        self._spent[rule] = self._spent.get(rule, 0) + cost

    def _out_of_budget(self, node: RuleNode, path: Path | None, last: CompiledRule | None = None) -> NoReturn:
        """Reports Kubernetes' message, and the rules with the highest cost."""
        costliest = sorted(self._spent.items(), key=itemgetter(1), reverse=True)[:COSTLIEST_SHOWN]
        parts = [f"{cost} for {_shortened(rule)}" for rule, cost in costliest]
        if last is not None:
            parts.append(f"more than the remaining {self.budget} for {_shortened(last)}")
        self._fail(node, path, f"validation failed due to {_SPENT} (spent {', '.join(parts)})")
        self._end()


def _unevaluated(error: str, rule: ValidationRule) -> str:
    if error.startswith(NO_SUCH_OVERLOAD):
        # The types of values are known only now. The text does not say where.
        text = "call arguments did not match a supported operator, function or macro signature for rule"
        return f"'{error}': {text}: {rule.shown}"
    return f"{error} evaluating rule: {rule.shown}"


_OMITTED: Final = object()
_COLLECTIONS: Final = frozenset({"object", "array"})


def _error(where: str, value: Any, detail: str, reason: str | None) -> FieldError:
    """Returns the error for a violated rule, by its reason."""
    match reason:
        case "FieldValueForbidden":
            return field_errors.forbidden(where, detail)
        case "FieldValueRequired":
            return field_errors.required(where, detail)
        case "FieldValueDuplicate" if value is _OMITTED:
            return FieldError(where, reason, "Duplicate value")
        case "FieldValueDuplicate":
            return field_errors.duplicate(where, value)
    if value is _OMITTED:
        return FieldError(where, "FieldValueInvalid", f"Invalid value: {detail}")
    return field_errors.invalid(where, value, detail)


def _where(path: Path | None) -> str:
    return WHOLE_OBJECT if path is None else bracketed(path)


def _shortened(rule: CompiledRule) -> str:
    text = rule.rule.rule.strip()
    return go_quote(text if len(text) <= TEXT_SHOWN else f"{text[:TEXT_SHOWN]}...")


def items_by_key(items: Any, keys: tuple[str, ...]) -> dict[Hashable, Any]:
    """Returns the items of a list of type map by their keys; of items with equal keys the first."""
    if not keys or type(items) is not list:
        return {}
    return {key_of_item(item, keys): item for item in reversed(items)}


def key_of_item(item: Any, keys: tuple[str, ...]) -> Hashable:
    """Returns the key of an item in a list of type map, in which 1 differs from true.

    Keys are scalars.
    """
    if type(item) is not dict:
        return None
    return tuple((type(value), value) for name in keys if (value := item.get(name)).__hash__ is not None)
