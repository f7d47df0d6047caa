"""Bindings of rbac.authorization.k8s.io/v1alpha1. Row T22.

Source: pkg/apis/rbac/v1alpha1 (release 1.22).
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.catalogue.removed_versions.old_kinds import OldKind, read_by_current

GROUP: Final = "rbac.authorization.k8s.io"
ALPHA: Final = f"{GROUP}/v1alpha1"
ROLE: Final = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "a"}
BINDING: Final = OldKind(f"clusterrolebindings.{GROUP}", "v1alpha1", 22, {"roleRef": ROLE})

# What a client writes, what it reads, and what v1 has.
SUBJECTS: Final[dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]] = {
    "a user": (
        {"kind": "User", "name": "alice"},
        {"kind": "User", "apiVersion": ALPHA, "name": "alice"},
        {"kind": "User", "apiGroup": GROUP, "name": "alice"},
    ),
    "a group": (
        {"kind": "Group", "name": "dev"},
        {"kind": "Group", "apiVersion": ALPHA, "name": "dev"},
        {"kind": "Group", "apiGroup": GROUP, "name": "dev"},
    ),
    "a service account": (
        {"kind": "ServiceAccount", "name": "a", "namespace": "ns"},
        {"kind": "ServiceAccount", "apiVersion": "v1", "name": "a", "namespace": "ns"},
        {"kind": "ServiceAccount", "name": "a", "namespace": "ns"},
    ),
    "all that have authenticated": (
        {"kind": "User", "name": "*"},
        {"kind": "Group", "apiVersion": ALPHA, "name": "system:authenticated"},
        {"kind": "Group", "apiGroup": GROUP, "name": "system:authenticated"},
    ),
}


@pytest.mark.parametrize(("written", "read", "current"), SUBJECTS.values(), ids=SUBJECTS)
def test_subjects(written: dict[str, Any], read: dict[str, Any], current: dict[str, Any]) -> None:
    document = BINDING.completed({"subjects": [written]})
    assert BINDING.create({"subjects": [written]}).texts == []
    assert BINDING.to_hub(document)["subjects"] == [current]
    assert read_by_current(document) == BINDING.to_hub(document)
    assert BINDING.from_hub(BINDING.to_hub(document))["subjects"] == [read]


NAME: Final = st.sampled_from(("a", "b"))
SUBJECT: Final = st.one_of(
    st.fixed_dictionaries(
        {"kind": st.sampled_from(("User", "Group")), "apiGroup": st.just(GROUP), "name": NAME}
    ),
    st.fixed_dictionaries({"kind": st.just("ServiceAccount"), "name": NAME, "namespace": NAME}),
)


@given(st.lists(SUBJECT, max_size=3))
def test_nothing_of_v1_is_lost(subjects: list[Any]) -> None:
    document = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {},
        "roleRef": ROLE,
        "subjects": subjects,
    }
    assert BINDING.to_hub(BINDING.from_hub(document)) == document
