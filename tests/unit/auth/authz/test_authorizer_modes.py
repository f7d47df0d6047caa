"""The authorizers of the modes, those that are always there, and how their answers are joined. Row O03."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from apiserver.auth.authz.attributes import (
    NO_OPINION,
    Attributes,
    Authorizer,
    Decision,
    PendingDecision,
    Verdict,
    forbidden,
)
from apiserver.auth.authz.authorizer_modes import Authorizers, NotEnabledAtStart, authorize_health
from apiserver.auth.authz.chain import AuthorizationChain, authorize_masters
from apiserver.auth.authz.configuration import (
    ALWAYS_ALLOW,
    ALWAYS_DENY,
    NODE,
    RBAC,
    ConfiguredAuthorizer,
    of_modes,
)
from apiserver.auth.authz.rule_resolver import NonResourceRule, ResourceRule, RuleSet, all_rules
from apiserver.meta.brand import Brand
from apiserver.meta.errors import Forbidden, InternalError
from apiserver.meta.vocabulary import ANONYMOUS, AUTHENTICATED, SYSTEM_MASTERS, UNAUTHENTICATED, UserInfo

ADMIN: Final = UserInfo("admin", (SYSTEM_MASTERS, AUTHENTICATED))
BOB: Final = UserInfo("bob", (AUTHENTICATED,))
NOBODY: Final = UserInfo(ANONYMOUS, (UNAUTHENTICATED,))
ALLOW: Final = Verdict(Decision.ALLOW)


def path(user: UserInfo, path: str, verb: str = "get") -> Attributes:
    return Attributes(user, verb, is_resource=False, path=path)


def configmaps(user: UserInfo, verb: str = "list", namespace: str = "default", name: str = "") -> Attributes:
    return Attributes(user, verb, True, "", resource="configmaps", namespace=namespace, name=name)


# ---- masters

MASTERS_ONLY: Final = {
    "of the group": (ADMIN, Decision.ALLOW),
    "anybody else": (BOB, Decision.NO_OPINION),
    "nobody": (NOBODY, Decision.NO_OPINION),
    "the name of the group is no group": (UserInfo(SYSTEM_MASTERS, (AUTHENTICATED,)), Decision.NO_OPINION),
    "a group with a like name": (UserInfo("eve", ("system:masters2", "System:Masters")), Decision.NO_OPINION),
}


@pytest.mark.parametrize(("user", "decision"), MASTERS_ONLY.values(), ids=MASTERS_ONLY)
def test_masters_may_do_everything(user: UserInfo, decision: Decision) -> None:
    for attributes in (configmaps(user, "delete"), path(user, "/metrics"), path(user, "/x", "post")):
        assert authorize_masters(attributes).decision is decision


# ---- health, before the default roles are stored


@pytest.mark.parametrize("where", ["/healthz", "/livez", "/readyz"])
def test_everybody_may_read_health_until_the_default_roles_are_stored(where: str) -> None:
    has_roles = False
    ask = authorize_health(lambda: has_roles)
    assert ask(path(NOBODY, where)).decision is Decision.ALLOW
    assert ask(path(NOBODY, where, "post")) is NO_OPINION
    has_roles = True
    assert ask(path(NOBODY, where)) is NO_OPINION


@pytest.mark.parametrize("where", ["/", "/version", "/metrics", "/livez/ping", "/healthz/", "/api"])
def test_everybody_may_read_nothing_else_until_then(where: str) -> None:
    assert authorize_health(lambda: False)(path(BOB, where)) is NO_OPINION
    resource = Attributes(BOB, "get", is_resource=True, path="/livez", resource="secrets")
    assert authorize_health(lambda: False)(resource) is NO_OPINION


# ---- modes: kube-apiserver's --authorization-mode

MODE_DECISIONS: Final = {
    "all is allowed": ([ALWAYS_ALLOW], Verdict(Decision.ALLOW)),
    "all is denied": ([ALWAYS_DENY], Verdict(Decision.NO_OPINION, "Everything is forbidden.")),
    "one that has no opinion leaves it to the next": ([RBAC, ALWAYS_ALLOW], Verdict(Decision.ALLOW)),
    "and so does saying no to all": ([ALWAYS_DENY, ALWAYS_ALLOW], Verdict(Decision.ALLOW)),
    "no role": ([RBAC], Verdict(Decision.NO_OPINION)),
    "who is no node has what roles give": ([NODE, RBAC], Verdict(Decision.NO_OPINION)),
}


def built(*modes: str) -> Authorizers:
    return Authorizers(of_modes(modes), Brand(), lambda: True)


@pytest.mark.parametrize(("modes", "verdict"), MODE_DECISIONS.values(), ids=MODE_DECISIONS)
def test_modes(modes: list[str], verdict: Verdict) -> None:
    authorizers = built(*modes)
    assert authorizers.chain(configmaps(BOB)) == verdict
    assert authorizers.chain(configmaps(ADMIN)) == ALLOW, "masters may whatever the modes are"


def test_modes_know_their_rules() -> None:
    assert built(RBAC).rules(BOB, "default") == RuleSet([], [], False, [])
    everything = built(ALWAYS_ALLOW).rules(BOB, "default")
    assert everything.resource_rules == [ResourceRule(("*",), ("*",), ("*",))]
    assert everything.non_resource_rules == [NonResourceRule(("*",), ("*",))]


def test_nodes_are_told_that_their_rules_are_not_all() -> None:
    node = UserInfo("system:node:n1", ("system:nodes",))
    found = built(NODE, RBAC).rules(node, "default")
    assert found.is_incomplete
    assert found.problems == ["node authorizer does not support user rule resolution"]
    assert not built(NODE, RBAC).rules(BOB, "default").is_incomplete


def test_what_is_configured_is_replaced_while_the_server_runs() -> None:
    authorizers = built(RBAC)
    before = authorizers.chain.generation
    authorizers.configure(of_modes([ALWAYS_ALLOW]))
    assert authorizers.chain(configmaps(BOB)) == ALLOW
    assert authorizers.chain.generation > before
    assert [(each.type, each.name, each.allowed) for each in authorizers.counts] == [
        (RBAC, "rbac", 0),
        (ALWAYS_ALLOW, "alwaysallow", 1),
    ]
    with pytest.raises(NotEnabledAtStart, match="type Node is not allowed if it was not enabled at"):
        authorizers.configure([ConfiguredAuthorizer(NODE, "node")])
    assert authorizers.chain(configmaps(BOB)) == ALLOW, "what is refused changes nothing"


# ---- the chain


def says(verdict: Verdict) -> Authorizer:
    return lambda attributes: verdict


def says_later(verdict: Verdict) -> Authorizer:
    async def decide(deadline: float) -> Verdict:
        await asyncio.sleep(0)
        return verdict

    return lambda attributes: PendingDecision(decide)


DENY: Final = Verdict(Decision.DENY, "not on Sundays")
CHAINS: Final[dict[str, tuple[list[Verdict], Verdict]]] = {
    "nobody to ask": ([], Verdict(Decision.NO_OPINION)),
    "the first opinion counts: allowed": ([NO_OPINION, ALLOW, DENY], ALLOW),
    "the first opinion counts: denied": ([NO_OPINION, DENY, ALLOW], DENY),
    "no opinions": ([NO_OPINION, NO_OPINION], Verdict(Decision.NO_OPINION)),
    "reasons for having none are told": (
        [Verdict(Decision.NO_OPINION, "no role"), NO_OPINION, Verdict(Decision.NO_OPINION, "no webhook")],
        Verdict(Decision.NO_OPINION, "no role\nno webhook"),
    ),
}


@pytest.mark.parametrize(("verdicts", "result"), CHAINS.values(), ids=CHAINS)
def test_chains(verdicts: list[Verdict], result: Verdict) -> None:
    assert AuthorizationChain([says(verdict) for verdict in verdicts])(configmaps(BOB)) == result


def test_nobody_is_asked_after_a_decision() -> None:
    asked: list[Attributes] = []

    def late(attributes: Attributes) -> Verdict:
        asked.append(attributes)
        return ALLOW

    AuthorizationChain([says(DENY), late])(configmaps(BOB))
    assert asked == []


async def test_only_what_is_allowed_goes_on() -> None:
    await AuthorizationChain([says(ALLOW)]).require(configmaps(BOB))
    for verdict in (NO_OPINION, DENY):
        with pytest.raises(Forbidden):
            await AuthorizationChain([says(verdict)]).require(configmaps(BOB))
    with pytest.raises(Forbidden, match="not on Sundays"):
        await AuthorizationChain([says(DENY)]).require(configmaps(BOB))


@pytest.mark.parametrize(("verdicts", "result"), CHAINS.values(), ids=CHAINS)
async def test_chains_of_authorizers_that_have_to_wait(verdicts: list[Verdict], result: Verdict) -> None:
    """The answer is the same, whichever of them have to."""
    for waits in range(2 ** len(verdicts)):
        authorizers = [
            says_later(each) if waits >> number & 1 else says(each) for number, each in enumerate(verdicts)
        ]
        assert await AuthorizationChain(authorizers).decide(configmaps(BOB)) == result


FAILED: Final = Verdict(Decision.NO_OPINION, "", "no answer")
FAILURES: Final = {
    "nobody else allows it": ([FAILED, NO_OPINION], InternalError),
    "nobody else allows it, though one has a reason": (
        [Verdict(Decision.NO_OPINION, "why"), FAILED],
        InternalError,
    ),
    "somebody else allows it": ([FAILED, ALLOW], None),
    "somebody else denies it": ([FAILED, DENY], Forbidden),
    "a failure that denies": ([Verdict(Decision.DENY, "", "no answer"), ALLOW], InternalError),
}


@pytest.mark.parametrize(("verdicts", "error"), FAILURES.values(), ids=FAILURES)
async def test_what_cannot_be_decided_fails(verdicts: list[Verdict], error: type[Exception] | None) -> None:
    chain = AuthorizationChain([says(each) for each in verdicts])
    if error is None:
        await chain.require(configmaps(BOB))
    else:
        with pytest.raises(error):
            await chain.require(configmaps(BOB))


# ---- what is told. Source: k8s.io/apiserver, pkg/endpoints/handlers/responsewriters/errors.go; row O03

REFUSALS: Final = {
    "a collection in a namespace": (
        configmaps(BOB),
        (
            'configmaps is forbidden: User "bob" cannot list resource "configmaps" in API group "" '
            'in the namespace "default"'
        ),
    ),
    "an object": (
        configmaps(BOB, "get", name="a"),
        (
            'configmaps "a" is forbidden: User "bob" cannot get resource "configmaps" in API group "" '
            'in the namespace "default"'
        ),
    ),
    "everywhere": (
        configmaps(NOBODY, namespace=""),
        (
            'configmaps is forbidden: User "system:anonymous" cannot list resource "configmaps" '
            'in API group "" at the cluster scope'
        ),
    ),
    "a subresource of a group": (
        Attributes(BOB, "update", True, "", "apps", "deployments", "status", "ns", "web"),
        (
            'deployments.apps "web" is forbidden: User "bob" cannot update resource "deployments/status" '
            'in API group "apps" in the namespace "ns"'
        ),
    ),
    "a path": (path(BOB, "/metrics"), 'forbidden: User "bob" cannot get path "/metrics"'),
}


@pytest.mark.parametrize(("attributes", "message"), REFUSALS.values(), ids=REFUSALS)
def test_refusals(attributes: Attributes, message: str) -> None:
    status = forbidden(attributes).status()
    assert (status["message"], status["reason"], status["code"]) == (message, "Forbidden", 403)
    assert forbidden(attributes, "no role").message == f"{message}: no role"


def test_a_refusal_names_the_object_in_its_details() -> None:
    refused = forbidden(Attributes(BOB, "get", True, "", "apps", "deployments", "", "ns", "web"))
    assert refused.status()["details"] == {"name": "web", "group": "apps", "kind": "deployments"}


# ---- rules


def test_rules_of_several_are_put_together() -> None:
    first = RuleSet([ResourceRule(("get",), ("",), ("pods",))], [NonResourceRule(("get",), ("/a",))])
    second = RuleSet([ResourceRule(("list",), ("",), ("pods",))], is_incomplete=True, problems=["why"])
    resolve = all_rules([lambda *_: first, lambda *_: second])
    assert resolve(BOB, "default", 1) == RuleSet(
        [*first.resource_rules, *second.resource_rules], [*first.non_resource_rules], True, ["why"]
    )
