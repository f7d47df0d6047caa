"""ValidatingAdmissionPolicies. Source: pkg/apis/admissionregistration/{validation,v1} (release 1.34)."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.catalogue.admissionregistration.expressions import CHARACTERS_MAX, EXPRESSIONS_MAX
from tests.unit.catalogue.served_kinds import Changes, ServedKind

RULE: Final = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
GROUP: Final = "admissionregistration.k8s.io"
POLICY: Final = ServedKind(
    f"validatingadmissionpolicies.{GROUP}",
    {"spec": {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "true"}]}},
)
MATCH: Final = {
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "resourceRules": [{**RULE, "scope": "*"}],
}


def test_a_policy_is_completed() -> None:
    document, errors = POLICY.create({"status": {"observedGeneration": 3}})
    assert errors == []
    assert document["spec"]["failurePolicy"] == "Fail"
    assert document["spec"]["matchConstraints"] == MATCH
    assert document["status"] == {}


_TOO_MANY: Final = "spec: Forbidden: must not have more than"
_NOTHING: Final = "Required value: validations or auditAnnotations must contain at least one item"
INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "it matches something": (
        {"spec.matchConstraints": {}},
        ["spec.matchConstraints.resourceRules: Required value"],
    ),
    "it says what": ({"spec.matchConstraints": None}, ["spec.matchConstraints: Required value"]),
    "it does something": (
        {"spec.validations": None},
        [f"spec.validations: {_NOTHING}", f"spec.auditAnnotations: {_NOTHING}"],
    ),
    "a validation has an expression": (
        {"spec.validations": [{"message": "\n"}]},
        [
            "spec.validations[0].expression: Required value: expression is not specified",
            'spec.validations[0].message: Invalid value: "\\n": must be non-empty if specified',
        ],
    ),
    "a message is one line": (
        {"spec.validations.0.message": "a\nb"},
        ['spec.validations[0].message: Invalid value: "a\\nb": must not contain line breaks'],
    ),
    "an empty text is no failure policy and no match policy": (
        {"spec.failurePolicy": "", "spec.matchConstraints.matchPolicy": ""},
        [
            'spec.failurePolicy: Unsupported value: "": supported values: "Fail", "Ignore"',
            (
                'spec.matchConstraints.matchPolicy: Unsupported value: "": supported values: "Equivalent", '
                '"Exact"'
            ),
        ],
    ),
    "a reason is known": (
        {"spec.validations.0.reason": "Gone"},
        [
            (
                'spec.validations[0].reason: Unsupported value: "Gone": supported values: "Forbidden", '
                '"Invalid", '
                '"RequestEntityTooLarge"'
            )
        ],
    ),
    "a variable can be written in CEL": (
        {"spec.variables": [{"name": "in", "expression": "1"}, {"name": "a-b", "expression": "1"}]},
        [
            'spec.variables[0].name: Invalid value: "in": must be a valid CEL identifier',
            'spec.variables[1].name: Invalid value: "a-b": must be a valid CEL identifier',
        ],
    ),
    "parameters are of a kind": (
        {"spec.paramKind": {"apiVersion": "a/b/c"}},
        [
            'spec.paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
            "spec.paramKind.kind: Required value",
        ],
    ),
    "annotations have keys of their own": (
        {"spec.auditAnnotations": [{"key": "k", "valueExpression": "'v'"}, {"key": "k"}]},
        [
            "spec.auditAnnotations[1].valueExpression: Required value: valueExpression is not specified",
            'spec.auditAnnotations[1].key: Duplicate value: "k"',
        ],
    ),
    "expressions compile": (
        {
            "spec.matchConditions": [{"name": "a", "expression": " 1 "}],
            "spec.variables": [{"name": "a", "expression": "x"}, {"name": "b", "expression": "variables.a"}],
            "spec.validations": [{"expression": "variables.c", "messageExpression": "authorizer"}],
            "spec.auditAnnotations": [{"key": "k", "valueExpression": " 1"}],
        },
        [
            'spec.matchConditions[0].expression: Invalid value: "1": must evaluate to bool but got int',
            (
                'spec.variables[0].expression: Invalid value: "x": compilation failed: ERROR: <input>:1:1: '
                "undeclared reference to 'x' (in container '')\n | x\n | ^"
            ),
            (
                'spec.validations[0].expression: Invalid value: "variables.c": compilation failed: ERROR: '
                "<input>:1:10: undefined field 'c'\n | variables.c\n | .........^"
            ),
            (
                'spec.validations[0].messageExpression: Invalid value: "authorizer": compilation failed: '
                "ERROR: <input>:1:1: undeclared reference to 'authorizer' (in container '')"
                "\n | authorizer\n | ^"
            ),
            (
                'spec.auditAnnotations[0].valueExpression: Invalid value: " 1": must evaluate to one of '
                "[string null_type] but got int"
            ),
        ],
    ),
    "match conditions see no variables": (
        {
            "spec.matchConditions": [{"name": "a", "expression": "variables.a"}],
            "spec.variables": [{"name": "a", "expression": "true"}],
        },
        [
            (
                'spec.matchConditions[0].expression: Invalid value: "variables.a": compilation failed: '
                "ERROR: <input>:1:1: undeclared reference to 'variables' (in container '')"
                "\n | variables.a\n | ^"
            )
        ],
    ),
    "parameters have a kind": (
        {"spec.validations": [{"expression": "params == null"}]},
        [
            (
                'spec.validations[0].expression: Invalid value: "params == null": compilation failed: ERROR: '
                "<input>:1:1: undeclared reference to 'params' (in container '')\n | params == null\n | ^"
            )
        ],
    ),
    "expressions are not too many": (
        {"spec.validations": [{"expression": "x"}] * (EXPRESSIONS_MAX + 1)},
        [f"{_TOO_MANY} {EXPRESSIONS_MAX} expressions, but has {EXPRESSIONS_MAX + 1}"],
    ),
    "nor too long": (
        {"spec.validations": [{"expression": "x" * CHARACTERS_MAX, "messageExpression": "x"}]},
        [
            (
                f"spec: Forbidden: expressions must not have more than {CHARACTERS_MAX} characters together, "
                f"but have {CHARACTERS_MAX + 1}"
            )
        ],
    ),
    "a resource is named once": (
        {"spec.matchConstraints.resourceRules": [{**RULE, "resourceNames": ["a", "a"]}]},
        ['spec.matchConstraints.resourceRules[0].resourceNames[1]: Duplicate value: "a"'],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), INVALID.values(), ids=INVALID)
def test_policies_that_are_wrong(changes: Changes, texts: list[str]) -> None:
    assert POLICY.create(changes).texts == texts


PARAMETERS: Final = {"apiVersion": "example.com/v1", "kind": "Limit"}
ACCEPTED: Final[dict[str, Changes]] = {
    "variables use those before them": {
        "spec.variables": [{"name": "a", "expression": "1"}, {"name": "b", "expression": "variables.a + 1"}],
        "spec.validations": [{"expression": "variables.b == 2", "messageExpression": "string(variables.b)"}],
        "spec.auditAnnotations": [{"key": "k", "valueExpression": " variables.b > 1 ? 'a' : 'b' "}],
    },
    "all may use parameters": {
        "spec.paramKind": PARAMETERS,
        "spec.matchConditions": [{"name": "a", "expression": "params.x == 1"}],
        "spec.variables": [{"name": "a", "expression": "params.y"}],
        "spec.validations": [{"expression": "params.z == 1", "messageExpression": "string(params.z)"}],
    },
}


@pytest.mark.parametrize("changes", ACCEPTED.values(), ids=ACCEPTED)
def test_policies_that_are_right(changes: Changes) -> None:
    assert POLICY.create(changes).texts == []


# What is stored, what changes, and the fields that are refused then. All that is stored does not compile:
# another server has written it.
STORED: Final[dict[str, tuple[Changes, Changes, list[str]]]] = {
    "what stays is not refused": (
        {
            "spec.matchConditions": [{"name": "a", "expression": "x"}],
            "spec.variables": [{"name": "a", "expression": "x"}],
            "spec.validations": [{"expression": "x", "messageExpression": "x"}],
            "spec.auditAnnotations": [{"key": "k", "valueExpression": "x"}],
        },
        {"spec.failurePolicy": "Ignore"},
        [],
    ),
    "what changes is": (
        {
            "spec.matchConditions": [{"name": "a", "expression": "x"}],
            "spec.validations": [{"expression": "x"}, {"expression": "y"}],
        },
        {
            "spec.validations.0.expression": "z",
            "spec.matchConditions": [{"name": "a", "expression": "x"}, {"name": "b", "expression": "true"}],
        },
        ["spec.matchConditions[0].expression", "spec.validations[0].expression"],
    ),
    "what moves is not": (
        {"spec.validations": [{"expression": "x"}, {"expression": "y"}]},
        {"spec.validations": [{"expression": "y"}]},
        [],
    ),
    "what is stored as something else is new": (
        {"spec.validations": [{"expression": "x", "messageExpression": "'a'"}]},
        {"spec.validations.0.expression": "'a'", "spec.validations.0.messageExpression": "x"},
        ["spec.validations[0].expression", "spec.validations[0].messageExpression"],
    ),
    "variables give what is stored another meaning": (
        {
            "spec.variables": [{"name": "a", "expression": "'1'"}],
            "spec.validations": [{"expression": "variables.a == '1'"}],
        },
        {"spec.variables.0.expression": "1"},
        ["spec.validations[0].expression"],
    ),
    "parameters do, too": (
        {
            "spec.paramKind": PARAMETERS,
            "spec.matchConditions": [{"name": "a", "expression": "params.x == 1"}],
            "spec.validations": [{"expression": "params == null"}],
        },
        {"spec.paramKind": None},
        ["spec.matchConditions[0].expression", "spec.validations[0].expression"],
    ),
    "another kind of parameters does not": (
        {"spec.paramKind": PARAMETERS, "spec.validations": [{"expression": "x"}]},
        {"spec.paramKind.kind": "Other"},
        [],
    ),
    "new expressions use the variables that stay": (
        {
            "spec.variables": [{"name": "a", "expression": "1"}, {"name": "b", "expression": "x"}],
            "spec.validations": [{"expression": "x"}],
        },
        {"spec.validations": [{"expression": "variables.a == 1"}, {"expression": "variables.a == ''"}]},
        ["spec.validations[1].expression"],
    ),
    "too many that stay are not": (
        {"spec.validations": [{"expression": "x"}] * (EXPRESSIONS_MAX + 1)},
        {"spec.failurePolicy": "Ignore"},
        [],
    ),
}


@pytest.mark.parametrize(("stored", "changes", "refused"), STORED.values(), ids=STORED)
def test_updates_are_refused_for_what_they_change(
    stored: Changes, changes: Changes, refused: list[str]
) -> None:
    assert [error.field for error in POLICY.update(changes, old=stored).errors] == refused


def test_expressions_are_compiled_beside_the_event_loop() -> None:
    assert POLICY.strategy.is_costly


def test_a_status_is_written_whatever_the_expressions_are() -> None:
    stored = {"spec.validations": [{"expression": "x"}]}
    assert POLICY.update({"status.observedGeneration": 1}, "status", old=stored).texts == []


def test_the_status_tells_what_is_warned_of() -> None:
    warnings = [{"fieldRef": " ", "warning": ""}]
    changes = {"status.typeChecking": {"expressionWarnings": warnings}}
    where = "status.typeChecking.expressionWarnings[0]"
    expected = [f"{where}.warning: Required value", f"{where}.fieldRef: Required value"]
    assert POLICY.update(changes, "status").texts == expected
    assert POLICY.update(changes).document["status"] == {}


MUTATING: Final = ServedKind(
    f"mutatingadmissionpolicies.{GROUP}",
    {
        "spec": {
            "matchConstraints": {"resourceRules": [RULE]},
            "reinvocationPolicy": "Never",
            "mutations": [
                {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}
            ],
        }
    },
)
# The expressions of variables in their order, by their names, and the first that refers to what comes later.
# Kubernetes takes the last two, and ends at the first write that they match.
CIRCLES: Final[dict[str, tuple[list[tuple[str, str]], int, str]]] = {
    "itself": ([("a", "variables.a")], 0, "a"),
    "itself, beside another": ([("a", "1"), ("b", "variables.a + variables.b")], 1, "b"),
    "itself, within a loop": ([("a", "[1].all(i, i == variables.a)")], 0, "a"),
    "one that is declared later": ([("a", "variables.b"), ("b", "1")], 0, "b"),
    "each other": ([("a", "variables.b"), ("b", "variables.a")], 0, "b"),
    "itself, which is declared twice": ([("a", "1"), ("a", "variables.a")], 1, "a"),
    "one that is declared again later": ([("a", "1"), ("b", "variables.a"), ("a", "variables.b")], 1, "a"),
}


@pytest.mark.parametrize("kind", [POLICY, MUTATING], ids=["validating", "mutating"])
@pytest.mark.parametrize(("variables", "index", "name"), CIRCLES.values(), ids=CIRCLES)
def test_a_variable_may_use_only_those_before_it(
    kind: ServedKind, variables: list[tuple[str, str]], index: int, name: str
) -> None:
    """A policy that is stored with one may be changed otherwise."""
    found = {"spec.variables": [{"name": each, "expression": text} for each, text in variables]}
    errors = kind.create(found).errors
    assert errors[0].field == f"spec.variables[{index}].expression"
    assert f"undefined field '{name}'" in errors[0].message
    assert kind.update({"spec.failurePolicy": "Ignore"}, old=found).texts == []


def test_a_variable_that_is_declared_twice_is_what_the_last_says() -> None:
    twice = [{"name": "a", "expression": "1"}, {"name": "a", "expression": "'x'"}]
    right = {"spec.variables": twice, "spec.validations": [{"expression": "variables.a == 'x'"}]}
    assert POLICY.create(right).texts == []
    assert len(POLICY.create({**right, "spec.validations": [{"expression": "variables.a == 1"}]}).texts) == 1
