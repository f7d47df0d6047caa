"""What takes long is not done on the event loop, and has the same answer in a thread."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.console.playground.answers import RESULT_BYTES_ON_LOOP_MAX, Answer
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
        return evaluate_rule(question, schema, EXTENSIONS, VERSION, is_bounded=is_bounded)
    known = variables_of(question, {}, Nobody())
    return evaluate_policy(question, known, None, VERSION, is_bounded=is_bounded)


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
