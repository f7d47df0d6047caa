"""Watches end when their users may not watch any more what they watch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import pytest
from aiohttp import web

from apiserver.auth.authz.attributes import Attributes, Decision, PendingDecision, Verdict
from apiserver.auth.authz.chain import AuthorizationChain
from apiserver.auth.authz.configuration import WebhookSettings
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.authorization_recheck import AuthorizationRecheck
from apiserver.endpoints.connection import Server
from apiserver.endpoints.middleware import authorizer_attributes
from apiserver.endpoints.representation.json_forms import JsonEncoder
from apiserver.endpoints.request_info import parse_query, parse_target
from apiserver.endpoints.watch_stream import ASKING_MAX, WatchStream, WatchStreams
from apiserver.load.offload import Offload
from apiserver.load.user_shares import SharedPool, holder_of
from apiserver.meta.brand import Brand
from apiserver.meta.errors import TooManyRequests
from apiserver.meta.vocabulary import UserInfo
from apiserver.metrics.authorization import AuthorizationMetrics
from apiserver.metrics.requests import RequestMetrics
from apiserver.registry.stored_object import StoredObject
from apiserver.storage.watch_cache import Watcher
from apiserver.webhooks.authorizer import WAITING_MAX, AuthorizationWebhook, WebhookAuthorizer
from apiserver.webhooks.client_config import ClientConfig
from apiserver.webhooks.credentials import ClientCredentials
from apiserver.webhooks.kubeconfig import KubeconfigCluster
from apiserver.webhooks.review_server import ReviewServer
from tests.support.eventually import WITHIN_S, eventually
from tests.support.in_process import resource
from tests.unit.endpoints.connections import connected
from tests.unit.endpoints.handlers import calls

CONFIG_MAPS: Final = resource("configmaps", "")
OFFLOAD: Final = Offload()


class Watches:
    """A server of watches, and who may open them: users by name, each in some namespaces.

    begins: cleared to hold watches between their authorization and their beginning.
    """

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.streams = WatchStreams(RequestMetrics(), self.loop.time)
        self.allowed = {("alice", "a"), ("alice", "b"), ("bob", "a")}
        self.chain = AuthorizationChain([self._authorize])
        self.asked = 0
        self.begins = asyncio.Event()
        self.begins.set()
        self.arrived = 0
        self.server = Server(self._watch)

    def _authorize(self, attributes: Attributes) -> Verdict:
        self.asked += 1
        allowed = (attributes.user.name, attributes.namespace) in self.allowed
        return Verdict(Decision.ALLOW if allowed else Decision.NO_OPINION, "")

    def is_authorized(self, call: ApiCall) -> bool:
        verdict = self.chain(authorizer_attributes(call))
        return isinstance(verdict, Verdict) and verdict.decision is Decision.ALLOW

    async def _watch(self, request: web.BaseRequest) -> web.StreamResponse:
        info, user = parse_target("GET", request.path, True), UserInfo(request.headers["User"])
        call = calls.made(
            request, info, parse_query("watch=1"), received_at=self.loop.time(), offload=OFFLOAD
        )
        call.user, call.resource = user, CONFIG_MAPS
        self.arrived += 1
        await self.begins.wait()
        encoder = JsonEncoder(CONFIG_MAPS, Brand())
        stream = WatchStream(call, encoder, CONFIG_MAPS, self.streams, lifetime_s=10 * WITHIN_S)
        watcher = Watcher[StoredObject](after=0, predicate=None, on_ready=stream.on_event)
        with self.streams.open(stream):
            await stream.run(watcher, [], initial_bookmark=None, progress=lambda: 0, sends_bookmarks=False)
        return calls.sent(call)

    @asynccontextmanager
    async def watching(self, user: str, namespace: str) -> AsyncIterator[asyncio.StreamReader]:
        async with connected(self.server) as (reader, writer):
            path = f"/api/v1/namespaces/{namespace}/configmaps"
            writer.write(f"GET {path}?watch=1 HTTP/1.0\r\nUser: {user}\r\n\r\n".encode())
            yield reader


@pytest.fixture
async def watches() -> Watches:
    return Watches()


async def test_what_may_not_be_watched_any_more_ends_and_nothing_else(watches: Watches) -> None:
    async with AsyncExitStack() as stack:
        readers = {
            of: await stack.enter_async_context(watches.watching(*of)) for of in sorted(watches.allowed)
        }
        for reader in readers.values():
            await reader.readuntil(b"\r\n\r\n")
        assert await watches.streams.end_unauthorized(watches.is_authorized) == 0
        watches.allowed.remove(("alice", "b"))
        assert await watches.streams.end_unauthorized(watches.is_authorized) == 1
        assert await readers["alice", "b"].read() == b""
        assert await watches.streams.end_unauthorized(lambda call: call.user != UserInfo("alice")) == 1
        assert await readers["alice", "a"].read() == b""
        assert watches.streams.open_count == 1
        watches.streams.end_all()


async def test_a_watch_that_was_authorized_before_and_begins_later_ends(watches: Watches) -> None:
    watches.begins.clear()
    async with watches.watching("alice", "a") as reader:
        await eventually(lambda: watches.arrived == 1)
        watches.allowed.clear()
        assert await watches.streams.end_unauthorized(watches.is_authorized) == 0
        watches.begins.set()
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        assert await reader.read() == b""


async def test_a_watch_that_is_authorized_later_is_not_asked_again(watches: Watches) -> None:
    await watches.streams.end_unauthorized(lambda call: False)
    async with watches.watching("alice", "a") as reader:
        await reader.readuntil(b"\r\n\r\n")
        assert watches.streams.open_count == 1
        watches.streams.end_all()


async def test_thousands_of_watches_are_asked_in_turns(watches: Watches) -> None:
    """Others have their turn meanwhile, however long each answer takes."""
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def slowly(call: ApiCall) -> bool:
        ends_at = time.monotonic() + 0.003
        while time.monotonic() < ends_at:
            pass
        return True

    async with AsyncExitStack() as stack:
        for _ in range(5):
            reader = await stack.enter_async_context(watches.watching("alice", "a"))
            await reader.readuntil(b"\r\n\r\n")
        counting = asyncio.create_task(count_turns())
        await watches.streams.end_unauthorized(slowly)
        counting.cancel()
        assert turns >= 5
        watches.streams.end_all()


async def test_watches_are_asked_about_again_and_again(watches: Watches) -> None:
    state = looked = 0

    def look() -> int:
        nonlocal looked
        looked += 1
        return state

    recheck = AuthorizationRecheck(watches.chain, watches.streams, look, 0.01)
    async with watches.watching("alice", "a") as ending, watches.watching("bob", "a") as going:
        for reader in (ending, going):
            await reader.readuntil(b"\r\n\r\n")
        running = asyncio.create_task(recheck.run())
        await asyncio.sleep(0)
        asked = watches.asked
        watches.allowed.remove(("alice", "a"))
        seen = looked
        await eventually(lambda: looked >= seen + 3)
        assert watches.asked == asked, "nobody is asked while nothing has changed"
        state = 1
        assert await asyncio.wait_for(ending.read(), WITHIN_S) == b""
        assert watches.streams.unauthorized_total == 1
        await eventually(lambda: watches.streams.open_count == 1)
        running.cancel()
        watches.streams.end_all()


LATER: Final = {
    "may not go on": (Verdict(Decision.NO_OPINION), 1),
    "is denied": (Verdict(Decision.DENY), 1),
    "cannot be decided, and the failure policy is Deny": (Verdict(Decision.DENY, "", "no answer"), 1),
    "cannot be decided, and the failure policy is NoOpinion": (
        Verdict(Decision.NO_OPINION, "", "no answer"),
        1,
    ),
    "cannot be decided by one authorizer, and another allows it": (
        Verdict(Decision.ALLOW, "", "no answer"),
        0,
    ),
    "goes on": (Verdict(Decision.ALLOW), 0),
}


@pytest.mark.parametrize(("verdict", "ended"), LATER.values(), ids=LATER)
async def test_authorizers_that_have_to_wait_are_asked_many_at_a_time(
    watches: Watches, verdict: Verdict, ended: int
) -> None:
    may_answer = asyncio.Event()
    asked = 0

    async def decide(deadline: float) -> Verdict:
        nonlocal asked
        asked += 1
        await may_answer.wait()
        return verdict

    async with AsyncExitStack() as stack:
        for _ in range(3):
            reader = await stack.enter_async_context(watches.watching("alice", "a"))
            await reader.readuntil(b"\r\n\r\n")
        chain = AuthorizationChain([lambda _: PendingDecision(decide)])
        recheck = AuthorizationRecheck(chain, watches.streams, object, 0.01)
        running = asyncio.create_task(recheck.run())
        await eventually(lambda: asked == 3)
        may_answer.set()
        await eventually(lambda: asked > 3 or watches.streams.unauthorized_total == 3)
        assert watches.streams.unauthorized_total == 3 * ended
        running.cancel()
        watches.streams.end_all()


async def test_a_watch_ends_about_which_nobody_can_be_asked(
    watches: Watches, caplog: pytest.LogCaptureFixture
) -> None:
    """So many questions wait for a webhook that it gets no more."""

    async def refuse(deadline: float) -> Verdict:
        raise TooManyRequests

    async with watches.watching("alice", "a") as reader:
        await reader.readuntil(b"\r\n\r\n")
        chain = AuthorizationChain([lambda _: PendingDecision(refuse), watches.chain])
        recheck = AuthorizationRecheck(chain, watches.streams, object, 0.01)
        running = asyncio.create_task(recheck.run())
        assert await asyncio.wait_for(reader.read(), WITHIN_S) == b""
        running.cancel()
    assert "Too many requests" in caplog.text
    assert "Traceback" not in caplog.text


class HangingWebhook:
    """A webhook that takes questions, and never answers."""

    def __init__(self) -> None:
        self.asked = 0

    async def post(self, client: ClientConfig, body: bytes, timeout_s: int) -> Any:
        self.asked += 1
        await asyncio.Event().wait()


@pytest.mark.parametrize("policy", ["Deny", "NoOpinion"])
async def test_a_webhook_that_hangs_does_not_keep_up_watches(policy: str) -> None:
    """Its failure policy decides: with Deny nobody is asked after it, with NoOpinion others may allow."""
    watches, webhook = Watches(), HangingWebhook()
    settings = WebhookSettings("/none", version="v1", fails_closed=policy == "Deny")
    server = ReviewServer(KubeconfigCluster("https://a/x"), ClientCredentials(), lambda shown: webhook)
    places = SharedPool(WAITING_MAX)
    authorizer = WebhookAuthorizer(
        AuthorizationWebhook("w", settings, server, "authorization.k8s.io"),
        AuthorizationMetrics("s"),
        places,
        holder_of,
    )
    allows_bob = watches.chain
    watches.allowed = {("bob", "a")}
    chain = AuthorizationChain([authorizer, allows_bob])
    recheck = AuthorizationRecheck(chain, watches.streams, object, 0.01, answered_within_s=0.05)
    async with AsyncExitStack() as stack:
        alices = [
            await stack.enter_async_context(watches.watching("alice", f"n{number}"))
            for number in range(ASKING_MAX + 1)
        ]
        bobs = await stack.enter_async_context(watches.watching("bob", "a"))
        for reader in (*alices, bobs):
            await reader.readuntil(b"\r\n\r\n")
        running = asyncio.create_task(recheck.run())
        for reader in alices:
            assert await asyncio.wait_for(reader.read(), WITHIN_S) == b""
        if policy == "Deny":
            assert await asyncio.wait_for(bobs.read(), WITHIN_S) == b""
        else:
            asked = webhook.asked
            await eventually(lambda: webhook.asked > asked + 1)
            assert watches.streams.open_count == 1
        running.cancel()
        watches.streams.end_all()
