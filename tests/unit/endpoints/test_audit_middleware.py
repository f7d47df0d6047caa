"""What is recorded of requests, and what of a connection's is kept for the record of the next one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import Any, Final

import orjson
import pytest
from aiohttp import web

from apiserver.audit.events import Render, pieces_of
from apiserver.audit.policy import AuditLevel, Policy, RequestConfig
from apiserver.audit.request_audit import RequestAudit
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.audit_middleware import CALLER_LENGTH_MAX, Auditor
from apiserver.endpoints.connection import Connection, Server
from apiserver.endpoints.middleware import errors_to_status
from apiserver.endpoints.request_info import parse_target
from apiserver.load.offload import Offload
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import UserInfo
from apiserver.metrics.audit import AuditMetrics
from apiserver.metrics.requests import RequestMetrics
from tests.unit.endpoints.connections import connected
from tests.unit.endpoints.handlers import calls

ALICE: Final = UserInfo("alice")
OFFLOAD: Final = Offload()


class Recorded:
    """A server that records all requests. reason: why they are allowed. request_object: what they send."""

    keeps_order: Final = False

    def __init__(self, *, reason: str = "", request_object: bytes | None = None) -> None:
        policy = Policy(
            (), RequestConfig(AuditLevel.METADATA if request_object is None else AuditLevel.REQUEST)
        )
        self._reason, self._request_object = reason, request_object
        self.audits: list[RequestAudit] = []
        self.metrics = AuditMetrics()
        auditor = Auditor(policy, self, Brand(), self.metrics, time.time_ns)
        self._handle = auditor.record(RequestMetrics())(errors_to_status()(auditor.begin(self._answer)))
        self.renders: list[tuple[Render, int]] = []
        self.connections: list[Connection] = []
        self.may_go_on: bool | None = None

    @property
    def events(self) -> list[dict[str, Any]]:
        """All events, which are made now."""
        found = []
        for render, size in self.renders:
            fields = b"".join(pieces_of(render()))
            assert len(fields) <= size
            found.append(orjson.loads(b"{%b}" % fields))
        return found

    def process(self, render: Render, size: int) -> Awaitable[bool] | None:
        self.renders.append((render, size))
        if self.may_go_on is None:
            return None
        told: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        told.set_result(self.may_go_on)
        return told

    async def _answer(self, call: ApiCall) -> None:
        audit = call.audit
        assert audit is not None
        self.audits.append(audit)
        if self._reason:
            audit.decision = True, self._reason
        if self._request_object is not None:
            audit.impersonate(UserInfo("bob"))
            audit.refer_to({"name": "told-later"})
            audit.annotate("told", "later")
            audit.record_request(self._request_object)
        call.status = 200

    async def _take(self, request: web.BaseRequest) -> web.StreamResponse:
        info, now = parse_target("GET", request.path, False), asyncio.get_running_loop().time()
        call = calls.made(request, info, received_at=now, offload=OFFLOAD)
        call.set_user(ALICE)
        self.connections.append(call.connection)
        await self._handle(call)
        return calls.sent(call) if call.body_bytes else web.Response()

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


async def test_an_event_tells_what_was_known_at_its_stage_though_it_is_made_later() -> None:
    server = Recorded(request_object=b"{}")
    await server.ask({"User-Agent": "a"})
    received, completed = server.events
    assert not {"impersonatedUser", "annotations", "responseStatus", "requestObject"} & received.keys()
    assert completed["impersonatedUser"] == {"username": "bob"}
    assert completed["annotations"] == {"told": "later"}
    assert completed["requestObject"] == {}
    assert server.metrics.events == 2


@pytest.mark.parametrize("reason", ["because", "because " * 1_000], ids=["as usual", "too long to be kept"])
async def test_the_reason_of_a_decision_counts_as_what_waits_to_be_written(reason: str) -> None:
    server = Recorded(reason=reason)
    await server.ask({"User-Agent": "a"})
    _, completed = server.events
    assert completed["annotations"]["authorization.k8s.io/reason"] == reason


async def test_a_first_event_that_waits_to_be_written_does_not_keep_the_object_of_its_request() -> None:
    """Its size, which bounds how many may wait, is that of the event."""
    server = Recorded(request_object=b"{}", reason="because " * 1_000)
    await server.ask({"User-Agent": "a"})
    (audit,) = server.audits
    assert (audit.details, audit.decision) == (None, None)
    assert [each["stage"] for each in server.events] == ["RequestReceived", "ResponseComplete"]


async def test_a_request_that_must_be_recorded_and_cannot_be_has_no_other_event() -> None:
    """As in Kubernetes: nothing is known of what became of it, and it has not been answered by anybody."""
    server = Recorded()
    server.may_go_on = False
    await server.ask({"User-Agent": "a"})
    assert [each["stage"] for each in server.events] == ["RequestReceived"]
    assert (server.metrics.events, server.metrics.rejected) == (1, 1)


async def test_a_connection_that_idles_does_not_keep_the_credentials_of_its_last_request() -> None:
    server = Recorded()
    await server.ask({"User-Agent": "a", "Authorization": "Bearer s3cr3t", "Cookie": "s3cr3t"})
    assert "s3cr3t" not in repr(server.connections[0].audited)


async def test_what_is_long_is_not_kept() -> None:
    server = Recorded()
    await server.ask({"User-Agent": "a", "X-Forwarded-For": "10.0.0.1," + "," * CALLER_LENGTH_MAX})
    assert server.connections[0].audited is None


class Blocking:
    """A backend in blocking mode that writes nothing before it is told to."""

    def __init__(self, *, keeps_order: bool) -> None:
        self.keeps_order = keeps_order
        self.waiting: list[asyncio.Future[bool]] = []

    def process(self, render: Render, size: int) -> Awaitable[bool] | None:
        self.waiting.append(asyncio.get_running_loop().create_future())
        return self.waiting[-1]


PODS: Final = "/api/v1/namespaces/a/pods"
# Of requests with a backend that keeps its order, and with another: do they wait for their first event?
FIRST_WAITS: Final = {
    "a read": ("GET", f"{PODS}/p", False, True),
    "a list": ("GET", PODS, False, True),
    "a write": ("POST", PODS, True, True),
    "a deletion": ("DELETE", f"{PODS}/p", True, True),
    "a shell": ("GET", f"{PODS}/p/exec", True, True),
}


@pytest.mark.parametrize("keeps_order", [True, False])
@pytest.mark.parametrize(("method", "path", "ordered", "unordered"), FIRST_WAITS.values(), ids=FIRST_WAITS)
async def test_what_changes_nothing_waits_for_both_events_with_the_last(
    method: str, path: str, ordered: bool, unordered: bool, keeps_order: bool
) -> None:
    backend, begun = Blocking(keeps_order=keeps_order), asyncio.Event()
    policy = Policy((), RequestConfig(AuditLevel.METADATA))
    auditor = Auditor(policy, backend, Brand(), AuditMetrics(), time.time_ns)

    async def handle(call: ApiCall) -> None:
        begun.set()
        call.status = 200

    call = calls.call(method, path)
    call.connection.audited = None
    running = asyncio.ensure_future(auditor.record(RequestMetrics())(auditor.begin(handle))(call))
    await asyncio.sleep(0)
    assert begun.is_set() is not (ordered if keeps_order else unordered)
    while not begun.is_set():
        backend.waiting[0].set_result(True)
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(backend.waiting) > 1
    assert not running.done()
    backend.waiting[-1].set_result(True)
    await running
