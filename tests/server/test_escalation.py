"""Privilege escalation: writes of roles and bindings are limited to the rights of the writer. Row O08.

Source: k8s.io/kubernetes, pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/policybased.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.support.api import APPLY, STRATEGIC_PATCH, Answer, Api, until_status
from tests.support.eventually import until
from tests.support.rbac import RBAC, RBAC_GROUP, binding, rule

WRITES: Final = ("get", "create", "update", "patch", "delete")
_numbers: Final = itertools.count(1)


def rbac(verbs: str, resources: str, *names: str) -> dict[str, Any]:
    return rule(verbs, resources, *names, group=RBAC_GROUP)


GET_SECRETS: Final = rule("get", "secrets")
GET_PODS: Final = rule("get", "pods")
ALL: Final = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
ALL_PATHS: Final = {"verbs": ["*"], "nonResourceURLs": ["*"]}


def role(name: str, *rules: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": list(rules), **fields}


class Caller:
    """A new user who may write roles and bindings, impersonated by the administrator."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api, self.name, self.namespace = api, f"escalating-{next(_numbers)}", namespace
        self.here = f"{RBAC}/namespaces/{namespace}"

    def holds(self, *rules: dict[str, Any]) -> None:
        """In the namespace."""
        self._give(self.here, "Role", rbac(" ".join(WRITES), "roles rolebindings"), *rules)

    def holds_everywhere(self, *rules: dict[str, Any]) -> None:
        self._give(RBAC, "ClusterRole", rbac(" ".join(WRITES), "clusterroles clusterrolebindings"), *rules)

    def _give(self, where: str, kind: str, *rules: dict[str, Any]) -> None:
        self._api.post(f"{where}/{kind.lower()}s", role(self.name, *rules)).ok()
        of_caller = binding(self.name, self.name, self.name, kind=kind)
        self._api.post(f"{where}/{kind.lower()}bindings", of_caller).ok()
        # Roles count a moment after they were written. One without rules may be written by whoever may write.
        path = f"{where}/{kind.lower()}s?dryRun=All"
        until_status(201, lambda: self.send("POST", path, role("none")))

    def send(self, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        return self._api.send(method, path, body, headers={"Impersonate-User": self.name}, **options)


@pytest.fixture
def caller(api: Api, namespace: str) -> Caller:
    return Caller(api, namespace)


def refusal(caller: Caller, what: str, *missing: str) -> str:
    return (
        f'{what} is forbidden: user "{caller.name}" (groups=["system:authenticated"]) is attempting to '
        "grant RBAC permissions not currently held:\n" + "\n".join(missing)
    )


def assert_refused(answer: Answer, message: str) -> None:
    assert (answer.status, answer.reason, answer.message) == (403, "Forbidden", message)


NO_SECRETS: Final = '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}'


@pytest.fixture
def alice(api: Api) -> Iterator[Api]:
    with api.as_caller("alice-token") as alice:
        yield alice


def test_the_refusal_says_what_is_missing(api: Api, alice: Api, namespace: str) -> None:
    where = f"{RBAC}/namespaces/{namespace}"
    api.post(f"{where}/roles", role("r", rbac("create", "roles"), rule("get", "pods"))).ok()
    api.post(f"{where}/rolebindings", binding("r", "r", "alice", kind="Role")).ok()
    body = role("x", rule("list get", "secrets pods"), rule("get", "secrets", "s"))
    answer = until(lambda: alice.post(f"{where}/roles", body), lambda answer: "attempting" in answer.message)
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f'roles.{RBAC_GROUP} "x" is forbidden: user "alice" '
        '(groups=["dev" "system:authenticated"]) '
        "is attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["pods"], Verbs:["list"]}\n'
        '{APIGroups:[""], Resources:["secrets"], ResourceNames:["s"], Verbs:["get"]}\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["list" "get"]}',
        "reason": "Forbidden",
        "details": {"name": "x", "group": RBAC_GROUP, "kind": "roles"},
        "code": 403,
    }


# ---- roles

