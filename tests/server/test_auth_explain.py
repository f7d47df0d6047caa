"""`apiserver auth explain`, and what access reviews of one's own tell. Row O03."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.cli import auth_explain
from apiserver.cli.api_client import RequestFailed
from apiserver.cli.argument_parser import UsageError
from apiserver.cli.auth_explain import ALLOWED, FAILED, NOT_ALLOWED
from tests.support.api import Api
from tests.support.eventually import until
from tests.support.kubeconfigs import write_kubeconfig
from tests.support.rbac import RBAC, binding, rule
from tests.support.server_process import ServerProcess

OWN_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
WITHIN_S: Final = 60


def explain(kubeconfig: Path, *arguments: str) -> tuple[int, str]:
    """The exit code, and what is printed."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        code = auth_explain.run(["explain", f"--kubeconfig={kubeconfig}", *arguments])
    return code, printed.getvalue()


@pytest.fixture
def granted(api: Api, namespace: str) -> str:
    """A namespace in which a user of its name may read ConfigMaps, and a role is bound that is not there."""
    where = f"{RBAC}/namespaces/{namespace}"
    role = {"metadata": {"name": "reader"}, "rules": [rule("get list", "configmaps")]}
    api.post(f"{where}/roles", role).ok()
    for each in ("reader", "gone"):
        api.post(f"{where}/rolebindings", binding(each, each, namespace, kind="Role")).ok()
    return namespace


RULE: Final = '{APIGroups:[""], Resources:["configmaps"], Verbs:["get" "list"]}'


def review(api: Api, user: str, **attributes: str) -> Any:
    spec = {"resourceAttributes": {"resource": "configmaps", "namespace": user, **attributes}}
    return api.post(OWN_REVIEWS, {"spec": spec}, headers={"Impersonate-User": user}).ok()["status"]


def test_reviews_of_ones_own_tell_the_rule_and_near_misses(api: Api, granted: str) -> None:
    bound = f'RoleBinding "reader/{granted}" of Role "reader" to User "{granted}"'
    missing = 'role.rbac.authorization.k8s.io "gone" not found'
    allowed = until(lambda: review(api, granted, verb="get"), lambda status: bool(status["allowed"]))
    assert allowed == {"allowed": True, "reason": f"RBAC: allowed by {bound}, by its rule {RULE}"}
    assert review(api, granted, verb="delete") == {
        "allowed": False,
        "reason": (
            f"RBAC: {missing}; nearly: {missing}, though it is bound to the user; "
            f'{bound} has the rule {RULE}, which lacks the verb "delete"'
        ),
    }
    assert review(api, granted, verb="get", namespace="default") == {"allowed": False}, "nothing is near"
    refused = api.get(f"/api/v1/namespaces/{granted}/secrets", headers={"Impersonate-User": granted})
    assert refused.message.endswith(f'in the namespace "{granted}": RBAC: {missing}'), "as in Kubernetes"


def test_what_is_explained(api: Api, server: ServerProcess, granted: str) -> None:
    until(lambda: review(api, granted, verb="get"), lambda status: bool(status["allowed"]))
    user = ("--as", granted, "-n", granted)
    bound = f'RoleBinding "reader/{granted}" of Role "reader" to User "{granted}"'
    code, told = explain(server.kubeconfig, "get", "configmaps", "a", *user)
    assert code == ALLOWED, told
    assert told.startswith('yes: configmaps "a": User ')
    assert f"the server: allowed; RBAC: allowed by {bound}\n{bound} has the rule {RULE}\n" in told

    code, told = explain(server.kubeconfig, "delete", "cm", *user)
    assert code == NOT_ALLOWED, told
    assert told.startswith(
        f'no: configmaps is forbidden: User "{granted}" cannot delete resource "configmaps"'
    )
    assert f'  {bound} has the rule {RULE}, which lacks the verb "delete"\n' in told
    assert '  role.rbac.authorization.k8s.io "gone" not found, though it is bound to the user\n' in told
    assert '  ClusterRole "cluster-admin"\n' in told

    code, told = explain(server.kubeconfig, "list", "configmaps", "--as", granted, "-n", "default")
    assert code == NOT_ALLOWED, told
    assert (
        f"bound in other namespaces:\n  {bound} allows the request, but only in its own namespace\n" in told
    )

    code, told = explain(server.kubeconfig, "list", "configmaps", "--as", granted.upper(), "-n", granted)
    assert code == NOT_ALLOWED, told
    assert f'would allow the request, but User "{granted}" is not User "{granted.upper()}"\n' in told

    code, told = explain(server.kubeconfig, "update", "deployments/scale", *user)
    assert code == NOT_ALLOWED, told
    assert 'resource "deployments/scale" in API group "apps"' in told

    code, told = explain(server.kubeconfig, "get", "pods", "--as", "\x1b[31mred")
    assert code == NOT_ALLOWED, told
    assert "\x1b" not in told

    code, told = explain(server.kubeconfig, "get", "/metrics", "--as", granted, "--as-group", "dev")
    assert code == NOT_ALLOWED, told
    assert 'cannot get path "/metrics"' in told
    assert '(groups=["dev" "system:authenticated"])' in told

    code, told = explain(server.kubeconfig, "delete", "nodes", "x")
    assert code == ALLOWED, told
    assert 'of ClusterRole "cluster-admin" to Group "system:masters" has the rule' in told


