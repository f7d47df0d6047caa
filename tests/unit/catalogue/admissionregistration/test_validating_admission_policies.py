"""ValidatingAdmissionPolicies. Source: pkg/apis/admissionregistration/{validation,v1} (release 1.34)."""

from __future__ import annotations

from typing import Final

import pytest

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
            'spec.validations[0].message: Invalid value: "\\n": message must be non-empty if specified',
        ],
    ),
    "a message is one line": (
        {"spec.validations.0.message": "a\nb"},
        ['spec.validations[0].message: Invalid value: "a\\nb": message must not contain line breaks'],
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
            'spec.variables[0].name: Invalid value: "in": name is not a valid CEL identifier',
            'spec.variables[1].name: Invalid value: "a-b": name is not a valid CEL identifier',
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
    "a resource is named once": (
        {"spec.matchConstraints.resourceRules": [{**RULE, "resourceNames": ["a", "a"]}]},
        ['spec.matchConstraints.resourceRules[0].resourceNames[1]: Duplicate value: "a"'],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), INVALID.values(), ids=INVALID)
def test_policies_that_are_wrong(changes: Changes, texts: list[str]) -> None:
    assert POLICY.create(changes).texts == texts


def test_the_status_tells_what_is_warned_of() -> None:
    warnings = [{"fieldRef": " ", "warning": ""}]
    changes = {"status.typeChecking": {"expressionWarnings": warnings}}
    where = "status.typeChecking.expressionWarnings[0]"
    expected = [f"{where}.warning: Required value", f"{where}.fieldRef: Required value"]
    assert POLICY.update(changes, "status").texts == expected
    assert POLICY.update(changes).document["status"] == {}