# What the caller holds beside the right to write roles, what is in the role, and what of it is missing.
ROLES: Final[dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]]] = {
    "nothing": ([], [], []),
    "what one has": ([GET_SECRETS], [GET_SECRETS], []),
    "part of what one has": ([rule("*", "*")], [GET_SECRETS, GET_PODS], []),
    "what one has not": ([GET_PODS], [GET_SECRETS, GET_PODS], [NO_SECRETS]),
    "for all names, where one has some": ([rule("get", "secrets", "a")], [GET_SECRETS], [NO_SECRETS]),
    "anything, for who may escalate": ([rbac("escalate", "roles")], [ALL], []),
    "anything, for who may escalate in cluster roles": (
        [rbac("escalate", "clusterroles")],
        [GET_SECRETS],
        [NO_SECRETS],
    ),
    # The path of a POST does not name what is created.
    "a new one, for who may escalate it by name": (
        [rbac("escalate", "roles", "new")],
        [GET_SECRETS],
        [NO_SECRETS],
    ),
    "that others may bind": (
        [],
        [rbac("bind", "roles")],
        [f'{{APIGroups:["{RBAC_GROUP}"], Resources:["roles"], Verbs:["bind"]}}'],
    ),
}


@pytest.mark.parametrize(("held", "rules", "missing"), ROLES.values(), ids=ROLES)
def test_a_new_role_has_nothing_that_its_writer_has_not(
    caller: Caller, held: list[dict[str, Any]], rules: list[dict[str, Any]], missing: list[str]
) -> None:
    caller.holds(*held)
    answer = caller.send("POST", f"{caller.here}/roles", role("new", *rules))
    if missing:
        assert_refused(answer, refusal(caller, f'roles.{RBAC_GROUP} "new"', *missing))
    else:
        assert answer.status == 201, answer.body


OF: Final = {"apiVersion": f"{RBAC_GROUP}/v1", "kind": "Role"}


def replaced(name: str) -> dict[str, Any]:
    return OF | role(name, GET_SECRETS)


# Method, path below `roles`, body, and its type. `old` is there.
PATHS: Final[dict[str, tuple[str, str, Any, str]]] = {
    "POST": ("POST", "", replaced("new"), "json"),
    "POST of a generated name": (
        "POST",
        "",
        role("", GET_SECRETS) | {"metadata": {"generateName": "g"}},
        "json",
    ),
    "PUT": ("PUT", "/old", replaced("old"), "json"),
    "PUT of what is not there": ("PUT", "/new", replaced("new"), "json"),
    "a merge patch": ("PATCH", "/old", {"rules": [GET_SECRETS]}, "merge"),
    "a JSON patch": (
        "PATCH",
        "/old",
        [{"op": "replace", "path": "/rules", "value": [GET_SECRETS]}],
        "json-patch",
    ),
    "a strategic merge patch": ("PATCH", "/old", {"rules": [GET_SECRETS]}, STRATEGIC_PATCH),
    "apply": ("PATCH", "/old?fieldManager=m&force=true", replaced("old"), APPLY),
    "apply of what is not there": ("PATCH", "/new?fieldManager=m", replaced("new"), APPLY),
}


@pytest.mark.parametrize(("method", "path", "body", "type_"), PATHS.values(), ids=PATHS)
def test_every_way_to_write_is_checked(
    api: Api, caller: Caller, method: str, path: str, body: Any, type_: str
) -> None:
    caller.holds(GET_PODS)
    roles = f"{caller.here}/roles"
    old = api.post(roles, role("old", GET_PODS)).ok()
    names = {each["metadata"]["name"] for each in api.get(roles).ok()["items"]}
    for dry in ("", "&dryRun=All" if "?" in path else "?dryRun=All"):
        answer = caller.send(method, f"{roles}{path}{dry}", body, type=type_)
        assert (answer.status, answer.reason) == (403, "Forbidden"), answer.body
        assert "permissions not currently held" in answer.message
        assert answer.message.endswith(NO_SECRETS)
    assert api.get(f"{roles}/old").ok() == old
    assert {each["metadata"]["name"] for each in api.get(roles).ok()["items"]} == names
    # Who holds it may.
    other = Caller(api, caller.namespace)
    other.holds(GET_SECRETS, GET_PODS)
    creates = method == "POST" or path.startswith("/new")
    assert other.send(method, f"{roles}{path}", body, type=type_).status == (201 if creates else 200)


