"""Whom RBAC allows a request."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any, ClassVar

from apiserver.auth.authz.attributes import Attributes
from apiserver.auth.authz.rbac.policy import CLUSTER_ROLE, Binding, RbacPolicy, Role, Subject
from apiserver.auth.authz.rbac.rules import PolicyRule
from apiserver.console.who_can import SORTED_AT_ONCE_MAX, subjects_in_order
from apiserver.meta.vocabulary import UserInfo

ASKED = Attributes(UserInfo(""), "get", resource="gizmos")
MANY = 8 * SORTED_AT_ONCE_MAX + 3


class Compared(Binding):
    """A binding that counts how often such bindings are compared."""

    comparisons: ClassVar[int] = 0

    def __lt__(self, other: tuple[Any, ...]) -> bool:
        Compared.comparisons += 1
        return super().__lt__(other)


def policy_of(count: int) -> RbacPolicy:
    policy = RbacPolicy("rbac.authorization.k8s.io")
    rule = PolicyRule(("get",), ("",), ("gizmos",), (), ())
    policy.put_parsed(CLUSTER_ROLE, Role("", "reader", (rule,)))
    numbers = list(range(count))
    Random(1).shuffle(numbers)
    for number in numbers:
        subject = Subject("User", f"user-{number:05}")
        policy.put_parsed(
            "ClusterRoleBinding", Compared("", f"b-{number:05}", CLUSTER_ROLE, "reader", (subject,))
        )
    return policy


def test_many_bindings_are_sorted_in_brief_pieces() -> None:
    policy = policy_of(MANY)
    names, most, before = [], 0, Compared.comparisons
    for row in subjects_in_order(policy, ASKED):
        most, before = max(most, Compared.comparisons - before), Compared.comparisons
        if row is not None:
            names.append(row["name"])
    assert names == [f"user-{number:05}" for number in range(MANY)]
    # n log n of a piece, not of all.
    assert SORTED_AT_ONCE_MAX < most < SORTED_AT_ONCE_MAX * 10


def test_bindings_may_go_while_an_answer_is_made() -> None:
    policy = policy_of(3)
    rows = subjects_in_order(policy, ASKED)
    assert next(rows) is None
    policy.remove("ClusterRoleBinding", "", "b-00001")
    assert len(deque(row for row in rows if row)) == 3
