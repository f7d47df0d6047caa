"""Who may do what, as far as it is fixed; and how the answers of several are put together. Rows N11, O03."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.authz.attributes import (
    NO_OPINION,
    Attributes,
    AuthorizationChain,
    Authorizer,
    Decision,
    Verdict,
    forbidden,
)
from apiserver.authz.fixed import (
    authorize_masters,
    authorize_public_paths,
    fixed_rules,
    self_reviews,
)
from apiserver.authz.rules import NonResourceRule, ResourceRule, RuleSet, all_rules
from apiserver.brand import Brand
from apiserver.errors import Forbidden
from apiserver.vocabulary import ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, UserInfo

ADMIN: Final = UserInfo("admin", (MASTERS, AUTHENTICATED))
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
    "the name of the group is no group": (UserInfo(MASTERS, (AUTHENTICATED,)), Decision.NO_OPINION),
    "a group with a like name": (UserInfo("eve", ("system:masters2", "System:Masters")), Decision.NO_OPINION),
}


@pytest.mark.parametrize(("user", "decision"), MASTERS_ONLY.values(), ids=MASTERS_ONLY)
def test_masters_may_do_everything(user: UserInfo, decision: Decision) -> None:
    for attributes in (configmaps(user, "delete"), path(user, "/metrics"), path(user, "/x", "post")):
        assert authorize_masters(attributes).decision is decision


# ---- paths for everybody
# https://kubernetes.io/docs/reference/access-authn-authz/rbac/#discovery-roles

NEITHER, NAMED, ALL = (), (BOB,), (NOBODY, BOB)
PATHS: Final = {
    "/healthz": ALL,
    "/livez": ALL,
    "/readyz": ALL,
    "/version": ALL,
    "/version/": ALL,
    "/api": NAMED,
    "/api/": NAMED,
    "/api/v1": NAMED,
    "/apis": NAMED,
    "/apis/apps/v1": NAMED,
    "/openapi/v2": NAMED,
    "/openapi/v3/api/v1": NAMED,
    "/metrics": NEITHER,
    "/livez/ping": NEITHER,
    "/healthz/": NEITHER,
    "/apiserver": NEITHER,
    "/api.json": NEITHER,
    "/openapis": NEITHER,
    "/": NEITHER,
    "": NEITHER,
    "/configz": NEITHER,
    "/VERSION": NEITHER,
}


@pytest.mark.parametrize(("where", "allowed"), PATHS.items(), ids=PATHS)
def test_paths_for_everybody(where: str, allowed: tuple[UserInfo, ...]) -> None:
    for user in (NOBODY, BOB):
        expected = Decision.ALLOW if user in allowed else Decision.NO_OPINION
        assert authorize_public_paths(path(user, where)).decision is expected


@pytest.mark.parametrize("verb", ["post", "put", "patch", "delete", "head", "options"])
def test_for_reading_only(verb: str) -> None:
    for where in ("/version", "/api"):
        assert authorize_public_paths(path(BOB, where, verb)) is NO_OPINION


def test_a_resource_is_no_path() -> None:
    """A resource's request has a path as well, which may look like anything."""
    attributes = Attributes(BOB, "get", is_resource=True, path="/api/v1/secrets", resource="secrets")
    assert authorize_public_paths(attributes) is NO_OPINION


# ---- the chain


def says(verdict: Verdict) -> Authorizer:
    return lambda attributes: verdict