@pytest.mark.parametrize(("method", "path", "body", "type_"), PATHS.values(), ids=PATHS)
def test_who_may_escalate_a_role_by_its_name_may_do_so_where_the_path_names_it(
    api: Api, caller: Caller, method: str, path: str, body: Any, type_: str
) -> None:
    caller.holds(rbac("escalate", "roles", "old", "new"))
    roles = f"{caller.here}/roles"
    api.post(roles, role("old", GET_PODS)).ok()
    answer = caller.send(method, roles + path, body, type=type_)
    assert (answer.status == 403) is (method == "POST"), answer.body


# A patch of a role with a right that the caller has not, and whether it may be.
CHANGES: Final[dict[str, tuple[dict[str, Any], bool]]] = {
    "a label: all is given anew": ({"metadata": {"labels": {"a": "b"}}}, False),
    "less, though not little enough": ({"rules": [GET_SECRETS]}, False),
    "as little as one has": ({"rules": [GET_PODS]}, True),
    "what the collector of garbage changes": (
        {
            "metadata": {
                "finalizers": ["example.com/f"],
                "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1"}],
            }
        },
        True,
    ),
    "that and more": ({"metadata": {"finalizers": ["example.com/f"], "labels": {"a": "b"}}}, False),
    "nothing": ({}, True),
}


@pytest.mark.parametrize(("patch", "may"), CHANGES.values(), ids=CHANGES)
def test_a_change_of_a_role_with_more_than_one_has(
    api: Api, caller: Caller, patch: dict[str, Any], may: bool
) -> None:
    caller.holds(GET_PODS)
    api.post(f"{caller.here}/roles", role("old", GET_SECRETS, rule("get", "nodes"))).ok()
    answer = caller.send("PATCH", f"{caller.here}/roles/old", patch, type="merge")
    assert answer.status == (200 if may else 403), answer.body
    # Whoever may delete it, may.
    assert caller.send("DELETE", f"{caller.here}/roles/old").status == 200


def test_who_may_escalate_a_role_by_name_may_change_it(api: Api, caller: Caller) -> None:
    caller.holds(rbac("escalate", "roles", "old"))
    for name, status in (("old", 200), ("other", 403)):
        api.post(f"{caller.here}/roles", role(name)).ok()
        path = f"{caller.here}/roles/{name}"
        answer = caller.send("PATCH", path, {"rules": [GET_SECRETS]}, type="merge")
        assert answer.status == status, answer.body


# ---- cluster roles


def test_what_one_has_in_a_namespace_is_not_for_the_cluster(caller: Caller) -> None:
    caller.holds(GET_SECRETS)
    caller.holds_everywhere(GET_PODS)
    name = caller.name
    refused = caller.send("POST", f"{RBAC}/clusterroles", role(f"{name}-s", GET_SECRETS, GET_PODS))
    assert_refused(refused, refusal(caller, f'clusterroles.{RBAC_GROUP} "{name}-s"', NO_SECRETS))
    path = {"verbs": ["get"], "nonResourceURLs": ["/logs/*"]}
    refused = caller.send("POST", f"{RBAC}/clusterroles", role(f"{name}-s", path))
    shown = '{NonResourceURLs:["/logs/*"], Verbs:["get"]}'
    assert_refused(refused, refusal(caller, f'clusterroles.{RBAC_GROUP} "{name}-s"', shown))
    assert caller.send("POST", f"{RBAC}/clusterroles", role(f"{name}-p", GET_PODS)).status == 201
    # What one has in the cluster is also for a namespace.
    assert caller.send("POST", f"{caller.here}/roles", role("both", GET_SECRETS, GET_PODS)).status == 201


