"""One WebSocket with watches: clients that do not read, or send too much, and how it is closed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
from aiohttp import WSCloseCode, WSMsgType, web

from apiserver.auth.authn.chain import Credentials, Identity
from apiserver.auth.authn.peer_certificates import PeerCertificates
from apiserver.console.watches.endpoint import PROTOCOL, SOCKETS_PER_USER_MAX, WatchesEndpoint
from apiserver.console.watches.multiplexer import (
    BEGINNING_MAX,
    MESSAGES_AT_ONCE,
    MESSAGES_PER_S,
    UNAUTHENTICATED_CODE,
    WatchAccess,
)
from apiserver.endpoints import console_paths
from apiserver.endpoints.connection import Server
from apiserver.endpoints.cors import AllowedOrigins
from apiserver.endpoints.request_info import parse_request
from apiserver.endpoints.responses import Stream, send_error
from apiserver.load.unread_answers import UnreadAnswers
from apiserver.meta.errors import ApiError, TooManyRequests, Unauthorized
from apiserver.meta.vocabulary import UserInfo
from apiserver.metrics.requests import RequestMetrics
from tests.support.eventually import WITHIN_S, eventually
from tests.unit.endpoints.connections import connected
from tests.unit.endpoints.handlers import calls

ALICE: Final = UserInfo("alice", ("dev", "system:authenticated"))
HANDSHAKE: Final = (
    f"GET {console_paths.WATCHES} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    f"Sec-WebSocket-Protocol: {PROTOCOL}\r\nAuthorization: Bearer one\r\n\r\n"
).encode()
PATH: Final = "/api/v1/pods?watch=true"
# As many as fit into the kernel's buffers are not enough.
EVENT: Final = b'{"padding":"%b"}\n' % (b"x" * 60_000)


class Site:
    """A server whose watches have the events that a test writes.

    users: by token. watches: those that have begun, in their order. requests: their heads.
    authenticated: how often somebody was. begins: while it is not set, requests for watches wait.
    ends: when the watches end.
    """

    def __init__(self, *, recheck_interval_s: float = 0.0, stalled_s: float = 10.0) -> None:
        loop = asyncio.get_running_loop()
        self.users: dict[str, UserInfo | ApiError] = {"one": ALICE}
        self.watches: list[Stream] = []
        self.requests: list[web.BaseRequest] = []
        self.open_ones = self.authenticated = 0
        self.begins, self.ends = asyncio.Event(), asyncio.Event()
        self.begins.set()
        access = WatchAccess(
            self._authenticate, PeerCertificates(b"", b"", ""), AllowedOrigins(), recheck_interval_s
        )
        self._endpoint = WatchesEndpoint(access, RequestMetrics())
        self.server = Server(self._respond, unread_answers=UnreadAnswers(loop, stalled_s=stalled_s))

    async def _authenticate(self, credentials: Credentials, path: str) -> UserInfo | Identity:
        self.authenticated += 1
        user = self.users.get(credentials.authorization.removeprefix("Bearer "), Unauthorized())
        if isinstance(user, ApiError):
            raise user
        return user

    async def next_recheck(self) -> None:
        """Wait until the client of a WebSocket has been authenticated twice more, so once completely."""
        before = self.authenticated
        await eventually(lambda: self.authenticated >= before + 2)

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        info, query = parse_request("GET", request.raw_path, follows_item_watch=True)
        call = calls.made(request, info, query)
        credentials = Credentials(call.connection.certificate, request.headers.get("Authorization", ""))  # type: ignore[arg-type]
        call.set_user(await self._authenticate(credentials, info.path))  # type: ignore[arg-type]
        call.connection.asker = call.user
        if info.is_resource:
            await self._watch(call)
        else:
            try:
                await self._endpoint.respond(call)
            except ApiError as error:
                await send_error(call, error)
        return calls.sent(call)

    async def _watch(self, call: Any) -> None:
        self.requests.append(call.request)
        await self.begins.wait()
        stream = Stream(call, "application/json")
        self.watches.append(stream)
        self.open_ones += 1
        try:
            await self.ends.wait()
            stream.finish()
        finally:
            self.open_ones -= 1


class Client:
    """A client, which sees each frame."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def open(self, handshake: bytes = HANDSHAKE) -> int:
        """Returns the status."""
        self.writer.write(handshake)
        return int((await self.reader.readuntil(b"\r\n\r\n")).split()[1])

    def send(self, *messages: object) -> None:
        for each in messages:
            payload = json.dumps(each).encode()
            assert len(payload) < 126
            self.writer.write(b"\x81%c\0\0\0\0%b" % (0x80 | len(payload), payload))

    def subscribe(self, *numbers: int) -> None:
        self.send(*({"subscribe": {"id": number, "path": PATH}} for number in numbers))

    async def frame(self) -> tuple[int, bytes]:
        opcode, size = await self.reader.readexactly(2)
        if size > 125:
            size = int.from_bytes(await self.reader.readexactly(2 if size == 126 else 8))
        return opcode & 0xF, await self.reader.readexactly(size)

    async def receive(self) -> Any:
        opcode, payload = await self.frame()
        assert opcode == WSMsgType.TEXT, payload
        return json.loads(payload)

    async def begin(self, *numbers: int) -> None:
        self.subscribe(*numbers)
        for number in numbers:
            assert await self.receive() == {"id": number, "begun": {"warnings": []}}

    async def close_code(self) -> int:
        opcode, payload = await self.frame()
        assert opcode == WSMsgType.CLOSE, payload
        self.writer.write(b"\x88\x80\0\0\0\0")
        return int.from_bytes(payload[:2])


