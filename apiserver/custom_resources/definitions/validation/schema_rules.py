"""Checks the rules of a definition when it is written: they must compile, and must not cost too much.

Source: k8s.io/apiextensions-apiserver, pkg/apis/apiextensions/validation/{validation,cel_validation}.go.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from operator import itemgetter
from typing import Final, NamedTuple

from apiserver.cel.compatibility_version import ExpressionVersions
from apiserver.cel.functions import UNBOUNDED
from apiserver.cel.types import Type
from apiserver.custom_resources.rules.compilation import (
    SELF,
    CompilationResult,
    RuleCompiler,
    ValidationRule,
    rules_of,
)
from apiserver.custom_resources.rules.schema_types import REQUEST_BYTES_MAX, SchemaTypes
from apiserver.custom_resources.schemas.json_schema import JSONSchema, all_schemas
from apiserver.golang.formatting import go_json
from apiserver.meta.field_errors import FieldError, forbidden, invalid
from apiserver.schema.extensions import Extensions

# The greatest estimated cost of one rule, for all values that it is evaluated for, and of all rules together.
RULE_COST_MAX: Final = 10_000_000
SCHEMA_COST_MAX: Final = 100_000_000
# What errors about a cost say.
EXCEEDED: Final = "exceeds budget"
# Rules that cost less than a hundredth are not named as contributing, nor are more than so many.
CONTRIBUTION_MIN: Final = SCHEMA_COST_MAX // 100
CONTRIBUTIONS_SHOWN: Final = 4
# Kubernetes has no limit but the request's size. The definitions with the most rules that are known have 400,
# of 60 characters each.
RULES_MAX: Final = 2_000
CHARACTERS_MAX: Final = 100_000


def check_rules(
    schema: JSONSchema,
    *,
    path: str,
    extensions: Extensions,
    versions: ExpressionVersions,
    old_schema: JSONSchema | None = None,
    invalid_paths: Container[str] = (),
) -> list[FieldError]:
    """Checks the rules of a structural schema whose defaults are valid.

    path: the schema's, as `spec.validation.openAPIV3Schema`.
    versions: the features that expressions may use; the expressions in all versions before an update count as
        stored.
    old_schema: that of this version before an update; if unchanged, rules may cost as much as before.
    invalid_paths: the paths of schemas with other errors, whose rules are not checked.
    """
    if (error := _extent_error(schema, path, extensions)) is not None:
        return [error]
    check = _Check(extensions, versions, invalid_paths, is_unchanged=old_schema == schema)
    check.schema(_Place(schema, path, SELF, 1, None), is_root=True)
    return [*check.errors, *check.total_errors(path)]


def rule_costs(
    schema: JSONSchema, *, path: str, extensions: Extensions, versions: ExpressionVersions
) -> Mapping[str, int]:
    """Returns the estimated costs that `check_rules` limits, by the fields that its errors name."""
    check = _Check(extensions, versions, (), is_unchanged=False)
    check.schema(_Place(schema, path, SELF, 1, None), is_root=True)
    return check.costs


def expressions_of(schema: JSONSchema, extensions: Extensions) -> Iterator[str]:
    """Yields the texts of all rules in a schema, and of their message expressions."""
    for rule in _all_rules(schema, extensions):
        yield rule.rule
        if rule.message_expression:
            yield rule.message_expression


def _all_rules(schema: JSONSchema, extensions: Extensions) -> Iterator[ValidationRule]:
    return (rule for each in all_schemas(schema) for rule in rules_of(each, extensions))


def _extent_error(schema: JSONSchema, path: str, extensions: Extensions) -> FieldError | None:
    rules = characters = 0
    for rule in _all_rules(schema, extensions):
        rules += 1
        characters += len(rule.rule) + len(rule.message_expression)
    if rules > RULES_MAX:
        return forbidden(path, f"must not have more than {RULES_MAX} validation rules, but has {rules}")
    if characters > CHARACTERS_MAX:
        text = f"validation rules must not have more than {CHARACTERS_MAX} characters together"
        return forbidden(path, f"{text}, but have {characters}")
    return None


class _Place(NamedTuple):
    """A schema within a schema, and its place.

    name: that of its type. most: how many values of it an object may have; None if unlimited.
    uncorrelatable: the path of the outermost schema around it whose items cannot be correlated with old ones.
    """

    schema: JSONSchema
    path: str
    name: str
    most: int | None
    uncorrelatable: str | None


class _Check:
    """Checks one schema; errors of inner schemas come before those of outer ones.

    costs: the estimated cost of each expression, by its field.
    """

    def __init__(
        self,
        extensions: Extensions,
        versions: ExpressionVersions,
        invalid_paths: Container[str],
        *,
        is_unchanged: bool,
    ) -> None:
        self._extensions, self._versions, self._invalid_paths = extensions, versions, invalid_paths
        self._is_unchanged = is_unchanged
        self._types = SchemaTypes(extensions)
        self._total = 0
        self._contributions: list[tuple[str, int]] = []
        self.costs: dict[str, int] = {}
        self.errors: list[FieldError] = []

    def schema(self, place: _Place, *, is_root: bool = False) -> None:
        for below in self._below(place):
            self.schema(below)
        rules = rules_of(place.schema, self._extensions)
        if not rules or place.path in self._invalid_paths:
            return
        field = f"{place.path}.{self._extensions.validations}"
        type_ = self._types.of(place.schema, place.name, is_root=is_root)
        if type_ is None:
            self.errors.append(
                FieldError(field, "InternalError", _NO_TYPE.format(self._extensions.validations))
            )
            return
        compiler = RuleCompiler(type_)
        for index, rule in enumerate(rules):
            checked = compiler.compile(rule, self._versions)
            self._rule(f"{field}[{index}]", compiler, checked, type_, place)

    def _below(self, place: _Place) -> Iterator[_Place]:
        schema, path, name = place.schema, place.path, place.name
        values = schema.get("additionalProperties")
        most = values_below(schema, place.most)
        if isinstance(values, dict):
            yield _Place(values, f"{path}.additionalProperties", f"{name}.@elem", most, place.uncorrelatable)
        for key, child in (schema.get("properties") or {}).items():
            yield _Place(child, f"{path}.properties[{key}]", f"{name}.{key}", most, place.uncorrelatable)
        items = schema.get("items")
        if isinstance(items, dict):
            is_map = schema.get(self._extensions.list_type) == "map"
            uncorrelatable = place.uncorrelatable or (None if is_map else path)
            yield _Place(items, f"{path}.items", f"{name}.@idx", most, uncorrelatable)

    def _rule(
        self, field: str, compiler: RuleCompiler, checked: CompilationResult, type_: Type, place: _Place
    ) -> None:
        rule = checked.rule
        if checked.expression is not None:
            cost = compiler.worst_cost(checked.expression) * values_max(type_, place.most)
            self._cost(f"{field}.rule", "estimated rule cost", cost)
        if checked.error is not None:
            self.errors.append(_refused(f"{field}.rule", rule, checked.error))
        if checked.message_error is not None:
            self.errors.append(_refused(f"{field}.messageExpression", rule, checked.message_error))
        if checked.message is not None:
            cost = compiler.worst_cost(checked.message)
            self._cost(f"{field}.messageExpression", "estimated messageExpression cost", cost)
        if checked.expression is not None and checked.expression.uses_old:
            if place.uncorrelatable is not None:
                text = "oldSelf cannot be used on the uncorrelatable portion of the schema within"
                self.errors.append(invalid(f"{field}.rule", rule.rule, f"{text} {place.uncorrelatable}"))
        elif rule.optional_old_self is not None:
            text = "may not be set if oldSelf is not used in rule"
            self.errors.append(invalid(f"{field}.optionalOldSelf", rule.optional_old_self, text))

    def _cost(self, field: str, what: str, cost: int) -> None:
        cost = min(cost, UNBOUNDED)
        if cost > RULE_COST_MAX and not self._is_unchanged:
            self.errors.append(forbidden(field, _over_budget(what, cost, RULE_COST_MAX)))
        self._total = min(self._total + cost, UNBOUNDED)
        self.costs[field] = cost
        if cost >= CONTRIBUTION_MIN:
            self._contributions.append((field, cost))
            self._contributions.sort(key=itemgetter(1), reverse=True)
            del self._contributions[CONTRIBUTIONS_SHOWN:]

    def total_errors(self, path: str) -> Iterator[FieldError]:
        if self._total <= SCHEMA_COST_MAX:
            return
        for field, _ in self._contributions:
            text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
            yield forbidden(field, text)
        what = f"{self._extensions.validations} estimated rule cost total for entire OpenAPIv3 schema"
        yield forbidden(path, _over_budget(what, self._total, SCHEMA_COST_MAX))


_NO_TYPE: Final = (
    "Internal error: internal error: failed to construct type information for {} rules:"
    " unable to convert structural schema to CEL declarations"
)


def values_below(schema: JSONSchema, most: int | None) -> int | None:
    """Returns how many values the schemas within a schema may have in an object; None if unlimited.

    most: how many values of the schema itself an object may have.
    """
    match schema.get("type"):
        case "object" if schema.get("additionalProperties") is not None:
            limit = schema.get("maxProperties")
        case "array":
            limit = schema.get("maxItems")
        case _:
            return most
    if most is None or limit is None:
        return None
    return min(most * max(0, int(limit)), UNBOUNDED)


def values_max(type_: Type, most: int | None) -> int:
    """Returns for how many values of a type a rule is estimated to be evaluated in one object.

    most: None if nothing limits them. Then they are as many as a request can hold, with a comma for each.
    """
    return REQUEST_BYTES_MAX // ((type_.size_min or 0) + 1) if most is None else most


def _over_budget(what: str, cost: int, limit: int) -> str:
    factor = cost / limit
    # One decimal would make it "1.0" if it is hardly too much.
    shown = f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    if factor > 100:
        shown = "more than 100x"
    return (
        f"{what} {EXCEEDED} by factor of {shown} (try simplifying the rule, or adding maxItems,"
        " maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )


def _refused(field: str, rule: ValidationRule, detail: str) -> FieldError:
    # As the struct of it in Go: `MessageExpression`.
    shown = {name.title().replace("_", ""): value for name, value in rule._asdict().items()}
    return FieldError(field, "FieldValueInvalid", f"Invalid value: {go_json(shown)}: {detail}")