DENY: Final = Verdict(Decision.DENY, "not on Sundays")
CHAINS: Final[dict[str, tuple[list[Verdict], Verdict]]] = {
    "nobody to ask": ([], Verdict(Decision.NO_OPINION)),
    "the first opinion counts: allowed": ([NO_OPINION, ALLOW, DENY], ALLOW),
    "the first opinion counts: denied": ([NO_OPINION, DENY, ALLOW], DENY),
    "no opinions": ([NO_OPINION, NO_OPINION], Verdict(Decision.NO_OPINION)),
    "reasons for having none are told": (
        [Verdict(Decision.NO_OPINION, "no role"), NO_OPINION, Verdict(Decision.NO_OPINION, "no webhook")],
        Verdict(Decision.NO_OPINION, "no role, no webhook"),
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


def test_only_what_is_allowed_goes_on() -> None:
    AuthorizationChain([says(ALLOW)]).require(configmaps(BOB))
    for verdict in (NO_OPINION, DENY):
        with pytest.raises(Forbidden):
            AuthorizationChain([says(verdict)]).require(configmaps(BOB))
    with pytest.raises(Forbidden, match="not on Sundays"):
        AuthorizationChain([says(DENY)]).require(configmaps(BOB))


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


# ---- questions about oneself: the default role system:basic-user

ABOUT_ONESELF: Final = {
    "what may I": ("authorization.k8s.io", "selfsubjectaccessreviews", "create", True),
    "what may I at all": ("authorization.k8s.io", "selfsubjectrulesreviews", "create", True),
    "who am I": ("authentication.k8s.io", "selfsubjectreviews", "create", True),
    "what may another": ("authorization.k8s.io", "subjectaccessreviews", "create", False),
    "whose is a token": ("authentication.k8s.io", "tokenreviews", "create", False),
    "the name in another group": ("", "selfsubjectreviews", "create", False),
    "another verb": ("authentication.k8s.io", "selfsubjectreviews", "list", False),
}


@pytest.mark.parametrize(
    ("group", "resource", "verb", "is_allowed"), ABOUT_ONESELF.values(), ids=ABOUT_ONESELF
)
def test_whoever_has_said_who_they_are_may_ask_about_themselves(
    group: str, resource: str, verb: str, is_allowed: bool
) -> None:
    expected = Decision.ALLOW if is_allowed else Decision.NO_OPINION
    asked = self_reviews(Brand())
    assert asked(Attributes(BOB, verb, True, "", group, resource)).decision is expected
    assert asked(Attributes(NOBODY, verb, True, "", group, resource)).decision is Decision.NO_OPINION


def test_questions_are_asked_in_the_groups_of_the_deployment() -> None:
    acme = Attributes(BOB, "create", True, "", "authentication.acme.example", "selfsubjectreviews")
    assert self_reviews(Brand("acme.example", "acme"))(acme).decision is Decision.ALLOW
    assert self_reviews(Brand())(acme).decision is Decision.NO_OPINION


# ---- what is fixed, as rules


@pytest.mark.parametrize("user", [ADMIN, BOB, NOBODY], ids=["a master", "somebody", "nobody"])
def test_rules_say_what_the_authorizers_allow(user: UserInfo) -> None:
    found = fixed_rules(Brand())(user, "default")
    chain = AuthorizationChain((authorize_masters, authorize_public_paths, self_reviews(Brand())))

    def may(attributes: Attributes) -> bool:
        return chain(attributes).decision is Decision.ALLOW

    def told(attributes: Attributes) -> bool:
        if attributes.is_resource:
            return any(
                {attributes.verb, "*"} & set(rule.verbs)
                and {attributes.group, "*"} & set(rule.api_groups)
                and {attributes.resource, "*"} & set(rule.resources)
                for rule in found.resource_rules
            )
        return any(
            {attributes.verb, "*"} & set(rule.verbs)
            and any(
                url in (attributes.path, "*") or (url.endswith("*") and attributes.path.startswith(url[:-1]))
                for url in rule.urls
            )
            for rule in found.non_resource_rules
        )

    asked = [
        path(user, each) for each in ("/version", "/api", "/apis/apps/v1", "/metrics", "/logs", "/livez")
    ]
    asked += [configmaps(user), path(user, "/version", "post")]
    asked += [
        Attributes(user, verb, True, "", group, resource)
        for group, resource, verb, _ in ABOUT_ONESELF.values()
    ]
    assert [told(each) for each in asked] == [may(each) for each in asked]


def test_rules_of_several_are_put_together() -> None:
    first = RuleSet([ResourceRule(("get",), ("",), ("pods",))], [NonResourceRule(("get",), ("/a",))])
    second = RuleSet([ResourceRule(("list",), ("",), ("pods",))], is_incomplete=True, problems=["why"])
    resolve = all_rules([lambda user, namespace: first, lambda user, namespace: second])
    assert resolve(BOB, "default") == RuleSet(
        [*first.resource_rules, *second.resource_rules], [*first.non_resource_rules], True, ["why"]
    )