@asynccontextmanager
async def watching(site: Site) -> AsyncIterator[Client]:
    async with connected(site.server) as streams:
        client = Client(*streams)
        assert await client.open() == 101
        yield client


# ---- clients that do not read


async def test_a_client_that_does_not_read_pauses_its_watches_and_is_dropped() -> None:
    site = Site(stalled_s=0.3)
    async with watching(site) as client:
        await client.begin(1, 2, 3)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        written = [0, 0, 0]
        busy, idle = site.watches[:2], site.watches[2]
        while any(stream.can_write for stream in busy):
            for number, stream in enumerate(busy):
                if stream.can_write:
                    stream.write(EVENT)
                    written[number] += 1
            await asyncio.sleep(0)
        # What the kernel holds, and then one event of each.
        assert abs(written[0] - written[1]) <= 1
        assert idle.can_write
        await eventually(lambda: not site.open_ones)
        assert site.server.unread_answers.held_bytes == 0


async def test_a_client_that_reads_again_gets_everything() -> None:
    site = Site()
    async with watching(site) as client:
        await client.begin(1, 2)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        written = 0
        while site.watches[0].can_write:
            site.watches[0].write(EVENT)
            written += 1
            await asyncio.sleep(0)
        client.subscribe(3)  # The answer would wait, too, and so does the message.
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        expected = {"id": 1, "event": json.loads(EVENT)}
        for _ in range(written):
            assert await client.receive() == expected
        assert await client.receive() == {"id": 3, "begun": {"warnings": []}}
        await asyncio.wait_for(site.watches[0].drain(), WITHIN_S)
        site.watches[1].write(b"2\n")
        assert await client.receive() == {"id": 2, "event": 2}


# ---- clients that send too much


async def test_messages_beyond_the_rate_wait() -> None:
    site, beyond = Site(), 6
    async with watching(site) as client:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for _ in range(MESSAGES_AT_ONCE + beyond):
            client.send({"unsubscribe": {"id": 1}})
        await client.begin(1)
        assert loop.time() - began >= beyond / MESSAGES_PER_S * 0.9


async def test_so_many_subscriptions_begin_at_once() -> None:
    """And the others in their order, unless the client wants them no more."""
    site, numbers = Site(), range(1, 3 * BEGINNING_MAX + 1)
    async with watching(site) as client:
        site.begins.clear()
        client.subscribe(*numbers)
        for number in (1, numbers[-2]):
            client.send({"unsubscribe": {"id": number}})
            assert await client.receive() == {"id": number, "end": {"status": None}}
        await eventually(lambda: len(site.requests) == BEGINNING_MAX + 1)
        site.begins.set()
        begun = [number for number in numbers if number not in (1, numbers[-2])]
        assert await client.receive() == {"id": begun[0], "begun": {"warnings": []}}
        messages = [await client.receive() for _ in begun[1:]]
        assert [each["id"] for each in messages if "begun" in each] == begun[1:]


async def test_subscriptions_that_wait_to_begin_end_with_the_others() -> None:
    site, numbers = Site(recheck_interval_s=0.05), range(1, 3 * BEGINNING_MAX + 1)
    async with watching(site) as client:
        site.begins.clear()
        client.subscribe(*numbers)
        await eventually(lambda: len(site.requests) == BEGINNING_MAX)
        del site.users["one"]
        ends = [await client.receive() for _ in numbers]
        assert sorted(each["id"] for each in ends) == [*numbers]
        assert {each["end"]["status"]["code"] for each in ends} == {401}
        assert await client.close_code() == UNAUTHENTICATED_CODE


