"""ValidatingAdmissionPolicies: what they may refuse, and what they cannot do to the server.

The recorded conversations (`policies/*`, `admission/vap-*`) say what they decide, and in which words.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.hostile.support import longest_turn
from tests.support.api import Api
from tests.support.definitions import OPEN_SPEC, define, define_two_versions, definition, new_group, version
from tests.support.fixtures import server_with
from tests.support.metrics import metrics_of
from tests.support.objects import config_map, config_maps

GROUP: Final = "/apis/admissionregistration.k8s.io/v1"
POLICIES: Final = f"{GROUP}/validatingadmissionpolicies"
BINDINGS: Final = f"{GROUP}/validatingadmissionpolicybindings"
CONFIG_MAPS: Final = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE", "DELETE"],
    "resources": ["configmaps"],
}


server = server_with()


def policy(namespace: str, *expressions: str, name: str = "", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name or f"p-{namespace}"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [CONFIG_MAPS],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            },
            "validations": [{"expression": each} for each in expressions],
            **spec,
        },
    }


def binding(namespace: str, name: str = "", **spec: Any) -> dict[str, Any]:
    name = name or f"p-{namespace}"
    return {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"], **spec}}


def test_a_policy_counts_from_the_next_write_on(api: Api, namespace: str) -> None:
    path = config_maps(namespace)
    api.post(POLICIES, policy(namespace, "object.data.k == 'v'")).ok()
    api.post(path, config_map("unbound", k="x")).ok()
    api.post(BINDINGS, binding(namespace)).ok()
    refused = api.post(path, config_map(k="x"))
    assert (refused.status, refused.json["reason"]) == (422, "Invalid")
    api.post(path, config_map(k="v")).ok()
    assert api.patch(f"{path}/a", {"data": {"k": "x"}}).status == 422
    api.delete(f"{BINDINGS}/p-{namespace}").ok()
    api.patch(f"{path}/a", {"data": {"k": "x"}}).ok()


def test_match_conditions_see_the_namespace(api: Api, namespace: str) -> None:
    """docs/reference/differences.md: kube-apiserver has them see none."""
    condition = f"namespaceObject.metadata.name == '{namespace}'"
    conditions = [{"name": "c", "expression": condition}]
    api.post(POLICIES, policy(namespace, "false", matchConditions=conditions)).ok()
    api.post(BINDINGS, binding(namespace)).ok()
    refused = api.post(config_maps(namespace), {"metadata": {"generateName": "a-"}})
    assert refused.status == 422
    assert refused.message.startswith('configmaps "a-')
    assert refused.message.endswith("denied request: failed expression: false")
    assert refused.json["details"]["name"].startswith("a-")


def test_deletes_are_decided_by_the_old_object(api: Api, namespace: str) -> None:
    path = config_maps(namespace)
    api.post(POLICIES, policy(namespace, "object != null || oldObject.data.keep == 'no'")).ok()
    api.post(BINDINGS, binding(namespace)).ok()
    for name, keep in (("kept", "yes"), ("gone", "no")):
        api.post(path, config_map(name, keep=keep)).ok()
    assert api.delete(f"{path}/kept").status == 422
    assert api.delete(f"{path}/gone").status == 200
    assert api.delete(path).status == 422
    assert [each["metadata"]["name"] for each in api.get(path).ok()["items"] if "keep" in each["data"]] == [
        "kept"
    ]


EVERYTHING: Final = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
_ASKED: Final = {"user": "u", "resourceAttributes": {"verb": "get", "resource": "pods"}}
# By path; the local one has its namespace in the path.
REVIEWS: Final[dict[str, dict[str, Any]]] = {
    "authentication.k8s.io/v1/tokenreviews": {"token": "t"},
    "authentication.k8s.io/v1/selfsubjectreviews": {},
    "authorization.k8s.io/v1/subjectaccessreviews": _ASKED,
    "authorization.k8s.io/v1/selfsubjectaccessreviews": {"resourceAttributes": _ASKED["resourceAttributes"]},
    "authorization.k8s.io/v1/selfsubjectrulesreviews": {"namespace": "default"},
    "authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews": {
        "user": "u",
        "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"},
    },
}


def test_no_policy_is_asked_about_reviews(api: Api, namespace: str) -> None:
    """Others ask this server who somebody is, and what they may do."""
    rules = {"resourceRules": [EVERYTHING]}
    api.post(POLICIES, policy(namespace, "false", matchConstraints=rules)).ok()
    api.post(BINDINGS, binding(namespace)).ok()
    try:
        answers = {path: api.post(f"/apis/{path}", {"spec": spec}).status for path, spec in REVIEWS.items()}
    finally:
        api.delete(f"{BINDINGS}/p-{namespace}").ok()
        api.delete(f"{POLICIES}/p-{namespace}").ok()
    assert answers == dict.fromkeys(REVIEWS, 201)


def test_a_policy_cannot_keep_itself(api: Api, namespace: str) -> None:
    rules = {"resourceRules": [EVERYTHING]}
    api.post(POLICIES, policy(namespace, "false", matchConstraints=rules)).ok()
    api.post(BINDINGS, binding(namespace)).ok()
    try:
        assert api.post(config_maps(namespace), config_map()).status == 422
    finally:
        api.delete(f"{BINDINGS}/p-{namespace}").ok()
        api.delete(f"{POLICIES}/p-{namespace}").ok()
    api.post(config_maps(namespace), config_map()).ok()


def test_parameters_that_are_deleted_under_a_policy(api: Api, namespace: str) -> None:
    path = config_maps(namespace)
    defined = define(api, definition(new_group(), version(schema=OPEN_SPEC)))
    defined.create("limits", namespace, spec={"max": 3}).ok()
    kind = {"apiVersion": f"{defined.group}/v1", "kind": defined.kind}
    api.post(POLICIES, policy(namespace, "size(object.data) <= params.spec.max", paramKind=kind)).ok()
    api.post(
        BINDINGS, binding(namespace, paramRef={"name": "limits", "parameterNotFoundAction": "Deny"})
    ).ok()
    assert api.post(path, config_map(a="1", b="2", c="3", d="4")).status == 422
    api.post(path, config_map("three", a="1", b="2", c="3")).ok()
    api.delete(f"{defined.objects(namespace)}/limits").ok()
    refused = api.post(path, config_map(a="1"))
    assert "no params found" in refused.json["message"]
    api.delete(defined.path).ok()
    refused = api.post(path, config_map(a="1"))
    assert refused.status == 422


def test_a_policy_with_a_kind_of_parameters_that_does_not_exist(api: Api, namespace: str) -> None:
    """The binding's actions do not matter: it is no failure of the object's."""
    kind = {"apiVersion": "example.com/v1", "kind": "Nothing"}
    api.post(POLICIES, policy(namespace, "true", paramKind=kind)).ok()
    ref = {"name": "x", "parameterNotFoundAction": "Deny"}
    api.post(BINDINGS, binding(namespace, paramRef=ref, validationActions=["Warn"])).ok()
    refused = api.post(config_maps(namespace), config_map())
    assert refused.status == 422
    assert (
        "paramKind kind `&ParamKind{APIVersion:example.com/v1,Kind:Nothing,}` not known"
        in refused.json["message"]
    )


def test_expressions_that_cost_too_much_hold_up_nobody(api: Api, namespace: str) -> None:
    """Each may cost a million units, some 0.3 s: beside the event loop."""
    loop = "[0,1,2,3,4,5,6,7,8,9].all({}, {})"
    nested = "a + b + c + d + e < 99"
    for name in "edcba":
        nested = loop.format(name, nested)
    api.post(POLICIES, policy(namespace, nested)).ok()
    api.post(BINDINGS, binding(namespace)).ok()
    with longest_turn(api) as turn:
        refused = api.post(config_maps(namespace), config_map())
    assert "actual cost limit exceeded" in refused.json["message"]
    assert turn.thread_cpu_s <= 0.05


def test_all_parameters_that_a_selector_selects_count(api: Api, namespace: str) -> None:
    labels = {"limits": namespace}
    for number in range(3):
        body = {"metadata": {"name": f"{namespace}-{number}", "labels": labels}, "data": {"not": f"{number}"}}
        api.post(config_maps("default"), body).ok()
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    api.post(POLICIES, policy(namespace, "params.data['not'] != object.data.k", paramKind=kind)).ok()
    selector = {"matchLabels": labels}
    ref = {"selector": selector, "namespace": "default", "parameterNotFoundAction": "Deny"}
    api.post(BINDINGS, binding(namespace, paramRef=ref)).ok()
    statuses = [api.post(config_maps(namespace), config_map(f"c{k}", k=f"{k}")).status for k in range(4)]
    assert statuses == [422, 422, 422, 201]


def test_a_thousand_parameters_hold_up_nobody(api: Api, namespace: str) -> None:
    """Each costs little; all of them together are evaluated beside the event loop."""
    labels = {"many": namespace}
    for number in range(1_000):
        body = {"metadata": {"name": f"{namespace}-{number}", "labels": labels}, "data": {"k": "v" * 1_000}}
        api.post(config_maps("default"), body).ok()
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    sum_ = "[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, params.data.k.contains('v')))"
    api.post(POLICIES, policy(namespace, sum_, paramKind=kind)).ok()
    ref = {"selector": {"matchLabels": labels}, "namespace": "default", "parameterNotFoundAction": "Deny"}
    api.post(BINDINGS, binding(namespace, paramRef=ref)).ok()
    with longest_turn(api) as turn:
        api.post(config_maps(namespace), config_map()).ok()
        api.post(config_maps("default"), {"metadata": {"name": f"{namespace}-more", "labels": labels}}).ok()
        refused = api.post(config_maps(namespace), config_map("b"))
    assert f"selects more than {1_000} objects" in refused.json["message"]
    assert turn.thread_cpu_s <= 0.05


def test_custom_resources_in_the_version_of_the_rule(api: Api, namespace: str) -> None:
    defined = define_two_versions(api, OPEN_SPEC)
    constraints = {"resourceRules": [defined.create_rule]}
    expression = (
        f"object.apiVersion == '{defined.group}/v1' && request.kind.version == 'v1' && object.spec.k == 'v'"
    )
    api.post(POLICIES, policy(namespace, expression, matchConstraints=constraints)).ok()
    api.post(BINDINGS, binding(namespace)).ok()
    defined.create("a", namespace, "v2", spec={"k": "v"}).ok()
    assert defined.create("b", namespace, "v2", spec={"k": "x"}).status == 422
    api.delete(f"{BINDINGS}/p-{namespace}").ok()


@pytest.mark.parametrize("action", ["Deny", "Warn", "Audit"])
def test_metrics_of_what_does_not_pass(api: Api, namespace: str, action: str) -> None:
    api.post(POLICIES, policy(namespace, "object.data.k == 'v'")).ok()
    api.post(BINDINGS, binding(namespace, validationActions=[action])).ok()
    api.post(config_maps(namespace), config_map("passes", k="v")).ok()
    answer = api.post(config_maps(namespace), config_map(k="x"))
    assert answer.status == (422 if action == "Deny" else 201)
    labels = (
        f'enforcement_action="{action.lower()}",error_type="invalid_error",policy="p-{namespace}",'
        f'policy_binding="p-{namespace}"'
    )
    text = metrics_of(api)
    assert f"apiserver_validating_admission_policy_check_total{{{labels}}} 1\n" in text
    assert f"apiserver_validating_admission_policy_check_duration_seconds_count{{{labels}}} 1\n" in text


def test_metrics_of_failures_that_are_ignored(api: Api, namespace: str) -> None:
    api.post(POLICIES, policy(namespace, "object.data.none == 'v'", failurePolicy="Ignore")).ok()
    api.post(BINDINGS, binding(namespace)).ok()
    api.post(config_maps(namespace), config_map(k="v")).ok()
    labels = (
        f'enforcement_action="allow",error_type="invalid_error",policy="p-{namespace}",'
        f'policy_binding="p-{namespace}"'
    )
    text = metrics_of(api)
    assert f"apiserver_validating_admission_policy_check_total{{{labels}}} 1\n" in text


def test_an_audit_annotation_that_fails_refuses_the_write(api: Api, namespace: str) -> None:
    """Whatever the actions are, unless failures are ignored."""
    annotations = [{"key": "a", "valueExpression": "string(object.data.none)"}]
    api.post(POLICIES, policy(namespace, "true", auditAnnotations=annotations)).ok()
    api.post(BINDINGS, binding(namespace, validationActions=["Audit"])).ok()
    refused = api.post(config_maps(namespace), config_map(k="v"))
    assert refused.status == 422
    assert "resulted in error: no such key: none" in refused.message
    api.patch(f"{POLICIES}/p-{namespace}", {"spec": {"failurePolicy": "Ignore"}}).ok()
    api.post(config_maps(namespace), config_map(k="v")).ok()
