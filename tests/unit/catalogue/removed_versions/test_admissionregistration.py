"""Webhook configurations and policies of admissionregistration/v1beta1. Row T13.

Source: pkg/apis/admissionregistration/v1beta1/defaults.go and validation (release 1.21).
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.meta.errors import Invalid
from tests.unit.catalogue.removed_versions.old_kinds import OldKind, read_by_current
from tests.unit.catalogue.served_kinds import Changes, changed

GROUP: Final = "admissionregistration.k8s.io"
RULE: Final = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
HOOK: Final = {
    "name": "x.example.com",
    "clientConfig": {"service": {"name": "s", "namespace": "n"}},
    "rules": [RULE],
}
VALIDATING: Final = f"validatingwebhookconfigurations.{GROUP}"
MUTATING: Final = f"mutatingwebhookconfigurations.{GROUP}"
RESOURCES: Final = (VALIDATING, MUTATING)
COMPLETED: Final = {
    **HOOK,
    "clientConfig": {"service": {"name": "s", "namespace": "n", "port": 443}},
    "rules": [{**RULE, "scope": "*"}],
    "failurePolicy": "Ignore",
    "matchPolicy": "Exact",
    "timeoutSeconds": 30,
    "sideEffects": "Unknown",
    "admissionReviewVersions": ["v1beta1"],
    "namespaceSelector": {},
    "objectSelector": {},
}


def kinds(resource: str) -> tuple[OldKind, OldKind]:
    """v1beta1 and v1."""
    beta, stable = (OldKind(resource, version, 21, {"webhooks": [HOOK]}) for version in ("v1beta1", "v1"))
    return beta, stable


@pytest.mark.parametrize("resource", RESOURCES)
def test_defaults_are_those_of_the_version(resource: str) -> None:
    beta, _ = kinds(resource)
    more = {"reinvocationPolicy": "Never"} if resource == MUTATING else {}
    created = beta.create()
    assert created.texts == []
    assert created.document["webhooks"] == [{**COMPLETED, **more}]


@pytest.mark.parametrize("resource", RESOURCES)
def test_conversion(resource: str) -> None:
    beta, _ = kinds(resource)
    document = beta.completed()
    current = {**document, "apiVersion": f"{GROUP}/v1"}
    assert beta.to_hub(document) == read_by_current(document) == current
    assert beta.from_hub(current) == document


COMPLETE: Final = {"webhooks": [COMPLETED]}
STRICT: Final = {**COMPLETED, "sideEffects": "None"}
# What v1beta1 allows, and how v1 refuses it.
ALLOWED: Final[dict[str, tuple[Changes, str]]] = {
    "unknown side effects": (
        COMPLETE,
        'webhooks[0].sideEffects: Unsupported value: "Unknown": supported values: "None", "NoneOnDryRun"',
    ),
    "some side effects": (
        {**COMPLETE, "webhooks.0.sideEffects": "Some"},
        'webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"',
    ),
    "names that are repeated": (
        {"webhooks": [STRICT, STRICT]},
        'webhooks[1].name: Duplicate value: "x.example.com"',
    ),
}


@pytest.mark.parametrize(("changes", "refusal"), ALLOWED.values(), ids=ALLOWED)
@pytest.mark.parametrize("resource", RESOURCES)
def test_what_only_v1beta1_allows(resource: str, changes: Changes, refusal: str) -> None:
    beta, stable = kinds(resource)
    assert beta.create(changes).texts == []
    assert stable.create(changes).texts == [refusal]
    # What is stored may stay.
    labels = {"metadata.labels": {"a": "b"}}
    assert beta.update(labels, old=changes).texts == []
    stored = beta.create(changes).document
    assert stable.strategy.update.validate(changed(stored, labels), stored) == []


def test_side_effects_must_be_known_ones() -> None:
    beta, _ = kinds(VALIDATING)
    (text,) = beta.create({"webhooks.0.sideEffects": "Strange"}).texts
    assert text.endswith('"Strange": supported values: "None", "NoneOnDryRun", "Some", "Unknown"')


def test_a_webhook_that_v1_would_take_must_stay_one() -> None:
    _, stable = kinds(VALIDATING)
    stored: dict[str, Any] = stable.create({"webhooks": [STRICT]}).document
    new = changed(stored, {"webhooks.0.sideEffects": "Some"})
    assert [str(each) for each in stable.strategy.update.validate(new, stored)] == [
        'webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"'
    ]


POLICY: Final = {
    "spec": {
        "matchConstraints": {"resourceRules": [RULE]},
        "validations": [{"expression": "object.metadata.name != 'x'"}],
    }
}
BINDING: Final = {"spec": {"policyName": "a", "validationActions": ["Deny"]}}


@pytest.mark.parametrize(
    ("resource", "valid"),
    [("validatingadmissionpolicies", POLICY), ("validatingadmissionpolicybindings", BINDING)],
)
def test_policies_of_v1beta1_are_those_of_v1(resource: str, valid: dict[str, Any]) -> None:
    beta, stable = (OldKind(f"{resource}.{GROUP}", version, 33, valid) for version in ("v1beta1", "v1"))
    assert beta.create().texts == []
    assert beta.current() == stable.completed()
    assert beta.from_hub(beta.current()) == beta.completed()
    assert read_by_current(beta.completed()) == beta.current()


def test_bindings_of_1_26_deny() -> None:
    """They could not say what they do."""
    resource = f"validatingadmissionpolicybindings.{GROUP}"
    binding = OldKind(resource, "v1alpha1", 26, {"spec": {"policyName": "a"}})
    created = binding.create()
    assert created.texts == []
    assert created.document["spec"]["validationActions"] == ["Deny"]
    assert read_by_current(binding.completed()) == binding.current()
    with pytest.raises(Invalid, match="at least one validation action is required"):
        OldKind(resource, "v1alpha1", 27, {"spec": {"policyName": "a"}}).create()
