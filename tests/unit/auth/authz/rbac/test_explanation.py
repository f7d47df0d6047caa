"""What is told about a decision of RBAC, near misses included. Row O03."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.auth.authz.attributes import Attributes
from apiserver.auth.authz.rbac import explanation
from apiserver.auth.authz.rbac.policy import RbacPolicy
from apiserver.meta.vocabulary import Document, UserInfo

ALICE: Final = UserInfo("alice", ("dev",))
READ: Final = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
SHOWN: Final = '{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}'


def asked(verb: str = "get", resource: str = "pods", **more: Any) -> Attributes:
    resource, _, subresource = resource.partition("/")
    fields = {"resource": resource, "subresource": subresource, "namespace": "ns", **more}
    return Attributes(ALICE, verb, True, "", **fields)


def policy(*rules: Document, namespace: str = "ns", subject: Document | None = None) -> RbacPolicy:
    """With a Role `r` and a RoleBinding `b` of it."""
    made = RbacPolicy("rbac.authorization.k8s.io")
    meta = {"namespace": namespace}
    if rules:
        made.put("Role", {"metadata": {"name": "r", **meta}, "rules": list(rules)})
    to = subject or {"kind": "User", "name": "alice"}
    ref = {"kind": "Role", "name": "r"}
    made.put("RoleBinding", {"metadata": {"name": "b", **meta}, "roleRef": ref, "subjects": [to]})
    return made


BOUND: Final = 'RoleBinding "b/ns" of Role "r" to User "alice"'
LACKS: Final[dict[str, tuple[Document, Attributes, str | None]]] = {
    "the verb": (READ, asked("delete"), 'the verb "delete"'),
    "the group": (READ, asked(group="apps"), 'the API group "apps"'),
    "the subresource": (READ, asked(resource="pods/log"), 'the subresource "log"'),
    "the name": ({**READ, "resourceNames": ["a"]}, asked(name="b"), 'the name "b"'),
    "any name": (
        {**READ, "resourceNames": ["a"]},
        asked("list"),
        "permission for requests without a name, because it has resourceNames",
    ),
    "another resource is no near miss": (READ, asked(resource="secrets"), None),
    "nor is what lacks two things": (READ, asked("delete", group="apps"), None),
    "nor one about paths": ({"nonResourceURLs": ["*"], "verbs": ["get"]}, asked(), None),
    "nor one for what is a path": (READ, Attributes(ALICE, "get", False, "/metrics"), None),
    "the verb for a path": (
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        Attributes(ALICE, "post", False, "/metrics"),
        'the verb "post"',
    ),
    "nothing": (READ, asked(), None),
}


@pytest.mark.parametrize(("rule", "attributes", "lack"), LACKS.values(), ids=LACKS)
def test_what_a_rule_lacks(rule: Document, attributes: Attributes, lack: str | None) -> None:
    (found,) = policy(rule).role_rules("Role", "ns", "r")
    assert explanation.lacking(found, attributes) == lack


def test_what_allows_a_request() -> None:
    found = explanation.allowing(policy({**READ, "verbs": ["watch"]}, READ), asked())
    assert found is not None
    assert explanation.shown(found.rule) == SHOWN
    assert found.binding.describe(ALICE) == BOUND
    assert explanation.allowing(policy(READ), asked("delete")) is None


def test_what_nearly_allows_a_request() -> None:
    near = f'{BOUND} has the rule {SHOWN}, which lacks the verb "delete"'
    assert explanation.own_near_misses(policy(READ), asked("delete")) == [near]
    missing = 'role.rbac.authorization.k8s.io "r" not found, though it is bound to the user'
    assert explanation.own_near_misses(policy(), asked()) == [missing]
    assert explanation.own_near_misses(policy(READ, namespace="other"), asked("delete")) == []
    many = [{**READ, "resourceNames": [f"n{number}"]} for number in range(50)]
    assert len(explanation.own_near_misses(policy(*many), asked(name="x"))) == explanation.NEAR_MISSES_MAX
    assert explanation.own_near_misses(policy(*many), asked(name="x"), rules_max=0) == []


def test_long_rules_are_cut() -> None:
    long = {**READ, "resourceNames": [f"name-{number}" for number in range(100)]}
    (told,) = explanation.own_near_misses(policy(long), asked(name="x"))
    assert len(told) < 500
    assert "…, which lacks" in told


def test_what_is_bound_in_another_namespace() -> None:
    told = [f"{BOUND.replace('/ns', '/other')} allows the request, but only in its own namespace"]
    assert list(explanation.bound_elsewhere(policy(READ, namespace="other"), asked())) == told
    assert list(explanation.bound_elsewhere(policy(READ, namespace="other"), asked("delete"))) == []
    assert list(explanation.bound_elsewhere(policy(READ), asked("delete"))) == []


ALIKE: Final[dict[str, tuple[Document, bool]]] = {
    "in another case": ({"kind": "User", "name": "Alice"}, True),
    "as a group": ({"kind": "Group", "name": "alice"}, True),
    "as a service account": ({"kind": "ServiceAccount", "name": "alice", "namespace": "ns"}, True),
    "a group of the user's as a user": ({"kind": "User", "name": "dev"}, True),
    "somebody else": ({"kind": "User", "name": "bob"}, False),
    "the user": ({"kind": "User", "name": "alice"}, False),
}


@pytest.mark.parametrize(("subject", "is_told"), ALIKE.values(), ids=ALIKE)
def test_what_is_bound_to_somebody_with_a_name_like_it(subject: Document, is_told: bool) -> None:
    told = list(explanation.bound_to_others(policy(READ, subject=subject), asked()))
    assert bool(told) is is_told
    assert all(each.endswith('is not User "alice"') for each in told)
    assert not list(explanation.bound_to_others(policy(READ, subject=subject), asked("delete")))


def test_roles_that_would_allow_it() -> None:
    made = policy(READ, subject={"kind": "User", "name": "bob"})
    made.put("ClusterRole", {"metadata": {"name": "all"}, "rules": [{**READ, "verbs": ["*"]}]})
    made.put("Role", {"metadata": {"name": "r", "namespace": "other"}, "rules": [READ]})
    assert list(explanation.unbound_roles(made, asked())) == ['Role "r/ns"', 'ClusterRole "all"']


def test_rules_of_very_many_words_are_not_looked_at() -> None:
    """Everybody may ask about themselves, and who may write roles may write them so."""
    names = [f"name-{number}" for number in range(100_000)]
    made = policy(READ, {**READ, "resourceNames": names}, {**READ, "verbs": ["watch"]})
    assert explanation.allowing(made, asked()) is not None
    assert len(explanation.own_near_misses(made, asked("watch"))) == 1
    assert len(explanation.own_near_misses(made, asked("delete"), rules_max=100_000)) == 2
