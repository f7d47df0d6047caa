"""POST /console/who-can: whom RBAC allows a request, and by which binding and role."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from apiserver.console.who_can import SUBJECTS_MAX, TEXT_LENGTH_MAX
from tests.support.api import Api
from tests.support.eventually import until
from tests.support.server_process import ServerProcess

PATH: Final = "/console/who-can"
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
GROUP: Final = "rbac.authorization.k8s.io"


def role(name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": list(rules)}


def rule(verbs: str, resources: str, groups: str = "", **more: Any) -> dict[str, Any]:
    return {"verbs": verbs.split(), "apiGroups": [groups], "resources": resources.split(), **more}


def binding(name: str, kind: str, role_name: str, *subjects: dict[str, str]) -> dict[str, Any]:
    reference = {"apiGroup": GROUP, "kind": kind, "name": role_name}
    return {"metadata": {"name": name}, "roleRef": reference, "subjects": list(subjects)}


def user(name: str) -> dict[str, str]:
    return {"apiGroup": GROUP, "kind": "User", "name": name}


def group(name: str) -> dict[str, str]:
    return {"apiGroup": GROUP, "kind": "Group", "name": name}


ROBOT: Final = {"kind": "ServiceAccount", "name": "robot", "namespace": "bots"}
READER: Final = rule("get list", "clusterroles clusterrolebindings roles rolebindings", GROUP)
OBJECTS: Final[dict[str, list[dict[str, Any]]]] = {
    "clusterroles": [
        role("view-gizmos", rule("get list", "gizmos", "example.com")),
        role("one-gizmo", rule("delete", "gizmos", "example.com", resourceNames=["a"])),
        role("gizmo-logs", rule("get", "gizmos/log", "example.com")),
        role("see-health", {"verbs": ["get"], "nonResourceURLs": ["/gizmo/*"]}),
        role("read-all-rbac", READER),
        role("read-cluster-rbac", rule("list", "clusterroles clusterrolebindings", GROUP)),
    ],
    "clusterrolebindings": [
        binding("gizmo-viewers", "ClusterRole", "view-gizmos", user("ann"), group("viewers")),
        binding("gizmo-health", "ClusterRole", "see-health", user("hal")),
        binding("gizmo-lost", "ClusterRole", "there-is-none", user("nobody")),
        binding("rbac-readers", "ClusterRole", "read-all-rbac", user("alice")),
        binding("cluster-rbac-readers", "ClusterRole", "read-cluster-rbac", user("reader")),
    ],
    "namespaces/default/roles": [role("edit-gizmos", rule("get update", "gizmos", "example.com"))],
    "namespaces/default/rolebindings": [
        binding("gizmo-editors", "Role", "edit-gizmos", user("bob"), ROBOT),
        binding("gizmo-deleters", "ClusterRole", "one-gizmo", user("dan")),
        binding("gizmo-loggers", "ClusterRole", "gizmo-logs", user("lea")),
    ],
    "namespaces/kube-system/rolebindings": [
        binding("gizmo-others", "ClusterRole", "view-gizmos", user("eve")),
    ],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("who-can") / "data") as server:
        yield server


@pytest.fixture(scope="module")
def api(server: ServerProcess) -> Iterator[Api]:
    """The administrator's client of a server with these roles and bindings."""
    with Api(server) as api:
        for where, documents in OBJECTS.items():
            for document in documents:
                api.post(f"{RBAC}/{where}", document).ok()
        # The last one is known when all are.
        last = {"verb": "get", "resource": "gizmos", "group": "example.com", "namespace": "kube-system"}
        until(
            lambda: found(api, **last), lambda rows: any(row[0] == "User eve" for row in rows), "the bindings"
        )
        yield api


def found(api: Api, **asked: str) -> list[tuple[str, str, str]]:
    """Returns subject, binding and role of each row, without those of roles that the server has itself."""
    rows = api.post(PATH, asked).ok()["subjects"]
    return [
        (_named(row), _named(row["binding"]), _named(row["role"]))
        for row in rows
        if row["binding"]["name"].startswith("gizmo-")
    ]


