"""What stored roles and bindings give to whom, and the reasons that are told. Rows O03-O05.

Source: k8s.io/kubernetes, plugin/pkg/auth/authorizer/rbac/rbac.go, pkg/registry/rbac/validation/rule.go.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.auth.authz.attributes import (
    NO_OPINION,
    Attributes,
    Decision,
    PendingDecision,
    Verdict,
    decided,
)
from apiserver.auth.authz.rbac.authorizer import PIECES_AT_ONCE, RULES_AT_ONCE, RbacAuthorizer
from apiserver.auth.authz.rbac.policy import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    ROLE,
    ROLE_BINDING,
    RbacPolicy,
)
from apiserver.auth.authz.rbac.rules import PolicyRule
from apiserver.auth.authz.rule_resolver import NonResourceRule, ResourceRule, TooManyWords
from apiserver.meta.errors import NotFound
from apiserver.meta.vocabulary import UserInfo
from tests.support.authorizers import RbacAtOnce

GROUP: Final = "rbac.authorization.k8s.io"
ALICE: Final = UserInfo("alice", ("dev", "system:authenticated"))
BOT: Final = UserInfo("system:serviceaccount:ns:bot", ("system:serviceaccounts",))
READ: Final = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
VERSION: Final = {"verbs": ["get"], "nonResourceURLs": ["/version"]}
Document = dict[str, Any]


def role(name: str, *rules: Document, namespace: str = "") -> tuple[str, Document]:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return ROLE if namespace else CLUSTER_ROLE, {"metadata": metadata, "rules": list(rules)}


def binding(
    name: str, to: str, *subjects: Document, namespace: str = "", is_to_cluster_role: bool = False
) -> tuple[str, Document]:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    kind = ROLE if namespace and not is_to_cluster_role else CLUSTER_ROLE
    document = {"metadata": metadata, "roleRef": {"kind": kind, "name": to}, "subjects": list(subjects)}
    return ROLE_BINDING if namespace else CLUSTER_ROLE_BINDING, document


def user(name: str) -> Document:
    return {"kind": "User", "name": name}


def group(name: str) -> Document:
    return {"kind": "Group", "name": name}


def account(name: str, namespace: str = "") -> Document:
    return {"kind": "ServiceAccount", "name": name} | ({"namespace": namespace} if namespace else {})


def policy(*documents: tuple[str, Document]) -> RbacPolicy:
    made = RbacPolicy(GROUP)
    for kind, document in documents:
        made.put(kind, document)
    return made


def pods(who: UserInfo = ALICE, verb: str = "get", namespace: str = "ns", name: str = "") -> Attributes:
    return Attributes(who, verb, True, "", "", "pods", "", namespace, name)


def allowed(reason: str) -> Verdict:
    return Verdict(Decision.ALLOW, f"RBAC: allowed by {reason}")


IN_NS: Final = role("r", READ, namespace="ns")
EVERYWHERE: Final = role("c", READ)
DECISIONS: Final[dict[str, tuple[Iterable[tuple[str, Document]], Attributes, Verdict]]] = {
    "a role in its namespace": (
        [IN_NS, binding("b", "r", user("alice"), namespace="ns")],
        pods(),
        allowed('RoleBinding "b/ns" of Role "r" to User "alice"'),
    ),
    "not in another": (
        [IN_NS, binding("b", "r", user("alice"), namespace="ns")],
        pods(namespace="other"),
        NO_OPINION,
    ),
    "not in all": ([IN_NS, binding("b", "r", user("alice"), namespace="ns")], pods(namespace=""), NO_OPINION),
    "a cluster role bound in a namespace": (
        [EVERYWHERE, binding("b", "c", user("alice"), namespace="ns", is_to_cluster_role=True)],
        pods(),
        allowed('RoleBinding "b/ns" of ClusterRole "c" to User "alice"'),
    ),
    "holds there alone": (
        [EVERYWHERE, binding("b", "c", user("alice"), namespace="ns", is_to_cluster_role=True)],
        pods(namespace="other"),
        NO_OPINION,
    ),
    "a cluster role bound in the cluster": (
        [EVERYWHERE, binding("b", "c", user("alice"))],
        pods(namespace="any"),
        allowed('ClusterRoleBinding "b" of ClusterRole "c" to User "alice"'),
    ),
    "the cluster is asked before the namespace": (
        [
            IN_NS,
            EVERYWHERE,
            binding("a", "r", user("alice"), namespace="ns"),
            binding("z", "c", user("alice")),
        ],
        pods(),
        allowed('ClusterRoleBinding "z" of ClusterRole "c" to User "alice"'),
    ),
    "a group": (
        [EVERYWHERE, binding("b", "c", group("dev"))],
        pods(),
        allowed('ClusterRoleBinding "b" of ClusterRole "c" to Group "dev"'),
    ),
    "the first subject that it is": (
        [EVERYWHERE, binding("b", "c", user("bob"), group("dev"), user("alice"))],
        pods(),
        allowed('ClusterRoleBinding "b" of ClusterRole "c" to Group "dev"'),
    ),
    "a group is no user": ([EVERYWHERE, binding("b", "c", group("alice"))], pods(), NO_OPINION),
    "a user is no group": ([EVERYWHERE, binding("b", "c", user("dev"))], pods(), NO_OPINION),
    "a star is no user": ([EVERYWHERE, binding("b", "c", user("*"))], pods(), NO_OPINION),
    "a service account": (
        [EVERYWHERE, binding("b", "c", account("bot", "ns"))],
        pods(BOT),
        allowed('ClusterRoleBinding "b" of ClusterRole "c" to ServiceAccount "bot/ns"'),
    ),
    "a service account by its user's name": (
        [EVERYWHERE, binding("b", "c", user("system:serviceaccount:ns:bot"))],
        pods(BOT),
        allowed('ClusterRoleBinding "b" of ClusterRole "c" to User "system:serviceaccount:ns:bot"'),
    ),
    "a service account of the binding's namespace": (
        [IN_NS, binding("b", "r", account("bot"), namespace="ns")],
        pods(BOT),
        allowed('RoleBinding "b/ns" of Role "r" to ServiceAccount "bot/ns"'),
    ),
    "a service account of no namespace": (
        [EVERYWHERE, binding("b", "c", account("bot"))],
        pods(BOT),
        NO_OPINION,
    ),
    "a service account of another namespace": (
        [EVERYWHERE, binding("b", "c", account("bot", "other"))],
        pods(BOT),
        NO_OPINION,
    ),
    "a kind of subject that nobody knows": (
        [EVERYWHERE, binding("b", "c", {"kind": "Robot", "name": "alice"})],
        pods(),
        NO_OPINION,
    ),
    "a role that is not there": (
        [binding("b", "r", user("alice"), namespace="ns")],
        pods(),
        Verdict(Decision.NO_OPINION, f'RBAC: role.{GROUP} "r" not found'),
    ),
    "two that are not there": (
        [
            binding("a", "c", user("alice")),
            binding("b", "r", user("alice"), namespace="ns"),
            binding("c", "r", user("alice"), namespace="ns"),
        ],
        pods(),
        Verdict(
            Decision.NO_OPINION, f'RBAC: [clusterrole.{GROUP} "c" not found, role.{GROUP} "r" not found]'
        ),
    ),
    "a role that is not there does not take away another": (
        [EVERYWHERE, binding("a", "x", user("alice")), binding("b", "c", user("alice"))],
        pods(),
        allowed('ClusterRoleBinding "b" of ClusterRole "c" to User "alice"'),
    ),
    "a path": (
        [role("v", VERSION), binding("b", "v", group("dev"))],
        Attributes(ALICE, "get", False, "/version"),
        allowed('ClusterRoleBinding "b" of ClusterRole "v" to Group "dev"'),
    ),
    "a name with quotes": (
        [EVERYWHERE, binding("b", "c", user('a"b'))],
        pods(UserInfo('a"b')),
        allowed('ClusterRoleBinding "b" of ClusterRole "c" to User "a\\"b"'),
    ),
}


@pytest.mark.parametrize(("documents", "attributes", "verdict"), DECISIONS.values(), ids=DECISIONS)
def test_decisions(
    documents: Iterable[tuple[str, Document]], attributes: Attributes, verdict: Verdict
) -> None:
    authorize = RbacAtOnce(policy(*documents))
    assert authorize(attributes) == verdict
    assert authorize(attributes) == verdict, "and the same when it is remembered"


def test_names_are_told_apart_when_remembered() -> None:
    named = {**READ, "resourceNames": ["a"]}
    authorize = RbacAtOnce(
        policy(
            role("one", named),
            role("two", {**READ, "resourceNames": ["b"]}),
            binding("1", "one", user("alice")),
            binding("2", "two", user("alice")),
        )
    )
    for _ in range(2):
        found = {name: authorize(pods(name=name)) for name in ("a", "b", "c", "")}
        assert found["a"] == allowed('ClusterRoleBinding "1" of ClusterRole "one" to User "alice"')
        assert found["b"] == allowed('ClusterRoleBinding "2" of ClusterRole "two" to User "alice"')
        assert found["c"] == found[""] == NO_OPINION


def test_changes_count_at_once() -> None:
    made = policy(IN_NS)
    authorize = RbacAtOnce(made)
    assert authorize(pods()) == NO_OPINION
    bound = binding("b", "r", user("alice"), namespace="ns")
    made.put(*bound)
    assert authorize(pods()).decision is Decision.ALLOW
    made.put(*role("r", {**READ, "verbs": ["list"]}, namespace="ns"))
    assert authorize(pods()) == NO_OPINION
    made.put(*IN_NS)
    made.put(*binding("b", "r", user("bob"), namespace="ns"))
    assert authorize(pods()) == NO_OPINION
    made.put(*bound)
    assert authorize(pods()).decision is Decision.ALLOW
    made.remove(ROLE_BINDING, "ns", "b")
    assert authorize(pods()) == NO_OPINION
    made.put(*bound)
    made.remove(ROLE, "ns", "r")
    assert authorize(pods()).reason == f'RBAC: role.{GROUP} "r" not found'


def test_what_changes_nothing_forgets_nothing() -> None:
    """A role that is labelled, say: answers stay remembered."""
    made = policy(IN_NS, binding("b", "r", user("alice"), namespace="ns"))
    before = made.generation
    kind, document = IN_NS
    made.put(kind, {**document, "metadata": {**document["metadata"], "labels": {"a": "b"}}})
    made.put(*binding("b", "r", user("alice"), namespace="ns"))
    assert made.generation == before


def test_what_was_forgotten_is_found_again() -> None:
    """Callers choose what they ask about: neither many questions nor long ones are kept."""
    authorize = RbacAtOnce(policy(EVERYWHERE, binding("b", "c", user("alice"))), remembered_max=10)
    for number in (*range(100), *range(100)):
        assert authorize(pods(namespace=f"ns-{number}")).decision is Decision.ALLOW
        assert authorize(pods(UserInfo("u" * 600), namespace=f"ns-{number}")) == NO_OPINION


def test_of_very_many_names_not_all_are_remembered() -> None:
    """Who may see ten thousand objects by their names may ask for them in as many namespaces."""
    names = [f"name-{number}" for number in range(100)]
    made = policy(role("c", {**READ, "resourceNames": names}), binding("b", "c", user("alice")))
    authorize = RbacAtOnce(made, remembered_names_max=300)
    tracemalloc.start()
    try:
        for number in range(1_000):
            assert authorize(pods(namespace=f"ns-{number}", name="name-99")).decision is Decision.ALLOW
            assert authorize(pods(namespace=f"ns-{number}", name="other")) == NO_OPINION
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 500_000


def test_a_role_that_is_bound_often_counts_once() -> None:
    """In all namespaces, and in one: the rules are the same, and the first binding by name is the reason."""
    made = policy(
        EVERYWHERE,
        IN_NS,
        *(binding(f"b{number}", "c", user("alice")) for number in range(3)),
        *(
            binding(f"c{number}", "c", group("dev"), namespace="ns", is_to_cluster_role=True)
            for number in "12"
        ),
        *(binding(f"d{number}", "r", user("alice"), namespace="ns") for number in range(3)),
    )
    rule = PolicyRule.of(READ)
    assert made.rules_of(ALICE, "") == ([rule], [])
    assert made.rules_of(ALICE, "ns") == ([rule, rule], []), "that of the role in the namespace, too"
    assert RbacAtOnce(made)(pods()) == allowed('ClusterRoleBinding "b0" of ClusterRole "c" to User "alice"')


def test_a_missing_role_is_told_of_once() -> None:
    bindings = [binding(f"b{number}", "gone", user("alice"), namespace="ns") for number in range(3)]
    assert RbacAtOnce(policy(*bindings))(pods()).reason == f'RBAC: role.{GROUP} "gone" not found'


def test_the_rules_of_a_user() -> None:
    authorize = RbacAtOnce(
        policy(
            role("c", READ, VERSION),
            role("r", {**READ, "resourceNames": ["a"]}, namespace="ns"),
            binding("b", "c", group("dev")),
            binding("b", "r", user("alice"), namespace="ns"),
            binding("gone", "x", user("alice"), namespace="ns"),
        )
    )
    found = authorize.rules(ALICE, "ns")
    pod = ResourceRule(("get",), ("",), ("pods",))
    assert found.resource_rules == [pod, pod._replace(resource_names=("a",))]
    assert found.non_resource_rules == [NonResourceRule(("get",), ("/version",))]
    assert (found.is_incomplete, found.problems) == (False, [f'role.{GROUP} "x" not found'])
    assert authorize.rules(ALICE, "other").resource_rules == [pod]
    # Both rules have nine words together.
    assert authorize.rules(ALICE, "ns", 9) == found
    with pytest.raises(TooManyWords):
        authorize.rules(ALICE, "ns", 8)


def test_the_rules_of_a_role() -> None:
    made = policy(EVERYWHERE, IN_NS)
    rule = PolicyRule.of(READ)
    assert made.role_rules(ROLE, "ns", "r") == made.role_rules(CLUSTER_ROLE, "ns", "c") == (rule,)
    with pytest.raises(NotFound, match=r'^role\.rbac\.authorization\.k8s\.io "r" not found$'):
        made.role_rules(ROLE, "other", "r")


# ---- against going through everything

NAMES: Final = st.sampled_from(["a", "b"])
NAMESPACES: Final = st.sampled_from(["", "n", "m"])
SUBJECTS: Final = st.lists(
    st.one_of(st.builds(user, NAMES), st.builds(group, NAMES), st.builds(account, NAMES, NAMESPACES)),
    max_size=3,
)
RULES: Final = st.fixed_dictionaries(
    {
        "verbs": st.lists(st.sampled_from(["get", "list", "*"]), min_size=1, max_size=2),
        "apiGroups": st.just([""]),
        "resources": st.lists(st.sampled_from(["pods", "secrets", "*"]), min_size=1, max_size=2),
    },
    optional={"resourceNames": st.lists(NAMES, min_size=1, max_size=2)},
)


@st.composite
def _binding(draw: st.DrawFn) -> tuple[str, Document]:
    return binding(
        draw(NAMES),
        draw(NAMES),
        *draw(SUBJECTS),
        namespace=draw(NAMESPACES),
        is_to_cluster_role=draw(st.booleans()),
    )


CHANGES: Final = st.lists(
    st.one_of(
        st.builds(
            lambda name, rules, ns: role(name, *rules, namespace=ns), NAMES, st.lists(RULES), NAMESPACES
        ),
        _binding(),
    ),
    max_size=12,
)
QUESTIONS: Final = st.builds(
    Attributes,
    st.builds(
        UserInfo,
        st.sampled_from(["a", "b", "system:serviceaccount:n:a"]),
        st.lists(NAMES, max_size=2).map(tuple),
    ),
    st.sampled_from(["get", "list"]),
    st.just(True),
    st.just(""),
    st.just(""),
    st.sampled_from(["pods", "secrets"]),
    st.just(""),
    NAMESPACES,
    st.sampled_from(["", "a", "b"]),
)


@given(CHANGES, st.lists(QUESTIONS, min_size=1, max_size=4), st.data())
def test_as_going_through_all_of_them(
    changes: list[tuple[str, Document]], questions: list[Attributes], data: st.DataObject
) -> None:
    """However it came to be as it is, and whatever was asked before."""
    made = RbacPolicy(GROUP)
    authorize = RbacAtOnce(made)
    stored: dict[tuple[str, str, str], Document] = {}
    for kind, document in changes:
        key = (kind, document["metadata"].get("namespace", ""), document["metadata"]["name"])
        if key in stored and data.draw(st.booleans()):
            del stored[key]
            made.remove(*key)
        else:
            stored[key] = document
            made.put(kind, document)
        for question in questions:
            assert (authorize(question).decision is Decision.ALLOW) is _may(stored, question)


def _may(stored: dict[tuple[str, str, str], Document], asked: Attributes) -> bool:
    for (kind, namespace, _), document in stored.items():
        if kind not in (ROLE_BINDING, CLUSTER_ROLE_BINDING) or namespace not in ("", asked.namespace):
            continue
        if not any(_is(asked.user, subject, namespace) for subject in document["subjects"]):
            continue
        ref = document["roleRef"]
        there = (ref["kind"], namespace if ref["kind"] == ROLE else "", ref["name"])
        rules = stored.get(there, {}).get("rules", ())
        if any(PolicyRule.of(rule).allows(asked) for rule in rules):
            return True
    return False


def _is(who: UserInfo, subject: Document, namespace: str) -> bool:
    match subject["kind"]:
        case "User":
            return bool(who.name == subject["name"])
        case "Group":
            return subject["name"] in who.groups
        case _:
            where = subject.get("namespace") or namespace
            return bool(where) and who.name == f"system:serviceaccount:{where}:{subject['name']}"


class _Turns:
    """Turns that are always over. taken: how many there have been."""

    def __init__(self) -> None:
        self.taken = 0

    def is_over(self) -> bool:
        return True

    async def next(self) -> None:
        self.taken += 1


async def test_an_answer_from_thousands_of_bindings_is_given_in_turns() -> None:
    """Who has so many holds up nobody else, and is answered as anybody; the next time at once."""
    many = [binding(f"b{number:04}", f"r{number}", user("alice"), namespace="ns") for number in range(5_000)]
    made = policy(IN_NS, *many, binding("last", "r", user("alice"), namespace="ns"))
    turns = _Turns()
    authorize = RbacAuthorizer(made, lambda: turns)
    answer = authorize(pods())
    assert isinstance(answer, PendingDecision)
    verdict = await answer.decide()
    assert verdict == allowed('RoleBinding "last/ns" of Role "r" to User "alice"')
    assert turns.taken > 5_000 / RULES_AT_ONCE - PIECES_AT_ONCE - 1
    assert authorize(pods()) == verdict, "it is remembered"
    # While another is found the policy changes.
    made.remove(ROLE_BINDING, "ns", "b4000")
    answer = authorize(pods())
    assert isinstance(answer, PendingDecision)
    made.remove(ROLE_BINDING, "ns", "last")
    assert (await answer.decide()).decision is Decision.NO_OPINION
    assert isinstance(authorize(pods()), PendingDecision), "what may be outdated is not remembered"


HUGE: Final = {
    "names": {**READ, "resourceNames": [f"name-{number}" for number in range(100_000)]},
    "verbs": {**READ, "verbs": [f"verb-{number}" for number in range(100_000)]},
}


@pytest.mark.parametrize("rule", HUGE.values(), ids=HUGE)
async def test_rules_of_very_many_words_hold_up_nobody(rule: Document) -> None:
    """Who may write roles for itself may write them so, and has no answers of others forgotten by that."""
    roles = [
        each
        for number in range(PIECES_AT_ONCE + 1)
        for each in (
            role(f"r{number}", rule, namespace="ns"),
            binding(f"b{number}", f"r{number}", user("alice"), namespace="ns"),
        )
    ]
    made = policy(*roles, EVERYWHERE, binding("c", "c", user("bob")))
    turns = _Turns()
    authorize = RbacAuthorizer(made, lambda: turns)
    of_bob = authorize(pods(UserInfo("bob")))
    for name, is_allowed in (("name-0", True), ("name-99999", True), ("other", False), ("", False)):
        verdict = await decided(authorize, pods(name=name))
        assert (verdict.decision is Decision.ALLOW) is (is_allowed and "resourceNames" in rule)
    assert turns.taken
    assert authorize(pods(UserInfo("bob"))) is of_bob, "it is remembered"
