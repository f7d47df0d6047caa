"""What somebody must be allowed to impersonate whom, for which request. Row O08.

The cases are those of k8s.io/apiserver, pkg/endpoints/filters/impersonation, of 1.36, but that no answers
are remembered: authorizers do that here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

import pytest

from apiserver.auth.authn.impersonation import node_of
from apiserver.auth.authz.attributes import ALLOW, NO_OPINION, Attributes, Decision, Verdict
from apiserver.auth.authz.chain import AuthorizationChain
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.impersonation import ConstrainedImpersonation, impersonate
from apiserver.endpoints.impersonation_modes import (
    MANY_CHECKS,
    ImpersonationRequest,
    LastModes,
    impersonation_modes,
)
from apiserver.load.offload import Lane, Offload
from apiserver.load.size_class import SizeClass
from apiserver.meta.brand import Brand
from apiserver.meta.errors import Forbidden, TooManyRequests
from apiserver.meta.vocabulary import UserInfo
from apiserver.metrics.request_filters import ImpersonationMetrics
from apiserver.storage.event_loop_turns import Turn
from tests.support.offloaded import occupied
from tests.unit.endpoints.handlers.calls import call

REVIEWS: Final = "authentication.k8s.io"
NODE_NAME: Final = "authentication.kubernetes.io/node-name"
BOB: Final = UserInfo("bob")
JANE: Final = UserInfo("jane")
AGENT: Final = "system:serviceaccount:default:agent"
ON_NODE1: Final = UserInfo(AGENT, extra=((NODE_NAME, ("node1",)), ("z", ("1",))))
NODE1: Final = UserInfo("system:node:node1")
BOT: Final = UserInfo("system:serviceaccount:default:bot")
BOT_GROUPS: Final = ("system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated")


def asked(attributes: Attributes) -> str:
    """What is asked, as text: verb, group/resource/subresource, namespace/name, or a path."""
    a = attributes
    if not a.is_resource:
        return f"{a.verb} {a.path}"
    what = "/".join(filter(None, (a.group, a.resource, a.subresource)))
    return f"{a.verb} {what} {'/'.join(filter(None, (a.namespace, a.name)))}".rstrip()


class RecordingAuthorizer:
    """Allows what is in a set, and keeps what it was asked."""

    def __init__(self, *allowed: str, verdict: Verdict = NO_OPINION) -> None:
        """verdict: about all else."""
        self.allowed, self.verdict = set(allowed), verdict
        self.seen: list[Attributes] = []

    def __call__(self, attributes: Attributes) -> Verdict:
        self.seen.append(attributes)
        return Verdict(ALLOW) if asked(attributes) in self.allowed else self.verdict

    @property
    def questions(self) -> list[str]:
        return [asked(each) for each in self.seen]


def checks(authorizer: RecordingAuthorizer, metrics: ImpersonationMetrics) -> ConstrainedImpersonation:
    return ConstrainedImpersonation(AuthorizationChain([authorizer]), Brand(), metrics)


def get_pod(caller: UserInfo) -> Attributes:
    return Attributes(caller, "get", True, "", "", "pods", "", "bar", "foo", "v1")


def get_version(caller: UserInfo) -> Attributes:
    return Attributes(caller, "get", False, "/version")


class Case(NamedTuple):
    """What somebody wants, and what then is asked; `+` before what is allowed.

    mode: the one that allows it. refusal: of the request, if none does. groups: of the user that it is.
    """

    caller: UserInfo
    wanted: UserInfo
    questions: tuple[str, ...]
    mode: str = ""
    groups: tuple[str, ...] = ()
    refusal: str = ""
    request: Callable[[UserInfo], Attributes] = get_pod


ON_USER: Final = "+impersonate-on:user-info:get pods bar/foo"
AS_JANE: Final = f"+impersonate:user-info {REVIEWS}/users jane"
LEGACY_JANE: Final = "impersonate users jane"
FOUR: Final = ("a", "b", "c", "d")
SCOPES: Final = "acme.io/scopes"
AT_CLUSTER: Final = f'in API group "{REVIEWS}" at the cluster scope'

CASES: Final[dict[str, Case]] = {
    "nothing is allowed": Case(
        BOB,
        JANE,
        (ON_USER[1:], LEGACY_JANE),
        refusal='pods "foo" is forbidden: User "bob" cannot impersonate-on:user-info:get resource "pods" in '
        'API group "" in the namespace "bar"',
    ),
    "only on the request": Case(
        BOB,
        JANE,
        (ON_USER, AS_JANE[1:], LEGACY_JANE),
        refusal=f'users.{REVIEWS} "jane" is forbidden: User "bob" cannot impersonate:user-info resource '
        f'"users" {AT_CLUSTER}',
    ),
    "a user": Case(BOB, JANE, (ON_USER, AS_JANE), "user-info", ("system:authenticated",)),
    "for a path": Case(
        BOB,
        JANE,
        ("+impersonate-on:user-info:get /version", AS_JANE),
        "user-info",
        ("system:authenticated",),
        request=get_version,
    ),
    "not for this path": Case(
        BOB,
        JANE,
        ("impersonate-on:user-info:get /version", LEGACY_JANE),
        refusal='forbidden: User "bob" cannot impersonate-on:user-info:get path "/version"',
        request=get_version,
    ),
    "nobody in particular": Case(
        BOB,
        UserInfo("system:anonymous"),
        (ON_USER, f"+impersonate:user-info {REVIEWS}/users system:anonymous"),
        "user-info",
        ("system:unauthenticated",),
    ),
    "everything of a user": Case(
        BOB,
        UserInfo("jane", ("g",), "u-1", ((SCOPES, ("a", "b")),)),
        (
            ON_USER,
            AS_JANE,
            f"+impersonate:user-info {REVIEWS}/uids u-1",
            f"+impersonate:user-info {REVIEWS}/groups g",
            f"+impersonate:user-info {REVIEWS}/userextras/{SCOPES} a",
            f"+impersonate:user-info {REVIEWS}/userextras/{SCOPES} b",
        ),
        "user-info",
        ("g", "system:authenticated"),
    ),
    "legacy impersonation, after the other": Case(
        BOB,
        UserInfo("jane", ("g",), "u-1", (("scopes", ("a",)),)),
        (
            ON_USER[1:],
            f"+{LEGACY_JANE}",
            f"+impersonate {REVIEWS}/uids u-1",
            "+impersonate groups g",
            f"+impersonate {REVIEWS}/userextras/scopes a",
        ),
        "legacy",
        ("g", "system:authenticated"),
    ),
    "masters are never impersonated but by legacy": Case(
        BOB,
        UserInfo("jane", ("g", "system:masters")),
        (ON_USER, AS_JANE, LEGACY_JANE),
        refusal=f'groups.{REVIEWS} "system:masters" is forbidden: User "bob" cannot impersonate:user-info '
        f'resource "groups" {AT_CLUSTER}: impersonating the system:masters group is not allowed',
    ),
    "masters by legacy": Case(
        BOB,
        UserInfo("jane", ("system:masters",)),
        (ON_USER, AS_JANE, f"+{LEGACY_JANE}", "+impersonate groups system:masters"),
        "legacy",
        ("system:masters", "system:authenticated"),
    ),
    "an empty group": Case(
        BOB,
        UserInfo("jane", ("",)),
        (ON_USER, AS_JANE, LEGACY_JANE),
        refusal=f'groups.{REVIEWS} is forbidden: User "bob" cannot impersonate:user-info resource "groups" '
        f"{AT_CLUSTER}: impersonating the empty string group is not allowed",
    ),
    "any of many groups": Case(
        BOB,
        UserInfo("jane", FOUR),
        (ON_USER, AS_JANE, f"+impersonate:user-info {REVIEWS}/groups *"),
        "user-info",
        (*FOUR, "system:authenticated"),
    ),
    "many groups, one by one": Case(
        BOB,
        UserInfo("jane", FOUR),
        (
            *(ON_USER, AS_JANE, f"impersonate:user-info {REVIEWS}/groups *"),
            *(f"+impersonate:user-info {REVIEWS}/groups {each}" for each in FOUR),
        ),
        "user-info",
        (*FOUR, "system:authenticated"),
    ),
    "any of many values": Case(
        BOB,
        UserInfo("jane", extra=((SCOPES, FOUR),)),
        (ON_USER, AS_JANE, f"+impersonate:user-info {REVIEWS}/userextras/* *"),
        "user-info",
        ("system:authenticated",),
    ),
    "any of many keys": Case(
        BOB,
        UserInfo("jane", extra=tuple((f"acme.io/{each}", ("1",)) for each in FOUR)),
        (ON_USER, AS_JANE, f"+impersonate:user-info {REVIEWS}/userextras/* *"),
        "user-info",
        ("system:authenticated",),
    ),
    "a key without a domain": Case(
        BOB,
        UserInfo("jane", extra=(("scopes", ("a",)),)),
        (ON_USER, AS_JANE, LEGACY_JANE),
        refusal=f'userextras.{REVIEWS} is forbidden: User "bob" cannot impersonate:user-info resource '
        f'"userextras" {AT_CLUSTER}: impersonating an invalid key in extra is not allowed: extra.key: '
        'Invalid value: "scopes": must be a domain-prefixed path (such as "acme.io/foo")',
    ),
    "an account": Case(
        BOB,
        BOT,
        (
            "+impersonate-on:serviceaccount:get pods bar/foo",
            f"+impersonate:serviceaccount {REVIEWS}/serviceaccounts default/bot",
        ),
        "serviceaccount",
        BOT_GROUPS,
    ),
    "an account with a group is for legacy impersonation": Case(
        BOB,
        UserInfo(BOT.name, ("g",)),
        ("+impersonate serviceaccounts default/bot", "+impersonate groups g"),
        "legacy",
        ("g", "system:authenticated"),
    ),
    "a node": Case(
        BOB,
        NODE1,
        (
            "+impersonate-on:arbitrary-node:get pods bar/foo",
            f"+impersonate:arbitrary-node {REVIEWS}/nodes node1",
        ),
        "arbitrary-node",
        ("system:nodes", "system:authenticated"),
    ),
    "a node by legacy impersonation has no groups": Case(
        BOB,
        NODE1,
        ("impersonate-on:arbitrary-node:get pods bar/foo", "+impersonate users system:node:node1"),
        "legacy",
        ("system:authenticated",),
    ),
    "a node with its group is for legacy impersonation": Case(
        BOB,
        UserInfo(NODE1.name, ("system:nodes",)),
        ("impersonate users system:node:node1",),
        refusal='users "system:node:node1" is forbidden: User "bob" cannot impersonate resource "users" in '
        'API group "" at the cluster scope',
    ),
    "what is no node": Case(
        BOB,
        UserInfo("system:node:A_B"),
        (ON_USER, f"+impersonate:user-info {REVIEWS}/users system:node:A_B"),
        "user-info",
        ("system:authenticated",),
    ),
    "its own node": Case(
        ON_NODE1,
        NODE1,
        (
            "+impersonate-on:associated-node:get pods bar/foo",
            f"+impersonate:associated-node {REVIEWS}/nodes *",
        ),
        "associated-node",
        ("system:nodes", "system:authenticated"),
    ),
    "another node than its own": Case(
        ON_NODE1,
        UserInfo("system:node:node2"),
        (
            "+impersonate-on:arbitrary-node:get pods bar/foo",
            f"impersonate:arbitrary-node {REVIEWS}/nodes node2",
            "impersonate users system:node:node2",
        ),
        refusal=f'nodes.{REVIEWS} "node2" is forbidden: User "{AGENT}" cannot impersonate:arbitrary-node '
        f'resource "nodes" {AT_CLUSTER}',
    ),
    "only accounts have a node of their own": Case(
        UserInfo("bob", extra=((NODE_NAME, ("node1",)),)),
        NODE1,
        ("impersonate-on:arbitrary-node:get pods bar/foo", "impersonate users system:node:node1"),
        refusal='pods "foo" is forbidden: User "bob" cannot impersonate-on:arbitrary-node:get resource '
        '"pods" in API group "" in the namespace "bar"',
    ),
    "an account with two nodes has none": Case(
        UserInfo(AGENT, extra=((NODE_NAME, ("node1", "node2")),)),
        NODE1,
        (
            "+impersonate-on:arbitrary-node:get pods bar/foo",
            f"+impersonate:arbitrary-node {REVIEWS}/nodes node1",
        ),
        "arbitrary-node",
        ("system:nodes", "system:authenticated"),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_what_is_asked_and_decided(case: Case) -> None:
    authorizer = RecordingAuthorizer(*(each[1:] for each in case.questions if each.startswith("+")))
    request = ImpersonationRequest(case.request(case.caller), case.wanted)
    impersonation = checks(authorizer, ImpersonationMetrics())
    if case.refusal:
        with pytest.raises(Forbidden) as refused:
            await impersonation.mode_of(request)
        assert refused.value.message == case.refusal
    else:
        mode = await impersonation.mode_of(request)
        assert (mode.name, mode.impersonated(case.wanted).groups) == (case.mode, case.groups)
        assert mode.constraint == ("" if case.mode == "legacy" else f"impersonate:{case.mode}")
        assert mode.impersonated(case.wanted) == case.wanted.__class__(
            case.wanted.name, case.groups, case.wanted.uid, case.wanted.extra
        )
    assert authorizer.questions == [each.removeprefix("+") for each in case.questions]


PROBLEMS: Final[dict[str, tuple[str, tuple[str, ...], str]]] = {
    "an empty key": ("", ("a",), "impersonating the empty string key in extra is not allowed"),
    "a key in upper case": (
        "acme.io/Scopes",
        ("a",),
        'impersonating a non-lowercase key in extra is not allowed: "acme.io/Scopes"',
    ),
    "an empty value": (SCOPES, ("a", ""), "impersonating the empty string value in extra is not allowed"),
    "two faults of a key": (
        "-/ü",
        ("a",),
        "impersonating an invalid key in extra is not allowed: [extra.key: Invalid value: ",
    ),
}


@pytest.mark.parametrize(("key", "values", "problem"), PROBLEMS.values(), ids=PROBLEMS)
async def test_extra_that_is_never_impersonated(key: str, values: tuple[str, ...], problem: str) -> None:
    request = ImpersonationRequest(get_pod(BOB), UserInfo("jane", extra=((key, values),)))
    impersonation = checks(RecordingAuthorizer(ON_USER[1:], AS_JANE[1:]), ImpersonationMetrics())
    with pytest.raises(Forbidden) as refused:
        await impersonation.mode_of(request)
    assert problem in refused.value.message


async def test_the_mode_that_succeeded_last_is_tried_first() -> None:
    """And what it says is then what a refusal says."""
    authorizer = RecordingAuthorizer(LEGACY_JANE)
    impersonation = checks(authorizer, ImpersonationMetrics())
    request = ImpersonationRequest(get_pod(BOB), JANE)
    for questions in ([ON_USER[1:], LEGACY_JANE], [LEGACY_JANE]):
        authorizer.seen.clear()
        assert (await impersonation.mode_of(request)).name == "legacy"
        assert authorizer.questions == questions
    with pytest.raises(Forbidden) as refused:
        await impersonation.mode_of(ImpersonationRequest(get_pod(BOB), UserInfo("ann")))
    assert refused.value.message.startswith(
        'users "ann" is forbidden: User "bob" cannot impersonate resource'
    )
    # Others are not concerned.
    authorizer.allowed.clear()
    with pytest.raises(Forbidden, match="impersonate-on:user-info:get"):
        await impersonation.mode_of(ImpersonationRequest(get_pod(UserInfo("eve")), JANE))


def test_the_last_modes_of_few_callers_are_remembered() -> None:
    modes, last = impersonation_modes(Brand()), LastModes(callers_max=2)
    for name in ("a", "b"):
        last.remember(UserInfo(name), modes[0])
    assert last.of(UserInfo("a")) is modes[0]
    last.remember(UserInfo("c"), modes[1])
    assert [last.of(UserInfo(name)) for name in "abc"] == [modes[0], None, modes[1]]
    assert len(last) == 2


async def test_an_authorizer_is_not_told_the_node_of_an_account() -> None:
    """So that what it remembers is right for all pods of the account."""
    authorizer = RecordingAuthorizer()
    with pytest.raises(Forbidden):
        await checks(authorizer, ImpersonationMetrics()).mode_of(
            ImpersonationRequest(get_pod(ON_NODE1), NODE1)
        )
    assert authorizer.seen[0].user == UserInfo(
        AGENT, extra=(("authentication.kubernetes.io/associated-node-keys", (NODE_NAME, "z")),)
    )
    assert [each.user for each in authorizer.seen[1:]] == [ON_NODE1, ON_NODE1]


async def test_a_failing_authorizer_refuses_with_what_it_says() -> None:
    authorizer = RecordingAuthorizer(verdict=Verdict(Decision.NO_OPINION, "no", "webhook is gone"))
    with pytest.raises(Forbidden) as refused:
        await checks(authorizer, ImpersonationMetrics()).mode_of(ImpersonationRequest(get_pod(BOB), JANE))
    assert refused.value.message.endswith('in the namespace "bar": webhook is gone: no')


async def test_questions_of_legacy_impersonation_have_a_version() -> None:
    authorizer = RecordingAuthorizer(LEGACY_JANE)
    await checks(authorizer, ImpersonationMetrics()).mode_of(ImpersonationRequest(get_pod(BOB), JANE))
    assert [each.version for each in authorizer.seen] == ["v1", "v1"]


async def test_each_question_is_counted_by_its_mode() -> None:
    metrics = ImpersonationMetrics()
    authorizer = RecordingAuthorizer(ON_USER[1:], LEGACY_JANE)
    await checks(authorizer, metrics).mode_of(ImpersonationRequest(get_pod(BOB), JANE))
    counts = next(each for each in metrics.families() if each.name.endswith("authorization_attempts_total"))
    assert list(counts.series) == [
        'apiserver_impersonation_authorization_attempts_total{decision="allowed",mode="user-info"} 1\n',
        'apiserver_impersonation_authorization_attempts_total{decision="denied",mode="user-info"} 1\n',
        'apiserver_impersonation_authorization_attempts_total{decision="allowed",mode="legacy"} 1\n',
    ]


def test_many_checks_are_as_many_as_in_kubernetes() -> None:
    assert MANY_CHECKS == 4


@pytest.mark.parametrize(
    ("user_name", "node"),
    [("system:node:a.b", "a.b"), ("system:node:", None), ("system:node:A", None), ("node:a", None)],
)
def test_which_user_names_are_of_nodes(user_name: str, node: str | None) -> None:
    assert node_of(user_name) == node


async def test_who_is_impersonated_waits_for_no_list_that_is_being_made() -> None:
    """Checks are brief: no turn of the event loop is waited for, though others have them all."""
    turn, check = Turn(), checks(RecordingAuthorizer(LEGACY_JANE), ImpersonationMetrics())
    while not turn.is_over():
        pass

    def is_done_at_once() -> bool:
        asked_for = check.mode_of(ImpersonationRequest(get_pod(BOB), JANE))
        try:
            asked_for.send(None)
        except StopIteration:
            return True
        asked_for.close()
        return False

    # Not each time: the machine may run something else in between.
    assert any(is_done_at_once() for _ in range(100))


async def test_impersonated_users_have_their_own_places_in_a_lane() -> None:
    lane = Lane("large", waiting_max=2, waiting_of_user_max=1)
    offload = Offload(lanes={SizeClass.LARGE: lane})

    async def check(_: ApiCall, wanted: UserInfo) -> tuple[UserInfo, str]:
        return wanted, ""

    async def handle(call: ApiCall) -> None:
        await call.offload.run(SizeClass.LARGE, int)

    def ask_as(name: str) -> asyncio.Future[None]:
        target = "/api/v1/namespaces/a/configmaps"
        return asyncio.ensure_future(
            impersonate(check)(handle)(call("GET", target, offload=offload, impersonate_user=name))
        )

    async with occupied(offload, SizeClass.LARGE):
        waiting = [ask_as("jane"), ask_as("joe")]
        await asyncio.sleep(0)
        assert lane.waiting == 2
        with pytest.raises(TooManyRequests):
            await ask_as("jane")
    await asyncio.gather(*waiting)
    offload.close()