def test_writing_aggregation_rules_needs_all_rights(api: Api, caller: Caller) -> None:
    caller.holds_everywhere(GET_SECRETS)
    name = f"{caller.name}-new"
    aggregation = {"clusterRoleSelectors": [{"matchLabels": {f"example.com/{caller.name}": "x"}}]}
    new = role(name, aggregationRule=aggregation)
    why = "must have cluster-admin privileges to use the aggregationRule"
    why = f'clusterroles.{RBAC_GROUP} "{name}" is forbidden: {why}'
    assert_refused(caller.send("POST", f"{RBAC}/clusterroles", new), why)
    api.post(f"{RBAC}/clusterroles", new).ok()
    # It may not be made one that is not aggregated, either.
    for patch in ({"metadata": {"labels": {"a": "b"}}}, {"aggregationRule": None}):
        assert_refused(caller.send("PATCH", f"{RBAC}/clusterroles/{name}", patch, type="merge"), why)
    strong = Caller(api, caller.namespace)
    strong.holds_everywhere(ALL, ALL_PATHS)
    assert strong.send("PUT", f"{RBAC}/clusterroles/{name}", new).status == 200


# ---- bindings

# What the caller holds, what the binding names, and what becomes of it. The role has GET_SECRETS.
BINDINGS: Final[dict[str, tuple[list[dict[str, Any]], str, int]]] = {
    "a role whose rights one has": ([GET_SECRETS], "Role", 201),
    "a role whose rights one has not": ([GET_PODS], "Role", 403),
    "a cluster role whose rights one has here": ([GET_SECRETS], "ClusterRole", 201),
    "a cluster role whose rights one has not": ([GET_PODS], "ClusterRole", 403),
    "a role, for who may bind roles": ([rbac("bind", "roles")], "Role", 201),
    "a role, for who may bind it": ([rbac("bind", "roles", "its name")], "Role", 201),
    "a role, for who may bind cluster roles": ([rbac("bind", "clusterroles")], "Role", 403),
    "a cluster role, for who may bind it here": (
        [rbac("bind", "clusterroles", "its name")],
        "ClusterRole",
        201,
    ),
    "a cluster role, for who may bind roles": ([rbac("bind", "roles")], "ClusterRole", 403),
    "a role, for who may escalate": ([rbac("escalate", "roles")], "Role", 403),
}


@pytest.mark.parametrize(("held", "kind", "status"), BINDINGS.values(), ids=BINDINGS)
def test_a_binding_gives_nothing_that_its_writer_has_not(
    api: Api, caller: Caller, held: list[dict[str, Any]], kind: str, status: int
) -> None:
    name = f"{caller.name}-bound"
    named = {"resourceNames": [name]}
    caller.holds(*(each | named if "resourceNames" in each else each for each in held))
    where = caller.here if kind == "Role" else RBAC
    api.post(f"{where}/{kind.lower()}s", role(name, GET_SECRETS)).ok()
    answer = caller.send("POST", f"{caller.here}/rolebindings", binding("b", name, "bob", kind=kind))
    if status == 403:
        assert_refused(answer, refusal(caller, f'rolebindings.{RBAC_GROUP} "b"', NO_SECRETS))
    assert answer.status == status


def test_a_binding_of_the_cluster_takes_rights_in_the_cluster(api: Api, caller: Caller) -> None:
    caller.holds(GET_SECRETS, rbac("bind", "clusterroles"))
    caller.holds_everywhere()
    name = f"{caller.name}-bound"
    api.post(f"{RBAC}/clusterroles", role(name, GET_SECRETS)).ok()
    body = binding(name, name, "bob")
    refused = caller.send("POST", f"{RBAC}/clusterrolebindings", body)
    assert_refused(refused, refusal(caller, f'clusterrolebindings.{RBAC_GROUP} "{name}"', NO_SECRETS))
    for bound, status in ((f"{name}-other", 403), (name, 201)):
        other = Caller(api, caller.namespace)
        other.holds_everywhere(rbac("bind", "clusterroles", bound))
        assert other.send("POST", f"{RBAC}/clusterrolebindings", body).status == status


def test_a_change_of_subjects_is_checked(api: Api, caller: Caller) -> None:
    caller.holds(GET_PODS)
    api.post(f"{caller.here}/roles", role("strong", GET_SECRETS)).ok()
    api.post(f"{caller.here}/rolebindings", binding("b", "strong", "bob", kind="Role")).ok()
    path = f"{caller.here}/rolebindings/b"
    to_me = {"subjects": [{"apiGroup": RBAC_GROUP, "kind": "User", "name": caller.name}]}
    assert caller.send("PATCH", path, to_me, type="merge").status == 403
    assert caller.send("PATCH", path, {"metadata": {"finalizers": []}}, type="merge").status == 200
    # The role has become another one in between.
    api.patch(f"{caller.here}/roles/strong", {"rules": [GET_PODS]}).ok()
    assert caller.send("PATCH", path, to_me, type="merge").status == 200


