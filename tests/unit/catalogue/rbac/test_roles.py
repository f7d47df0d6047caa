"""Roles and bindings; row T22. Source: pkg/apis/rbac/{validation,v1} (release 1.34)."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.catalogue import rbac
from apiserver.catalogue.rbac.role_bindings import defaults
from apiserver.meta.brand import Brand
from tests.unit.catalogue.served_kinds import Changes, ServedKind

GROUP: Final = "rbac.authorization.k8s.io"
RULE: Final = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
KINDS: Final = {
    "Role": ServedKind(f"roles.{GROUP}", {"rules": [RULE]}),
    "ClusterRole": ServedKind(f"clusterroles.{GROUP}", {"rules": [RULE]}),
    "RoleBinding": ServedKind(f"rolebindings.{GROUP}", {"roleRef": {"kind": "ClusterRole", "name": "view"}}),
    "ClusterRoleBinding": ServedKind(
        f"clusterrolebindings.{GROUP}", {"roleRef": {"kind": "ClusterRole", "name": "view"}}
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_least_object_is_valid_and_put_creates_it(kind: str) -> None:
    """Row A03: RBAC's types are created by PUT; names only have to fit into a URL (B02)."""
    served = KINDS[kind]
    assert served.create({"metadata.name": "system:A_b"}).errors == []
    assert served.resource.strategy.allows_create_on_update


def test_a_role_without_rules_shows_null() -> None:
    assert KINDS["Role"].create({"rules": None}).document["rules"] is None


SUBJECTS: Final[dict[str, tuple[dict[str, Any], str | None]]] = {
    "users are of RBAC's group": ({"kind": "User", "name": "u"}, GROUP),
    "groups too": ({"kind": "Group", "name": "g"}, GROUP),
    "accounts are of the core group": ({"kind": "ServiceAccount", "name": "s"}, None),
}


@pytest.mark.parametrize(("subject", "group"), SUBJECTS.values(), ids=SUBJECTS)
def test_subjects_are_completed(subject: dict[str, Any], group: str | None) -> None:
    document, errors = KINDS["RoleBinding"].create({"subjects": [subject]})
    assert errors == []
    assert document["subjects"][0].get("apiGroup") == group
    assert document["roleRef"]["apiGroup"] == GROUP


def test_the_group_is_the_deployments() -> None:
    group = "rbac.authorization.example.com"
    role_ref: dict[str, Any] = {}
    defaults(group)["io.k8s.api.rbac.v1.RoleRef"](role_ref)
    assert role_ref == {"apiGroup": group}
    (binding,) = (t for t in rbac.types(Brand(group_domain="example.com")) if t.kind == "RoleBinding")
    binding_of = {"metadata": {}, "roleRef": {"apiGroup": group, "kind": "Role", "name": "r"}}
    assert binding.strategy.validate(binding_of) == []


INVALID: Final[dict[str, tuple[str, Changes, list[str]]]] = {
    "a rule says what may be done, and to what": (
        "Role",
        {"rules": [{}]},
        [
            "rules[0].verbs: Required value: verbs must contain at least one value",
            "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
            "rules[0].resources: Required value: resource rules must supply at least one resource",
        ],
    ),
    "a role of a namespace has no URLs": (
        "Role",
        {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]},
        [
            (
                'rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to '
                "non-resource URLs"
            )
        ],
    ),
    "a rule is about resources or about URLs": (
        "ClusterRole",
        {"rules": [{**RULE, "nonResourceURLs": ["/x"]}]},
        [
            (
                'rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular '
                "resources and "
                "non-resource URLs"
            )
        ],
    ),
    "an aggregation selects something": (
        "ClusterRole",
        {"aggregationRule": {"clusterRoleSelectors": []}},
        [
            (
                "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector "
                "required if "
                "aggregationRule is non-nil"
            )
        ],
    ),
    "an aggregation's selectors are selectors": (
        "ClusterRole",
        {
            "aggregationRule": {
                "clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "Is"}]}]
            }
        },
        [
            (
                "aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator: Invalid value: "
                '"Is": not a '
                "valid selector operator"
            ),
            "aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid label selector.",
        ],
    ),
    "a cluster's binding grants a cluster's role": (
        "ClusterRoleBinding",
        {"roleRef.kind": "Role"},
        ['roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"'],
    ),
    "a role has a name that fits into a URL": (
        "RoleBinding",
        {"roleRef.name": "a/b"},
        ["roleRef.name: Invalid value: \"a/b\": may not contain '/'"],
    ),
    "a subject is of a known kind": (
        "RoleBinding",
        {"subjects": [{"kind": "Robot", "name": "r"}]},
        ['subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"'],
    ),
    "an account of a cluster's binding has a namespace": (
        "ClusterRoleBinding",
        {"subjects": [{"kind": "ServiceAccount", "name": "s"}]},
        ["subjects[0].namespace: Required value"],
    ),
    "a user has a name": (
        "RoleBinding",
        {"subjects": [{"kind": "User"}]},
        ["subjects[0].name: Required value"],
    ),
}


@pytest.mark.parametrize(("kind", "changes", "texts"), INVALID.values(), ids=INVALID)
def test_what_is_wrong(kind: str, changes: Changes, texts: list[str]) -> None:
    assert KINDS[kind].create(changes).texts == texts


@pytest.mark.parametrize("kind", ["RoleBinding", "ClusterRoleBinding"])
def test_a_binding_grants_one_role_for_ever(kind: str) -> None:
    assert KINDS[kind].update({"roleRef.name": "edit"}).texts == [
        (
            f'roleRef: Invalid value: {{"APIGroup":"{GROUP}","Kind":"ClusterRole","Name":"edit"}}: cannot '
            "change "
            "roleRef"
        )
    ]
    assert KINDS[kind].update({"metadata.labels": {"a": "b"}}).errors == []


@pytest.mark.parametrize("kind", ["RoleBinding", "ClusterRoleBinding"])
def test_errors_in_a_role_reference_come_before_its_immutability(kind: str) -> None:
    texts = KINDS[kind].update({"roleRef.name": None, "roleRef.kind": "Robot"}).texts
    assert [text.partition(": ")[0] for text in texts] == ["roleRef.kind", "roleRef.name", "roleRef"]


def test_a_stored_selector_may_keep_invalid_values() -> None:
    """As those of all selectors of labels; a role is never made with them."""
    selector = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["-"]}]}
    wrong = {"aggregationRule": {"clusterRoleSelectors": [selector]}}
    path = "aggregationRule.clusterRoleSelectors[0]"
    of_selector = f"{path}: Invalid value: null: invalid label selector."
    assert KINDS["ClusterRole"].create(wrong).texts[1:] == [of_selector]
    assert KINDS["ClusterRole"].update({"metadata.labels": {"a": "b"}}, old=wrong).texts == [of_selector]


def test_rows_of_bindings_tell_who() -> None:
    subjects = [
        {"kind": "User", "name": "u"},
        {"kind": "User", "name": "v"},
        {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
    ]
    cells = KINDS["RoleBinding"].cells({"subjects": subjects})
    assert (
        cells | {"Role": "ClusterRole/view", "Users": "u, v", "Groups": "", "ServiceAccounts": "n/s"} == cells
    )
