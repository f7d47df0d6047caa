"""Reviews: virtual types that are answered and not stored. Rows A14, I14.

Source of the answers: the recorded scenarios auth/*-review*.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.support.api import Api, assert_refused
from tests.support.eventually import until
from tests.support.rbac import grant, rule

AUTHENTICATION: Final = "/apis/authentication.k8s.io/v1"
AUTHORIZATION: Final = "/apis/authorization.k8s.io/v1"
LIST_PODS: Final = {"namespace": "default", "verb": "list", "resource": "pods"}


@pytest.fixture
def alice(api: Api) -> Any:
    """A user without rights of their own."""
    alice = api.as_caller("alice-token")
    yield alice
    alice.close()


def test_self_subject_reviews(api: Api, alice: Api) -> None:
    answer = alice.post(f"{AUTHENTICATION}/selfsubjectreviews", {})
    assert answer.status == 201
    assert (answer.json["kind"], answer.json["apiVersion"]) == (
        "SelfSubjectReview",
        "authentication.k8s.io/v1",
    )
    assert answer.json["status"]["userInfo"] == {
        "username": "alice",
        "uid": "uid-alice",
        "groups": ["dev", "system:authenticated"],
    }
    nobody = api.as_caller("")
    assert_refused(nobody.post(f"{AUTHENTICATION}/selfsubjectreviews", {}), 403, "Forbidden")
    nobody.close()


SENT: Final = {
    "name": "x",
    "labels": {"a": "b"},
    "resourceVersion": "v1",
    "uid": "u",
    "creationTimestamp": "2020-01-01T00:00:00Z",
    "deletionTimestamp": "2020-01-01T00:00:00Z",
}


def test_reviews_do_not_keep_what_only_the_server_sets(api: Api) -> None:
    """As every object that is posted to a collection."""
    review = {"metadata": SENT, "spec": {"token": "nope"}}
    answered = api.post(f"{AUTHENTICATION}/tokenreviews", review).ok()["metadata"]
    assert answered == {key: SENT[key] for key in ("name", "labels", "resourceVersion")}
    wiped = {key: SENT[key] for key in ("uid", "creationTimestamp")}
    review = {"metadata": wiped, "spec": {"resourceAttributes": LIST_PODS}}
    assert api.post(f"{AUTHORIZATION}/selfsubjectaccessreviews", review).ok()["metadata"] == {}


def test_a_self_subject_review_answers_nothing_that_was_sent(api: Api) -> None:
    answered = api.post(f"{AUTHENTICATION}/selfsubjectreviews", {"metadata": SENT}).ok()["metadata"]
    assert answered.keys() == {"creationTimestamp"}
    assert answered["creationTimestamp"] != SENT["creationTimestamp"]


TOKENS: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "a good one": (
        {"token": "alice-token"},
        {
            "authenticated": True,
            "user": {"username": "alice", "uid": "uid-alice", "groups": ["dev", "system:authenticated"]},
            "audiences": ["https://kubernetes.default.svc"],
        },
    ),
    "a bad one": ({"token": "nope"}, {"user": {}, "error": "invalid bearer token"}),
    "one that is meant for others": (
        {"token": "alice-token", "audiences": ["vault"]},
        {"user": {}, "error": "invalid bearer token"},
    ),
}


@pytest.mark.parametrize(("spec", "status"), TOKENS.values(), ids=TOKENS)
def test_token_reviews(api: Api, spec: dict[str, Any], status: dict[str, Any]) -> None:
    answer = api.post(f"{AUTHENTICATION}/tokenreviews", {"spec": spec})
    assert (answer.status, answer.json["spec"], answer.json["status"]) == (201, spec, status)


def test_a_review_of_no_token(api: Api, alice: Api) -> None:
    answer = api.post(f"{AUTHENTICATION}/tokenreviews", {"spec": {}})
    assert_refused(answer, 400, "BadRequest", "token is required for TokenReview in authentication")
    # Tokens are others' business.
    assert_refused(alice.post(f"{AUTHENTICATION}/tokenreviews", {"spec": {"token": "x"}}), 403, "Forbidden")


# Who asks, what, and whether it is allowed.
MAY_I: Final[dict[str, tuple[str, dict[str, Any], bool]]] = {
    "a master, anything": ("admin-token", {"resourceAttributes": LIST_PODS}, True),
    "somebody, anything": ("alice-token", {"resourceAttributes": LIST_PODS}, False),
    "somebody, what everybody may": (
        "alice-token",
        {"nonResourceAttributes": {"path": "/version", "verb": "get"}},
        True,
    ),
    "somebody, a path for others": (
        "alice-token",
        {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}},
        False,
    ),
}


@pytest.mark.parametrize(("token", "spec", "allowed"), MAY_I.values(), ids=MAY_I)
def test_self_subject_access_reviews(api: Api, token: str, spec: dict[str, Any], allowed: bool) -> None:
    caller = api.as_caller(token)
    answer = caller.post(f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": spec})
    assert (answer.status, answer.json["spec"], answer.json["metadata"]) == (201, spec, {})
    assert answer.json["status"]["allowed"] is allowed
    caller.close()


MAY_THEY: Final[dict[str, tuple[dict[str, Any], bool]]] = {
    "a user": ({"user": "bob"}, False),
    "a user of a group that may": ({"user": "bob", "groups": ["system:masters"]}, True),
    "a group": ({"groups": ["system:masters"]}, True),
    "the caller's own groups do not count": ({"user": "admin"}, False),
}


@pytest.mark.parametrize(("subject", "allowed"), MAY_THEY.values(), ids=MAY_THEY)
def test_subject_access_reviews(api: Api, subject: dict[str, Any], allowed: bool) -> None:
    spec = {"resourceAttributes": LIST_PODS, **subject}
    for path, meta in (
        (f"{AUTHORIZATION}/subjectaccessreviews", {}),
        (f"{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews", {"namespace": "default"}),
    ):
        answer = api.post(path, {"spec": spec})
        assert (answer.status, answer.json["metadata"]) == (201, meta)
        assert answer.json["status"]["allowed"] is allowed


def test_access_reviews_without_attributes(api: Api) -> None:
    """Kubernetes leaves the kind out of such errors."""
    answer = api.post(f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": {}})
    assert_refused(answer, 422, "Invalid", '.authorization.k8s.io "" is invalid: spec.resourceAttributes: ')
    assert answer.causes == [("FieldValueInvalid", "spec.resourceAttributes")]
    assert "kind" not in answer.json["details"]


def test_self_subject_rules_reviews(api: Api, alice: Api) -> None:
    answer = alice.post(f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}})
    assert answer.status == 201
    status = answer.json["status"]
    assert status["incomplete"] is False
    assert {
        "verbs": ["create"],
        "apiGroups": ["authorization.k8s.io"],
        "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
    } in status["resourceRules"]
    assert any("/version" in rule["nonResourceURLs"] for rule in status["nonResourceRules"])
    assert ["*"] not in [rule["verbs"] for rule in status["resourceRules"]]
    master = api.post(f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}).ok()
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    assert everything in master["status"]["resourceRules"]
    absent = alice.post(f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {}})
    assert_refused(absent, 400, "BadRequest", "no namespace on request")


def test_a_rules_review_with_very_many_names(api: Api, alice: Api) -> None:
    """It is made beside the event loop, and has all of them."""
    namespace = "many-names"
    api.post("/api/v1/namespaces", {"metadata": {"name": namespace}}).ok()
    granted = rule("get", "pods", *(f"name-{number}" for number in range(20_000)))
    grant(api, namespace, "system:authenticated", granted, subject_kind="Group")
    review = {"spec": {"namespace": namespace}}

    def found() -> bool:
        answer = alice.post(f"{AUTHORIZATION}/selfsubjectrulesreviews", review).ok()
        return granted in answer["status"]["resourceRules"]

    until(found)


VIRTUAL: Final = (
    f"{AUTHENTICATION}/selfsubjectreviews",
    f"{AUTHENTICATION}/tokenreviews",
    f"{AUTHORIZATION}/selfsubjectaccessreviews",
    f"{AUTHORIZATION}/selfsubjectrulesreviews",
    f"{AUTHORIZATION}/subjectaccessreviews",
    f"{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews",
)


@pytest.mark.parametrize("path", VIRTUAL)
def test_reviews_are_not_stored(api: Api, path: str) -> None:
    """Row A14: POST only."""
    assert_refused(api.get(path), 405, "MethodNotAllowed")
    assert_refused(api.delete(path), 405, "MethodNotAllowed")
    assert_refused(api.get(f"{path}/x"), 404, "NotFound", "could not find the requested resource")


def test_a_local_review_has_a_namespace(api: Api) -> None:
    answer = api.post(f"{AUTHORIZATION}/localsubjectaccessreviews", {"spec": {}})
    assert_refused(answer, 404, "NotFound")
    spec = {"user": "bob", "resourceAttributes": {**LIST_PODS, "namespace": "else"}}
    answer = api.post(f"{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews", {"spec": spec})
    assert_refused(answer, 422, "Invalid", "must match metadata.namespace")


def test_unknown_fields_and_other_forms(api: Api) -> None:
    """Reviews are read and written like all else."""
    path, spec = f"{AUTHORIZATION}/selfsubjectaccessreviews", {"resourceAttributes": {**LIST_PODS, "x": 1}}
    assert api.post(path, {"spec": spec}).warnings == ['unknown field \\"spec.resourceAttributes.x\\"']
    answer = api.post(f"{path}?fieldValidation=Strict", {"spec": spec})
    assert_refused(answer, 400, "BadRequest", 'unknown field "spec.resourceAttributes.x"')
    partial = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}
    assert api.post(path, {"spec": spec}, headers=partial).ok()["kind"] == "PartialObjectMetadata"