def test_who_may_read_little_is_told_what_was_not_looked_at(
    api: Api, server: ServerProcess, tmp_path: Path
) -> None:
    write_kubeconfig(tmp_path / "config", server.url, ca=server.ca_path, token="alice-token")
    code, told = explain(tmp_path / "config", "get", "secrets", "s")
    assert code == NOT_ALLOWED, told
    assert 'about: User "alice" (groups=["dev" "system:authenticated"])' in told
    assert "the server: not allowed" in told
    assert "not checked:\n  ClusterRoles: clusterroles.rbac.authorization.k8s.io is forbidden" in told
    code, told = explain(tmp_path / "config", "get", "secrets", "--as", "bob")
    assert code == NOT_ALLOWED, told
    assert "The server's decision is unknown: subjectaccessreviews.authorization.k8s.io is forbidden" in told


NAMESPACES: Final[dict[str, tuple[str, tuple[str, ...], str]]] = {
    "the context's": ("web", (), 'in the namespace "web"'),
    "another than the context's": ("web", ("-n", "other"), 'in the namespace "other"'),
    "all": ("web", ("-A",), "at the cluster scope"),
    "none of the context": ("", (), 'in the namespace "default"'),
    "none anywhere": ("", ("-n", ""), 'in the namespace "default"'),
}


@pytest.mark.parametrize(("of_context", "arguments", "where"), NAMESPACES.values(), ids=NAMESPACES)
def test_the_namespace(
    server: ServerProcess, tmp_path: Path, of_context: str, arguments: tuple[str, ...], where: str
) -> None:
    config = write_kubeconfig(
        tmp_path / "config", server.url, ca=server.ca_path, token="admin-token", namespace=of_context
    )
    code, told = explain(config, "get", "pods", "--as", "nobody", *arguments)
    assert code == NOT_ALLOWED
    assert told.splitlines()[0].endswith(where)


RESOURCES: Final = {
    "plural": ("pods", 'resource "pods" in API group ""'),
    "singular": ("pod", 'resource "pods" in API group ""'),
    "short name": ("po", 'resource "pods" in API group ""'),
    "kind": ("Pod", 'resource "pods" in API group ""'),
    "group": ("deployments.apps", 'resource "deployments" in API group "apps"'),
    "short name and group": ("deploy.apps", 'resource "deployments" in API group "apps"'),
    "version and group": ("deployments.v1.apps", 'resource "deployments" in API group "apps"'),
    "subresource": ("pods/log", 'resource "pods/log" in API group ""'),
    "all": ("*", 'resource "*" in API group ""'),
}


@pytest.mark.parametrize(("name", "resource"), RESOURCES.values(), ids=RESOURCES)
def test_how_a_resource_is_named(server: ServerProcess, name: str, resource: str) -> None:
    code, told = explain(server.kubeconfig, "get", name, "--as", "nobody", "web", "-n", "default")
    assert code == NOT_ALLOWED, told
    assert f'User "nobody" cannot get {resource} in the namespace "default"' in told


def test_all_namespaces_and_those_without(server: ServerProcess) -> None:
    for arguments in (
        ("list", "pods", "-A"),
        ("list", "nodes", "-n", "default"),
        ("impersonate", "users", "alice", "-n", "default"),
    ):
        code, told = explain(server.kubeconfig, *arguments, "--as", "nobody")
        assert code == NOT_ALLOWED, told
        assert "at the cluster scope" in told.splitlines()[0]


UNKNOWN: Final = {
    "misspelt": ("podz", "the server doesn't have a resource type 'podz'; did you mean pods?"),
    "misspelt in a group": (
        "deploymnets.apps",
        "the server doesn't have a resource type 'deploymnets.apps'; did you mean deployments.apps?",
    ),
    "in a group that has it not": (
        "deployments.batch",
        "the server doesn't have a resource type 'deployments.batch'",
    ),
    "like none": ("xyzzyxyzzy", "the server doesn't have a resource type 'xyzzyxyzzy'"),
    "in no group": (
        "deployments.example.com",
        "the server doesn't have a resource type 'deployments.example.com'; did you mean deployments.apps?",
    ),
}


@pytest.mark.parametrize(("name", "message"), UNKNOWN.values(), ids=UNKNOWN)
def test_a_resource_that_is_not_served(server: ServerProcess, name: str, message: str) -> None:
    with pytest.raises(RequestFailed) as failed:
        explain(server.kubeconfig, "get", name)
    assert str(failed.value) == message


def test_a_path_has_no_name(server: ServerProcess) -> None:
    with pytest.raises(UsageError, match="a path cannot have a NAME: 'web'"):
        explain(server.kubeconfig, "get", "/metrics", "web")


def test_credentials_that_are_not_accepted(server: ServerProcess, tmp_path: Path) -> None:
    config = write_kubeconfig(tmp_path / "config", server.url, ca=server.ca_path, token="expired")
    for arguments in (("get", "pods"), ("get", "/metrics", "--as", "alice")):
        with pytest.raises(RequestFailed) as failed:
            explain(config, *arguments)
        assert str(failed.value) == f"{server.url} does not accept the credentials of {config}: Unauthorized"


def test_the_command(server: ServerProcess, tmp_path: Path) -> None:
    ended = [
        subprocess.run(
            [sys.executable, "-m", "apiserver", "auth", "explain", *arguments],
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
            env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        )
        for kubeconfig, arguments in (
            (server.kubeconfig, ("list", "pods", "-A")),
            (tmp_path / "none", ("list", "pods")),
            (tmp_path / "none", ("list",)),
        )
    ]
    assert [each.returncode for each in ended] == [ALLOWED, FAILED, FAILED]
    assert ended[0].stdout.startswith("yes: pods: User ")
    assert ended[1].stderr.startswith(f"apiserver: {tmp_path / 'none'}: ")
    assert ended[2].stderr.startswith("apiserver: auth explain: ")