def _named(document: dict[str, str]) -> str:
    namespace = f"{document['namespace']}/" if "namespace" in document else ""
    return f"{document['kind']} {namespace}{document['name']}"


VIEWERS: Final = [
    ("User ann", "ClusterRoleBinding gizmo-viewers", "ClusterRole view-gizmos"),
    ("Group viewers", "ClusterRoleBinding gizmo-viewers", "ClusterRole view-gizmos"),
]
EDITORS: Final = [
    ("User bob", "RoleBinding default/gizmo-editors", "Role edit-gizmos"),
    ("ServiceAccount bots/robot", "RoleBinding default/gizmo-editors", "Role edit-gizmos"),
]
GIZMOS: Final = {"group": "example.com", "resource": "gizmos"}
ASKED: Final[dict[str, tuple[dict[str, str], list[tuple[str, str, str]]]]] = {
    "in all namespaces": ({"verb": "get", **GIZMOS}, VIEWERS),
    "in one namespace": ({"verb": "get", "namespace": "default", **GIZMOS}, [*VIEWERS, *EDITORS]),
    "in another namespace": (
        {"verb": "get", "namespace": "kube-system", **GIZMOS},
        [*VIEWERS, ("User eve", "RoleBinding kube-system/gizmo-others", "ClusterRole view-gizmos")],
    ),
    "another verb": ({"verb": "update", "namespace": "default", **GIZMOS}, EDITORS),
    "a verb that nobody has": ({"verb": "patch", "namespace": "default", **GIZMOS}, []),
    "an object by name": (
        {"verb": "delete", "namespace": "default", "name": "a", **GIZMOS},
        [("User dan", "RoleBinding default/gizmo-deleters", "ClusterRole one-gizmo")],
    ),
    "another object": ({"verb": "delete", "namespace": "default", "name": "b", **GIZMOS}, []),
    "any object": ({"verb": "delete", "namespace": "default", **GIZMOS}, []),
    "a subresource": (
        {"verb": "get", "namespace": "default", "subresource": "log", **GIZMOS},
        [("User lea", "RoleBinding default/gizmo-loggers", "ClusterRole gizmo-logs")],
    ),
    "the same resource in another group": ({"verb": "get", "resource": "gizmos", "group": "other"}, []),
    "a path": (
        {"verb": "get", "path": "/gizmo/health"},
        [("User hal", "ClusterRoleBinding gizmo-health", "ClusterRole see-health")],
    ),
    "another path": ({"verb": "get", "path": "/other"}, []),
}


@pytest.mark.parametrize(("asked", "rows"), ASKED.values(), ids=ASKED)
def test_who_can(api: Api, asked: dict[str, str], rows: list[tuple[str, str, str]]) -> None:
    assert sorted(found(api, **asked)) == sorted(rows)


@pytest.mark.parametrize(("asked", "rows"), ASKED.values(), ids=ASKED)
def test_reviews_agree(api: Api, asked: dict[str, str], rows: list[tuple[str, str, str]]) -> None:
    allowed = {subject for subject, _, _ in rows}
    for subject in ("User ann", "User bob", "User dan", "User eve", "User hal", "User lea", "User zoe"):
        kind = "nonResourceAttributes" if "path" in asked else "resourceAttributes"
        spec = {"user": subject.removeprefix("User "), kind: asked}
        review = api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec}).ok()
        assert bool(review["status"].get("allowed")) == (subject in allowed), subject


def test_an_answer_has_the_rule_and_the_other_authorizers(api: Api) -> None:
    answer = api.post(PATH, {"verb": "get", **GIZMOS}).ok()
    rules = {row["rule"] for row in answer["subjects"] if row["name"] == "ann"}
    (text,) = rules
    assert "gizmos" in text
    assert answer["omitted"] == 0
    assert answer["otherAuthorizers"] == []


