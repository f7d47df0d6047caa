"""The default roles and bindings: sound, spelled for the deployment, and granting what Kubernetes' do.

Source: plugin/pkg/auth/authorizer/rbac/bootstrappolicy, release 1.34.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import orjson
import pytest

from apiserver.auth.authz.attributes import Attributes
from apiserver.auth.authz.rbac import default_roles
from apiserver.auth.authz.rbac.default_roles import GATES, autoupdate_key, default_objects, on_by_default
from apiserver.auth.authz.rbac.rule_coverage import uncovered_rules
from apiserver.auth.authz.rbac.rules import PolicyRule, parse_rules
from apiserver.catalogue.rbac import role_bindings, roles
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import Document, UserInfo

GROUP: Final = "rbac.authorization.k8s.io"


def documents(brand: Brand, is_on: Callable[[str], bool] = on_by_default) -> list[Document]:
    return [each.document() for each in default_objects(brand, is_on)]


DOCUMENTS: Final = documents(Brand())
BY_NAME: Final = {
    (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each
    for each in DOCUMENTS
}
ANYBODY: Final = UserInfo("somebody")


def of_kind(kind: str) -> list[Document]:
    return [each for each in DOCUMENTS if each["kind"] == kind]


def rules_of(name: str, *, kind: str = "ClusterRole", namespace: str = "") -> tuple[PolicyRule, ...]:
    return parse_rules(BY_NAME[kind, namespace, name])


# ---- what holds of all


def problems(document: Document) -> list[Any]:
    match document["kind"]:
        case "ClusterRole":
            return roles.validate_cluster_role(document, None)
        case "Role":
            return roles.validate_role(document)
        case "ClusterRoleBinding":
            return role_bindings.validate_cluster_role_binding(GROUP, document)
        case _:
            return role_bindings.validate_role_binding(GROUP, document)


def test_all_are_valid_by_the_servers_own_rules() -> None:
    assert {each["metadata"]["name"]: found for each in DOCUMENTS if (found := problems(each))} == {}


def test_none_is_there_twice() -> None:
    assert len(BY_NAME) == len(DOCUMENTS)
    assert Counter(each["kind"] for each in DOCUMENTS) == {
        "ClusterRole": 70,
        "ClusterRoleBinding": 51,
        "Role": 7,
        "RoleBinding": 7,
    }


# policy_test.go, TestControllerRoleLabel; policy.go, addDefaultMetadata
def test_all_are_marked_as_defaults_that_are_kept_up_to_date() -> None:
    for each in DOCUMENTS:
        assert each["metadata"]["labels"]["kubernetes.io/bootstrapping"] == "rbac-defaults"
        assert each["metadata"]["annotations"] == {"rbac.authorization.kubernetes.io/autoupdate": "true"}
    assert autoupdate_key(Brand()) == "rbac.authorization.kubernetes.io/autoupdate"


def test_bindings_grant_roles_that_are_there() -> None:
    for each in (*of_kind("ClusterRoleBinding"), *of_kind("RoleBinding")):
        role = each["roleRef"]
        assert (role["kind"], each["metadata"].get("namespace", ""), role["name"]) in BY_NAME


def test_the_gates_of_the_table_are_listed() -> None:
    asked: set[str] = set()

    def is_on(gate: str) -> bool:
        asked.add(gate)
        return True

    default_roles.table(is_on)
    assert asked == set(GATES)


# apis/rbac/v1, PolicyRuleBuilder
def test_the_words_of_rules_are_in_order() -> None:
    for each in (*of_kind("ClusterRole"), *of_kind("Role")):
        for rule in parse_rules(each):
            for words in rule:
                assert list(words) == sorted(set(words))


def test_the_words_of_the_deployment_are_everywhere() -> None:
    text = orjson.dumps(DOCUMENTS).decode()
    for key in ("kubernetes.io/bootstrapping", "rbac.authorization.kubernetes.io/autoupdate"):
        text = text.replace(key, key.replace("kubernetes.io", "acme.io"))
    text = text.replace("k8s.io", "example.org")
    assert documents(Brand("example.org", "acme")) == orjson.loads(text)


def test_they_are_made_anew_each_time() -> None:
    documents(Brand())[0]["metadata"]["labels"].clear()
    assert documents(Brand()) == DOCUMENTS


# ---- who may do what

# Role: what it allows, or with "not" does not, as verb, resource.group, subresource, name.
MAY: Final = {
    "cluster-admin may do anything": ("cluster-admin", "frobnicate", "any.example.com", "", "x", True),
    "view reads config maps": ("system:aggregate-to-view", "get", "configmaps.", "", "", True),
    "view reads no secrets": ("system:aggregate-to-view", "get", "secrets.", "", "", False),
    "view writes nothing": ("system:aggregate-to-view", "update", "configmaps.", "", "", False),
    "edit reads secrets": ("system:aggregate-to-edit", "get", "secrets.", "", "", True),
    "edit becomes accounts": ("system:aggregate-to-edit", "impersonate", "serviceaccounts.", "", "", True),
    "edit changes deployments": ("system:aggregate-to-edit", "patch", "deployments.apps", "", "", True),
    "edit gives no roles": ("system:aggregate-to-edit", "create", f"rolebindings.{GROUP}", "", "", False),
    # CVE-2021-25740
    "edit writes no endpoints": ("system:aggregate-to-edit", "update", "endpoints.", "", "", False),
    "admin gives roles": ("system:aggregate-to-admin", "create", f"rolebindings.{GROUP}", "", "", True),
    "users ask what they may do": (
        *("system:basic-user", "create", "selfsubjectaccessreviews.authorization.k8s.io", "", ""),
        True,
    ),
    "delegators ask what others may do": (
        *("system:auth-delegator", "create", "subjectaccessreviews.authorization.k8s.io", "", ""),
        True,
    ),
    "the scheduler binds pods": ("system:kube-scheduler", "create", "pods.", "binding", "", True),
    "the scheduler holds its own lease": (
        *("system:kube-scheduler", "update", "leases.coordination.k8s.io", "", "kube-scheduler"),
        True,
    ),
    "the scheduler holds no other lease": (
        *("system:kube-scheduler", "update", "leases.coordination.k8s.io", "", "another"),
        False,
    ),
    "the quota controller lists all": (
        *("system:controller:resourcequota-controller", "list", "any.example.com", "", ""),
        True,
    ),
    "the aggregation controller goes beyond itself": (
        *("system:controller:clusterrole-aggregation-controller", "escalate", f"clusterroles.{GROUP}"),
        *("", "view", True),
    ),
    "kubelets' certificates are approved by who may": (
        "system:certificates.k8s.io:kubelet-serving-approver",
        *("approve", "signers.certificates.k8s.io", "", "kubernetes.io/kubelet-serving", True),
    ),
}


@pytest.mark.parametrize(
    ("role", "verb", "resource", "subresource", "name", "is_allowed"), MAY.values(), ids=MAY
)
def test_what_a_role_allows(
    role: str, verb: str, resource: str, subresource: str, name: str, is_allowed: bool
) -> None:
    resource, _, group = resource.partition(".")
    asked = Attributes(ANYBODY, verb, True, "", group, resource, subresource, "", name)
    assert any(rule.allows(asked) for rule in rules_of(role)) is is_allowed


PATHS: Final = {
    "anybody sees the version": ("system:public-info-viewer", "/version", True),
    "nobody unknown sees the API": ("system:public-info-viewer", "/apis", False),
    "users find out what is served": ("system:discovery", "/apis/apps/v1", True),
    "users see no metrics": ("system:discovery", "/metrics", False),
    "monitors see metrics": ("system:monitoring", "/metrics", True),
    "monitors see each check": ("system:monitoring", "/readyz/etcd", True),
    "accounts find the keys of tokens": ("system:service-account-issuer-discovery", "/openid/v1/jwks", True),
}


@pytest.mark.parametrize(("role", "path", "is_allowed"), PATHS.values(), ids=PATHS)
def test_which_paths_a_role_allows(role: str, path: str, is_allowed: bool) -> None:
    asked = Attributes(ANYBODY, "get", False, path)
    assert any(rule.allows(asked) for rule in rules_of(role)) is is_allowed


# policy_test.go, TestEditViewRelationship: whoever may change something may read it. Some cannot be read.
UNREADABLE: Final = (
    PolicyRule(("get", "list", "watch"), ("",), ("pods/eviction", "serviceaccounts/token")),
    PolicyRule(("get", "list", "watch"), ("apps", "extensions"), ("deployments/rollback",)),
)


def test_editors_may_read_what_they_may_change() -> None:
    edit, view = rules_of("system:aggregate-to-edit"), rules_of("system:aggregate-to-view")
    wanted = [
        rule._replace(verbs=("get", "list", "watch")) for rule in edit if rule.verbs != ("impersonate",)
    ]
    assert uncovered_rules((*edit, *view, *UNREADABLE), wanted) == ()


# policy.go: the three roles for users have what is aggregated to them, and to the next smaller one.
AGGREGATED: Final = {
    "admin": {"edit", "system:aggregate-to-admin"},
    "edit": {"view", "system:aggregate-to-edit"},
    "view": {"system:aggregate-to-view"},
}


@pytest.mark.parametrize("name", AGGREGATED)
def test_what_is_aggregated(name: str) -> None:
    role = BY_NAME["ClusterRole", "", name]
    label = f"{GROUP}/aggregate-to-{name}"
    assert role["aggregationRule"] == {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]}
    assert role["rules"] is None
    chosen = {
        each["metadata"]["name"] for each in of_kind("ClusterRole") if label in each["metadata"]["labels"]
    }
    assert chosen == AGGREGATED[name]


# ---- who has which role

HELD: Final = {
    "cluster-admin": [("Group", "system:masters")],
    "system:discovery": [("Group", "system:authenticated")],
    "system:public-info-viewer": [("Group", "system:authenticated"), ("Group", "system:unauthenticated")],
    "system:monitoring": [("Group", "system:monitoring")],
    "system:volume-scheduler": [("User", "system:kube-scheduler")],
    "system:node": [],  # since 1.7: what a node may do is the Node authorizer's business
    "system:service-account-issuer-discovery": [("Group", "system:serviceaccounts")],
    "system:controller:job-controller": [("ServiceAccount", "job-controller")],
}


@pytest.mark.parametrize(("binding", "subjects"), HELD.items(), ids=HELD)
def test_who_has_a_role(binding: str, subjects: list[tuple[str, str]]) -> None:
    found = BY_NAME["ClusterRoleBinding", "", binding].get("subjects", [])
    assert [(each["kind"], each["name"]) for each in found] == subjects


# controller_policy_test.go: a controller's role is bound to an account of its name, in kube-system.
def test_each_controller_has_its_role_by_its_account() -> None:
    prefix = "system:controller:"
    roles = [each["metadata"]["name"] for each in of_kind("ClusterRole")]
    controllers = [name for name in roles if name.startswith(prefix)]
    assert len(controllers) > 30
    for name in controllers:
        account = {"kind": "ServiceAccount", "name": name.removeprefix(prefix), "namespace": "kube-system"}
        assert BY_NAME["ClusterRoleBinding", "", name]["subjects"] == [account]


# namespace_policy.go
def test_what_is_held_in_the_systems_namespaces() -> None:
    reader = "extension-apiserver-authentication-reader"
    (rule,) = rules_of(reader, kind="Role", namespace="kube-system")
    assert (rule.resources, rule.resource_names) == (("configmaps",), ("extension-apiserver-authentication",))
    binding = BY_NAME["RoleBinding", "kube-system", f"system::{reader}"]
    assert [each["name"] for each in binding["subjects"]] == [
        "system:kube-controller-manager",
        "system:kube-scheduler",
    ]
    (lock,) = (
        rule
        for rule in rules_of("system::leader-locking-kube-scheduler", kind="Role", namespace="kube-system")
        if rule.resources == ("leases",)
    )
    assert "update" in lock.verbs
    assert rules_of("system:controller:bootstrap-signer", kind="Role", namespace="kube-public")


def test_gates_of_types_add_roles_and_rules() -> None:
    """Source: policy.go and controller_policy.go, what they have if a gate is on."""
    plain = {each["metadata"]["name"] for each in DOCUMENTS}
    found = documents(Brand(), {"ClusterTrustBundle"}.__contains__)
    publisher = "system:controller:kube-apiserver-serving-clustertrustbundle-publisher"
    assert {each["metadata"]["name"] for each in found} - plain == {
        "system:cluster-trust-bundle-discovery",
        publisher,
    }
    bundles = ["clustertrustbundles"]
    (node,) = (each for each in found if each["metadata"]["name"] == "system:node" and "rules" in each)
    assert node["rules"][-1]["resources"] == bundles
    (discovery,) = (
        each
        for each in found
        if each["metadata"]["name"].endswith("discovery") and bundles in _resources(each)
    )
    assert discovery["rules"][0]["verbs"] == ["get", "list", "watch"]
    assert documents(Brand()) == DOCUMENTS


def test_the_controller_of_a_gated_type_has_its_role_with_the_gate() -> None:
    gate = "DRAResourcePoolStatus"
    found = documents(Brand(), lambda name: name == gate or on_by_default(name))
    added = [each for each in found if each not in DOCUMENTS]
    name = "system:controller:resourcepoolstatusrequest-controller"
    assert [(each["kind"], each["metadata"]["name"]) for each in added] == [
        ("ClusterRole", name),
        ("ClusterRoleBinding", name),
    ]
    assert ["resourcepoolstatusrequests/status"] in _resources(added[0])


def _resources(document: Document) -> list[list[str]]:
    return [rule.get("resources", []) for rule in document.get("rules") or ()]
