"""Which requests a FlowSchema matches. Source: k8s.io/apiserver, pkg/util/flowcontrol/rule.go."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.endpoints.flowcontrol.flow_schemas import FlowSchema, Malformed
from apiserver.meta.vocabulary import Document, UserInfo
from tests.unit.endpoints.flowcontrol.support import ALICE, target

ALL: Final = ["*"]
ANYTHING: Final = {
    "resourceRules": [
        {"verbs": ALL, "apiGroups": ALL, "resources": ALL, "namespaces": ALL, "clusterScope": True}
    ],
    "nonResourceRules": [{"verbs": ALL, "nonResourceURLs": ALL}],
}
EVERYBODY: Final = [{"kind": "Group", "group": {"name": "*"}}]
ACCOUNT: Final = UserInfo("system:serviceaccount:kube-system:scaler", ("system:serviceaccounts",))


def document(**spec: Any) -> Document:
    return {
        "metadata": {"name": "f", "uid": "u"},
        "spec": {"priorityLevelConfiguration": {"name": "p"}, "matchingPrecedence": 7, **spec},
    }


def schema(**rule: Any) -> FlowSchema:
    return FlowSchema.of(document(rules=[rule]))


def user(name: str) -> Document:
    return {"kind": "User", "user": {"name": name}}


def group(name: str) -> Document:
    return {"kind": "Group", "group": {"name": name}}


def account(namespace: str, name: str) -> Document:
    return {"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": name}}


SUBJECTS: Final = {
    "the user": (user("alice"), ALICE, True),
    "another user": (user("bob"), ALICE, False),
    "any user": (user("*"), ALICE, True),
    "a group": (group("dev"), ALICE, True),
    "another group": (group("ops"), ALICE, False),
    "any group": (group("*"), UserInfo("nobody"), True),
    "a service account": (account("kube-system", "scaler"), ACCOUNT, True),
    "another of its namespace": (account("kube-system", "other"), ACCOUNT, False),
    "all of its namespace": (account("kube-system", "*"), ACCOUNT, True),
    "all of a namespace that begins alike": (account("kube", "*"), ACCOUNT, False),
    "a user who is no service account": (account("kube-system", "*"), ALICE, False),
    "none that can be read": ({"kind": "Robot"}, ALICE, False),
}


@pytest.mark.parametrize(("subject", "who", "matches"), SUBJECTS.values(), ids=SUBJECTS)
def test_subjects(subject: Document, who: UserInfo, matches: bool) -> None:
    found = schema(subjects=[subject], **ANYTHING)
    assert found.matches(who, target("GET", "/api/v1/pods")) is matches


def rule(**more: Any) -> Document:
    return {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], **more}


ONE: Final = target("GET", "/api/v1/namespaces/a/pods/p")
RESOURCES: Final = {
    "one of its namespace": (rule(namespaces=["a"]), ONE, True),
    "one of another": (rule(namespaces=["b"]), ONE, False),
    "one of any": (rule(namespaces=ALL), ONE, True),
    "the scope of the cluster only": (rule(clusterScope=True), ONE, False),
    "all namespaces need the scope of the cluster": (
        rule(verbs=["list"], namespaces=ALL),
        target("GET", "/api/v1/pods"),
        False,
    ),
    "all namespaces": (rule(verbs=["list"], clusterScope=True), target("GET", "/api/v1/pods"), True),
    "another verb": (rule(namespaces=ALL), target("DELETE", "/api/v1/namespaces/a/pods/p"), False),
    "another group": (rule(namespaces=ALL), target("GET", "/apis/apps/v1/namespaces/a/pods/p"), False),
    "a subresource": (
        rule(resources=["pods/status"], namespaces=ALL),
        target("GET", "/api/v1/namespaces/a/pods/p/status"),
        True,
    ),
    "not the subresource": (rule(namespaces=ALL), target("GET", "/api/v1/namespaces/a/pods/p/status"), False),
    "a watch": (rule(verbs=["watch"], clusterScope=True), target("GET", "/api/v1/pods", is_watch=True), True),
    "a path": (rule(clusterScope=True), target("GET", "/healthz"), False),
}


@pytest.mark.parametrize(("each", "what", "matches"), RESOURCES.values(), ids=RESOURCES)
def test_resources(each: Document, what: Any, matches: bool) -> None:
    assert schema(subjects=EVERYBODY, resourceRules=[each]).matches(ALICE, what) is matches


PATHS: Final = {
    "equal": (["/healthz"], "/healthz", True),
    "below": (["/healthz"], "/healthz/ping", True),
    "only alike": (["/healthz"], "/healthzz", False),
    "a wildcard": (["/metrics/*"], "/metrics/slis", True),
    "anything": (ALL, "/version", True),
    "a resource": (ALL, "/api/v1/pods", False),
}


@pytest.mark.parametrize(("urls", "path", "matches"), PATHS.values(), ids=PATHS)
def test_paths(urls: list[str], path: str, matches: bool) -> None:
    found = schema(subjects=EVERYBODY, nonResourceRules=[{"verbs": ["get"], "nonResourceURLs": urls}])
    assert found.matches(ALICE, target("GET", path)) is matches


FLOWS: Final = {"": "", "ByUser": "alice", "ByNamespace": "a"}


@pytest.mark.parametrize(("method", "flow"), FLOWS.items(), ids=FLOWS)
def test_what_distinguishes_flows(method: str, flow: str) -> None:
    found = FlowSchema.of(document(distinguisherMethod={"type": method} if method else None))
    assert found.flow_of(ALICE, ONE) == flow


MALFORMED: Final[dict[str, Document]] = {
    "no metadata": {"spec": {}},
    "a spec that is a list": {"metadata": {"name": "f"}, "spec": []},
    "rules that are numbers": document(rules=[1]),
    "a precedence that is none": document(matchingPrecedence="high"),
}


@pytest.mark.parametrize("stored", MALFORMED.values(), ids=MALFORMED)
def test_what_is_stored_and_cannot_be_used(stored: Document) -> None:
    with pytest.raises(Malformed):
        FlowSchema.of(stored)