MISSING: Final = (
    ("rolebindings", "Role"),
    ("rolebindings", "ClusterRole"),
    ("clusterrolebindings", "ClusterRole"),
)


@pytest.mark.parametrize(("resource", "kind"), MISSING)
def test_a_role_is_there_before_it_is_bound(caller: Caller, resource: str, kind: str) -> None:
    """The answer names the resource of the request, as in Kubernetes."""
    caller.holds()
    caller.holds_everywhere()
    where = caller.here if resource == "rolebindings" else RBAC
    answer = caller.send("POST", f"{where}/{resource}", binding("b", "none-such", "bob", kind=kind))
    assert (answer.status, answer.message) == (404, f'{resource}.{RBAC_GROUP} "none-such" not found')
    assert answer.json["details"] == {"name": "none-such", "group": RBAC_GROUP, "kind": resource}


def test_a_role_can_be_bound_as_soon_as_it_is_there(caller: Caller) -> None:
    caller.holds(GET_PODS)
    for number in range(10):
        name = f"r{number}"
        caller.send("POST", f"{caller.here}/roles", role(name, GET_PODS)).ok()
        caller.send("POST", f"{caller.here}/rolebindings", binding(name, name, "bob", kind="Role")).ok()


def test_system_masters_may_grant_anything(api: Api, namespace: str) -> None:
    where = f"{RBAC}/namespaces/{namespace}"
    api.post(f"{where}/roles", role("all", ALL)).ok()
    # Even a role that is not there.
    api.post(f"{where}/rolebindings", binding("b", "none-such", "bob", kind="Role")).ok()
    aggregation = {"clusterRoleSelectors": [{"matchLabels": {namespace: "x"}}]}
    api.post(f"{RBAC}/clusterroles", role(f"all-{namespace}", ALL_PATHS, aggregationRule=aggregation)).ok()


# ---- bodies that mean harm


def test_a_role_with_a_thousand_million_permissions(caller: Caller) -> None:
    caller.holds(GET_PODS)
    many = [f"w{number}" for number in range(1_000)]
    huge = {"verbs": many, "apiGroups": many, "resources": many}
    answer = caller.send("POST", f"{caller.here}/roles", role("huge", huge))
    assert answer.status == 403
    assert answer.message.endswith("\nand more")


REFERENCE: Final = {"apiGroup": RBAC_GROUP, "kind": "Role", "name": "a"}
# Nothing of it is accepted, and nothing of it is an error of the server's.
MALFORMED: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "a rule that is null": ("roles", {"rules": [None]}),
    "words that are null": ("roles", {"rules": [{"verbs": [None], "apiGroups": None, "resources": ["a"]}]}),
    "a rule that is a word": ("roles", {"rules": ["get"]}),
    "rules that are a word": ("roles", {"rules": "get"}),
    "no role": ("rolebindings", {}),
    "a role that is null": ("rolebindings", {"roleRef": None}),
    "a role without a name": ("rolebindings", {"roleRef": {**REFERENCE, "name": ""}}),
    "a role of no kind": ("rolebindings", {"roleRef": {**REFERENCE, "kind": "Rule"}}),
    "a role of a number's kind": ("rolebindings", {"roleRef": {**REFERENCE, "kind": 1}}),
    "a role of another group": ("rolebindings", {"roleRef": {**REFERENCE, "apiGroup": "a"}}),
    "a role by a path": ("rolebindings", {"roleRef": {**REFERENCE, "name": "a/../b"}}),
}


@pytest.mark.parametrize(("resource", "fields"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_bodies_are_the_clients_fault(
    caller: Caller, resource: str, fields: dict[str, Any]
) -> None:
    caller.holds()
    answer = caller.send("POST", f"{caller.here}/{resource}", {"metadata": {"name": "a"}, **fields})
    assert 400 <= answer.status < 500, answer.body
