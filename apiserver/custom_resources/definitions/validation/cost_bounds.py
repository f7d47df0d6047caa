"""Finds the bounds on lists, maps and strings that bring the estimated costs of rules within their limits.

Each bound is tried with the estimate of the server itself, in a schema that has only the rules in question.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from apiserver.cel.compatibility_version import ExpressionVersions
from apiserver.custom_resources.definitions.validation.schema_rules import (
    CONTRIBUTION_MIN,
    RULE_COST_MAX,
    SCHEMA_COST_MAX,
    rule_costs,
)
from apiserver.custom_resources.schemas.json_schema import JSONSchema
from apiserver.meta.field_errors import field_below
from apiserver.schema.extensions import Extensions

# The values that are proposed: powers of two, and 1, 2 and 5 with zeros.
ROUND: Final[Sequence[int]] = sorted(
    {*(2**power for power in range(21)), *(digit * 10**power for digit in (1, 2, 5) for power in range(6))}
)
# The most places for a bound that are tried for a rule. A try takes milliseconds.
CANDIDATES_MAX: Final = 64
# The most single bounds that are proposed, and the lowest of them if there is a choice. If all are lower,
# several bounds together are proposed, too.
SINGLES_MAX: Final = 2
SINGLE_MIN: Final = 8
# Strings are longer than lists: bounds for both are in this proportion.
_CHARACTERS_PER_ITEM: Final = 4
# The strings whose greatest length CEL knows by their format.
_SIZED_FORMATS: Final = frozenset({"date", "date-time", "duration"})

# The fields of a schema that lead to one of the schemas in it: `properties` and a name, `items`...
_Steps: TypeAlias = tuple[str, ...]
_Bounds: TypeAlias = Mapping["_Candidate", int]


class Bound(NamedTuple):
    """A bound of a schema. field: the path of its values in objects, as `spec.hosts[*]`."""

    field: str
    keyword: str
    value: int


class OverBudget(NamedTuple):
    """An estimated cost that exceeds its limit.

    field: as the error about it names it.
    remedies: alternatives, each of one bound or of several that are needed together; none if no bound helps.
    """

    field: str
    cost: int
    limit: int
    remedies: Sequence[Sequence[Bound]]

    @property
    def factor(self) -> float:
        return self.cost / self.limit


def over_budget(
    schema: JSONSchema, *, path: str, extensions: Extensions, versions: ExpressionVersions
) -> Iterator[OverBudget]:
    """Yields the costs of a valid schema that exceed their limits: of single rules, or else of all together.

    path: the schema's. versions: see `check_rules`.
    """

    def costs_of(tried: JSONSchema) -> Mapping[str, int]:
        return rule_costs(tried, path=path, extensions=extensions, versions=versions)

    def remedies(limit: int, wanted: Collection[str], rest: int = 0) -> Sequence[Sequence[Bound]]:
        def cost(tried: JSONSchema) -> int:
            tried_costs = costs_of(tried)
            return rest + sum(tried_costs[field] for field in wanted)

        focused = _Focus(extensions, wanted).of(schema, path)
        return () if focused is None else _Search(focused, extensions, cost, limit).remedies()

    costs = costs_of(schema)
    dear = [field for field, cost in costs.items() if cost > RULE_COST_MAX]
    for field in dear:
        yield OverBudget(field, costs[field], RULE_COST_MAX, remedies(RULE_COST_MAX, [field]))
    total = sum(costs.values())
    if total > SCHEMA_COST_MAX and not dear:
        wanted = [field for field, cost in costs.items() if cost >= CONTRIBUTION_MIN]
        rest = total - sum(costs[field] for field in wanted)
        yield OverBudget(path, total, SCHEMA_COST_MAX, remedies(SCHEMA_COST_MAX, wanted, rest))


class _Focus:
    """Copies a schema with some of its rules, and only the schemas that their costs depend on.

    fields: those of the expressions, as `rule_costs` names them.
    """

    def __init__(self, extensions: Extensions, fields: Collection[str]) -> None:
        self._rules_field = extensions.validations
        self._wanted = {field.rpartition(".")[0] for field in fields}

    def of(self, schema: JSONSchema, path: str, *, is_whole: bool = False) -> JSONSchema | None:
        """Returns the copy; None if it has no wanted rule, unless all of it is needed."""
        rules = [
            rule if f"{path}.{self._rules_field}[{index}]" in self._wanted else {}
            for index, rule in enumerate(schema.get(self._rules_field) or ())
        ]
        copied: dict[str, Any] = {**schema, self._rules_field: rules if any(rules) else []}
        is_whole |= any(rules)
        is_needed = is_whole
        for steps, child in _children(schema):
            name = f"[{steps[1]}]" if len(steps) > 1 else ""
            below = self.of(child, f"{path}.{steps[0]}{name}", is_whole=is_whole)
            is_needed |= below is not None
            if below is not None:
                copied = _replaced(copied, steps, below)
            elif len(steps) > 1:
                others = {key: each for key, each in copied["properties"].items() if key != steps[1]}
                copied = {**copied, "properties": others}
        return copied if is_needed else None


def _children(schema: JSONSchema) -> Iterator[tuple[_Steps, JSONSchema]]:
    for name, child in (schema.get("properties") or {}).items():
        yield ("properties", name), child
    for keyword in ("additionalProperties", "items"):
        if isinstance(child := schema.get(keyword), Mapping):
            yield (keyword,), child


def _replaced(schema: JSONSchema, steps: _Steps, value: Any) -> dict[str, Any]:
    """Returns a copy of a schema with another value at the end of some steps."""
    first, *rest = steps
    return {**schema, first: _replaced(schema[first], tuple(rest), value) if rest else value}


class _Candidate(NamedTuple):
    """A place for a bound. present: the value that it has in the schema; None if it has none."""

    steps: _Steps
    field: str
    keyword: str
    present: int | None


class _Search:
    """Searches for the bounds with which a schema costs at most `limit`."""

    def __init__(
        self, schema: JSONSchema, extensions: Extensions, cost: Callable[[JSONSchema], int], limit: int
    ) -> None:
        self._schema, self._extensions, self._cost, self._limit = schema, extensions, cost, limit

    def remedies(self) -> Sequence[Sequence[Bound]]:
        lowest = dict.fromkeys(self._candidates(), ROUND[0])
        cost = self._cost_with(lowest)
        if cost > self._limit:
            return ()
        # Without the bound on what matters, it costs more.
        relevant = [each for each in lowest if self._cost_with(_without(lowest, each)) > cost]
        found = [(each, self._greatest(each, {})) for each in relevant]
        singles = sorted(
            ((each, value) for each, value in found if value), key=lambda single: single[1], reverse=True
        )
        useful = [(each, value) for each, value in singles if value >= SINGLE_MIN]
        remedies: list[_Bounds] = [{each: value} for each, value in (useful or singles)[:SINGLES_MAX]]
        if len(relevant) > 1 and not useful:
            remedies.append(self._together(relevant))
        return [
            [Bound(each.field, each.keyword, value) for each, value in remedy.items()] for remedy in remedies
        ]

    def _together(self, relevant: Sequence[_Candidate]) -> _Bounds:
        """Returns the greatest bounds in proportion, without those that are not needed."""

        def in_proportion(value: int) -> dict[_Candidate, int]:
            return {
                each: value * (_CHARACTERS_PER_ITEM if each.keyword == "maxLength" else 1)
                for each in relevant
            }

        fits = bisect_right(
            ROUND, False, key=lambda value: self._cost_with(in_proportion(value)) > self._limit
        )
        bounds = in_proportion(ROUND[fits - 1]) if fits else dict.fromkeys(relevant, ROUND[0])
        for each in relevant:
            if self._cost_with(fewer := _without(bounds, each)) <= self._limit:
                bounds = fewer
        for each in bounds:
            bounds[each] = self._greatest(each, _without(bounds, each)) or bounds[each]
        return bounds

    def _greatest(self, candidate: _Candidate, others: _Bounds) -> int:
        """Returns the greatest round bound with which the cost fits, given others; 0 if there is none."""
        values = [each for each in ROUND if candidate.present is None or each < candidate.present]
        fits = bisect_right(
            values, False, key=lambda value: self._cost_with({**others, candidate: value}) > self._limit
        )
        return values[fits - 1] if fits else 0

    def _cost_with(self, bounds: _Bounds) -> int:
        schema = self._schema
        for candidate, value in bounds.items():
            least = value if candidate.present is None else min(value, candidate.present)
            schema = _replaced(schema, (*candidate.steps, candidate.keyword), least)
        return self._cost(schema)

    def _candidates(self) -> Sequence[_Candidate]:
        """Returns the places for a bound, those that rules name before others."""
        named: list[_Candidate] = []
        others: list[_Candidate] = []
        rules: list[str] = []
        level: list[tuple[_Steps, str, bool, JSONSchema]] = [((), "", True, self._schema)]
        while level:
            below: list[tuple[_Steps, str, bool, JSONSchema]] = []
            for steps, field, is_named, schema in level:
                rules += [str(rule) for rule in schema.get(self._extensions.validations) or () if rule]
                if keyword := self._keyword(schema):
                    candidate = _Candidate(steps, field, keyword, schema.get(keyword))
                    (named if is_named else others).append(candidate)
                for way, child in _children(schema):
                    name = way[-1] if len(way) > 1 else ""
                    place = field_below(field, name) if name else f"{field}[*]"
                    is_read = is_named and (not rules or not name or any(name in rule for rule in rules))
                    below.append(((*steps, *way), place, is_read, child))
            level = below
        return [*named, *others][:CANDIDATES_MAX]

    def _keyword(self, schema: JSONSchema) -> str:
        """Returns the keyword that bounds the sizes of values; empty if none does."""
        if schema.get(self._extensions.int_or_string):
            return "maxLength"
        match schema.get("type"):
            case "array":
                return "maxItems"
            case "object" if isinstance(schema.get("additionalProperties"), Mapping):
                return "maxProperties"
            case "string" if not schema.get("enum") and schema.get("format") not in _SIZED_FORMATS:
                return "maxLength"
            case _:
                return ""


def _without(bounds: _Bounds, candidate: _Candidate) -> dict[_Candidate, int]:
    return {each: value for each, value in bounds.items() if each != candidate}
