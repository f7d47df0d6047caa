"""Configuration that is stored and not heeded says so to those who rely on it."""

from __future__ import annotations

import itertools
from typing import Any, Final

import pytest

from tests.support.api import Api

REGISTRATION: Final = "/apis/admissionregistration.k8s.io/v1"
WEBHOOK: Final = {
    "name": "a.example.com",
    "clientConfig": {"url": "https://webhook.example.com"},
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
NOT_CALLED: Final = (
    "this server does not call admission webhooks: the configuration is stored, and has no effect"
)
NOT_EVALUATED: Final = (
    "this server does not evaluate admission policies: the object is stored, and has no effect"
)
HOOKS: Final = {"webhooks": [WEBHOOK]}
SLOWER: Final = {"webhooks": [{**WEBHOOK, "timeoutSeconds": 20}]}
# The resource, its fields, another value of them, the warning.
KINDS: Final[dict[str, tuple[str, dict[str, Any], dict[str, Any], str]]] = {
    "webhooks that validate": ("validatingwebhookconfigurations", HOOKS, SLOWER, NOT_CALLED),
    "webhooks that mutate": ("mutatingwebhookconfigurations", HOOKS, SLOWER, NOT_CALLED),
    "a policy": (
        "validatingadmissionpolicies",
        {
            "spec": {
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": ["example.com"],
                            "apiVersions": ["v1"],
                            "resources": ["widgets"],
                            "operations": ["CREATE"],
                        }
                    ]
                },
                "validations": [{"expression": "false"}],
            }
        },
        {"spec": {"validations": [{"expression": "true"}]}},
        NOT_EVALUATED,
    ),
    "a binding": (
        "validatingadmissionpolicybindings",
        {"spec": {"policyName": "p", "validationActions": ["Deny"]}},
        {"spec": {"validationActions": ["Warn"]}},
        NOT_EVALUATED,
    ),
}


@pytest.mark.parametrize(("resource", "fields", "other", "warning"), KINDS.values(), ids=KINDS)
def test_admission_that_is_not_carried_out(
    api: Api, resource: str, fields: dict[str, Any], other: dict[str, Any], warning: str
) -> None:
    """Who creates or changes it is warned; labels and repetitions change nothing of it."""
    path = f"{REGISTRATION}/{resource}"
    created = api.post(path, {"metadata": {"generateName": "unheeded-"}, **fields})
    document = created.ok()
    item = f"{path}/{document['metadata']['name']}"
    try:
        assert created.warnings == [warning]
        assert api.put(item, document).warnings == []
        assert api.patch(item, {"metadata": {"labels": {"a": "b"}}}).warnings == []
        assert api.patch(item, other).warnings == [warning]
    finally:
        api.delete(item).ok()


# ---- other API servers

APISERVICES: Final = "/apis/apiregistration.k8s.io/v1/apiservices"
SERVICE: Final = {"name": "s", "namespace": "default"}
_numbers: Final = itertools.count(1)


def available(document: dict[str, Any]) -> tuple[str, str]:
    (condition,) = document["status"]["conditions"]
    assert condition["lastTransitionTime"]
    return condition["status"], condition["reason"]


def test_a_foreign_server_is_not_available(api: Api) -> None:
    """Row T15: requests are not forwarded; the condition says so, and follows who serves."""
    group = f"foreign{next(_numbers)}.example.com"
    spec = {"group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10}
    foreign = {
        "metadata": {"name": f"v1.{group}"},
        "spec": {**spec, "service": SERVICE, "insecureSkipTLSVerify": True},
    }
    path = f"{APISERVICES}/v1.{group}"
    assert available(api.post(APISERVICES, foreign).ok()) == ("False", "AggregationNotSupported")
    try:
        local = {"spec": {"service": None, "insecureSkipTLSVerify": None}}
        assert available(api.patch(path, local).ok()) == ("True", "Local")
        assert available(api.patch(path, {"spec": {"service": SERVICE}}).ok())[0] == "False"
        assert available(api.patch(path, {"spec": {"versionPriority": 11}}).ok())[0] == "False"
    finally:
        api.delete(path).ok()
