"""Compiles and evaluates a rule of a custom resource, at its place in the schema. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from apiserver.admission.policies.policy import Expression
from apiserver.cel.compatibility_version import CompatibilityVersion
from apiserver.cel.compiler import Program, ProgramError
from apiserver.cel.cost_estimate import estimate
from apiserver.cel.functions import UNBOUNDED
from apiserver.cel.references import References, merged, references
from apiserver.cel.syntax import InvalidExpression, Node
from apiserver.cel.types import DYN, Type
from apiserver.cel.values import NONE, OptionalValue
from apiserver.console.playground.answers import (
    Answer,
    Effort,
    EstimatedCost,
    FoundIssue,
    QuestionBudget,
    evaluate,
    found_issues,
)
from apiserver.console.playground.question import Question
from apiserver.custom_resources.definitions.validation.schema_rules import (
    RULE_COST_MAX,
    values_below,
    values_max,
)
from apiserver.custom_resources.rules.compilation import OLD_SELF, SELF, RuleCompiler, ValidationRule
from apiserver.custom_resources.rules.evaluation import items_by_key, key_of_item
from apiserver.custom_resources.rules.schema_types import SchemaTypes
from apiserver.custom_resources.rules.value_adapters import adapter
from apiserver.custom_resources.schemas.json_schema import JSONSchema, all_schemas
from apiserver.load.size_class import TakesLong
from apiserver.meta.errors import BadRequest
from apiserver.schema.extensions import Extensions

# The types of more schemas take more than a millisecond to make.
SCHEMAS_ON_LOOP_MAX: Final = 200
_NO_TYPE: Final = "rules cannot access the values of this schema"
_UNCORRELATABLE: Final = "oldSelf cannot be used on the uncorrelatable portion of the schema"
_OLD_UNUSED: Final = "optionalOldSelf may not be set if oldSelf is not used in rule"
_NO_SELF: Final = "the rule is not evaluated: the object has no value at the path"
_NO_OLD: Final = "the rule is not evaluated: it uses oldSelf, and there is no old value"


class _Place(NamedTuple):
    """A schema within a schema, and the values of the objects there.

    name: that of its type. most: how many values of it an object may have; None if unlimited.
    is_correlated: whether values in it can be correlated with old ones.
    """

    schema: JSONSchema
    name: str
    most: int | None
    is_correlated: bool
    new: Any
    old: Any


def evaluate_rule(
    question: Question,
    schema: JSONSchema | None,
    extensions: Extensions,
    version: CompatibilityVersion,
    effort: Effort,
) -> Answer:
    """Returns the answer to a question about a rule.

    schema: that of the custom resource; None if it is unknown, and so the type of `self`. For the others see
    `evaluate_policy`. Raises BadRequest for a path that leads nowhere in the schema, TakesLong, Abandoned.
    """
    place = _find(question, schema or {}, extensions)
    if effort.is_bounded and (question.takes_long or _is_large(place.schema)):
        raise TakesLong
    is_root = schema is not None and not question.path
    type_ = DYN if schema is None else SchemaTypes(extensions).of(place.schema, place.name, is_root=is_root)
    if type_ is None:
        return Answer(issues=[FoundIssue(_NO_TYPE)])
    compiled = _compiled(question, type_, version)
    if isinstance(compiled, Answer):
        return compiled
    node, program, type_of_result = compiled
    read = references(node).fields
    issues = [] if schema is None else list(_misplaced(question, place, uses_old=OLD_SELF in read))
    if issues:
        return Answer(issues=issues)
    estimated = None if schema is None else _estimated(node, type_, place)
    answer = Answer(type=type_of_result, estimated=estimated)
    if place.new is None:
        return answer._replace(error=_NO_SELF)
    if OLD_SELF in read and place.old is None and not question.optional_old_self:
        return answer._replace(error=_NO_OLD)
    part = merged(read[name] for name in (SELF, OLD_SELF) if name in read)
    variables = _variables(question, place, part, extensions, is_root=is_root)
    budget = QuestionBudget(effort, [program])
    value = evaluate(Expression(question.expression, program), variables, budget)
    return answer._replace(result=value.result, cost=value.cost, error=value.error, cost_max=budget.total)


def _is_large(schema: JSONSchema) -> bool:
    return next(islice(all_schemas(schema), SCHEMAS_ON_LOOP_MAX, None), None) is not None


def _compiled(
    question: Question, type_: Type, version: CompatibilityVersion
) -> tuple[Node, Program, str] | Answer:
    """Returns the tree, the program and the type of an expression; the answer if it does not compile."""
    text = question.expression
    rule = ValidationRule(text, optional_old_self=question.optional_old_self)
    environment = RuleCompiler(type_).environment(rule)
    try:
        checked = environment.check(text, version)
        return checked.node, environment.program(checked), str(checked.type)
    except InvalidExpression as error:
        return Answer(issues=list(found_issues(text, error.issues, error)))
    except ProgramError as error:
        return Answer(issues=list(found_issues(text, (), error)))


def _estimated(node: Node, type_: Type, place: _Place) -> EstimatedCost:
    bounds = estimate(node, type_)
    per_object = min(bounds.high * values_max(type_, place.most), UNBOUNDED)
    return EstimatedCost(bounds, per_object, RULE_COST_MAX)


def _misplaced(question: Question, place: _Place, *, uses_old: bool) -> Iterator[FoundIssue]:
    """Yields the errors of a definition with the rule at this place."""
    if uses_old and not place.is_correlated:
        yield FoundIssue(_UNCORRELATABLE)
    if question.optional_old_self and not uses_old:
        yield FoundIssue(_OLD_UNUSED)


def _variables(
    question: Question, place: _Place, part: References, extensions: Extensions, *, is_root: bool
) -> dict[str, Any]:
    """Returns the values of `self` and `oldSelf` as rules see them. part: what the rule reads of them."""
    adapt = adapter(place.schema, part, extensions, is_root=is_root)
    new, old = (value if adapt is None or value is None else adapt(value) for value in (place.new, place.old))
    if question.optional_old_self:
        return {SELF: new, OLD_SELF: NONE if old is None else OptionalValue(old)}
    return {SELF: new, **({} if old is None else {OLD_SELF: old})}


# ---- the place of the rule


def _find(question: Question, schema: JSONSchema, extensions: Extensions) -> _Place:
    """Returns the place that the path of a question leads to. Raises BadRequest."""
    place = _Place(schema, SELF, 1, True, question.new, question.old)
    for number, step in enumerate(question.path):
        below = _below(place, step, extensions) if schema else _untyped(place, step)
        if below is None:
            where = "".join(f"[{each!r}]" for each in question.path[: number + 1])
            raise BadRequest(f"path leads nowhere in the schema: {where}")
        place = below
    return place


def _untyped(place: _Place, step: str | int) -> _Place:
    """Returns the place below one whose schema is unknown."""
    return place._replace(new=_value(place.new, step), old=_value(place.old, step))


def _below(place: _Place, step: str | int, extensions: Extensions) -> _Place | None:
    """Returns the place one step down; None if there is none in the schema."""
    schema, most = place.schema, values_below(place.schema, place.most)
    new, old = _value(place.new, step), _value(place.old, step)
    if type(step) is int:
        items = schema.get("items")
        if not isinstance(items, dict):
            return None
        is_map = schema.get(extensions.list_type) == "map"
        keys = tuple(schema.get(extensions.list_map_keys) or ()) if is_map else ()
        old = items_by_key(place.old, keys).get(key_of_item(new, keys)) if keys else None
        return _Place(items, f"{place.name}.@idx", most, place.is_correlated and is_map, new, old)
    child = (schema.get("properties") or {}).get(step)
    if isinstance(child, dict):
        return _Place(child, f"{place.name}.{step}", most, place.is_correlated, new, old)
    values = schema.get("additionalProperties")
    if not isinstance(values, dict):
        return None
    return _Place(values, f"{place.name}.@elem", most, place.is_correlated, new, old)


def _value(value: Any, step: str | int) -> Any:
    """Returns the value one step down; None if there is none."""
    if type(value) is dict:
        return value.get(step)
    if type(value) is list and type(step) is int and step < len(value):
        return value[step]
    return None