def test_the_list_is_bounded(api: Api, namespace: str) -> None:
    many = [user(f"user-{number}") for number in range(SUBJECTS_MAX + 7)]
    bindings = f"{RBAC}/namespaces/{namespace}/rolebindings"
    api.post(bindings, binding("gizmo-many", "ClusterRole", "one-gizmo", *many)).ok()
    asked = {"verb": "delete", "namespace": namespace, "name": "a", **GIZMOS}

    def omitted() -> int:
        answer = api.post(PATH, asked).ok()
        assert len(answer["subjects"]) <= SUBJECTS_MAX
        return int(answer["omitted"])

    # The administrators and the node and garbage collector accounts come on top.
    until(omitted, lambda count: count >= 7, "the binding")


CALLERS: Final[dict[str, tuple[str, str, int, str]]] = {
    "who may read all": ("alice-token", "default", 200, ""),
    "without credentials": ("", "default", 401, "Unauthorized"),
}


@pytest.mark.parametrize(("token", "namespace", "status", "message"), CALLERS.values(), ids=CALLERS)
def test_who_may_ask(api: Api, token: str, namespace: str, status: int, message: str) -> None:
    with api.as_caller(token) as caller:
        answer = caller.post(PATH, {"verb": "get", "namespace": namespace, **GIZMOS})
        assert answer.status == status
        assert status == 200 or message in answer.message


MISSING: Final[dict[str, tuple[str, str, int, str]]] = {
    "nothing": ("stranger", "", 403, 'User "stranger" cannot list resource "clusterroles"'),
    "roles in the namespace": ("reader", "default", 403, 'User "reader" cannot list resource "roles"'),
    "enough for all namespaces": ("reader", "", 200, ""),
}


@pytest.mark.parametrize(("name", "namespace", "status", "message"), MISSING.values(), ids=MISSING)
def test_a_refusal_names_the_missing_right(
    api: Api, name: str, namespace: str, status: int, message: str
) -> None:
    asked = {"verb": "get", "namespace": namespace, **GIZMOS}
    answer = api.send("POST", PATH, asked, headers={"Impersonate-User": name})
    assert answer.status == status
    assert status == 200 or message in answer.message


INVALID: Final[dict[str, tuple[Any, str]]] = {
    "no JSON": (b"[", "json parse error"),
    "a list": ([], "the body must be an object"),
    "no verb": ({"resource": "pods"}, "verb must be set"),
    "neither resource nor path": ({"verb": "get"}, "exactly one of resource and path must be set"),
    "resource and path": (
        {"verb": "get", "resource": "pods", "path": "/x"},
        "exactly one of resource and path must be set",
    ),
    "a namespace beside a path": (
        {"verb": "get", "path": "/x", "namespace": "a"},
        "namespace must not be set beside path",
    ),
    "an unknown field": ({"verb": "get", "resources": "pods"}, "unknown field 'resources'"),
    "a number": ({"verb": 1, "resource": "pods"}, "verb must be a string"),
    "a long name": (
        {"verb": "get", "resource": "x" * (TEXT_LENGTH_MAX + 1)},
        f"resource must not have more than {TEXT_LENGTH_MAX} characters",
    ),
}


@pytest.mark.parametrize(("body", "message"), INVALID.values(), ids=INVALID)
def test_a_malformed_question_is_refused(api: Api, body: Any, message: str) -> None:
    answer = api.post(PATH, body)
    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert message in answer.message


def test_another_method_is_refused(api: Api) -> None:
    assert api.get(PATH).status == 405


def test_other_authorizers_are_named(tmp_path_factory: pytest.TempPathFactory) -> None:
    data = tmp_path_factory.mktemp("always-allow") / "data"
    with ServerProcess(data, "--authorization-mode=Node,AlwaysAllow") as server, Api(server) as api:
        answer = api.post(PATH, {"verb": "get", "resource": "pods"}).ok()
    assert answer == {"subjects": [], "omitted": 0, "otherAuthorizers": ["Node", "AlwaysAllow"]}
