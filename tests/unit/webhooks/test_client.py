"""What a webhook may answer, and what becomes of all else. The servers are real, on this machine."""

from __future__ import annotations

import asyncio
import gzip
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from yarl import URL

from apiserver.load.offload import Offload
from apiserver.meta.vocabulary import Document
from apiserver.webhooks.caller import AdmissionCaller
from apiserver.webhooks.client import ANSWER_BYTES_MAX, REQUESTS_MAX, CallSecurity, WebhookClient
from apiserver.webhooks.credentials import HostCredentials
from apiserver.webhooks.errors import CallFailed
from apiserver.webhooks.kubeconfig import KubeconfigCluster
from apiserver.webhooks.review_server import AuditEventServer
from apiserver.webhooks.service_resolver import ServiceLookup
from apiserver.wire.json_text import VALUES_MAX

CHANNEL: Final = CallSecurity(ssl.create_default_context())
Answering = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(answering: Answering) -> AsyncIterator[tuple[str, list[web.BaseRequest]]]:
    """The URL of a webhook, and the requests that it has had."""
    requests: list[web.BaseRequest] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        requests.append(request)
        return await answering(request)

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handle)
    server = TestServer(app)
    await server.start_server()
    try:
        yield f"http://127.0.0.1:{server.port}/call", requests
    finally:
        await server.close()


class OneService:
    """The Service `a` with one endpoint."""

    def __init__(self, address: str = "", port: int = 0) -> None:
        self._address, self._port = address, port

    async def service(self, namespace: str, name: str) -> Document | None:
        return {"spec": {"ports": [{"port": 80}]}} if name == "a" else None

    async def slices(self, namespace: str, service: str) -> Iterable[Document]:
        return [{"ports": [{"port": self._port}], "endpoints": [{"addresses": [self._address]}]}]


@asynccontextmanager
async def calling(*denied: str, services: ServiceLookup | None = None) -> AsyncIterator[WebhookClient]:
    offload = Offload()
    client = WebhookClient(offload, services or OneService(), [ipaddress.ip_network(each) for each in denied])
    try:
        yield client
    finally:
        await client.close()
        offload.close()


@pytest.fixture
async def client() -> AsyncIterator[WebhookClient]:
    async with calling() as client:
        yield client


def answers(body: bytes, status: int = 200, **headers: str) -> Answering:
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(body=body, status=status, headers=named)

    return answer


def _filled(length: int) -> bytes:
    return b'{"a":"%b"}' % (b"x" * (length - 8))


async def _streams_without_end(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" " * 65_536)


ANSWERED: Final[dict[str, tuple[bytes, Any]]] = {
    "an object": (b'{"kind":"ConversionReview"}', {"kind": "ConversionReview"}),
    "as long as may be": (_filled(ANSWER_BYTES_MAX), {"a": "x" * (ANSWER_BYTES_MAX - 8)}),
    "as many values as may be": (b"[" + b"1," * (VALUES_MAX - 2) + b"1]", [1] * (VALUES_MAX - 1)),
}


@pytest.mark.parametrize(("body", "document"), ANSWERED.values(), ids=ANSWERED)
async def test_answers(body: bytes, document: Any, client: WebhookClient) -> None:
    async with serving(answers(body)) as (url, requests):
        answer = await client.post(url, b'{"a":1}', CHANNEL, 30)
        assert answer.status == 200
        assert await client.parse(answer.body) == document
        assert requests[0].headers["Accept-Encoding"] == "identity"


FAILURES: Final[dict[str, tuple[Answering, str]]] = {
    "too long": (answers(_filled(ANSWER_BYTES_MAX + 1)), "the response is longer than 3145728 bytes"),
    "without end": (_streams_without_end, "the response is longer than 3145728 bytes"),
    "compressed": (
        answers(gzip.compress(b" " * 1_000_000), Content_Encoding="gzip"),
        "the response is compressed, which was not requested",
    ),
}


@pytest.mark.parametrize(("answering", "message"), FAILURES.values(), ids=FAILURES)
async def test_answers_that_are_not_read(answering: Answering, message: str, client: WebhookClient) -> None:
    async with serving(answering) as (url, _):
        with pytest.raises(CallFailed, match=message):
            await client.post(url, b"{}", CHANNEL, 30)


async def _breaks_off(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "10"})
    await response.prepare(request)
    assert request.transport is not None
    request.transport.close()
    return response


TAKEN: Final[dict[str, Answering]] = {
    **{name: answering for name, (answering, _) in FAILURES.items()},
    "broken off": _breaks_off,
}


