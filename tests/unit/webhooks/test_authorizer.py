"""An authorizer that asks a webhook: what it sends, how it reads answers, and what it remembers. Row O03.

Source: k8s.io/apiserver, plugin/pkg/authorizer/webhook.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final

import orjson
import pytest

from apiserver.auth.authz.access_reviews import REASON_LENGTH_MAX
from apiserver.auth.authz.attributes import (
    Attributes,
    Decision,
    PendingDecision,
    SelectorRequirement,
    Verdict,
    decided,
)
from apiserver.auth.authz.configuration import WebhookSettings
from apiserver.auth.authz.match_conditions import InvalidCondition
from apiserver.load.user_shares import SharedPool, holder_of
from apiserver.meta.errors import TooManyRequests
from apiserver.meta.vocabulary import UserInfo
from apiserver.webhooks.authorizer import (
    ANSWERED_WITHIN_S,
    ANSWERS_MAX,
    REASONS_LENGTH_MAX,
    WAITING_MAX,
    AuthorizationWebhook,
    WebhookAuthorizer,
)
from apiserver.webhooks.client_config import ClientConfig
from apiserver.webhooks.credentials import ClientCredentials, HostCredentials
from apiserver.webhooks.errors import CallFailed
from apiserver.webhooks.kubeconfig import KubeconfigCluster
from apiserver.webhooks.review_server import ATTEMPTS_MAX, ReviewServer

GROUP: Final = "authorization.k8s.io"
SETTINGS: Final = WebhookSettings("/none", version="v1")
BOB: Final = UserInfo("bob", ("dev", "all"), "u1", (("scopes", ("a", "b")),))


def reading(name: str = "a", **more: Any) -> Attributes:
    fields: dict[str, Any] = {"resource": "pods", "namespace": "ns", "name": name, "version": "v1"}
    return Attributes(BOB, "get", True, "", **(fields | more))


def answer(version: str = "v1", **status: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{version}", "kind": "SubjectAccessReview", "status": status}


class Webhook:
    """The webhook, this server's clock, and what is counted. answers: the last one again and again.

    is_open: cleared to have it hang.
    """

    def __init__(self, *answers: Any, settings: WebhookSettings = SETTINGS) -> None:
        self._answers = list(answers) or [answer(allowed=True)]
        self.reviews: list[Any] = []
        self.timeouts_s: list[int] = []
        self.now = 0.0
        self.counts: Counter[tuple[str, ...]] = Counter()
        self.is_open = asyncio.Event()
        self.is_open.set()
        server = ReviewServer(
            KubeconfigCluster("https://a/x"), ClientCredentials(), self._caller, sleep=self._sleep
        )
        places = SharedPool(WAITING_MAX)
        webhook = AuthorizationWebhook("w", settings, server, GROUP)
        self.authorize = WebhookAuthorizer(webhook, self, places, holder_of, lambda: self.now)

    def _caller(self, shown: HostCredentials) -> Webhook:
        return self

    async def _sleep(self, seconds: float) -> None:
        pass

    async def post(self, client: ClientConfig, body: bytes, timeout_s: int) -> Any:
        self.reviews.append(orjson.loads(body))
        self.timeouts_s.append(timeout_s)
        await self.is_open.wait()
        found = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(found, Exception):
            raise found
        return found

    def asked(self, name: str, result: str, seconds: float) -> None:
        self.counts["asked", result] += 1

    def failed_open(self, name: str, result: str) -> None:
        self.counts["failed open", result] += 1

    def matched(self, name: str, seconds: float, *, is_excluded: bool, is_error: bool) -> None:
        self.counts["matched", str(is_excluded), str(is_error)] += 1

    async def decide(self, attributes: Attributes | None = None) -> Verdict:
        return await decided(self.authorize, attributes or reading())


USER: Final = {"user": "bob", "groups": ["dev", "all"], "uid": "u1", "extra": {"scopes": ["a", "b"]}}
SENT: Final[dict[str, tuple[Attributes, str, dict[str, Any]]]] = {
    "an object": (
        reading(),
        "v1",
        {
            "resourceAttributes": {
                "namespace": "ns",
                "verb": "get",
                "version": "v1",
                "resource": "pods",
                "name": "a",
            }
        },
    ),
    "a path": (
        Attributes(BOB, "get", False, "/metrics"),
        "v1",
        {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}},
    ),
    "selectors of a request": (
        reading("", field_selector="spec.nodeName=n,status.phase!=x", label_selector="a in (c,b),!d,e>1"),
        "v1",
        {
            "resourceAttributes": {
                "namespace": "ns",
                "verb": "get",
                "version": "v1",
                "resource": "pods",
                "fieldSelector": {
                    "requirements": [
                        {"key": "spec.nodeName", "operator": "In", "values": ["n"]},
                        {"key": "status.phase", "operator": "NotIn", "values": ["x"]},
                    ]
                },
                "labelSelector": {
                    "requirements": [
                        {"key": "a", "operator": "In", "values": ["b", "c"]},
                        {"key": "d", "operator": "DoesNotExist"},
                    ]
                },
            }
        },
    ),
    "selectors of an access review": (
        reading("", label_selector=(SelectorRequirement("a", "Exists"),), field_selector="=,("),
        "v1",
        {
            "resourceAttributes": {
                "namespace": "ns",
                "verb": "get",
                "version": "v1",
                "resource": "pods",
                "labelSelector": {"requirements": [{"key": "a", "operator": "Exists"}]},
            }
        },
    ),
}


@pytest.mark.parametrize(("attributes", "version", "about"), SENT.values(), ids=SENT)
async def test_what_a_webhook_is_sent(attributes: Attributes, version: str, about: dict[str, Any]) -> None:
    webhook = Webhook()
    await webhook.decide(attributes)
    (review,) = webhook.reviews
    assert (review["apiVersion"], review["kind"]) == (f"{GROUP}/{version}", "SubjectAccessReview")
    assert review["spec"] == USER | about


async def test_the_beta_version_calls_groups_group() -> None:
    webhook = Webhook(answer("v1beta1", allowed=True), settings=SETTINGS._replace(version="v1beta1"))
    assert (await webhook.decide()).decision is Decision.ALLOW
    (review,) = webhook.reviews
    assert review["apiVersion"] == f"{GROUP}/v1beta1"
    assert review["spec"]["group"] == ["dev", "all"]
    assert "groups" not in review["spec"]


VERDICTS: Final[dict[str, tuple[dict[str, Any], Verdict]]] = {
    "allowed": ({"allowed": True, "reason": "why"}, Verdict(Decision.ALLOW, "why")),
    "not allowed": ({"allowed": False, "reason": "no"}, Verdict(Decision.NO_OPINION, "no")),
    "nothing said": ({}, Verdict(Decision.NO_OPINION)),
    "denied": ({"denied": True, "reason": "no"}, Verdict(Decision.DENY, "no")),
    "both": (
        {"allowed": True, "denied": True},
        Verdict(Decision.DENY, "", "webhook subject access review returned both allow and deny response"),
    ),
}


@pytest.mark.parametrize(("status", "verdict"), VERDICTS.values(), ids=VERDICTS)
async def test_answers(status: dict[str, Any], verdict: Verdict) -> None:
    webhook = Webhook(answer(**status))
    assert await webhook.decide() == verdict
    assert webhook.counts == {("asked", "success"): 1}


FAILURES: Final[dict[str, tuple[Any, str]]] = {
    "another version": (answer("v1beta1", allowed=True), "error"),
    "another kind": (answer(allowed=True) | {"kind": "TokenReview"}, "error"),
    "no status": ({"apiVersion": f"{GROUP}/v1", "kind": "SubjectAccessReview"}, "error"),
    "a number": (7, "error"),
    "words for truth": (answer(allowed="true"), "error"),
    "a reason that is no text": (answer(allowed=True, reason={"a": 1}), "error"),
    "not reached": (CallFailed("refused"), "error"),
    "too slow": (CallFailed("late", is_timeout=True), "timeout"),
}


@pytest.mark.parametrize("fails_closed", [False, True])
@pytest.mark.parametrize(("found", "result"), FAILURES.values(), ids=FAILURES)
async def test_failures(found: Any, result: str, fails_closed: bool) -> None:
    webhook = Webhook(found, answer(allowed=True), settings=SETTINGS._replace(fails_closed=fails_closed))
    verdict = await webhook.decide()
    assert verdict.decision is (Decision.DENY if fails_closed else Decision.NO_OPINION)
    assert verdict.error
    assert webhook.counts["asked", result] == 1
    assert webhook.counts["failed open", result] == (not fails_closed)
    assert (await webhook.decide()).decision is Decision.ALLOW, "a failure is not remembered"


async def test_what_fails_for_the_moment_is_tried_again() -> None:
    transient = CallFailed("busy", is_transient=True)
    webhook = Webhook(*[transient] * (ATTEMPTS_MAX - 1), answer(allowed=True))
    assert (await webhook.decide()).decision is Decision.ALLOW
    assert len(webhook.reviews) == ATTEMPTS_MAX


# ---- what is remembered


@pytest.mark.parametrize("fails_closed", [False, True])
async def test_a_webhook_that_does_not_answer_by_a_deadline_has_failed(fails_closed: bool) -> None:
    webhook = Webhook(settings=SETTINGS._replace(fails_closed=fails_closed))
    webhook.is_open.clear()
    answer_later = webhook.authorize(reading())
    assert isinstance(answer_later, PendingDecision)
    deadline = asyncio.get_running_loop().time() + 0.01
    verdict = await answer_later.decide(deadline)
    assert verdict.decision is (Decision.DENY if fails_closed else Decision.NO_OPINION)
    assert verdict.error == "the webhook w has not responded in time"
    await asyncio.sleep(0)
    assert webhook.counts == {("asked", "canceled"): 1}


async def test_all_attempts_together_have_a_bound() -> None:
    """Each has the rest of it: a watch, unlike other requests, has no deadline of its own."""
    webhook = Webhook(settings=SETTINGS._replace(timeout_s=10 * ANSWERED_WITHIN_S))
    await webhook.decide()
    assert webhook.timeouts_s == [ANSWERED_WITHIN_S]


async def test_answers_are_remembered_for_a_while() -> None:
    webhook = Webhook(answer(allowed=True), answer(), answer(allowed=True))
    for now, asked, is_allowed in (
        (0, 1, True),
        (299, 1, True),
        (300, 2, False),
        (329, 2, False),
        (330, 3, True),
    ):
        webhook.now = now
        assert ((await webhook.decide()).decision is Decision.ALLOW, len(webhook.reviews)) == (
            is_allowed,
            asked,
        )
    assert isinstance(webhook.authorize(reading()), Verdict), "without waiting"
    await webhook.decide(reading("b"))
    assert len(webhook.reviews) == 4


async def test_what_need_not_be_remembered_is_asked_again() -> None:
    forgetful = Webhook(settings=SETTINGS._replace(authorized_ttl_s=0))
    long = Webhook()
    for _ in range(2):
        await forgetful.decide()
        await long.decide(reading("a" * 10_000))
    assert (len(forgetful.reviews), len(long.reviews)) == (2, 2)


async def test_as_many_answers_are_remembered_as_may_be() -> None:
    webhook = Webhook()
    for number in range(ANSWERS_MAX + 1):
        await webhook.decide(reading(f"a{number}"))
    assert isinstance(webhook.authorize(reading(f"a{ANSWERS_MAX}")), Verdict)
    assert not isinstance(webhook.authorize(reading("a0")), Verdict)


# ---- many at once


async def test_equal_questions_at_the_same_time_are_one() -> None:
    webhook = Webhook(answer(allowed=True, reason="one"))
    webhook.is_open.clear()
    deciding = [asyncio.create_task(webhook.decide()) for _ in range(10)]
    while not webhook.reviews:
        await asyncio.sleep(0)
    deciding[0].cancel()
    await asyncio.wait([deciding[0]])
    webhook.is_open.set()
    verdicts = await asyncio.gather(*deciding[1:])
    assert {each.reason for each in verdicts} == {"one"}
    assert len(webhook.reviews) == 1


async def test_a_question_ends_with_the_last_who_asks() -> None:
    webhook = Webhook()
    webhook.is_open.clear()
    deciding = asyncio.create_task(webhook.decide())
    while not webhook.reviews:
        await asyncio.sleep(0)
    deciding.cancel()
    await asyncio.wait([deciding])
    while not webhook.counts:
        await asyncio.sleep(0)
    assert webhook.counts == {("asked", "canceled"): 1}
    webhook.is_open.set()
    assert (await webhook.decide()).decision is Decision.ALLOW


@pytest.mark.parametrize("fails_closed", [False, True])
async def test_of_the_questions_that_wait_for_a_webhook_that_hangs_no_user_has_all(
    fails_closed: bool,
) -> None:
    webhook = Webhook(settings=SETTINGS._replace(fails_closed=fails_closed))
    webhook.is_open.clear()
    accounts = [UserInfo(f"system:serviceaccount:ns:a{number}") for number in range(WAITING_MAX)]
    deciding = [
        asyncio.create_task(webhook.decide(reading(f"a{number}")._replace(user=user)))
        for number, user in enumerate(accounts)
    ]
    done, _ = await asyncio.wait(deciding, return_when=asyncio.FIRST_COMPLETED)
    # Whatever the failure policy: who asks too much must not get past a webhook that would deny.
    assert {type(each.exception()) for each in done} == {TooManyRequests}
    other = asyncio.create_task(webhook.decide())
    while webhook.reviews[-1]["spec"]["user"] != "bob":
        await asyncio.sleep(0)
    webhook.is_open.set()
    assert (await other).decision is Decision.ALLOW
    answers = await asyncio.gather(*deciding, return_exceptions=True)
    assert sum(isinstance(each, Verdict) and not each.error for each in answers) == WAITING_MAX * 4 // 5
    # Their places are free again.
    assert (await webhook.decide(reading("more")._replace(user=accounts[0]))).decision is Decision.ALLOW


async def test_long_reasons_push_out_those_before_them() -> None:
    """What is remembered has a bound: webhooks choose how long their reasons are."""
    reason = "€" * REASON_LENGTH_MAX
    webhook = Webhook(answer(denied=True, reason=reason))
    fitting = REASONS_LENGTH_MAX // REASON_LENGTH_MAX
    for number in range(fitting + 1):
        await webhook.decide(reading(f"a{number}"))
    assert len(webhook.reviews) == fitting + 1
    for number in range(1, fitting + 1):
        assert (await webhook.decide(reading(f"a{number}"))).reason == reason
    assert len(webhook.reviews) == fitting + 1
    await webhook.decide(reading("a0"))
    assert len(webhook.reviews) == fitting + 2


# ---- match conditions

_MANY: Final = f"[{','.join('0' * 120)}]"
EXPLODING: Final = f"{_MANY}.all(a, {_MANY}.all(b, {_MANY}.all(c, a + b + c >= 0)))"
CONDITIONS: Final[dict[str, tuple[list[str], Any]]] = {
    "all true": (["request.user == 'bob'", "'dev' in request.groups"], "asked"),
    "one false": (["request.user == 'bob'", "request.uid == 'u2'"], "not asked"),
    "of a resource": (
        ["has(request.resourceAttributes) && request.resourceAttributes.namespace == 'ns'"],
        "asked",
    ),
    "of no path": (["has(request.nonResourceAttributes)"], "not asked"),
    "an empty field is there": (["request.resourceAttributes.subresource == ''"], "asked"),
    "extra": (["'a' in request.extra['scopes']"], "asked"),
    "an error": (["request.extra['none'][0] == 'x'"], "failed"),
    "an error, but one is false": (["request.extra['none'][0] == 'x'", "false"], "not asked"),
    "one that explodes": ([EXPLODING], "failed"),
}


@pytest.mark.parametrize("fails_closed", [False, True])
@pytest.mark.parametrize(("conditions", "outcome"), CONDITIONS.values(), ids=CONDITIONS)
async def test_match_conditions(conditions: list[str], outcome: str, fails_closed: bool) -> None:
    settings = SETTINGS._replace(conditions=tuple(conditions), fails_closed=fails_closed)
    webhook = Webhook(settings=settings)
    verdict = await webhook.decide()
    assert len(webhook.reviews) == (outcome == "asked")
    is_failed = outcome == "failed"
    expected = {"asked": Decision.ALLOW, "not asked": Decision.NO_OPINION}
    decision = Decision.DENY if is_failed and fails_closed else Decision.NO_OPINION
    assert verdict.decision is expected.get(outcome, decision)
    assert bool(verdict.error) is is_failed
    assert webhook.counts["matched", str(outcome == "not asked"), str(is_failed)] == 1


INVALID: Final = {
    "syntax": ("request.", "compilation failed: "),
    "a field that is not there": ("request.nme == 'a'", "undefined field 'nme'"),
    "no condition": ("request.user", "must evaluate to bool but got string"),
    "an unknown variable": ("object.a", "undeclared reference to 'object'"),
}


@pytest.mark.parametrize(("text", "why"), INVALID.values(), ids=INVALID)
def test_conditions_that_are_none(text: str, why: str) -> None:
    with pytest.raises(InvalidCondition, match=why):
        Webhook(settings=SETTINGS._replace(conditions=(text,)))


async def test_an_outage_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    webhook = Webhook(CallFailed("refused"), CallFailed("refused"), answer(allowed=True))
    for name in "abc":
        await webhook.decide(reading(name))
    first, last = caplog.messages
    assert first == "cannot call the authorization webhook w: refused"
    assert last.startswith("the authorization webhook w responds again, ")
