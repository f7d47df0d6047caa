"""The default roles and bindings of a server, over its starts, and the roles that aggregate others.

Source: k8s.io/kubernetes, pkg/registry/rbac/rest/storage_rbac.go, pkg/registry/rbac/reconciliation,
pkg/controller/clusterroleaggregation. Row O08.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.auth.authz.rbac.default_roles import default_objects
from apiserver.meta.brand import Brand
from tests.support.api import Api
from tests.support.eventually import eventually
from tests.support.fixtures import server_with
from tests.support.server_process import ServerProcess

GROUP: Final = "/apis/rbac.authorization.k8s.io/v1"
ROLES: Final = f"{GROUP}/clusterroles"
BINDINGS: Final = f"{GROUP}/clusterrolebindings"
AUTOUPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"
EXTRA: Final = {"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["widgets"]}
ALICE: Final = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}
_RESOURCES: Final = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
}


server = server_with("--controllers=*")


def stored(api: Api) -> dict[tuple[str, str, str], Any]:
    """All roles and bindings that are marked as defaults, by kind, namespace and name."""
    return {
        (kind, each["metadata"].get("namespace", ""), each["metadata"]["name"]): {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": kind,
            **each,
        }
        for kind, resource in _RESOURCES.items()
        for each in api.get(f"{GROUP}/{resource}?labelSelector=kubernetes.io/bootstrapping").ok()["items"]
    }


def path_of(key: tuple[str, str, str]) -> str:
    kind, namespace, name = key
    return f"{GROUP}/{f'namespaces/{namespace}/' if namespace else ''}{_RESOURCES[kind]}/{name}"


# ---- from the first start


def test_all_are_there(api: Api) -> None:
    found = stored(api)
    for default in (each.document() for each in default_objects(Brand())):
        meta = default["metadata"]
        each = found.pop((default["kind"], meta.get("namespace", ""), meta["name"]))
        for field in ("labels", "annotations"):
            assert each["metadata"][field] == meta[field]
        # The rules of those that aggregate others are filled in.
        for field in default.keys() - {"metadata"}:
            assert each[field] == default[field] or default[field] is None
    assert found == {}


def test_readiness_waits_for_them(api: Api) -> None:
    assert "[+]poststarthook/rbac/bootstrap-roles ok" in api.get("/readyz?verbose").body.decode()


def test_they_are_what_clients_would_have_written(api: Api) -> None:
    """What a client writes passes the schema; here nobody asked it."""
    for key, document in stored(api).items():
        written = api.put(path_of(key), document).ok()
        assert written["metadata"]["resourceVersion"] == document["metadata"]["resourceVersion"], key


async def test_a_deployments_own_domain(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path / "data", "--group-domain=example.org", "--controllers=*") as server,
        Api(server) as api,
    ):
        group = "rbac.authorization.example.org"
        roles = f"/apis/{group}/v1/clusterroles"
        role = api.get(f"{roles}/system:aggregate-to-admin").ok()
        assert role["metadata"]["labels"][f"{group}/aggregate-to-admin"] == "true"
        assert [rule["apiGroups"] for rule in role["rules"]] == [["authorization.example.org"], [group]]
        await eventually(lambda: role["rules"][1] in api.get(f"{roles}/admin").ok().get("rules", ()))


# ---- from later starts

Change = Callable[[Api], None]


def _without_rules(name: str, **annotations: str) -> Change:
    def change(api: Api) -> None:
        api.patch(f"{ROLES}/{name}", {"metadata": {"annotations": annotations}, "rules": None}).ok()

    return change


def _deleted(path: str) -> Change:
    return lambda api: api.delete(path).ok()


def _patched(path: str, patch: Any) -> Change:
    return lambda api: api.patch(path, patch).ok()


def _granting_another(name: str) -> Change:
    def change(api: Api) -> None:
        binding = api.get(f"{BINDINGS}/{name}").ok()
        api.delete(f"{BINDINGS}/{name}").ok()
        binding["roleRef"]["name"] = "view"
        del binding["metadata"]["resourceVersion"], binding["metadata"]["uid"]
        api.post(BINDINGS, binding).ok()

    return change


# What somebody does, to which object; and what of it is then, as it was (`same`) or as they wrote it.
def _same(before: Any, changed: Any, after: Any) -> None:
    for field in ("rules", "subjects", "roleRef", "aggregationRule"):
        assert after.get(field) == before.get(field)
    assert after["metadata"]["labels"] == before["metadata"]["labels"]


def _as_changed(before: Any, changed: Any, after: Any) -> None:
    assert after == changed != before


def _behind(field: str, *added: Any) -> Callable[[Any, Any, Any], None]:
    def check(before: Any, changed: Any, after: Any) -> None:
        assert after[field] == [*added, *before[field]]

    return check


LATER: Final = {
    "a role that was deleted is made again": (
        ("ClusterRole", "", "system:kube-dns"),
        _deleted(f"{ROLES}/system:kube-dns"),
        _same,
    ),
    "and a binding": (
        ("ClusterRoleBinding", "", "system:kube-dns"),
        _deleted(f"{BINDINGS}/system:kube-dns"),
        _same,
    ),
    "and one of a namespace": (
        ("RoleBinding", "kube-public", "system:controller:bootstrap-signer"),
        _deleted(f"{GROUP}/namespaces/kube-public/rolebindings/system:controller:bootstrap-signer"),
        _same,
    ),
    "what was taken off a role comes back": (
        ("ClusterRole", "", "system:node-bootstrapper"),
        _without_rules("system:node-bootstrapper"),
        lambda before, changed, after: _covers(after["rules"], before["rules"]),
    ),
    "but not where nobody may": (
        ("ClusterRole", "", "system:heapster"),
        _without_rules("system:heapster", **{AUTOUPDATE: "false"}),
        _as_changed,
    ),
    "more rules stay": (
        ("ClusterRole", "", "system:discovery"),
        _patched(f"{ROLES}/system:discovery", {"rules": [{"verbs": ["get"], "nonResourceURLs": ["*"]}]}),
        _as_changed,
    ),
    "more subjects stay, and those that are missing come back": (
        ("ClusterRoleBinding", "", "system:monitoring"),
        _patched(f"{BINDINGS}/system:monitoring", {"subjects": [ALICE]}),
        _behind("subjects", ALICE),
    ),
    "a label comes back": (
        ("ClusterRole", "", "system:basic-user"),
        _patched(
            f"{ROLES}/system:basic-user", {"metadata": {"labels": {"kubernetes.io/bootstrapping": None}}}
        ),
        _same,
    ),
    "a binding that grants another role is made anew": (
        ("ClusterRoleBinding", "", "system:volume-scheduler"),
        _granting_another("system:volume-scheduler"),
        _same,
    ),
    "a role aggregates again": (
        ("ClusterRole", "", "admin"),
        _patched(f"{ROLES}/admin", {"aggregationRule": None}),
        _same,
    ),
}


def _covers(rules: list[Any], wanted: list[Any]) -> None:
    def single(rules: list[Any]) -> set[tuple[str, str, str]]:
        return {
            (verb, group, resource)
            for rule in rules
            for verb in rule["verbs"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
        }

    assert single(rules) == single(wanted)


@pytest.fixture(scope="module")
def restarted(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[tuple[str, str, str], tuple[Any, Any, Any]]]:
    """Each object as it was made, as it was changed, None for gone, and as it was after a restart."""
    with ServerProcess(tmp_path_factory.mktemp("restarted") / "data") as server:
        with Api(server) as api:
            before = stored(api)
            for _, change, _ in LATER.values():
                change(api)
            answers = {key: api.get(path_of(key)) for key in before}
            changed = {key: answer.json for key, answer in answers.items() if answer.status == 200}
        server.stop()
        server.start()
        with Api(server) as api:
            after = stored(api)
        yield {key: (before[key], changed.get(key), after[key]) for key in before}


@pytest.mark.parametrize(("key", "check"), [(key, check) for key, _, check in LATER.values()], ids=LATER)
def test_reconciliation_at_a_later_start(
    restarted: dict[tuple[str, str, str], tuple[Any, Any, Any]],
    key: tuple[str, str, str],
    check: Callable[[Any, Any, Any], None],
) -> None:
    check(*restarted[key])


def test_correct_defaults_are_not_written(
    restarted: dict[tuple[str, str, str], tuple[Any, Any, Any]],
) -> None:
    touched = {key for key, _, _ in LATER.values()}
    for key, (before, _, after) in restarted.items():
        assert key in touched or after == before


def test_without_the_controller_nothing_is_aggregated(
    restarted: dict[tuple[str, str, str], tuple[Any, Any, Any]],
) -> None:
    _, _, view = restarted["ClusterRole", "", "view"]
    assert view["rules"] is None


# ---- roles that aggregate others


def has(api: Api, role: str, rule: Any, *, is_wanted: bool = True) -> Callable[[], bool]:
    return lambda: (rule in (api.get(f"{ROLES}/{role}").ok()["rules"] or ())) is is_wanted


async def test_roles_for_users_have_the_rules_of_those_that_are_aggregated(api: Api) -> None:
    (read,) = (
        rule
        for rule in api.get(f"{ROLES}/system:aggregate-to-view").ok()["rules"]
        if "configmaps" in rule["resources"]
    )
    for role in ("view", "edit", "admin"):
        await eventually(has(api, role, read))


async def test_a_new_role_is_in_all_that_aggregate_it_until_it_is_deleted(api: Api) -> None:
    rule = {**EXTRA, "resources": ["comes-and-goes"]}
    labels = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    api.post(ROLES, {"metadata": {"name": "widget-viewer", "labels": labels}, "rules": [rule]}).ok()
    for role in ("view", "edit", "admin"):
        await eventually(has(api, role, rule))
    api.delete(f"{ROLES}/widget-viewer").ok()
    for role in ("view", "edit", "admin"):
        await eventually(has(api, role, rule, is_wanted=False))


async def test_a_role_of_ones_own_follows_its_parts(api: Api) -> None:
    selector = {"matchLabels": {"to-monitor": "yes"}}
    names = ("monitor-b", "monitor-a")
    for name in names:
        metadata = {"name": name, "labels": {"to-monitor": "yes"}}
        api.post(ROLES, {"metadata": metadata, "rules": [{**EXTRA, "resources": [name]}]}).ok()
    api.post(
        ROLES,
        {
            "metadata": {"name": "monitor"},
            "aggregationRule": {"clusterRoleSelectors": [selector]},
            "rules": [{**EXTRA, "resources": ["forgotten"]}],
        },
    ).ok()

    def resources() -> list[str]:
        return [rule["resources"][0] for rule in api.get(f"{ROLES}/monitor").ok().get("rules", ())]

    await eventually(lambda: resources() == ["monitor-a", "monitor-b"])
    api.patch(f"{ROLES}/monitor-a", {"metadata": {"labels": {"to-monitor": None}}}).ok()
    await eventually(lambda: resources() == ["monitor-b"])
    # Somebody else's rules do not last.
    api.patch(f"{ROLES}/monitor", {"rules": [EXTRA]}).ok()
    await eventually(lambda: resources() == ["monitor-b"])
    # Without the rule that says so, nothing is aggregated any more.
    api.patch(f"{ROLES}/monitor", {"aggregationRule": None, "rules": [EXTRA]}).ok()
    api.patch(f"{ROLES}/monitor-a", {"metadata": {"labels": {"to-monitor": "yes"}}}).ok()
    # All are aggregated together: when this one is, so were the others.
    last = {**EXTRA, "resources": ["last"]}
    labels = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    api.post(ROLES, {"metadata": {"name": "last", "labels": labels}, "rules": [last]}).ok()
    await eventually(has(api, "view", last))
    assert resources() == ["widgets"]
