"""RBAC: roles and bindings decide every request. Rows O03-O06, F30, N11.

The scenarios of `tests/conformance` have the answers word for word; here is what they cannot show: restarts,
replicas, revocation, modes, other groups, kubectl.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.api import STRATEGIC_PATCH, Answer, Api, until_status
from tests.support.eventually import until
from tests.support.kubectl import Kubectl, each_version, program, rows
from tests.support.rbac import RBAC, binding, grant, rule
from tests.support.server_process import ServerProcess

CONFIGMAPS: Final = "/api/v1/namespaces/{}/configmaps"
_numbers: Final = itertools.count(1)


class Caller:
    """A new user, impersonated by the administrator."""

    def __init__(self, api: Api, *groups: str) -> None:
        self.api, self.name = api, f"user-{next(_numbers)}"
        self._headers = {"Impersonate-User": self.name}
        if groups:
            self._headers["Impersonate-Group"] = ",".join(groups)

    def send(self, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        return self.api.send(method, path, body, headers=self._headers, **options)

    def get(self, path: str) -> Answer:
        return self.send("GET", path)

    def may(self, method: str, path: str, body: Any = None, **options: Any) -> Callable[[], bool]:
        return lambda: self.send(method, path, body, **options).status != 403


def is_allowed(answer: Answer) -> bool:
    return answer.status != 403


def is_refused(answer: Answer) -> bool:
    return answer.status == 403


# ---- every verb is another right

BODY: Final = {"metadata": {"name": "a"}}
VERBS: Final[dict[str, tuple[str, str, Any, str]]] = {
    "get": ("GET", "/a", None, "json"),
    "list": ("GET", "", None, "json"),
    "watch": ("GET", "?watch=1&timeoutSeconds=1", None, "json"),
    "create": ("POST", "", {"metadata": {"name": "b"}}, "json"),
    "update": ("PUT", "/a", BODY, "json"),
    "patch": ("PATCH", "/a", {"data": {"k": "v"}}, "merge"),
    "deletecollection": ("DELETE", "?labelSelector=none=such", None, "json"),
    "delete": ("DELETE", "/a", None, "json"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_gives_the_right_to_that_verb_alone(api: Api, namespace: str, verb: str) -> None:
    """Row O04."""
    caller, path = Caller(api), CONFIGMAPS.format(namespace)
    api.post(path, BODY).ok()
    grant(api, namespace, caller.name, rule(verb, "configmaps"))

    def send(other: str) -> Answer:
        method, rest, body, type_ = VERBS[other]
        return caller.send(method, path + rest, body, type=type_)

    allowed = until(lambda: send(verb), is_allowed)
    assert allowed.status == (201 if verb == "create" else 200)
    for other in VERBS:
        if other != verb:
            refused = send(other)
            assert (refused.status, refused.reason) == (403, "Forbidden"), other
            assert f'User "{caller.name}" cannot {other} resource "configmaps"' in refused.message


PATCHES: Final[dict[str, tuple[Any, str]]] = {
    "a JSON patch": ([{"op": "add", "path": "/data", "value": {"k": "v"}}], "json-patch"),
    "a merge patch": ({"data": {"k": "v"}}, "merge"),
    "a strategic merge patch": ({"data": {"k": "v"}}, STRATEGIC_PATCH),
}


@pytest.mark.parametrize(("patch", "type_"), PATCHES.values(), ids=PATCHES)
def test_every_form_of_patch_needs_the_verb_patch(api: Api, namespace: str, patch: Any, type_: str) -> None:
    """Row A04."""
    updater, patcher = Caller(api), Caller(api)
    path = f"{CONFIGMAPS.format(namespace)}/a"
    api.post(CONFIGMAPS.format(namespace), BODY).ok()
    grant(api, namespace, updater.name, rule("update", "configmaps"))
    grant(api, namespace, patcher.name, rule("patch", "configmaps"))
    until(lambda: updater.send("PUT", path, BODY), is_allowed).ok()
    refused = updater.send("PATCH", path, patch, type=type_)
    assert refused.status == 403
    assert f'User "{updater.name}" cannot patch resource "configmaps"' in refused.message
    patched = until(lambda: patcher.send("PATCH", path, patch, type=type_), is_allowed).ok()
    assert patched["data"] == {"k": "v"}


def test_a_dry_run_needs_the_same_rights(api: Api, namespace: str) -> None:
    """Row L10."""
    caller, path = Caller(api), CONFIGMAPS.format(namespace)
    assert caller.send("POST", f"{path}?dryRun=All", BODY).status == 403
    grant(api, namespace, caller.name, rule("create", "configmaps"))
    until(lambda: caller.send("POST", f"{path}?dryRun=All", BODY), is_allowed).ok()
    assert caller.send("DELETE", f"{path}/a?dryRun=All").status == 403


def test_who_may_apply_may_not_create(api: Api, namespace: str) -> None:
    """Row O06."""
    caller, path = Caller(api), CONFIGMAPS.format(namespace)
    api.post(path, BODY).ok()
    grant(api, namespace, caller.name, rule("patch", "configmaps"))

    def apply(name: str, query: str = "") -> Answer:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}}
        return caller.send(
            "PATCH", f"{path}/{name}?fieldManager=m{query}", body, type="application/apply-patch+yaml"
        )

    until(lambda: apply("a"), is_allowed).ok()
    for query in ("", "&dryRun=All", "&force=true"):
        refused = apply("new", query)
        assert refused.status == 403
        assert f'User "{caller.name}" cannot create resource "configmaps"' in refused.message
    assert api.get(f"{path}/new").status == 404
    api.patch(f"{RBAC}/namespaces/{namespace}/roles/{caller.name}", {"rules": [rule("*", "configmaps")]}).ok()
    assert until(lambda: apply("new"), is_allowed).status == 201


def test_a_put_that_creates_needs_create(api: Api, namespace: str) -> None:
    """Decision on row A03."""
    caller = Caller(api)
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    body = {"metadata": {"name": "a"}, "spec": {"holderIdentity": "x"}}
    grant(api, namespace, caller.name, rule("update", "leases", group="coordination.k8s.io"))
    refused = until(
        lambda: caller.send("PUT", f"{leases}/a", body), lambda answer: "cannot create" in answer.message
    )
    assert refused.status == 403
    created = api.post(leases, body).ok()
    assert caller.send("PUT", f"{leases}/a", created).status == 200


def test_resource_names_do_not_grant_a_collection(api: Api, namespace: str) -> None:
    """Row O05: names hold for requests that have a name; a selector of one name has it."""
    caller, path = Caller(api), CONFIGMAPS.format(namespace)
    for name in ("a", "b"):
        api.post(path, {"metadata": {"name": name}}).ok()
    grant(api, namespace, caller.name, rule("get list watch deletecollection", "configmaps", "a"))
    until(lambda: caller.get(f"{path}/a"), is_allowed)
    assert caller.get(f"{path}/b").status == 403
    one = f"{path}?fieldSelector=metadata.name"
    assert [item["metadata"]["name"] for item in caller.get(f"{one}%3Da").ok()["items"]] == ["a"]
    assert caller.get(f"{one}%3Da&watch=1&timeoutSeconds=1").status == 200
    for query in (
        "",
        f"?{one.partition('?')[2]}%3Db",
        "?fieldSelector=metadata.name!%3Da",
        "?labelSelector=a",
    ):
        assert caller.get(path + query).status == 403, query
    # Source: k8s.io/apiserver, pkg/endpoints/request/requestinfo.go: to delete them has no name.
    assert caller.send("DELETE", f"{one}%3Da").status == 403


def test_rules_for_custom_resources_and_for_what_is_not_there(api: Api, namespace: str) -> None:
    """Who may not see that a resource is not there is told so."""
    caller = Caller(api)
    path = f"/apis/nothing.example.com/v1/namespaces/{namespace}/things"
    assert caller.get(path).status == 403
    grant(api, namespace, caller.name, rule("list", "things", group="nothing.example.com"))
    until_status(404, lambda: caller.get(path))


# ---- what everybody has. Source: kubernetes, bootstrappolicy/policy.go

NEITHER, NAMED, ALL = 0, 1, 2
PATHS: Final = {
    "/healthz": ALL,
    "/livez": ALL,
    "/readyz": ALL,
    "/version": ALL,
    "/version/": ALL,
    "/api": NAMED,
    "/api/v1": NAMED,
    "/apis": NAMED,
    "/apis/apps/v1": NAMED,
    "/openapi/v2": NAMED,
    "/openapi/v3/api/v1": NAMED,
    "/metrics": NEITHER,
    "/livez/ping": NEITHER,
    "/apiserver": NEITHER,
    "/openapis": NEITHER,
    "/": NEITHER,
}


@pytest.mark.parametrize(("path", "who"), PATHS.items(), ids=PATHS)
def test_paths_that_are_for_everybody(api: Api, path: str, who: int) -> None:
    """Row N11."""
    nobody = api.as_caller("")
    assert is_allowed(nobody.get(path)) is (who == ALL)
    assert is_allowed(Caller(api).get(path)) is (who >= NAMED)
    assert is_allowed(api.get(path))
    nobody.close()


def test_system_monitoring_reads_metrics(api: Api) -> None:
    monitor = Caller(api, "system:monitoring")
    assert monitor.get("/metrics").status == 200
    assert monitor.get("/livez/ping").status == 200
    assert monitor.get("/api/v1/namespaces").status == 403


def test_default_roles_can_be_bound(api: Api, namespace: str) -> None:
    """`cluster-admin` bound in a namespace gives all of the namespace."""
    caller = Caller(api)
    bindings = f"{RBAC}/namespaces/{namespace}/rolebindings"
    api.post(bindings, binding(caller.name, "cluster-admin", caller.name)).ok()
    path = CONFIGMAPS.format(namespace)
    until(lambda: caller.get(path), is_allowed).ok()
    assert caller.send("POST", path, BODY).status == 201
    assert caller.get(CONFIGMAPS.format("default")).status == 403
    assert caller.get("/api/v1/configmaps").status == 403
    assert caller.get("/metrics").status == 403, "paths are not in a namespace"


# ---- a right that is taken back


def test_deleted_roles_and_bindings_grant_nothing(api: Api, namespace: str) -> None:
    caller, path = Caller(api), CONFIGMAPS.format(namespace)
    grant(api, namespace, caller.name, rule("list", "configmaps"))
    until(lambda: caller.get(path), is_allowed).ok()
    api.delete(f"{RBAC}/namespaces/{namespace}/roles/{caller.name}").ok()
    refused = until(lambda: caller.get(path), is_refused)
    assert f': RBAC: role.rbac.authorization.k8s.io "{caller.name}" not found' in refused.message
    api.post(
        f"{RBAC}/namespaces/{namespace}/roles",
        {"metadata": {"name": caller.name}, "rules": [rule("list", "configmaps")]},
    ).ok()
    until(lambda: caller.get(path), is_allowed).ok()
    api.delete(f"{RBAC}/namespaces/{namespace}/rolebindings/{caller.name}").ok()
    until(lambda: caller.get(path), is_refused)


# ---- paths that mean something else to one part of a server than to another

TRICKS: Final = {
    "above": "/api/v1/namespaces/NS/configmaps/../secrets/s",
    "above, escaped": "/api/v1/namespaces/NS/configmaps/%2e%2e/secrets/s",
    "escaped slashes": "/api/v1/namespaces/NS/configmaps%2f..%2fsecrets/s",
    "an escaped slash": "/api/v1/namespaces/NS/secrets%2Fs",
    "escaped twice": "/api/v1/namespaces/NS/configmaps/%252e%252e/secrets/s",
    "a namespace that is a path": "/api/v1/namespaces/default%2f..%2fNS/secrets/s",
    "two slashes first": "//api/v1/namespaces/NS/secrets/s",
    "two slashes within": "/api/v1//namespaces/NS/secrets/s",
    "a group without a name": "/apis//v1/namespaces/NS/secrets/s",
    "upper case": "/API/V1/namespaces/NS/secrets/s",
    "a resource in upper case": "/api/v1/namespaces/NS/Secrets/s",
    "parameters": "/api/v1/namespaces/NS/secrets;x=configmaps/s",
    "a slash last": "/api/v1/namespaces/NS/secrets/s/",
    "a NUL": "/api/v1/namespaces/NS/configmaps%00/secrets/s",
    "the old way to watch": "/api/v1/watch/namespaces/NS/secrets/s?timeoutSeconds=1",
    "a selector of what is allowed": "/api/v1/namespaces/NS/secrets?fieldSelector=metadata.name%3Da",
    "two selectors": "/api/v1/namespaces/NS/secrets?fieldSelector=metadata.name%3Da&fieldSelector=",
    "a fragment": "/api/v1/namespaces/NS/secrets/s%23/../../configmaps/a",
    "a query that is none": "/api/v1/namespaces/NS/secrets/s%3f",
}
NO_RESOURCES: Final = [TRICKS[each] for each in ("two slashes within", "a group without a name", "a NUL")]


@pytest.fixture(scope="module")
def secretive(server: ServerProcess) -> Iterator[tuple[Caller, str]]:
    """Who may read ConfigMaps, and nothing else, in a namespace with a Secret; and the namespace."""
    with Api(server) as api:
        namespace = f"paths-{next(_numbers)}"
        api.post("/api/v1/namespaces", {"metadata": {"name": namespace}}).ok()
        secret = {"metadata": {"name": "s"}, "data": {"key": "aGlkZGVu"}}
        api.post(f"/api/v1/namespaces/{namespace}/secrets", secret).ok()
        caller = Caller(api)
        verbs = ("get", "list", "watch", "update", "patch", "delete")
        grant(api, namespace, caller.name, rule(" ".join(verbs), "configmaps"))
        until(lambda: caller.get(CONFIGMAPS.format(namespace)), is_allowed).ok()
        yield caller, namespace


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
@pytest.mark.parametrize("path", TRICKS.values(), ids=TRICKS)
def test_no_path_leads_around_authorization(secretive: tuple[Caller, str], path: str, method: str) -> None:
    caller, namespace = secretive
    body = {"metadata": {"name": "s"}, "data": {"key": "aGFja2Vk"}} if method == "PUT" else None
    answer = caller.send(method, path.replace("NS", namespace), body)
    # Everybody may look around below /api and /apis, and finds nothing there.
    is_discovery = method == "GET" and path in NO_RESOURCES
    assert answer.status == (404 if is_discovery else 403), answer.body
    assert b"aGlkZGVu" not in answer.body
    kept = caller.api.get(f"/api/v1/namespaces/{namespace}/secrets/s").ok()
    assert kept["data"] == {"key": "aGlkZGVu"}


# ---- over time and place


def test_roles_outlive_a_restart(tmp_path: Path) -> None:
    """And count from the first request after `ready`, for those who are no masters, too."""
    with ServerProcess(tmp_path / "data") as server:
        admin, alice = Api(server), Api(server, "alice-token")
        grant(admin, "default", "alice", rule("list", "configmaps"))
        until(lambda: alice.get(CONFIGMAPS.format("default")), is_allowed).ok()
        for end in (server.stop, server.kill):
            end()
            server.start()
            admin.close()
            alice.close()
            admin, alice = Api(server), Api(server, "alice-token")
            assert alice.get("/api/v1").status == 200
            assert alice.get(CONFIGMAPS.format("default")).status == 200
            assert alice.get(CONFIGMAPS.format("kube-system")).status == 403
        admin.close()
        alice.close()


@pytest.mark.etcd
def test_roles_made_on_one_server_count_on_another(replicas: tuple[Api, Api]) -> None:
    here, there = replicas
    path = CONFIGMAPS.format("default")
    caller = Caller(there)
    assert caller.get(path).status == 403
    grant(here, "default", caller.name, rule("list", "configmaps"))
    until(lambda: caller.get(path), is_allowed).ok()
    here.delete(f"{RBAC}/namespaces/default/rolebindings/{caller.name}").ok()
    until(lambda: caller.get(path), is_refused)


@pytest.mark.etcd
def test_rights_count_on_another_server_within_a_tenth_of_a_second(replicas: tuple[Api, Api]) -> None:
    """Of up to forty times the quickest counts: a machine with much else to do is slower, not always."""
    here, there = replicas
    path, bindings = CONFIGMAPS.format("default"), f"{RBAC}/namespaces/default/rolebindings"
    caller = Caller(there)
    grant(here, "default", caller.name, rule("list", "configmaps"))
    binding = here.get(f"{bindings}/{caller.name}").ok()
    until(lambda: caller.get(path), is_allowed)
    again = {field: binding[field] for field in ("subjects", "roleRef")} | {"metadata": {"name": caller.name}}
    granted_s, revoked_s = [], []
    for _ in range(40):
        here.delete(f"{bindings}/{caller.name}").ok()
        began = time.monotonic()
        until(lambda: caller.get(path), is_refused)
        revoked_s.append(time.monotonic() - began)
        here.post(bindings, again).ok()
        began = time.monotonic()
        until(lambda: caller.get(path), is_allowed)
        granted_s.append(time.monotonic() - began)
        if max(min(granted_s), min(revoked_s)) < 0.1:
            break
    else:
        pytest.fail(f"granted within {min(granted_s)} s, revoked within {min(revoked_s)} s")


# ---- modes


@pytest.fixture(scope="module", params=["AlwaysAllow", "AlwaysDeny"])
def other_mode(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Api, Api]]:
    flag = f"--authorization-mode={request.param}"
    with ServerProcess(tmp_path_factory.mktemp("mode") / "data", flag) as server:
        admin, alice = Api(server), Api(server, "alice-token")
        yield request.param, admin, alice
        admin.close()
        alice.close()


def test_other_authorization_modes(other_mode: tuple[str, Api, Api]) -> None:
    mode, admin, alice = other_mode
    assert admin.get("/api/v1/secrets").status == 200, "masters may, whatever the mode"
    answer = alice.get("/api/v1/secrets")
    assert is_allowed(answer) is (mode == "AlwaysAllow")
    if mode == "AlwaysDeny":
        assert answer.message.endswith("at the cluster scope: Everything is forbidden.")
    assert admin.get(f"{RBAC}/clusterroles/cluster-admin").status == 200, "the default roles are there"


def test_roles_of_another_brand(tmp_path: Path) -> None:
    root = "/apis/rbac.authorization.acme.example/v1"
    with ServerProcess(tmp_path / "data", "--group-domain=acme.example", "--vendor=acme") as server:
        admin, alice = Api(server), Api(server, "alice-token")
        assert alice.get("/api/v1").status == 200
        grant(admin, "default", "alice", rule("list", "configmaps"), root=root)
        until(lambda: alice.get(CONFIGMAPS.format("default")), is_allowed).ok()
        review = {
            "spec": {"resourceAttributes": {"verb": "list", "resource": "configmaps", "namespace": "default"}}
        }
        reviews = "/apis/authorization.acme.example/v1/selfsubjectaccessreviews"
        assert alice.post(reviews, review).ok()["status"]["allowed"]
        admin.close()
        alice.close()


# ---- kubectl


@pytest.fixture(params=each_version(0, -1))
def kubectl(request: pytest.FixtureRequest, server: ServerProcess, namespace: str, tmp_path: Path) -> Kubectl:
    return Kubectl(program(request.param), server.kubeconfig, namespace, tmp_path)


def test_kubectl_makes_roles_and_asks_what_one_may(kubectl: Kubectl, namespace: str) -> None:
    who = f"--as=user-{next(_numbers)}"
    user = who.partition("=")[2]
    kubectl("create", "role", "reader", "--verb=get,list", "--resource=configmaps,deployments.apps")
    kubectl("create", "rolebinding", "readers", "--role=reader", f"--user={user}", "--group=readers")
    for _ in range(200):
        if kubectl.run("auth", "can-i", "list", "configmaps", who).returncode == 0:
            break
    assert kubectl("auth", "can-i", "get", "deployments.apps/web", who) == "yes\n"
    refused = kubectl.run("auth", "can-i", "delete", "configmaps", who)
    assert refused.returncode == 1
    assert re.fullmatch(r'no - nearly: RoleBinding .* lacks the verb "delete"\n', refused.stdout)
    table = rows(kubectl("auth", "can-i", "--list", who))
    assert ["configmaps", "[]", "[]", "[get list]"] in table
    assert ["deployments.apps", "[]", "[]", "[get list]"] in table
    assert any(row[-1] == "[create]" and row[0].startswith("selfsubject") for row in table)
    assert "user" in kubectl("auth", "whoami", who)
    shown = kubectl("get", "rolebindings", "-o", "wide")
    assert "Role/reader" in shown
    assert user in shown
    assert "get list" in " ".join(kubectl("describe", "role", "reader").split()).replace("[", "").replace(
        "]", ""
    )
    listed = kubectl.run("get", "secrets", who)
    assert f'secrets is forbidden: User "{user}" cannot list resource "secrets"' in listed.stderr


def test_kubectl_reconciles_roles(kubectl: Kubectl, namespace: str) -> None:
    """`auth reconcile` gives a role what it lacks, and makes a binding again whose role is another."""

    def manifest(verb: str, to: str) -> str:
        return f"""
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: r, namespace: {namespace}}}
rules: [{{apiGroups: [""], resources: [configmaps], verbs: [{verb}]}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: b, namespace: {namespace}}}
subjects: [{{kind: User, name: joe, apiGroup: rbac.authorization.k8s.io}}]
roleRef: {{kind: Role, name: {to}, apiGroup: rbac.authorization.k8s.io}}
"""

    for verb, to in (("get", "r"), ("list", "r"), ("list", "other")):
        assert "reconciled" in kubectl.run("auth", "reconcile", "-f", "-", stdin=manifest(verb, to)).stdout
    verbs = {verb for each in kubectl.json("get", "role", "r")["rules"] for verb in each["verbs"]}
    assert verbs == {"get", "list"}
    assert kubectl.json("get", "rolebinding", "b")["roleRef"]["name"] == "other"
