"""What a webhook is asked about tokens, and what is made of its answers.

Source: k8s.io/apiserver, plugin/pkg/authenticator/token/webhook.
"""

from __future__ import annotations

from typing import Any, Final

import orjson
import pytest

from apiserver.auth.authn.chain import Identity
from apiserver.auth.authn.token_cache import TokenResult
from apiserver.meta.vocabulary import AUTHENTICATED, UserInfo
from apiserver.webhooks.client_config import ClientConfig
from apiserver.webhooks.credentials import ClientCredentials, HostCredentials
from apiserver.webhooks.errors import CallFailed
from apiserver.webhooks.kubeconfig import KubeconfigCluster
from apiserver.webhooks.review_server import ATTEMPTS_MAX, ReviewServer
from apiserver.webhooks.token_reviews import REASON_LENGTH_MAX, TokenReviews

VERSION: Final = "authentication.k8s.io/v1"
OWN: Final = "https://own.example"


class Webhook:
    """The webhook. answers: one after the other, the last one again and again."""

    def __init__(self, *answers: Any) -> None:
        self._answers = answers
        self.reviews: list[Any] = []

    def caller_with(self, _: HostCredentials) -> Webhook:
        return self

    async def post(self, client: ClientConfig, body: bytes, timeout_s: int) -> Any:
        self.reviews.append(orjson.loads(body))
        answer = self._answers[min(len(self.reviews), len(self._answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


def reviews_by(webhook: Webhook) -> TokenReviews:
    async def at_once(_: float) -> None:
        pass

    cluster = KubeconfigCluster("https://tokens.example.com/review")
    server = ReviewServer(cluster, ClientCredentials(), webhook.caller_with, sleep=at_once)
    return TokenReviews(server, VERSION, (OWN,))


async def asked(webhook: Webhook, token: str = "token-1", audiences: tuple[str, ...] = (OWN,)) -> TokenResult:
    return await reviews_by(webhook).look_up(token, audiences)


def reviewed(**status: Any) -> dict[str, Any]:
    return {"kind": "TokenReview", "apiVersion": VERSION, "status": status}


ALICE: Final = {"username": "alice", "uid": "1", "groups": ["dev"], "extra": {"k": ["v"]}}
KNOWN: Final = Identity(UserInfo("alice", ("dev", AUTHENTICATED), "1", (("k", ("v",)),)), (OWN,))


async def test_what_is_asked() -> None:
    webhook = Webhook(reviewed(authenticated=True, user=ALICE))
    assert await asked(webhook) == TokenResult(KNOWN)
    assert webhook.reviews == [
        {
            "kind": "TokenReview",
            "apiVersion": VERSION,
            "metadata": {},
            "spec": {"token": "token-1", "audiences": [OWN]},
        }
    ]


# What the webhook says, for the audiences that are asked for, and those of the identity that comes of it.
AUDIENCES: Final[dict[str, tuple[list[str] | None, tuple[str, ...], tuple[str, ...] | None]]] = {
    "it says nothing of them": (None, (OWN, "x"), (OWN,)),
    "it says nothing, and others are asked for": (None, ("x",), None),
    "it names some": (["x", "y"], (OWN, "y", "x"), ("y", "x")),
    "it names others": (["z"], (OWN, "x"), None),
}


@pytest.mark.parametrize(("told", "wanted", "shared"), AUDIENCES.values(), ids=AUDIENCES)
async def test_for_whom_a_token_is(
    told: list[str] | None, wanted: tuple[str, ...], shared: tuple[str, ...] | None
) -> None:
    answer = await asked(Webhook(reviewed(authenticated=True, user=ALICE, audiences=told)), audiences=wanted)
    assert (None if answer.identity is None else answer.identity.audiences) == shared


# The reason for which a token is refused, and whether that is remembered.
REFUSALS: Final[dict[str, tuple[Any, str, bool]]] = {
    "nobody's": (reviewed(authenticated=False), "", True),
    "without a status": ({"kind": "TokenReview"}, "", True),
    "an error": (reviewed(authenticated=False, error="away"), "away", False),
    "a long error": (reviewed(error="x" * 9_999), "x" * REASON_LENGTH_MAX, False),
    "another kind": ({"kind": "Pod"}, "the response is not a TokenReview", False),
    "another version": (
        {"apiVersion": "authentication.k8s.io/v1beta1"},
        "the response is not a TokenReview",
        False,
    ),
    "no object": ([], "the response is not a TokenReview", False),
    "a status that is none": ({"status": 1}, "the response has no status", False),
    "half true": (reviewed(authenticated="true"), "status.authenticated is not", False),
    "nobody at all": (reviewed(authenticated=True), "the response has no status.user", False),
    "a user without a name": (reviewed(authenticated=True, user={"uid": "1"}), "username", False),
    "a name that is no text": (reviewed(authenticated=True, user={"username": 1}), "username", False),
    "groups that are no list": (
        reviewed(authenticated=True, user={"username": "a", "groups": "system:masters"}),
        "groups in the response is not a list of strings",
        False,
    ),
    "extra that is no object": (
        reviewed(authenticated=True, user={"username": "a", "extra": [1]}),
        "extra",
        False,
    ),
    "audiences that are no texts": (reviewed(authenticated=True, audiences=[1]), "audiences", False),
    "no answer": (CallFailed("away"), "away", False),
}


@pytest.mark.parametrize(("document", "why", "is_kept"), REFUSALS.values(), ids=REFUSALS)
async def test_tokens_that_are_refused(document: Any, why: str, is_kept: bool) -> None:
    answer = await asked(Webhook(document))
    assert (answer.identity, answer.is_kept) == (None, is_kept)
    assert answer.why.startswith(why) if why in ("", "x" * REASON_LENGTH_MAX) else why in answer.why


async def test_what_fails_for_a_moment_is_tried_again() -> None:
    away = CallFailed("away", is_transient=True)
    webhook = Webhook(away, away, reviewed(authenticated=True, user=ALICE))
    assert (await asked(webhook)).identity == KNOWN
    assert len(webhook.reviews) == 3
    webhook = Webhook(away)
    assert (await asked(webhook)).why == "away"
    assert len(webhook.reviews) == ATTEMPTS_MAX


async def test_a_webhook_that_quotes_the_token_tells_it_nobody(caplog: pytest.LogCaptureFixture) -> None:
    answer = await asked(Webhook(CallFailed("no such token: s3cret")), "s3cret")
    assert answer.why == "no such token: <token>"
    assert "s3cret" not in caplog.text


async def test_a_token_that_no_json_can_hold_is_nobodys() -> None:
    webhook = Webhook(reviewed(authenticated=True, user=ALICE))
    assert (await asked(webhook, "\udcff")).identity is None
    assert not webhook.reviews


async def test_an_outage_is_logged_once_and_without_tokens(caplog: pytest.LogCaptureFixture) -> None:
    failed = CallFailed("refused: token-1")
    reviews = reviews_by(Webhook(failed, failed, reviewed(authenticated=True, user=ALICE)))
    for _ in range(3):
        await reviews.look_up("token-1", (OWN,))
    first, last = caplog.messages
    assert first.endswith(" failed: refused: <token>")
    assert " responds again, " in last
