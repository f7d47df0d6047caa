"""The bounds that bring rules within their cost limits: the greatest round ones that the server accepts."""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Mapping
from typing import Any, Final

import pytest

from apiserver.cel.compatibility_version import ExpressionVersions
from apiserver.custom_resources.definitions.validation.cost_bounds import (
    ROUND,
    Bound,
    OverBudget,
    over_budget,
)
from apiserver.custom_resources.definitions.validation.schema_rules import check_rules
from apiserver.schema.extensions import Extensions
from tests.support.compatibility import DEFAULT_COMPATIBILITY
from tests.support.processor import slowness
from tests.unit.custom_resources.rules.schemas import STRING, Schema, array_of, map_of, object_of, ruled

PATH: Final = "spec.validation.openAPIV3Schema"
X: Final = Extensions("kubernetes")
NEW: Final = ExpressionVersions(DEFAULT_COMPATIBILITY)
SIZED: Final = {**STRING, "maxLength": 63}


def found(schema: Schema) -> list[OverBudget]:
    return list(over_budget(schema, path=PATH, extensions=X, versions=NEW))


def errors(schema: Schema) -> list[str]:
    return [str(each) for each in check_rules(schema, path=PATH, extensions=X, versions=NEW)]


def bounded(schema: Schema, *bounds: Bound) -> Schema:
    """The schema with bounds at the schemas of their fields."""
    schema = copy.deepcopy(schema)
    for bound in bounds:
        node: Any = schema
        for name in re.findall(r"\[\*\]|[^.\[\]]+", bound.field):
            if name != "[*]":
                node = node["properties"][name]
            else:
                node = node["items"] if "items" in node else node["additionalProperties"]
        node[bound.keyword] = bound.value
    return schema


def next_round(value: int) -> int:
    higher: int = min(each for each in (*ROUND, ROUND[-1] * 2) if each > value)
    return higher


CASES: Mapping[str, tuple[Schema, list[list[tuple[str, str]]]]] = {
    "a list without a bound": (
        object_of(spec=object_of(hosts=ruled(array_of(SIZED), "self.all(x, self.exists(y, x == y))"))),
        [[("spec.hosts", "maxItems")]],
    ),
    "a map around the rule": (
        object_of(spec=map_of(ruled(object_of(a=array_of(SIZED, maxItems=100)), "self.a.all(x, x > 'a')"))),
        [[("spec", "maxProperties")]],
    ),
    "a text without a bound": (
        object_of(spec=array_of(ruled(STRING, "self.matches('a.*b')"), maxItems=1000)),
        [[("spec[*]", "maxLength")], [("spec", "maxItems")]],
    ),
    "a bound that is too great": (
        object_of(spec=ruled(array_of(SIZED, maxItems=100_000), "self.all(x, self.exists(y, x == y))")),
        [[("spec", "maxItems")]],
    ),
    "lists in lists, which need several bounds": (
        object_of(
            spec=ruled(
                object_of(rows=array_of(object_of(cells=array_of(STRING)))),
                "self.rows.all(r, r.cells.all(c, self.rows.exists(s, s.cells.exists(d, c == d))))",
            )
        ),
        [
            [
                ("spec.rows", "maxItems"),
                ("spec.rows[*].cells", "maxItems"),
                ("spec.rows[*].cells[*]", "maxLength"),
            ]
        ],
    ),
    "an integer or a string": (
        object_of(
            spec=array_of(
                ruled({"x-kubernetes-int-or-string": True}, "type(self) == int || self.matches('a+')"),
                maxItems=1000,
            )
        ),
        [[("spec[*]", "maxLength")], [("spec", "maxItems")]],
    ),
    "a message": (
        object_of(
            spec=ruled(
                array_of(SIZED),
                {"rule": "true", "messageExpression": "string(self.all(x, self.all(y, x == y)))"},
            )
        ),
        [[("spec", "maxItems")]],
    ),
}


@pytest.mark.parametrize(("schema", "expected"), CASES.values(), ids=CASES)
def test_the_bounds_are_the_greatest_that_the_server_accepts(
    schema: Schema, expected: list[list[tuple[str, str]]]
) -> None:
    (over,) = found(schema)
    refused = next(each for each in errors(schema) if each.startswith(over.field))
    factor = "more than 100x" if over.factor > 100 else f"{over.factor:.1f}x"
    assert f"exceeds budget by factor of {factor}" in refused
    assert [[(each.field, each.keyword) for each in remedy] for remedy in over.remedies] == expected
    for remedy in over.remedies:
        assert errors(bounded(schema, *remedy)) == []
        for bound in remedy:
            greater = bound._replace(value=next_round(bound.value))
            others = [each for each in remedy if each != bound]
            assert errors(bounded(schema, *others, greater)) != []


def test_a_rule_that_no_bound_can_mend() -> None:
    numbers = str(list(range(40)))
    loops = "".join(f"{numbers}.all({name}, " for name in "abcde")
    dear = f"{loops} a + b < 99 {')' * 5}"
    schema = object_of(spec=ruled(object_of(a=SIZED), dear))
    (over,) = found(schema)
    assert over.remedies == ()
    assert errors(schema)[0].startswith(over.field)


def test_all_rules_together() -> None:
    """No rule costs too much by itself: one bound on what they share is enough."""
    items = object_of(
        **{f"p{index}": ruled(array_of(SIZED, maxItems=10), "self.all(x, x > 'a')") for index in range(40)}
    )
    schema = object_of(spec=array_of(items, maxItems=100_000))
    (over,) = found(schema)
    assert (over.field, over.remedies[0][0].field) == (PATH, "spec")
    assert "rule cost total for entire OpenAPIv3 schema exceeds" in errors(schema)[-1]
    assert errors(bounded(schema, *over.remedies[0])) == []


def test_what_is_within_budget() -> None:
    assert found(object_of(spec=ruled(array_of(SIZED, maxItems=10), "self.all(x, x > 'a')"))) == []
    assert found(object_of(spec=array_of(STRING))) == []


def test_a_schema_with_many_fields_takes_no_long_time() -> None:
    wide = object_of(**{f"p{index}": object_of(q=array_of(STRING)) for index in range(1_000)})
    schema = object_of(spec=ruled(wide, "self.p7.q.all(x, self.p8.q.exists(y, x == y))"))
    started = time.process_time()
    (over,) = found(schema)
    assert {bound.field[:7] for remedy in over.remedies for bound in remedy} == {"spec.p7", "spec.p8"}
    assert time.process_time() - started < 10 * slowness()
