"""What policies say about a write: k8s.io/apiserver, pkg/admission/plugin/policy/validating."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.admission.policies.budget import COST_BUDGET, Budget
from apiserver.admission.policies.evaluation import Denial, evaluate, holds
from apiserver.admission.policies.policy import ValidatingPolicy
from apiserver.load.size_class import TakesLong
from apiserver.meta.vocabulary import Document

OBJECT: Final = {"metadata": {"name": "a"}, "spec": {"replicas": 3, "image": "nginx"}}
# Costs some 45,000, whatever the object.
COSTLY: Final = (
    "[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, a+b+c < 99)))"
)


def policy(*validations: Document, **spec: Any) -> ValidatingPolicy:
    return ValidatingPolicy.of(
        {"metadata": {"name": "p"}, "spec": {"validations": list(validations), **spec}}
    )


def said(
    policy: ValidatingPolicy, params: Any = None, *, bounded: int | None = None, total: int = COST_BUDGET
) -> list[Denial]:
    variables = {"object": OBJECT, "oldObject": None, "request": {"operation": "CREATE"}}
    return list(evaluate(policy, variables, params, Budget(total, bounded)).denials)


def messages(*validations: Document, **spec: Any) -> list[str]:
    return [each.message for each in said(policy(*validations, **spec)) if not each.is_ignored]


MESSAGES: dict[str, tuple[Document, list[str]]] = {
    "what is true is allowed": ({"expression": "object.spec.replicas == 3"}, []),
    "the expression, if there is no message": (
        {"expression": " object.spec.replicas > 3 "},
        ["failed expression: object.spec.replicas > 3"],
    ),
    "the message": ({"expression": "false", "message": " no "}, ["no"]),
    "an expression for it comes first": (
        {"expression": "false", "message": "no", "messageExpression": "'not ' + string(object.spec.image)"},
        ["not nginx"],
    ),
    "unless it fails": (
        {"expression": "false", "message": "no", "messageExpression": "string(object.spec.none)"},
        ["no"],
    ),
    "or is blank": ({"expression": "false", "message": "no", "messageExpression": "' '"}, ["no"]),
    "or has lines": ({"expression": "false", "message": "no", "messageExpression": "'a\\nb'"}, ["no"]),
    "or is too long": (
        {"expression": "false", "message": "no", "messageExpression": f"'{'x' * 5_121}'"},
        ["no"],
    ),
    "bytes count": (
        {"expression": "false", "message": "no", "messageExpression": f"'{'é' * 2_561}'"},
        ["no"],
    ),
    "spaces around it do not": (
        {"expression": "false", "message": "no", "messageExpression": f"'{'x' * 5_120}  '"},
        ["x" * 5_120],
    ),
    "an error": (
        {"expression": "object.none == 1"},
        ["expression 'object.none == 1' resulted in error: no such key: none"],
    ),
}


@pytest.mark.parametrize(("validation", "expected"), MESSAGES.values(), ids=MESSAGES)
def test_message(validation: Document, expected: list[str]) -> None:
    assert messages(validation) == expected


def test_every_validation_counts() -> None:
    assert messages({"expression": "false", "message": "a"}, {"expression": "false", "message": "b"}) == [
        "a",
        "b",
    ]


def test_the_reason_is_invalid_if_none_is_given() -> None:
    given = said(policy({"expression": "false", "reason": "Forbidden"}, {"expression": "false"}))
    assert [each.reason for each in given] == ["Forbidden", "Invalid"]


def test_errors_of_a_policy_that_may_fail_count_for_nothing() -> None:
    assert messages({"expression": "object.none == 1"}, failurePolicy="Ignore") == []
    assert messages({"expression": "false", "message": "no"}, failurePolicy="Ignore") == ["no"]


CONDITIONS: dict[str, tuple[list[str], list[str]]] = {
    "true": (["true"], ["no"]),
    "false": (["true", "false"], []),
    "an error": (
        ["object.none == 1"],
        ["expression 'object.none == 1' resulted in error: no such key: none"],
    ),
    "an error, and false": (["object.none == 1", "false"], []),
    "two errors": (
        ["object.none == 1", "object.nought == 1"],
        [
            (
                "[expression 'object.none == 1' resulted in error: no such key: none, "
                "expression 'object.nought == 1' resulted in error: no such key: nought]"
            )
        ],
    ),
}


@pytest.mark.parametrize(("conditions", "expected"), CONDITIONS.values(), ids=CONDITIONS)
def test_match_conditions(conditions: list[str], expected: list[str]) -> None:
    named = [{"name": f"c{n}", "expression": text} for n, text in enumerate(conditions)]
    assert messages({"expression": "false", "message": "no"}, matchConditions=named) == expected


# How many conditions have had errors, and whether all are met.
CHECKS: Final = {
    "all are true": (["true", "true"], 0, True),
    "one is false": (["true", "false", "object.none == 1"], 0, False),
    "one has an error": (["object.none == 1", "true"], 1, False),
    "an error counts also before one that is false": (["object.none == 1", "false"], 1, False),
    "two have": (["object.none == 1", "object.nought == 1"], 2, False),
}


@pytest.mark.parametrize(("texts", "errors", "is_met"), CHECKS.values(), ids=CHECKS)
def test_what_is_told_of_match_conditions(texts: list[str], errors: int, is_met: bool) -> None:
    named = [{"name": f"c{n}", "expression": text} for n, text in enumerate(texts)]
    for failure_policy in ("Fail", "Ignore"):
        rule = policy({"expression": "true"}, matchConditions=named, failurePolicy=failure_policy)
        check = evaluate(rule, {"object": {}}, None, Budget(COST_BUDGET, None)).conditions
        assert check is not None
        assert (check.policy, check.errors, check.is_met) == (rule.name, errors, is_met)
        assert check.seconds > 0
    assert (
        evaluate(policy({"expression": "true"}), {"object": {}}, None, Budget(COST_BUDGET, None)).conditions
        is None
    )


VARIABLES: Final = [
    {"name": "bad", "expression": "object.none"},
    {"name": "replicas", "expression": "object.spec.replicas"},
    {"name": "twice", "expression": "variables.replicas * 2"},
]


def test_variables_are_evaluated_when_they_are_used() -> None:
    used = {"expression": "variables.twice == 7", "messageExpression": "'is ' + string(variables.twice)"}
    assert messages(used, variables=VARIABLES) == ["is 6"]
    assert messages({"expression": "true || variables.bad == 1"}, variables=VARIABLES) == []
    (text,) = messages({"expression": "variables.bad == 1"}, variables=VARIABLES)
    assert text.endswith('resulted in error: composited variable "bad" fails to evaluate: no such key: none')


def test_a_stored_variable_that_refers_to_itself_is_one_error() -> None:
    stored = [{"name": "a", "expression": "variables.a"}]
    (text,) = messages({"expression": "variables.a == 1"}, variables=stored)
    assert text.count("composited variable") == 1
    assert 'composited variable "a" fails to compile: compilation failed: ERROR: ' in text
    assert "undefined field 'a'" in text


def test_a_variable_is_evaluated_once() -> None:
    costly = [{"name": "costly", "expression": COSTLY}]
    budget = Budget(COST_BUDGET, None)
    evaluate(policy({"expression": "variables.costly"}, variables=costly), {}, None, budget)
    once = COST_BUDGET - budget.left
    assert said(policy(*[{"expression": "variables.costly"}] * 20, variables=costly), total=2 * once) == []


def test_parameters() -> None:
    rule = policy(
        {"expression": "params.max >= object.spec.replicas"}, paramKind={"apiVersion": "v1", "kind": "X"}
    )
    assert said(rule, {"max": 3}) == []
    assert len(said(rule, {"max": 2})) == 1


def test_what_takes_long_is_left_to_who_has_time() -> None:
    """It has the same result then."""
    rule = policy({"expression": COSTLY}, {"expression": "false", "message": "no"})
    with pytest.raises(TakesLong):
        said(rule, bounded=1_000)
    assert [each.message for each in said(rule)] == ["no"]


def test_a_variable_that_takes_long_does_so_too() -> None:
    rule = policy({"expression": "variables.v"}, variables=[{"name": "v", "expression": COSTLY}])
    with pytest.raises(TakesLong):
        said(rule, bounded=1_000)


def test_the_budget_of_a_policy_is_spent_by_all_its_expressions() -> None:
    budget = Budget(COST_BUDGET, None)
    evaluate(policy({"expression": COSTLY}), {}, None, budget)
    cost = COST_BUDGET - budget.left
    assert said(policy({"expression": COSTLY}), total=cost) == []
    texts = [each.message for each in said(policy(*[{"expression": COSTLY}] * 3), total=cost + 10)]
    assert len(texts) == 2
    assert "actual cost limit exceeded" in texts[0]
    assert texts[1].startswith("validation failed due to running out of cost budget")


def test_an_annotation_that_fails_denies_unless_the_policy_may_fail() -> None:
    failing = [{"key": "k", "valueExpression": "string(object.none)"}]
    assert len(said(policy(auditAnnotations=failing))) == 1
    assert said(policy(auditAnnotations=failing, failurePolicy="Ignore")) == []


def test_what_does_not_compile_is_an_error_when_it_is_needed() -> None:
    (text,) = messages({"expression": "object.("})
    assert text.startswith("compilation error: compilation failed: ")


# Policies that are told quickly to allow a write, and those of which `evaluate` has to tell.
QUICK: Final[dict[str, tuple[dict[str, Any], bool]]] = {
    "all is true": (
        {"validations": [{"expression": "object.spec.replicas == 3"}, {"expression": COSTLY}]},
        True,
    ),
    "one is false": ({"validations": [{"expression": COSTLY}, {"expression": "false"}]}, False),
    "one fails": ({"validations": [{"expression": "true"}, {"expression": "object.none"}]}, False),
    "one does not compile": ({"validations": [{"expression": "true"}, {"expression": "object.("}]}, False),
    "no validations": ({}, False),
    "conditions": (
        {"validations": [{"expression": "true"}], "matchConditions": [{"name": "c", "expression": "true"}]},
        False,
    ),
    "variables": (
        {"validations": [{"expression": "true"}], "variables": [{"name": "v", "expression": "1"}]},
        False,
    ),
    "parameters": (
        {"validations": [{"expression": "true"}], "paramKind": {"apiVersion": "v1", "kind": "X"}},
        False,
    ),
    "annotations": (
        {
            "validations": [{"expression": "true"}],
            "auditAnnotations": [{"key": "k", "valueExpression": "'v'"}],
        },
        False,
    ),
}


@pytest.mark.parametrize(("spec", "expected"), QUICK.values(), ids=QUICK)
def test_what_is_told_quickly(spec: dict[str, Any], expected: bool) -> None:
    """It costs what it costs otherwise; where nothing can be told, nothing is spent."""
    rule, variables = policy(**spec), {"object": OBJECT, "request": {}}
    quick, whole = Budget(COST_BUDGET, 100_000), Budget(COST_BUDGET, 100_000)
    assert holds(rule, variables, quick) is expected
    denials = evaluate(rule, variables, None, whole).denials
    if expected:
        assert not denials
        assert (quick.left, quick.bounded) == (whole.left, whole.bounded)
    else:
        assert (quick.left, quick.bounded) == (COST_BUDGET, 100_000)


def test_what_takes_long_is_not_told_quickly() -> None:
    budget = Budget(COST_BUDGET, 1_000)
    assert not holds(policy({"expression": COSTLY}), {"object": OBJECT}, budget)
    assert (budget.left, budget.bounded) == (COST_BUDGET, 1_000)


def test_a_policy_tells_which_variables_it_sees() -> None:
    """Of the request nothing is made that no expression names."""
    assert policy({"expression": "object.metadata.name != 'request'"}).sees == {"object"}
    rule = policy(
        {"expression": "variables.v == 1", "messageExpression": "request.operation"},
        variables=[{"name": "v", "expression": "size(oldObject)"}],
        matchConditions=[{"name": "c", "expression": "authorizer.path('/x').check('get').allowed()"}],
        auditAnnotations=[{"key": "k", "valueExpression": "namespaceObject.metadata.name"}],
    )
    assert rule.sees == {"variables", "request", "oldObject", "authorizer", "namespaceObject"}


ANNOTATIONS: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "a text": ("' image ' + object.spec.image", [("key", "image nginx")]),
    "nothing": ("null", []),
    "a blank": ("' '", []),
    "what fails is no annotation": ("string(object.spec.none)", []),
    "one that is too long is cut": (f"'{'x' * 10_241}'", [("key", "x" * 10_240)]),
    "to whole characters of so many bytes": (f"'x{'é' * 5_120}'", [("key", "x" + "é" * 5_119)]),
}


@pytest.mark.parametrize(("expression", "expected"), ANNOTATIONS.values(), ids=ANNOTATIONS)
def test_what_a_policy_adds_to_the_record(expression: str, expected: list[tuple[str, str]]) -> None:
    annotation = {"key": "key", "valueExpression": expression}
    variables = {"object": OBJECT, "oldObject": None, "request": {}}
    found = evaluate(policy(auditAnnotations=[annotation]), variables, None, Budget(COST_BUDGET, None))
    assert list(found.annotations) == expected
