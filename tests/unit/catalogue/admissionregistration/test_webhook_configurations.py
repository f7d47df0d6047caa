"""Webhook configurations. Source: pkg/apis/admissionregistration/{validation,v1} (release 1.34); row T13."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.catalogue.admissionregistration.expressions import CHARACTERS_MAX
from tests.unit.catalogue.served_kinds import Changes, ServedKind

RULE: Final = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
HOOK: Final = {
    "name": "x.example.com",
    "clientConfig": {"url": "https://example.com/x"},
    "rules": [RULE],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
GROUP: Final = "admissionregistration.k8s.io"
VALIDATING: Final = ServedKind(f"validatingwebhookconfigurations.{GROUP}", {"webhooks": [HOOK]})
MUTATING: Final = ServedKind(f"mutatingwebhookconfigurations.{GROUP}", {"webhooks": [HOOK]})
COMPLETED: Final = {
    **HOOK,
    "rules": [{**RULE, "scope": "*"}],
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "timeoutSeconds": 10,
    "namespaceSelector": {},
    "objectSelector": {},
}


def test_webhooks_are_completed() -> None:
    validating, mutating = VALIDATING.create(), MUTATING.create()
    assert validating.errors == mutating.errors == []
    assert validating.document["webhooks"] == [COMPLETED]
    assert mutating.document["webhooks"] == [{**COMPLETED, "reinvocationPolicy": "Never"}]


def test_a_service_is_called_at_443() -> None:
    service = {"name": "s", "namespace": "n"}
    document, errors = VALIDATING.create({"webhooks.0.clientConfig": {"service": service}})
    assert errors == []
    assert document["webhooks"][0]["clientConfig"]["service"] == {**service, "port": 443}


def rule(**changes: Any) -> Changes:
    return {"webhooks.0.rules": [{**RULE, **changes}]}


def at_url(url: str) -> Changes:
    return {"webhooks.0.clientConfig.url": url}


def at_service(**changes: Any) -> Changes:
    return {"webhooks.0.clientConfig": {"service": {"name": "s", "namespace": "n", **changes}}}


_RULE: Final = "webhooks[0].rules[0]"
_URL: Final = "webhooks[0].clientConfig.url: "
_FORM: Final = "; desired format: https://host[/path]"
_SERVICE: Final = "webhooks[0].clientConfig.service"
INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "a name is a domain": (
        {"webhooks.0.name": "bad"},
        [
            (
                'webhooks[0].name: Invalid value: "bad": should be a domain with at least three segments '
                "separated "
                "by dots"
            )
        ],
    ),
    "names differ": ({"webhooks": [HOOK, HOOK]}, ['webhooks[1].name: Duplicate value: "x.example.com"']),
    "it is somewhere": (
        {"webhooks.0.clientConfig": {}},
        ["webhooks[0].clientConfig: Required value: exactly one of url or service is required"],
    ),
    "a URL is of HTTPS": (
        at_url("http://h/x"),
        [f"{_URL}Invalid value: \"http\": 'https' is the only allowed URL scheme{_FORM}"],
    ),
    "a URL has a host": (at_url("https:///x"), [f'{_URL}Invalid value: "": host must be specified{_FORM}']),
    "a URL is nothing more": (
        at_url("https://me:secret@h/x?y#z"),
        [
            f'{_URL}Invalid value: "me:secret": user information is not permitted in the URL',
            f'{_URL}Invalid value: "z": fragments are not permitted in the URL',
            f'{_URL}Invalid value: "y": query parameters are not permitted in the URL',
        ],
    ),
    "a user of no name is one": (
        at_url("https://@h/x"),
        [f'{_URL}Invalid value: "": user information is not permitted in the URL'],
    ),
    "a URL is one to Go": (
        at_url("https://h:port/x#y"),
        [
            (
                f'{_URL}Required value: url must be a valid URL: parse "https://h:port/x": '
                f'invalid port ":port" after host{_FORM}'
            )
        ],
    ),
    # As in Kubernetes, which exchanges the two.
    "a service has a name": (at_service(name=""), [f"{_SERVICE}.namespace: Required value"]),
    "a service has a namespace": (at_service(namespace=""), [f"{_SERVICE}.name: Required value"]),
    "a service's port is one": (
        at_service(port=70_000),
        [f"{_SERVICE}.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive"],
    ),
    "a service's path has segments": (
        at_service(path="/a//b"),
        [f'{_SERVICE}.path: Invalid value: "/a//b": segment[1] may not be empty'],
    ),
    "a rule is about something": (
        rule(operations=[], apiGroups=[], apiVersions=[], resources=[]),
        [
            f"{_RULE}.{field}: Required value"
            for field in ("operations", "apiGroups", "apiVersions", "resources")
        ],
    ),
    "everything leaves no room": (
        rule(operations=["*", "CREATE"]),
        [
            (
                f'{_RULE}.operations: Invalid value: ["*","CREATE"]: if \'*\' is present, must not specify '
                "other operations"
            )
        ],
    ),
    "an operation is known": (
        rule(operations=["GET"]),
        [
            (
                f'{_RULE}.operations[0]: Unsupported value: "GET": supported values: "*", "CONNECT", '
                '"CREATE", "DELETE", "UPDATE"'
            )
        ],
    ),
    "all subresources leave no room": (
        rule(resources=["pods/*", "pods/log"]),
        [
            (
                f"{_RULE}.resources[1]: Invalid value: \"pods/log\": if 'pods/*' is present, must not "
                "specify "
                "pods/log"
            )
        ],
    ),
    "timeouts end": (
        {"webhooks.0.timeoutSeconds": 31},
        ["webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds"],
    ),
    "a condition has a name and an expression": (
        {"webhooks.0.matchConditions": [{"expression": " "}]},
        [f"webhooks[0].matchConditions[0].{field}: Required value" for field in ("expression", "name")],
    ),
    "a condition compiles": (
        {
            "webhooks.0.matchConditions": [
                {"name": "a", "expression": "object.a == 1"},
                {"name": "b", "expression": "params.a"},
                {"name": "c", "expression": "object.a"},
            ]
        },
        [
            (
                'webhooks[0].matchConditions[1].expression: Invalid value: "params.a": compilation failed: '
                "ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n | params.a\n | ^"
            ),
            (
                'webhooks[0].matchConditions[2].expression: Invalid value: "object.a": must evaluate to bool '
                "but got dyn"
            ),
        ],
    ),
    "conditions are not too long": (
        {"webhooks.0.matchConditions": [{"name": "a", "expression": "x" * (CHARACTERS_MAX + 1)}]},
        [
            (
                f"webhooks: Forbidden: expressions must not have more than {CHARACTERS_MAX} characters "
                f"together, but have {CHARACTERS_MAX + 1}"
            )
        ],
    ),
    "it says what else it does": (
        {"webhooks.0.sideEffects": None},
        [("webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun")],
    ),
    "reviews have a version": (
        {"webhooks.0.admissionReviewVersions": []},
        [("webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1")],
    ),
    "review versions are told once": (
        {"webhooks.0.admissionReviewVersions": ["v1", "v1"]},
        ['webhooks[0].admissionReviewVersions[1]: Invalid value: "v1": duplicate version'],
    ),
}


@pytest.mark.parametrize("served", [VALIDATING, MUTATING], ids=["validating", "mutating"])
@pytest.mark.parametrize(("changes", "texts"), INVALID.values(), ids=INVALID)
def test_webhooks_that_are_wrong(served: ServedKind, changes: Changes, texts: list[str]) -> None:
    assert served.create(changes).texts == texts
    assert served.update(changes).texts == texts


def test_who_may_be_asked_again_is_one_of_two() -> None:
    (text,) = MUTATING.create({"webhooks.0.reinvocationPolicy": "Always"}).texts
    assert text.endswith('Unsupported value: "Always": supported values: "IfNeeded", "Never"')


def test_a_configuration_may_be_empty() -> None:
    assert VALIDATING.create({"webhooks": None}).errors == []
    assert VALIDATING.cells({"webhooks": [HOOK, HOOK]})["Webhooks"] == 2


# What is stored does not compile: another server has written it.
NOT_COMPILED: Final = {"webhooks.0.matchConditions": [{"name": "a", "expression": "x"}]}


def test_conditions_that_stay_are_not_refused() -> None:
    assert VALIDATING.update({"webhooks.0.timeoutSeconds": 3}, old=NOT_COMPILED).texts == []


def test_conditions_that_change_are() -> None:
    more = [{"name": "a", "expression": "x"}, {"name": "b", "expression": "true"}]
    refused = VALIDATING.update({"webhooks.0.matchConditions": more}, old=NOT_COMPILED).errors
    assert [error.field for error in refused] == ["webhooks[0].matchConditions[0].expression"]
