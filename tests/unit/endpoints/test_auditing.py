"""What of a connection's requests is kept for the record of the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final

import orjson
from aiohttp import web

from apiserver.audit.events import Event
from apiserver.audit.policy import Level, Policy, RequestConfig
from apiserver.brand import Brand
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.auditing import CALLER_LENGTH_MAX, Auditor
from apiserver.endpoints.connection import Connection, Server
from apiserver.endpoints.request_info import parse_query, parse_target
from apiserver.metrics.audit import AuditMetrics
from apiserver.registry.offload import Offload
from apiserver.vocabulary import UserInfo
from tests.unit.endpoints.connections import connected

ALICE: Final = UserInfo("alice")
OFFLOAD: Final = Offload()


class Recorded:
    """A server that records all requests."""

    def __init__(self) -> None:
        policy = Policy((), RequestConfig(Level.METADATA))
        auditor = Auditor(policy, self, Brand(), AuditMetrics(), lambda: 0.0)
        self._handle = auditor.record(auditor.begin(self._answer))
        self.events: list[dict[str, Any]] = []
        self.connections: list[Connection] = []

    def process(self, event: Event) -> Awaitable[bool] | None:
        self.events.append(orjson.loads(b"{%b}" % b"".join(event.pieces())))
        return None

    async def _answer(self, call: ApiCall) -> None:
        call.status = 200

    async def _take(self, request: web.BaseRequest) -> web.StreamResponse:
        info, now = parse_target("GET", request.path, True), asyncio.get_running_loop().time()
        call = ApiCall(request, info, parse_query(""), "audit", now, OFFLOAD, user=ALICE)
        self.connections.append(call.connection)
        await self._handle(call)
        return web.Response()

    async def ask(self, *requests: dict[str, str]) -> list[tuple[str, list[str]]]:
        """Returns what was recorded of the clients of requests on one connection."""
        async with connected(Server(self._take)) as (reader, writer):
            for headers in requests:
                lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
                writer.write(f"GET /version HTTP/1.1\r\nHost: a\r\n{lines}\r\n".encode())
                await reader.readuntil(b"\r\n\r\n")
        return [
            (each["userAgent"], each["sourceIPs"])
            for each in self.events
            if each["stage"] == "RequestReceived"
        ]


async def test_of_each_request_is_recorded_from_whom_it_comes() -> None:
    assert await Recorded().ask(
        {"User-Agent": "a"},
        {"User-Agent": "a"},
        {"User-Agent": "b"},
        {"User-Agent": "b", "X-Forwarded-For": "10.0.0.1"},
        {"User-Agent": "b", "X-Real-Ip": "10.0.0.2"},
        {"User-Agent": "b"},
    ) == [
        ("a", ["127.0.0.1"]),
        ("a", ["127.0.0.1"]),
        ("b", ["127.0.0.1"]),
        ("b", ["10.0.0.1", "127.0.0.1"]),
        ("b", ["10.0.0.2", "127.0.0.1"]),
        ("b", ["127.0.0.1"]),
    ]


async def test_a_connection_that_idles_does_not_keep_the_credentials_of_its_last_request() -> None:
    server = Recorded()
    await server.ask({"User-Agent": "a", "Authorization": "Bearer s3cr3t", "Cookie": "s3cr3t"})
    assert "s3cr3t" not in repr(server.connections[0].audited)


async def test_what_is_long_is_not_kept() -> None:
    server = Recorded()
    await server.ask({"User-Agent": "a", "X-Forwarded-For": "10.0.0.1," + "," * CALLER_LENGTH_MAX})
    assert server.connections[0].audited is None