async def test_a_user_has_so_many_websockets_and_no_more() -> None:
    site = Site()
    async with connected(site.server) as streams:
        address = streams[1].get_extra_info("peername")
        clients = [Client(*await asyncio.open_connection(*address)) for _ in range(SOCKETS_PER_USER_MAX)]
        assert {await client.open() for client in clients} == {101}
        last = Client(*streams)
        assert await last.open() == 429
        clients[0].writer.close()
        # The one that was refused has a connection, too.
        await eventually(lambda: len(site.server.connections) == SOCKETS_PER_USER_MAX)
        again = Client(*await asyncio.open_connection(*address))
        assert await again.open() == 101
        for client in (*clients, again):
            client.writer.close()


# ---- the requests of subscriptions


async def test_subscriptions_have_the_headers_of_the_client_but_not_those_of_the_connection() -> None:
    site = Site()
    more = (
        b"User-Agent: tab\r\nX-Forwarded-For: 10.0.0.1\r\nX-Remote-User: carol\r\nCookie: a=b\r\n"
        b"Accept: text/html\r\nAccept-Encoding: gzip\r\nAudit-Id: a\r\nOrigin: https://x\r\n"
        b"Sec-WebSocket-Extensions: permessage-deflate\r\nContent-Length: 0\r\n\r\n"
    )
    async with connected(site.server) as streams:
        client = Client(*streams)
        assert await client.open(HANDSHAKE[:-2] + more) == 101
        await client.begin(1)
        site.users["two"] = ALICE
        client.send({"token": "two"})
        await client.begin(2)
    assert [dict(request.headers) for request in site.requests] == [
        {
            "Host": "x",
            "User-Agent": "tab",
            "X-Forwarded-For": "10.0.0.1",
            "X-Remote-User": "carol",
            "Accept": "application/json",
            "Authorization": f"Bearer {token}",
            "Connection": "close",
        }
        for token in ("one", "two")
    ]
    assert {request.remote for request in site.requests} == {"127.0.0.1"}


# ---- how it is closed


async def test_when_the_server_stops() -> None:
    site = Site()
    async with watching(site) as client:
        await client.begin(1)
        draining = asyncio.create_task(site.server.drain(WITHIN_S))
        site.ends.set()  # as `WatchStreams.end_all` does
        assert await client.receive() == {"id": 1, "end": {"status": None}}
        assert await client.close_code() == WSCloseCode.GOING_AWAY
        await draining


RECHECKS: Final[dict[str, UserInfo | ApiError]] = {
    "not valid any more": Unauthorized(),
    "anonymous": UserInfo("system:anonymous", ("system:unauthenticated",)),
}


@pytest.mark.parametrize("found", RECHECKS.values(), ids=RECHECKS)
async def test_credentials_that_are(found: UserInfo | ApiError) -> None:
    site = Site(recheck_interval_s=0.02)
    async with watching(site) as client:
        await client.begin(1, 2)
        site.users["one"] = found
        for number in (1, 2):
            message = await client.receive()
            assert (message["id"], message["end"]["status"]["code"]) == (number, 401)
        assert await client.close_code() == UNAUTHENTICATED_CODE
        assert not site.open_ones


async def test_credentials_that_cannot_be_checked_now_are_checked_later() -> None:
    site = Site(recheck_interval_s=0.02)
    async with watching(site) as client:
        await client.begin(1)
        site.users["one"] = TooManyRequests()
        await site.next_recheck()
        site.watches[0].write(b"1\n")
        assert await client.receive() == {"id": 1, "event": 1}
        site.users["one"] = Unauthorized()
        assert (await client.receive())["end"]["status"]["code"] == 401
        assert await client.close_code() == UNAUTHENTICATED_CODE


OTHERS: Final = {
    "another user": UserInfo("bob", ALICE.groups),
    "in other groups": UserInfo("alice", ("system:authenticated",)),
    "with the name of an older one": ALICE._replace(uid="2"),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
async def test_subscriptions_do_not_outlast_the_identity_that_they_began_with(other: UserInfo) -> None:
    """Otherwise another token would prolong what it does not allow."""
    site = Site(recheck_interval_s=0.02)
    async with watching(site) as client:
        await client.begin(1)
        site.users["two"] = other
        client.send({"token": "two"})
        await client.begin(2)
        assert await client.receive() == {"id": 1, "end": {"status": None}}
        del site.users["one"]
        site.watches[1].write(b"1\n")
        assert await client.receive() == {"id": 2, "event": 1}
        await site.next_recheck()
        assert site.open_ones == 1


async def test_a_client_that_is_gone_leaves_nothing() -> None:
    site = Site()
    async with watching(site) as client:
        await client.begin(1, 2)
        client.writer.transport.abort()
        await eventually(lambda: not (site.open_ones or site.server.connections))
