"""What is added to stored roles and bindings. Source: pkg/registry/rbac/reconciliation/*_test.go."""

from __future__ import annotations

import copy
from typing import Any, Final

import pytest

from apiserver.auth.authz.rbac.reconciliation import is_protected, must_be_recreated, reconciled
from apiserver.meta.vocabulary import Document

KEY: Final = "rbac.authorization.kubernetes.io/autoupdate"
READ: Final = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}
ALL: Final = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
OTHER: Final = {"verbs": ["create"], "apiGroups": ["apps"], "resources": ["deployments"]}
ALICE: Final = {"kind": "User", "apiGroup": "g", "name": "alice"}
BOB: Final = {"kind": "User", "apiGroup": "g", "name": "bob"}
TO_A: Final = {"matchLabels": {"to": "a"}}
TO_B: Final = {"matchLabels": {"to": "b"}}


def named(*, labels: Any = None, annotations: Any = None, **fields: Any) -> Document:
    said = {"labels": labels, "annotations": annotations}
    metadata = {"name": "x", **{field: value for field, value in said.items() if value is not None}}
    return {"metadata": metadata, **fields}


def aggregating(*selectors: Document) -> Document:
    return named(aggregationRule={"clusterRoleSelectors": list(selectors)})


# stored, default, what becomes of the stored one
COMPLETED: Final = {
    "one that is as it should be stays so": (named(rules=[READ]), named(rules=[READ]), named(rules=[READ])),
    "missing rules are added behind": (
        named(rules=[OTHER]),
        named(rules=[READ]),
        named(
            rules=[
                OTHER,
                {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
                {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]},
            ]
        ),
    ),
    "of a rule only what is missing": (
        named(rules=[{**READ, "verbs": ["get"]}]),
        named(rules=[READ]),
        named(rules=[{**READ, "verbs": ["get"]}, {**READ, "verbs": ["list"]}]),
    ),
    "what a wider rule covers is not missing": (
        named(rules=[ALL]),
        named(rules=[READ, OTHER]),
        named(rules=[ALL]),
    ),
    "the same, said otherwise, is not missing": (
        named(rules=[{**READ, "verbs": ["list"]}, {**READ, "verbs": ["get"]}]),
        named(rules=[READ]),
        named(rules=[{**READ, "verbs": ["list"]}, {**READ, "verbs": ["get"]}]),
    ),
    "extra rules stay": (named(rules=[OTHER, READ]), named(rules=[READ]), named(rules=[OTHER, READ])),
    "a role without rules gets them": (
        named(),
        named(rules=[{**READ, "verbs": ["get"]}]),
        named(rules=[{**READ, "verbs": ["get"]}]),
    ),
    "missing subjects are added behind": (
        named(subjects=[BOB]),
        named(subjects=[ALICE, BOB]),
        named(subjects=[BOB, ALICE]),
    ),
    "extra subjects stay": (
        named(subjects=[BOB, ALICE]),
        named(subjects=[ALICE]),
        named(subjects=[BOB, ALICE]),
    ),
    "a binding without subjects gets them": (named(), named(subjects=[ALICE]), named(subjects=[ALICE])),
    "a default without subjects takes none away": (named(subjects=[BOB]), named(), named(subjects=[BOB])),
    "labels and annotations are added": (
        named(labels={"mine": "1"}),
        named(labels={"theirs": "2"}, annotations={KEY: "true"}),
        named(labels={"mine": "1", "theirs": "2"}, annotations={KEY: "true"}),
    ),
    "those that are there keep their values": (
        named(labels={"a": "mine"}, annotations={KEY: "maybe"}),
        named(labels={"a": "theirs"}, annotations={KEY: "true"}),
        named(labels={"a": "mine"}, annotations={KEY: "maybe"}),
    ),
    "missing selectors are added behind": (aggregating(TO_B), aggregating(TO_A), aggregating(TO_B, TO_A)),
    "extra selectors stay": (aggregating(TO_A, TO_B), aggregating(TO_A), aggregating(TO_A, TO_B)),
    "a role comes to aggregate others, and keeps its rules until it does": (
        named(rules=[READ]),
        aggregating(TO_A),
        {**named(rules=[READ]), **aggregating(TO_A)},
    ),
    "what aggregated roles hold is not missing in them": (
        {**named(rules=[READ]), **aggregating(TO_A)},
        aggregating(TO_A),
        {**named(rules=[READ]), **aggregating(TO_A)},
    ),
    "all else stays": (
        {**named(rules=[READ]), "more": {"x": 1}},
        named(rules=[READ]),
        {**named(rules=[READ]), "more": {"x": 1}},
    ),
}


@pytest.mark.parametrize(("stored", "default", "becomes"), COMPLETED.values(), ids=COMPLETED)
def test_what_is_missing_is_added(stored: Document, default: Document, becomes: Document) -> None:
    before = copy.deepcopy((stored, default))
    found = reconciled(stored, default)
    assert found == becomes
    assert (stored, default) == before
    assert reconciled(found, default) == found


REMADE: Final = {
    "the same role": ({"kind": "Role", "name": "a"}, {"kind": "Role", "name": "a"}, False),
    "another role": ({"kind": "Role", "name": "b"}, {"kind": "Role", "name": "a"}, True),
    "another kind": ({"kind": "ClusterRole", "name": "a"}, {"kind": "Role", "name": "a"}, True),
}


@pytest.mark.parametrize(("stored", "default", "is_remade"), REMADE.values(), ids=REMADE)
def test_a_binding_to_another_role_is_remade(stored: Document, default: Document, is_remade: bool) -> None:
    assert must_be_recreated(named(roleRef=stored), named(roleRef=default)) is is_remade


def test_a_role_is_never_remade() -> None:
    assert not must_be_recreated(named(rules=[OTHER]), named(rules=[READ]))


PROTECTED: Final = {
    "nothing is said": (None, False),
    "something else is said": ({"autoupdate": "false"}, False),
    "it may be added to": ({KEY: "true"}, False),
    "only one word means no": ({KEY: "no"}, False),
    "it must not be added to": ({KEY: "false"}, True),
}


@pytest.mark.parametrize(("annotations", "is_left"), PROTECTED.values(), ids=PROTECTED)
def test_what_is_left_as_it_is(annotations: dict[str, str] | None, is_left: bool) -> None:
    assert is_protected(named(annotations=annotations), KEY) is is_left
