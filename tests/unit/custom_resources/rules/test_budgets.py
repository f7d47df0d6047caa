"""What evaluating the rules of an object may cost. Rows R33, R34."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.custom_resources.definitions.validation.schema_defaults import DefaultValue, evaluate_defaults
from apiserver.custom_resources.rules.evaluation import ERRORS_MAX
from apiserver.custom_resources.rules.validator import RuleValidator
from apiserver.golang.regex import compile_pattern
from apiserver.load.size_class import TakesLong
from apiserver.schema.extensions import Extensions
from tests.unit.custom_resources.rules.schemas import INT, STRING, Schema, array_of, errors, object_of, ruled

SQUARE: Final = "self.all(x, self.all(y, x <= y || y <= x))"
NUMBERS: Final = array_of(INT)


def test_one_evaluation_may_cost_a_million() -> None:
    found = errors(ruled(NUMBERS, SQUARE, "false"), list(range(2_000)))
    text = "no further validation rules will be run due to call cost exceeds limit for rule"
    assert found == [
        f"spec: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': {text}: {SQUARE}"
    ]


def test_all_evaluations_for_an_object_may_cost_ten_millions() -> None:
    cheap = {"rule": "true", "message": "cheap"}
    schema = array_of(ruled(NUMBERS, cheap, {"rule": SQUARE, "message": "dear"}))
    (found,) = errors(schema, [list(range(300))] * 30)
    said = "validation failed due to running out of cost budget, no further validation rules will be run"
    assert said in found
    assert found.startswith("spec[")
    # Kubernetes does not tell which rules the budget went to.
    spent, _, rest = found.partition("(spent ")[2].partition(" for ")
    assert 9_000_000 < int(spent) <= 10_000_000
    assert rest.startswith(f'"{SQUARE}"')


def test_errors_cost_what_led_to_them() -> None:
    schema = array_of(ruled(NUMBERS, f"{SQUARE} && self[999] == 0"))
    started = time.process_time()
    found = errors(schema, [list(range(200))] * 200)
    assert "running out of cost budget" in found[-1]
    assert len(found) < 100
    assert time.process_time() - started < 10


def test_messages_are_worked_out_within_the_same_budget() -> None:
    dear = {"rule": "false", "messageExpression": f"string({SQUARE})"}
    (found,) = errors(ruled(NUMBERS, dear, "false"), list(range(2_000)))
    said = "no further validation rules will be run due to call cost exceeds limit for messageExpression"
    assert found == f'spec: Invalid value: "array": {said}: "string({SQUARE})"'
    *_, last = found_in_all = errors(array_of(ruled(NUMBERS, dear)), [list(range(300))] * 30)
    said = "messageExpression evaluation failed due to running out of cost budget"
    assert last.endswith(f"{said}, no further validation rules will be run")
    assert len(found_in_all) < 30


def test_evaluation_stops_after_the_most_errors_that_are_reported() -> None:
    """Registries show no more; and there may be millions."""
    items = ruled(INT, "self == -1", {"rule": "self == -2", "message": "m"})
    assert len(errors(array_of(items), list(range(100_000)))) == ERRORS_MAX
    assert len(errors(array_of(ruled(INT, "1 / self == 2")), [0] * 100_000)) == ERRORS_MAX
    same = {"spec": [0] * 100_000}
    found = RuleValidator(object_of(spec=array_of(items)), vendor="kubernetes").validate(
        same, same, is_bounded=False
    )
    assert (found.errors, len(found.warnings)) == ([], ERRORS_MAX)


def test_rules_that_cost_nothing_take_no_time() -> None:
    """No budget would end them."""
    started = time.process_time()
    assert errors(array_of(ruled(INT, *["true || false"] * 1_000)), list(range(100_000))) == []
    assert time.process_time() - started < 5
    assert errors(ruled(INT, "true", "true ? false : true"), 0) == [
        "spec: Invalid value: 0: failed rule: true ? false : true"
    ]


# ---- bounded


def rules_of(spec: Schema) -> RuleValidator:
    return RuleValidator(object_of(spec=spec), vendor="kubernetes")


EASY: Final = ruled(object_of(n=INT, l=NUMBERS), "self.n > 1", "self.l.all(x, x > 0)", "self.n == oldSelf.n")
LONG: Mapping[str, tuple[Schema, Any]] = {
    "what costs much": (ruled(NUMBERS, SQUARE), list(range(300))),
    "what costs much for each of many": (array_of(ruled(NUMBERS, SQUARE)), [list(range(30))] * 100),
    "many evaluations": (array_of(ruled(INT, "self >= 0", "self < 9999")), list(range(8_000))),
    "a message": (ruled(NUMBERS, {"rule": "false", "messageExpression": f"string({SQUARE})"}), [1] * 300),
    "many rules to compile": (ruled(INT, *[f"self != {-each}" for each in range(1, 500)]), 0),
    "a long rule to compile": (ruled(INT, "||".join(["self == 0"] * 500)), 0),
    "a pattern to compile": (ruled(STRING, r"self.matches('[^\\pL]{50}')"), "a"),
    "a large schema to look at": (
        ruled(object_of(**{f"f{each}": INT for each in range(5_000)}), "has(self.f1)"),
        {"f1": 1},
    ),
}


def test_bounded_evaluation_of_little_finds_the_same() -> None:
    rules = rules_of(EASY)
    new, old = {"spec": {"n": 1, "l": [0, 1]}}, {"spec": {"n": 2, "l": [0]}}
    assert rules.validate(new, is_bounded=True) == rules.validate(new, is_bounded=False)
    assert rules.validate(new, old, is_bounded=True) == rules.validate(new, old, is_bounded=False)
    assert len(rules.validate(new, old, is_bounded=False).errors) == 3


@pytest.mark.parametrize(("schema", "value"), LONG.values(), ids=LONG)
def test_bounded_evaluation_of_much_raises(schema: Schema, value: Any) -> None:
    rules, new = rules_of(schema), {"spec": value}
    with pytest.raises(TakesLong):
        rules.validate(new, is_bounded=True)
    assert rules.validate(new, is_bounded=False) == rules_of(schema).validate(new, is_bounded=False)


def test_a_pattern_of_a_message_to_compile_counts_as_that_of_a_rule() -> None:
    rule = {"rule": "self == 'a'", "messageExpression": "self.find('[a-z]*') + '?'"}
    with pytest.raises(TakesLong):
        rules_of(ruled(STRING, rule)).validate({"spec": "b"}, is_bounded=True)


# Each has a pattern of its own, as compiled patterns are kept.
@pytest.mark.parametrize(("function", "count"), [("matches", 101), ("find", 102), ("findAll", 103)])
def test_compiled_patterns_are_ready_for_values_that_no_one_has_evaluated(function: str, count: int) -> None:
    """An expression evaluates a part of its patterns only for some values."""
    began = time.process_time()
    compile_pattern(rf"[^\pL]{{{count + 10}}}")
    compiling_s = time.process_time() - began
    call = rf"self.{function}('[^\\pL]{{{count}}}')"
    is_met = call if function == "matches" else f"size({call}) > 0"
    rules = rules_of(ruled(STRING, f"self == 'a' || {is_met}"))
    rules.validate({"spec": "a"}, is_bounded=False)
    began = time.process_time()
    assert len(rules.validate({"spec": "b"}, is_bounded=True).errors) == 1
    assert time.process_time() - began < compiling_s / 2


def test_compiled_rules_no_longer_count_as_much() -> None:
    schema, value = LONG["many rules to compile"]
    rules, new = rules_of(schema), {"spec": value}
    with pytest.raises(TakesLong):
        rules.validate(new, is_bounded=True)
    found = rules.validate(new, is_bounded=False)
    assert rules.validate(new, is_bounded=True) == found


NESTED: Final = rules_of(
    array_of(ruled(NUMBERS, "self.all(x, self.exists_one(y, x == y))", "self.size() < 9"))
)


@given(st.lists(st.lists(st.integers(0, 3), max_size=60), max_size=60))
def test_bounded_evaluation_raises_or_finds_the_same(value: list[list[int]]) -> None:
    new = {"spec": value}
    try:
        found = NESTED.validate(new, is_bounded=True)
    except TakesLong:
        return
    assert found == NESTED.validate(new, is_bounded=False)


# ---- the defaults of a definition


def test_defaults_share_the_budget_of_one_object() -> None:
    dear = DefaultValue(ruled(NUMBERS, SQUARE), list(range(250)), "d")
    started = time.process_time()
    (found,) = evaluate_defaults([dear] * 10_000, Extensions("kubernetes"))
    assert time.process_time() - started < 30
    assert "running out of cost budget" in found.message
    assert evaluate_defaults([dear] * 10, Extensions("kubernetes")) == []


def test_a_default_that_costs_too_much_is_the_last() -> None:
    dear = DefaultValue(ruled(NUMBERS, SQUARE), list(range(2_000)), "d")
    bad = DefaultValue(ruled(NUMBERS, "false"), [], "bad")
    found = evaluate_defaults([bad, dear, bad], Extensions("kubernetes"))
    assert [error.field for error in found] == ["bad", "d"]
