"""What takes long is not done on the event loop, and has the same answer in a thread."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import pytest

from apiserver.admission.policies.budget import BOUNDED_COST_MAX
from apiserver.console.playground.answers import (
    COST_MAX,
    PATTERNS_COST_MAX,
    RESULT_BYTES_ON_LOOP_MAX,
    Abandoned,
    Answer,
    Effort,
)
from apiserver.console.playground.policy_expression import evaluate_policy, variables_of
from apiserver.console.playground.question import CHARACTERS_ON_LOOP_MAX, Kind, Question
from apiserver.console.playground.rule_expression import SCHEMAS_ON_LOOP_MAX, evaluate_rule
from apiserver.custom_resources.schemas.json_schema import JSONSchema
from apiserver.load.size_class import TakesLong
from tests.unit.console.playground.test_verdicts import EXTENSIONS, VERSION, Nobody

NUMBERS: Final = {"items": list(range(3_000)), "text": "x" * RESULT_BYTES_ON_LOOP_MAX}
LARGE: Final = {
    "type": "object",
    "properties": {
        "items": {"type": "array", "items": {"type": "integer"}},
        **{f"field-{number}": {"type": "string"} for number in range(SCHEMAS_ON_LOOP_MAX)},
    },
}
LONG: Final[dict[str, tuple[Question, Any]]] = {
    "many characters": (Question(Kind.POLICY, "1" + " " * CHARACTERS_ON_LOOP_MAX), 1),
    "many characters of a variable": (
        Question(Kind.POLICY, "variables.a", variables=[("a", "1" + " " * CHARACTERS_ON_LOOP_MAX)]),
        1,
    ),
    "a pattern": (Question(Kind.POLICY, r"'a'.matches('^\\pL{20}$')"), False),
    "a costly evaluation": (Question(Kind.POLICY, "object.items.all(i, i + 1 > i)", new=NUMBERS), True),
    "a costly variable": (
        Question(
            Kind.POLICY,
            "variables.a",
            new=NUMBERS,
            variables=[("a", "object.items.all(i, i + 1 > i)")],
        ),
        True,
    ),
    "a large result": (Question(Kind.POLICY, "object.text", new=NUMBERS), NUMBERS["text"]),
    "a costly rule": (Question(Kind.RULE, "self.items.all(i, i + 1 > i)", new=NUMBERS), True),
    "a rule with a pattern": (Question(Kind.RULE, "self.text.find('y')", new=NUMBERS), ""),
}


def answer(question: Question, schema: JSONSchema | None = None, *, is_bounded: bool) -> Answer:
    if question.kind is Kind.RULE:
        return evaluate_rule(question, schema, EXTENSIONS, VERSION, Effort(is_bounded))
    known = variables_of(question, {}, Nobody())
    return evaluate_policy(question, known, None, VERSION, Effort(is_bounded))


@pytest.mark.parametrize(("question", "result"), LONG.values(), ids=LONG)
def test_what_takes_long_leaves_the_event_loop(question: Question, result: Any) -> None:
    with pytest.raises(TakesLong):
        answer(question, is_bounded=True)
    found = answer(question, is_bounded=False)
    assert (found.error, found.issues, found.result) == (None, (), result)


def test_a_large_schema_leaves_the_event_loop() -> None:
    question = Question(Kind.RULE, "size(self.items)", new=NUMBERS)
    assert answer(question, is_bounded=True).result == 3_000
    with pytest.raises(TakesLong):
        answer(question, LARGE, is_bounded=True)
    assert answer(question, LARGE, is_bounded=False).result == 3_000


TEN: Final = str(list(range(10)))
COSTLY: Final = f"{TEN}.all(a, {TEN}.all(b, {TEN}.all(c, {TEN}.all(d, a + b + c + d >= 0))))"

SHARED: Final[dict[str, list[tuple[str, str]]]] = {
    "variables beside each other": [(f"v{number}", COSTLY) for number in range(20)],
    "variables that use each other": [
        ("v0", COSTLY),
        *((f"v{number}", f"variables.v{number - 1} && {COSTLY}") for number in range(1, 20)),
    ],
    "variables whose errors do not matter": [
        ("v0", COSTLY),
        *((f"v{number}", f"!variables.v{number - 1} || {COSTLY}") for number in range(1, 20)),
    ],
}


@pytest.mark.parametrize("variables", SHARED.values(), ids=SHARED)
def test_all_expressions_of_a_question_share_its_budget(variables: list[tuple[str, str]]) -> None:
    text = " && ".join(f"variables.{name}" for name, _ in variables)
    found = answer(Question(Kind.POLICY, text, variables=variables), is_bounded=False)
    assert "actual cost limit exceeded" in str(found.error)
    assert found.cost == COST_MAX == found.body()["costLimit"]


def test_variables_share_what_an_expression_may_spend_on_the_event_loop() -> None:
    # Costs more than half of what may be spent there.
    dozen = "lists.range(12)"
    costly = f"{dozen}.all(a,{dozen}.all(b,{dozen}.all(c,c>=0)))"
    variables = [("v0", costly), ("v1", f"variables.v0&&{costly}")]
    question = Question(Kind.POLICY, "variables.v0", variables=variables)
    cost = answer(question, is_bounded=True).cost
    assert cost is not None
    assert BOUNDED_COST_MAX / 2 < cost < BOUNDED_COST_MAX
    both = question._replace(expression="variables.v1")
    assert both.characters <= CHARACTERS_ON_LOOP_MAX
    with pytest.raises(TakesLong):
        answer(both, is_bounded=True)


MADE: Final[dict[str, tuple[str, int]]] = {
    "a constant pattern": ("lists.range(1000).all(x, !string(x).matches('a'))", COST_MAX),
    "a pattern that is made": ("lists.range(100).all(x, !'a'.matches('b' + string(x)))", PATTERNS_COST_MAX),
    "many patterns that are made": (
        "lists.range(5000).all(x, !'a'.matches('b' + string(x)))",
        PATTERNS_COST_MAX,
    ),
}


@pytest.mark.parametrize(("expression", "cost_max"), MADE.values(), ids=MADE)
@pytest.mark.parametrize("is_in_variable", [False, True], ids=["in the expression", "in a variable"])
def test_patterns_that_are_made_have_a_lower_limit(
    expression: str, cost_max: int, is_in_variable: bool
) -> None:
    question = Question(Kind.POLICY, expression)
    if is_in_variable:
        question = Question(Kind.POLICY, "variables.v", variables=[("v", expression)])
    body = answer(question, is_bounded=False).body()
    assert body["costLimit"] == cost_max
    is_exceeded = "5000" in expression
    assert (body["result"], body["cost"] == cost_max) == (None if is_exceeded else True, is_exceeded)


def test_a_rule_that_makes_patterns_has_the_lower_limit() -> None:
    question = Question(Kind.RULE, "self.a.all(p, !'a'.matches(p))", new={"a": ["b"] * 3})
    assert answer(question, is_bounded=False).body()["costLimit"] == PATTERNS_COST_MAX


def test_the_work_for_a_client_that_is_gone_ends_before_the_next_expression() -> None:
    known = variables_of(Question(Kind.POLICY, "1"), {}, Nobody())
    variables = [(f"v{number}", "1") for number in range(3)]
    question = Question(Kind.POLICY, "variables.v0 + variables.v1 + variables.v2", variables=variables)
    checks = 0

    def is_gone_after(most: int) -> bool:
        nonlocal checks
        checks += 1
        return checks > most

    evaluate_policy(
        question, known, None, VERSION, Effort(is_bounded=False, is_abandoned=lambda: is_gone_after(99))
    )
    all_checks, checks = checks, 0
    assert all_checks == 2 * (len(variables) + 1), "each is compiled, and evaluated"
    for most in range(all_checks):
        checks = 0
        effort = Effort(is_bounded=False, is_abandoned=partial(is_gone_after, most))
        with pytest.raises(Abandoned):
            evaluate_policy(question, known, None, VERSION, effort)
        assert checks == most + 1
    rule = Question(Kind.RULE, "self.a", new={"a": 1})
    with pytest.raises(Abandoned):
        evaluate_rule(rule, None, EXTENSIONS, VERSION, Effort(is_bounded=False, is_abandoned=lambda: True))