@pytest.mark.parametrize("answering", TAKEN.values(), ids=TAKEN)
async def test_what_a_server_has_taken_is_not_sent_again(answering: Answering, client: WebhookClient) -> None:
    """Audit events: nothing of the answer counts but its status."""
    async with serving(answering) as (url, requests):
        caller = AdmissionCaller(client, HostCredentials())
        await AuditEventServer(KubeconfigCluster(url), caller, backoff_s=0.0).tell(b"{}")
        assert len(requests) == 1


UNPARSED: Final = {
    "3 MB of empty objects": (b"[" + b"{}," * 1_000_000 + b"{}]", "document has more than 250000 values"),
    "no JSON": (b"<html>", "looking for beginning of value"),
    "nothing": (b"", "unexpected end of JSON input"),
}


@pytest.mark.parametrize(("body", "message"), UNPARSED.values(), ids=UNPARSED)
async def test_answers_that_are_not_parsed(body: bytes, message: str, client: WebhookClient) -> None:
    with pytest.raises(ValueError, match=message):
        await client.parse(body)


@pytest.mark.parametrize("status", [301, 302, 303])
async def test_redirections_that_make_another_request_are_not_followed(
    status: int, client: WebhookClient
) -> None:
    async with serving(answers(b"{}")) as (elsewhere, asked):
        async with serving(answers(b"", status, Location=elsewhere)) as (url, _):
            assert (await client.post(url, b"{}", CHANNEL, 30)).status == status
        assert asked == []


