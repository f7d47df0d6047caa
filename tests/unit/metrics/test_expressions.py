"""How long the validation rules of definitions take."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from apiserver.custom_resources.rules.validator import RuleValidator
from apiserver.load.size_class import TakesLong
from apiserver.metrics.expressions import ExpressionMetrics

RULE = {"x-kubernetes-validations": [{"rule": "self >= 0"}], "type": "integer"}
SCHEMA = {
    "type": "object",
    "properties": {"a": RULE, "b": RULE | {"maximum": 9}, "c": {"type": "array", "items": dict(RULE)}},
}


def counts(metrics: ExpressionMetrics) -> tuple[int, int]:
    """Compilations and evaluations."""
    found = {}
    for family in metrics.families():
        (count,) = (
            line for line in "".join(family.series).splitlines() if line.startswith(f"{family.name}_count")
        )
        found[family.name] = int(count.split()[1])
    return found["apiserver_cel_compilation_duration_seconds"], found[
        "apiserver_cel_evaluation_duration_seconds"
    ]


def test_schemas_are_compiled_once_and_evaluated_for_each_object() -> None:
    """As k8s.io/apiextensions-apiserver compiles: the rules of one schema together, when they are needed."""
    metrics = ExpressionMetrics()
    rules = RuleValidator(SCHEMA, vendor="kubernetes", timer=metrics)
    assert counts(metrics) == (0, 0)
    assert rules.validate({"a": 1}, is_bounded=False).errors == []
    assert counts(metrics) == (1, 1)
    assert rules.validate({"a": 1, "b": 2}, {"a": 1}, is_bounded=False).errors == []
    assert len(rules.validate({"a": -1, "b": 2, "c": [1, -2, 3]}, is_bounded=False).errors) == 2
    assert counts(metrics) == (3, 3)


def test_a_definition_without_rules_costs_nothing() -> None:
    metrics = ExpressionMetrics()
    RuleValidator({"type": "object"}, vendor="kubernetes", timer=metrics).validate({}, is_bounded=False)
    assert counts(metrics) == (0, 0)


def test_what_gives_up_is_not_counted() -> None:
    """It is evaluated again, in a thread."""
    metrics = ExpressionMetrics()
    rule = {"rule": "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"}
    items = {
        "type": "array",
        "maxItems": 100,
        "items": {"type": "integer"},
        "x-kubernetes-validations": [rule],
    }
    rules = RuleValidator({"type": "object", "properties": {"a": items}}, vendor="kubernetes", timer=metrics)
    document = {"a": [*range(60)]}
    with pytest.raises(TakesLong):
        rules.validate(document, is_bounded=True)
    assert counts(metrics)[1] == 0
    rules.validate(document, is_bounded=False)
    assert counts(metrics) == (1, 1)


def test_none_is_lost_between_threads() -> None:
    metrics = ExpressionMetrics()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: metrics.evaluated(0.0), range(1_000)))
    assert counts(metrics) == (0, 1_000)
