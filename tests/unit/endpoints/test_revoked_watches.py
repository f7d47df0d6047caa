"""Watches end when their users may not watch any more what they watch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from aiohttp import web

from apiserver.authz.attributes import Attributes, AuthorizationChain, Decision, Verdict
from apiserver.brand import Brand
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.connection import Server
from apiserver.endpoints.middleware import authorizer_attributes
from apiserver.endpoints.representation.json_forms import JsonEncoder
from apiserver.endpoints.request_info import parse_query, parse_target
from apiserver.endpoints.responses import sent
from apiserver.endpoints.watch_stream import WatchStream, WatchStreams
from apiserver.metrics.requests import RequestMetrics
from apiserver.registry.offload import Offload
from apiserver.registry.stored_object import StoredObject
from apiserver.vocabulary import UserInfo
from storage.watch_cache import Watcher
from tests.support.eventually import WITHIN_S, eventually
from tests.support.in_process import resource
from tests.unit.endpoints.connections import connected

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
        self.begins = asyncio.Event()
        self.begins.set()
        self.arrived = 0
        self.server = Server(self._watch)

    def _authorize(self, attributes: Attributes) -> Verdict:
        allowed = (attributes.user.name, attributes.namespace) in self.allowed
        return Verdict(Decision.ALLOW if allowed else Decision.NO_OPINION, "")

    def is_authorized(self, call: ApiCall) -> bool:
        return self.chain(authorizer_attributes(call)).decision is Decision.ALLOW

    async def _watch(self, request: web.BaseRequest) -> web.StreamResponse:
        info, user = parse_target("GET", request.path, True), UserInfo(request.headers["User"])
        call = ApiCall(
            request,
            info,
            parse_query("watch=1"),
            "audit",
            self.loop.time(),
            OFFLOAD,
            user=user,
            resource=CONFIG_MAPS,
        )
        self.arrived += 1
        await self.begins.wait()
        encoder = JsonEncoder(CONFIG_MAPS, Brand())
        stream = WatchStream(call, encoder, CONFIG_MAPS, self.streams, lifetime_s=10 * WITHIN_S)
        watcher = Watcher[StoredObject](after=0, predicate=None, on_ready=stream.on_event)
        with self.streams.open(stream):
            await stream.run(watcher, [], initial_bookmark=None, progress=lambda: 0, sends_bookmarks=False)
        return sent(call)

    @asynccontextmanager
    async def watching(self, user: str, namespace: str) -> AsyncIterator[asyncio.StreamReader]:
        async with connected(self.server) as (reader, writer):
            path = f"/api/v1/namespaces/{namespace}/configmaps"
            writer.write(f"GET {path}?watch=1 HTTP/1.0\r\nUser: {user}\r\n\r\n".encode())
            yield reader


async def test_what_may_not_be_watched_any_more_ends_and_nothing_else() -> None:
    watches = Watches()
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
        assert watches.streams.metrics.watches == 1
        watches.streams.end_all()


async def test_a_watch_that_was_authorized_before_and_begins_later_ends() -> None:
    watches = Watches()
    watches.begins.clear()
    async with watches.watching("alice", "a") as reader:
        await eventually(lambda: watches.arrived == 1)
        watches.allowed.clear()
        assert await watches.streams.end_unauthorized(watches.is_authorized) == 0
        watches.begins.set()
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        assert await reader.read() == b""


async def test_a_watch_that_is_authorized_later_is_not_asked_again() -> None:
    watches = Watches()
    await watches.streams.end_unauthorized(lambda call: False)
    async with watches.watching("alice", "a") as reader:
        await reader.readuntil(b"\r\n\r\n")
        assert watches.streams.metrics.watches == 1
        watches.streams.end_all()


async def test_thousands_of_watches_are_asked_in_turns() -> None:
    """Others have their turn meanwhile, however long each answer takes."""
    watches = Watches()
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