def leading(paths: Mapping[str, str], status: int = 307) -> Answering:
    """Redirects from paths to URLs; others are answered."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        target = paths.get(request.rel_url.raw_path_qs)
        if target is None:
            return web.Response(body=body)
        return web.Response(status=status, headers={"Location": target} if target else {})

    return answer


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("location", ["/b?c=d", "b?c=d", "/x/../b?c=d", "//127.0.0.1:{port}/b?c=d#e"])
async def test_redirections_that_repeat_the_request_are_followed(
    status: int, location: str, client: WebhookClient
) -> None:
    paths: dict[str, str] = {}
    async with serving(leading(paths, status)) as (url, requests):
        paths["/call?timeout=1s"] = location.replace("{port}", str(URL(url).port))
        channel = CHANNEL._replace(headers=[("Authorization", "Bearer x")])
        answer = await client.post(f"{url}?timeout=1s", b'{"a":1}', channel, 30)
        assert (answer.status, answer.body) == (200, b'{"a":1}')
        asked = [(each.method, each.rel_url.raw_path_qs) for each in requests]
        assert asked == [("POST", "/call?timeout=1s"), ("POST", "/b?c=d")]
        assert {each.headers["Authorization"] for each in requests} == {"Bearer x"}


async def test_another_server_is_shown_no_credentials(client: WebhookClient) -> None:
    async with (
        serving(answers(b"{}")) as (elsewhere, asked),
        serving(leading({"/call": elsewhere})) as (url, _),
    ):
        channel = CHANNEL._replace(headers=[("Authorization", "Bearer x")])
        assert (await client.post(url, b"{}", channel, 30)).status == 200
        assert "Authorization" not in asked[0].headers


# Where each of some paths leads to, how many requests there are, and what the error says.
LOOPS: Final[dict[str, tuple[dict[str, str], int, str]]] = {
    "to itself": ({"/call": "/call"}, 1, r'/call": stopped after 1 redirects$'),
    "in a circle": ({"/call": "/b", "/b": "/c", "/c": "/b"}, 3, r'/b": stopped after 3 redirects$'),
    "without end": (
        {"/call": "/0", **{f"/{n}": f"/{n + 1}" for n in range(99)}},
        REQUESTS_MAX,
        r'/9": stopped after 10 redirects$',
    ),
}


@pytest.mark.parametrize(("paths", "count", "message"), LOOPS.values(), ids=LOOPS)
async def test_redirections_are_followed_once_each(
    paths: dict[str, str], count: int, message: str, client: WebhookClient
) -> None:
    async with serving(leading(paths)) as (url, requests):
        with pytest.raises(CallFailed, match=message):
            await client.post(url, b"{}", CHANNEL, 30)
        assert len(requests) == count


async def test_as_many_redirections_are_followed_as_in_kubernetes(client: WebhookClient) -> None:
    paths = {"/call": "/0", **{f"/{n}": f"/{n + 1}" for n in range(REQUESTS_MAX - 2)}}
    async with serving(leading(paths)) as (url, requests):
        assert (await client.post(url, b"{}", CHANNEL, 30)).status == 200
        assert len(requests) == REQUESTS_MAX


# Where a redirection leads to, and why it is not followed.
NOWHERE: Final = {
    "a denied address": ("http://198.51.100.9/", "address is denied by --webhook-deny-cidrs"),
    "a denied address, spelt otherwise": ("http://[::ffff:198.51.100.9]/", "address is denied by"),
    "another scheme": ("ftp://127.0.0.1/", 'unsupported protocol scheme "ftp"'),
    "a file": ("file:///etc/passwd", 'unsupported protocol scheme "file"'),
    "no URL": ("http://[::1", r'^Post "http://\[::1": '),
}


@pytest.mark.parametrize(("location", "message"), NOWHERE.values(), ids=NOWHERE)
async def test_redirections_that_lead_nowhere(location: str, message: str) -> None:
    async with calling("198.51.100.0/24") as client, serving(leading({"/call": location})) as (url, requests):
        with pytest.raises(CallFailed, match=message):
            await client.post(url, b"{}", CHANNEL, 30)
        assert len(requests) == 1


REFUSED: Final = {**NOWHERE, "itself": ("/call", "stopped after 1 redirects$")}


@pytest.mark.parametrize(("location", "message"), REFUSED.values(), ids=REFUSED)
async def test_who_needs_no_body_learns_why_a_redirection_is_not_followed(
    location: str, message: str
) -> None:
    """As servers of audit events: only the body of a success may be lost."""
    async with calling("198.51.100.0/24") as client, serving(leading({"/call": location})) as (url, _):
        with pytest.raises(CallFailed, match=message):
            await client.post(url, b"{}", CHANNEL, 30, needs_body=False)


async def test_a_redirection_without_a_location_is_an_answer(client: WebhookClient) -> None:
    async with serving(leading({"/call": ""})) as (url, _):
        assert (await client.post(url, b"{}", CHANNEL, 30)).status == 307


async def test_all_redirections_together_have_the_time_of_one_call(client: WebhookClient) -> None:
    may_end = asyncio.Event()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/call":
            return web.Response(status=307, headers={"Location": "/slow"})
        await may_end.wait()
        return web.Response()

    async with serving(answer) as (url, _):
        with pytest.raises(CallFailed, match=r'/slow": context deadline exceeded'):
            await client.post(url, b"{}", CHANNEL, 0.1)
        may_end.set()


async def test_passwords_in_urls_are_not_told(client: WebhookClient) -> None:
    with pytest.raises(CallFailed) as failed:
        await client.post("http://user:secret@127.0.0.1:1/", b"{}", CHANNEL, 30)
    assert str(failed.value).startswith('Post "http://user:***@127.0.0.1:1/": dial tcp ')


# Go escapes more than others do.
@pytest.mark.parametrize("path", ["/a%21b%28c%29%2A", "/%C3%A4", "/a%2Fb", "/x?timeout=1s", "/"])
async def test_what_is_escaped_is_asked_for_as_it_is(path: str, client: WebhookClient) -> None:
    async with serving(answers(b"{}")) as (url, requests):
        await client.post(url.removesuffix("/call") + path, b"{}", CHANNEL, 30)
        assert [each.raw_path for each in requests] == [path]


async def test_an_answer_that_trickles_is_not_waited_for(client: WebhookClient) -> None:
    may_end = asyncio.Event()

    async def trickle(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"a":')
        await may_end.wait()
        return response

    async with serving(trickle) as (url, _):
        with pytest.raises(CallFailed, match="context deadline exceeded"):
            await client.post(url, b"{}", CHANNEL, 0.1)
        may_end.set()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_nothing_is_sent_to_denied_addresses(host: str) -> None:
    async with calling("127.0.0.0/8", "::1/128") as client, serving(answers(b"{}")) as (url, requests):
        with pytest.raises(CallFailed, match=r'^Post "http://.*": dial tcp \S+: address is denied'):
            await client.post(url.replace("127.0.0.1", host), b"{}", CHANNEL, 30)
        assert requests == []


async def test_nothing_is_sent_to_denied_endpoints_of_services() -> None:
    async with serving(answers(b"{}")) as (url, requests):
        service = OneService("127.0.0.1", URL(url).port or 0)
        async with calling(services=service) as client:
            assert (await client.post("http://a.default.svc/call", b"{}", CHANNEL, 30)).status == 200
        assert len(requests) == 1
        async with calling("127.0.0.1/32", services=service) as client:
            with pytest.raises(CallFailed, match=r"dial tcp 127\.0\.0\.1: address is denied"):
                await client.post("http://a.default.svc/call", b"{}", CHANNEL, 30)
            with pytest.raises(CallFailed, match='service "b" not found'):
                await client.post("http://b.default.svc/call", b"{}", CHANNEL, 30)
        assert len(requests) == 1


@pytest.mark.parametrize("url", ["http://0177.0.0.1/", "http://2130706433/", "http://127.1/"])
async def test_addresses_in_other_forms_are_refused(url: str, client: WebhookClient) -> None:
    with pytest.raises(CallFailed, match=r"does not appear to be|not permitted"):
        await client.post(url, b"{}", CHANNEL, 30)
