"""What evaluating the rules of an object may cost. Rows R33, R34."""

from __future__ import annotations

import time
from typing import Final

from tests.unit.custom_resources.rules.schemas import INT, array_of, errors, ruled

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
    started = time.perf_counter()
    found = errors(schema, [list(range(200))] * 200)
    assert "running out of cost budget" in found[-1]
    assert len(found) < 100
    assert time.perf_counter() - started < 10


def test_messages_are_worked_out_within_the_same_budget() -> None:
    dear = {"rule": "false", "messageExpression": f"string({SQUARE})"}
    (found,) = errors(ruled(NUMBERS, dear, "false"), list(range(2_000)))
    said = "no further validation rules will be run due to call cost exceeds limit for messageExpression"
    assert found == f'spec: Invalid value: "array": {said}: "string({SQUARE})"'
    *_, last = found_in_all = errors(array_of(ruled(NUMBERS, dear)), [list(range(300))] * 30)
    said = "messageExpression evaluation failed due to running out of cost budget"
    assert last.endswith(f"{said}, no further validation rules will be run")
    assert len(found_in_all) < 30
