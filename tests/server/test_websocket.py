"""Watches over WebSocket, and pages of other origins: what dashboards in browsers need.

https://www.rfc-editor.org/rfc/rfc6455, and kube-apiserver's handlers/watch.go and filters/cors.go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import quote

import pytest
from aiohttp import WSCloseCode
from websocket import ABNF

from tests.support.api import Answer, Api
from tests.support.objects import config_map
from tests.support.server_process import ServerProcess
from tests.support.websocket_client import connected
from tests.support.websocket_tokens import TOKEN_PREFIX, token_protocol

ANY: Final = "base64.binary.k8s.io"
ALLOWED: Final = "https://board.example"
# Shorter and longer than the lengths that a frame has one, two and eight bytes for.
SIZES: Final = (0, 1, 60_000, 70_000)


ADMIN: Final = token_protocol("admin-token")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that lets pages of some origins use it, and keeps two changes of each resource."""
    with ServerProcess(
        tmp_path_factory.mktemp("server") / "data",
        "--cors-allowed-origins=//board[.]example(:|$)",
        "--cors-allowed-origins=^http://localhost:[0-9]+$",
        "--feature-gates=CBORServingAndStorage=true",
        "--default-watch-cache-size=2",
        "--strict-transport-security-directives=max-age=60,includeSubDomains",
    ) as server:
        yield server


@pytest.fixture
def api(shared: ServerProcess) -> Iterator[Api]:
    with Api(shared) as api:
        yield api


HANDSHAKE: Final = {
    "Upgrade": "websocket",
    "Connection": "keep-alive, Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def answer_to(server: ServerProcess, path: str, headers: dict[str, str]) -> Answer:
    """The answer to a handshake that is not accepted. headers: replace those of the handshake."""
    with Api(server, token="") as stranger:
        return stranger.get(path, headers=HANDSHAKE | headers)


# ---- events


def test_each_event_is_a_text_message(shared: ServerProcess, api: Api, configmaps: str) -> None:
    path = f"{configmaps}?watch=true&resourceVersion=0"
    with connected(shared, path, ADMIN, ANY) as connection, api.watch(path) as chunks:
        for size in SIZES:
            api.post(configmaps, config_map(f"of-{size}", padding="x" * size)).ok()
        for size in SIZES:
            opcode, payload = connection.receive()
            assert (opcode, payload[-2:]) == (ABNF.OPCODE_TEXT, b"}\n")
            event = json.loads(payload)
            assert event == chunks.next()
            assert event["object"]["metadata"]["name"] == f"of-{size}"


def test_initial_events_and_their_bookmark(shared: ServerProcess, api: Api, configmaps: str) -> None:
    for name in ("a", "b"):
        api.post(configmaps, config_map(name)).ok()
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    with connected(shared, f"{configmaps}?watch=true&{query}", ADMIN, ANY) as connection:
        events = [connection.next_event() for _ in range(3)]
        assert [event["type"] for event in events] == ["ADDED", "ADDED", "BOOKMARK"]
        api.delete(f"{configmaps}/a").ok()
        assert connection.next_event()["type"] == "DELETED"


def without_ages(event: bytes) -> bytes:
    """An event without the cells of tables that time changes."""
    return re.sub(rb'"[0-9]+s"', b'""', event)


FORMS: Final = {
    "a table": ("application/json;as=Table;g=meta.k8s.io;v=v1", ABNF.OPCODE_TEXT, 0),
    "metadata": ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", ABNF.OPCODE_TEXT, 0),
    # In a stream of bytes the length comes first.
    "protobuf": ("application/vnd.kubernetes.protobuf;stream=watch", ABNF.OPCODE_BINARY, 4),
    "CBOR": ("application/cbor", ABNF.OPCODE_BINARY, 0),
}


@pytest.mark.parametrize(("accept", "kind", "length_bytes"), FORMS.values(), ids=FORMS)
def test_other_forms_are_as_in_ordinary_watches(
    accept: str, kind: int, length_bytes: int, shared: ServerProcess, api: Api, configmaps: str
) -> None:
    api.post(configmaps, config_map("a")).ok()
    path = f"{configmaps}?watch=true&resourceVersion=0&timeoutSeconds=1"
    with connected(shared, path, ADMIN, ANY, Accept=accept) as connection:
        opcode, payload = connection.receive()
    with api.watch(path, Accept=accept) as chunks:
        body = chunks.body()
    assert opcode == kind
    assert without_ages(payload) == without_ages(body[length_bytes:])


@pytest.mark.parametrize(("accept", "kind", "length_bytes"), FORMS.values(), ids=FORMS)
def test_the_accept_parameter_takes_the_place_of_the_header(
    accept: str, kind: int, length_bytes: int, shared: ServerProcess, api: Api, configmaps: str
) -> None:
    """JavaScript cannot set the headers of a WebSocket (kubernetes#83961)."""
    api.post(configmaps, config_map("a")).ok()
    path = f"{configmaps}?watch=true&resourceVersion=0&timeoutSeconds=1"
    with connected(shared, path, ADMIN, ANY, Accept=accept) as connection:
        by_header = connection.receive()
    with connected(shared, f"{path}&accept={quote(accept)}", ADMIN, ANY, Accept="*/*") as connection:
        opcode, payload = connection.receive()
    assert (opcode, without_ages(payload)) == (by_header[0], without_ages(by_header[1]))
    assert opcode == kind


def test_the_accept_parameter_of_other_requests(api: Api, configmaps: str) -> None:
    table = quote("application/json;as=Table;g=meta.k8s.io;v=v1")
    api.post(f"{configmaps}?accept={table}", config_map("a")).ok()
    for path in (configmaps, f"{configmaps}/a"):
        assert api.get(f"{path}?accept={table}").ok()["kind"] == "Table"
    # Also of refused requests; and no other parameter is part of it.
    refused = api.get(f"{configmaps}/b?accept={quote('application/vnd.kubernetes.protobuf')}")
    assert (refused.status, refused.body[:4]) == (404, b"k8s\0")
    refused = api.get(f"{configmaps}/a?accept=text/css&limit=1")
    assert (refused.status, refused.reason) == (406, "NotAcceptable")
    # It may be repeated, as the header may.
    assert api.get(f"{configmaps}/a?accept=text/css&accept={table}").ok()["kind"] == "Table"
    # An empty one accepts everything, as an empty header does.
    assert api.get(f"{configmaps}/a?accept=", headers={"Accept": "text/css"}).ok()["kind"] == "ConfigMap"


def test_a_watch_that_cannot_go_on_says_so_and_is_closed(
    shared: ServerProcess, api: Api, configmaps: str
) -> None:
    """The server keeps two changes."""
    first, *_ = [api.post(configmaps, config_map(f"n{n}")).ok()["metadata"] for n in range(5)]
    path = f"{configmaps}?watch=true&resourceVersion={first['resourceVersion']}"
    with connected(shared, path, ADMIN, ANY) as connection:
        event = connection.next_event()
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
        assert connection.close_code() == WSCloseCode.OK


# ---- pings and the end


def test_pings_are_answered(shared: ServerProcess, api: Api, configmaps: str) -> None:
    with connected(shared, f"{configmaps}?watch=true", ADMIN, ANY) as connection:
        for payload in (b"", b"are you there?", b"x" * 125):
            connection.send(ABNF.OPCODE_PING, payload)
            assert connection.receive() == (ABNF.OPCODE_PONG, payload)


def test_messages_of_a_client_are_ignored(shared: ServerProcess, api: Api, configmaps: str) -> None:
    with connected(shared, f"{configmaps}?watch=true", ADMIN, ANY) as connection:
        connection.send(ABNF.OPCODE_TEXT, b"hello")
        connection.send(ABNF.OPCODE_BINARY, b"\xff")
        connection.send_raw(b"\x01\x82\0\0\0\0in" + b"\x80\x83\0\0\0\0two")  # in two frames
        api.post(configmaps, config_map("a")).ok()
        assert connection.next_event()["type"] == "ADDED"


def test_a_client_that_closes_is_answered(shared: ServerProcess, configmaps: str) -> None:
    with connected(shared, f"{configmaps}?watch=true", ADMIN, ANY) as connection:
        connection.send(ABNF.OPCODE_CLOSE, WSCloseCode.GOING_AWAY.to_bytes(2, "big"))
        assert connection.close_code() == WSCloseCode.OK


def test_a_watch_whose_time_is_up_is_closed(shared: ServerProcess, configmaps: str) -> None:
    with connected(shared, f"{configmaps}?watch=true&timeoutSeconds=1", ADMIN, ANY) as connection:
        assert connection.close_code() == WSCloseCode.OK


def test_watches_are_closed_when_the_server_stops(tmp_path_factory: pytest.TempPathFactory) -> None:
    with (
        ServerProcess(tmp_path_factory.mktemp("server") / "data") as server,
        connected(server, "/api/v1/podtemplates?watch=true", ADMIN, ANY) as connection,
    ):
        server.stop()
        assert connection.close_code() == WSCloseCode.OK


# Frames of a client, masked with zeros.
FAULTS: Final = {
    "a message that is too long": (b"\x82\xff" + (1 << 20).to_bytes(8, "big"), WSCloseCode.MESSAGE_TOO_BIG),
    "text that is not UTF-8": (b"\x81\x81\0\0\0\0\xff", WSCloseCode.INVALID_TEXT),
    "an unknown opcode": (b"\x83\x80\0\0\0\0", WSCloseCode.PROTOCOL_ERROR),
    "a reserved bit": (b"\xf1\x80\0\0\0\0", WSCloseCode.PROTOCOL_ERROR),
    "a ping in pieces": (b"\x09\x80\0\0\0\0", WSCloseCode.PROTOCOL_ERROR),
    "a ping that is too long": (b"\x89\xfe\x00\x7e\0\0\0\0" + b"x" * 126, WSCloseCode.PROTOCOL_ERROR),
    "a continuation of nothing": (b"\x80\x80\0\0\0\0", WSCloseCode.PROTOCOL_ERROR),
    "a close code that is none": (b"\x88\x82\0\0\0\0\x00\x01", WSCloseCode.PROTOCOL_ERROR),
}


@pytest.mark.parametrize(("frame", "code"), FAULTS.values(), ids=FAULTS)
def test_what_breaks_the_rules_of_websockets_ends_the_watch(
    frame: bytes, code: WSCloseCode, shared: ServerProcess, configmaps: str
) -> None:
    with connected(shared, f"{configmaps}?watch=true", ADMIN, ANY) as connection:
        connection.send_raw(frame)
        assert connection.close_code() == code


# ---- the handshake

BAD_HANDSHAKES: Final[dict[str, tuple[dict[str, str], str]]] = {
    "no version": ({"Sec-WebSocket-Version": ""}, "Sec-WebSocket-Version: "),
    "another version": ({"Sec-WebSocket-Version": "8"}, "Sec-WebSocket-Version: "),
    "no key": ({"Sec-WebSocket-Key": ""}, "Sec-WebSocket-Key: "),
    "a key that is too short": ({"Sec-WebSocket-Key": "eA=="}, "Sec-WebSocket-Key: "),
    "a key that is not base64": ({"Sec-WebSocket-Key": "ä" * 24}, "Sec-WebSocket-Key: "),
    "several protocols": ({"Sec-WebSocket-Protocol": f"{ADMIN}, a, b"}, "Sec-WebSocket-Protocol: "),
    "a protocol that is no token": ({"Sec-WebSocket-Protocol": f"{ADMIN}, a b"}, "Sec-WebSocket-Protocol: "),
}


@pytest.mark.parametrize(("headers", "field"), BAD_HANDSHAKES.values(), ids=BAD_HANDSHAKES)
def test_handshakes_that_are_refused(
    headers: dict[str, str], field: str, shared: ServerProcess, configmaps: str
) -> None:
    sent = {"Sec-WebSocket-Protocol": f"{ADMIN}, {ANY}", **headers}
    refused = answer_to(shared, f"{configmaps}?watch=true", sent)
    assert (refused.status, refused.reason) == (400, "BadRequest")
    assert refused.message.startswith(field)


def test_errors_before_the_watch_are_ordinary_answers(shared: ServerProcess, configmaps: str) -> None:
    protocols = f"{token_protocol('alice-token')}, {ANY}"
    refused = answer_to(shared, f"{configmaps}?watch=true", {"Sec-WebSocket-Protocol": protocols})
    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert 'User "alice" cannot watch resource "configmaps"' in refused.message


def test_other_requests_are_not_upgraded(api: Api, configmaps: str) -> None:
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    for _ in range(2):  # The connection can be used again.
        assert api.get(configmaps, headers=headers).ok()["kind"] == "ConfigMapList"
    with api.watch(f"{configmaps}?watch=true", Upgrade="websocket") as events:
        assert events.status == 200


# ---- the token

OFFERS: Final = {
    "the token and one protocol": ((ADMIN, ANY), ANY),
    "in the other order": ((ANY, ADMIN), ANY),
    "a protocol that nobody knows": ((ADMIN, "x.example"), "x.example"),
}


@pytest.mark.parametrize(("offered", "chosen"), OFFERS.values(), ids=OFFERS)
def test_the_token_is_no_protocol_to_choose(
    offered: tuple[str, ...], chosen: str, shared: ServerProcess, configmaps: str
) -> None:
    with connected(shared, f"{configmaps}?watch=true", *offered) as connection:
        assert connection.protocol == chosen


def test_without_a_token_protocol_none_need_be_offered(shared: ServerProcess, configmaps: str) -> None:
    path, credentials = f"{configmaps}?watch=true", {"Authorization": "Bearer admin-token"}
    with connected(shared, path, **credentials) as connection:
        assert connection.protocol is None
    with connected(shared, path, ANY, **credentials) as connection:
        assert connection.protocol == ANY


def test_the_authorization_header_comes_first(shared: ServerProcess, configmaps: str) -> None:
    path, alice = f"{configmaps}?watch=true", token_protocol("alice-token")
    with connected(shared, path, alice, ANY, Authorization="Bearer admin-token") as connection:
        assert connection.protocol == ANY
    with connected(shared, path, ADMIN, ANY, Authorization="Basic eDp4") as connection:
        assert connection.protocol == ANY


UNAUTHENTICATED: Final = {
    "a wrong token": f"{token_protocol('wrong')}, {ANY}",
    "no other protocol": ADMIN,
    "two tokens": f"{ADMIN}, {ADMIN}, {ANY}",
    "padding": f"{TOKEN_PREFIX}YWRtaW4tdG9rZW4tMQ==, {ANY}",
    "the alphabet of base64": f"{TOKEN_PREFIX}ab+/, {ANY}",
    "base64 that is cut off": f"{TOKEN_PREFIX}abcde, {ANY}",
    "a token and more": f"{token_protocol('admin-token more')}, {ANY}",
    "what is not UTF-8": f"{token_protocol(b'_xff_'.replace(b'_', bytes([255])))}, {ANY}",
}


@pytest.mark.parametrize("protocols", UNAUTHENTICATED.values(), ids=UNAUTHENTICATED)
def test_tokens_that_are_refused(protocols: str, shared: ServerProcess, configmaps: str) -> None:
    refused = answer_to(shared, f"{configmaps}?watch=true", {"Sec-WebSocket-Protocol": protocols})
    assert (refused.status, refused.reason) == (401, "Unauthorized")


def test_the_token_protocol_counts_only_for_websockets(shared: ServerProcess, configmaps: str) -> None:
    headers = {"Sec-WebSocket-Protocol": f"{ADMIN}, {ANY}", "Upgrade": "h2c"}
    refused = answer_to(shared, f"{configmaps}?watch=true", headers)
    assert refused.status == 403
    assert "system:anonymous" in refused.message


def test_tokens_are_never_logged(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever header has them, at the highest verbosity."""
    with ServerProcess(tmp_path_factory.mktemp("server") / "data", "--v=9") as server:
        path = "/api/v1/pods?watch=true&timeoutSeconds=1"
        for protocols in (*UNAUTHENTICATED.values(), f"{ADMIN}, a, b"):
            assert ADMIN not in str(answer_to(server, path, {"Sec-WebSocket-Protocol": protocols}))
        with connected(server, path, ADMIN, ANY) as connection:
            assert connection.close_code() == WSCloseCode.OK
        server.stop()
        assert ADMIN.removeprefix(TOKEN_PREFIX) not in server.stderr
        assert "admin-token" not in server.stderr


# ---- origins

ORIGINS: Final = {
    "no page": ("", True),
    "a page that is allowed": (ALLOWED, True),
    "at a port that is allowed": (f"{ALLOWED}:8443", True),
    "a page that matches another pattern": ("http://localhost:8001", True),
    "a page of another host": ("https://evil.example", False),
    "a host that begins like one that is allowed": (f"{ALLOWED}.evil.example", False),
    "a host that ends like one that is allowed": ("https://evil-board.example", False),
    "a page without an origin": ("null", False),
}


@pytest.mark.parametrize(("origin", "is_allowed"), ORIGINS.values(), ids=ORIGINS)
def test_which_pages_may_open_a_websocket(
    origin: str, is_allowed: bool, shared: ServerProcess, configmaps: str
) -> None:
    path = f"{configmaps}?watch=true"
    if is_allowed:
        with connected(shared, path, ADMIN, ANY, origin=origin) as connection:
            assert connection.protocol == ANY
    else:
        headers = {"Origin": origin, "Sec-WebSocket-Protocol": f"{ADMIN}, {ANY}"}
        refused = answer_to(shared, path, headers)
        assert (refused.status, refused.reason) == (403, "Forbidden")
        assert origin in refused.message


def test_without_the_flag_only_own_pages_may_open_a_websocket(server: ServerProcess) -> None:
    path = "/api/v1/configmaps?watch=true"
    with connected(server, path, ADMIN, ANY, origin=server.url) as connection:
        assert connection.protocol == ANY
    headers = {"Origin": ALLOWED, "Sec-WebSocket-Protocol": f"{ADMIN}, {ANY}"}
    assert answer_to(server, path, headers).status == 403


CORS: Final = {
    "access-control-allow-origin": ALLOWED,
    "access-control-allow-methods": "POST, GET, OPTIONS, PUT, DELETE, PATCH",
    "access-control-allow-headers": (
        "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, "
        "X-Requested-With, If-Modified-Since"
    ),
    "access-control-expose-headers": "Date",
    "access-control-allow-credentials": "true",
}


def cors_of(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.startswith("access-control-")}


ANSWERS: Final = {
    "an object": ("GET", "/api/v1/namespaces/default", 200),
    "a document": ("GET", "/version", 200),
    "a watch": ("GET", "/api/v1/namespaces?watch=true&timeoutSeconds=1", 200),
    "an error": ("GET", "/api/v1/namespaces/none", 404),
    "a path that is not there": ("GET", "/none", 404),
    "what a browser asks first": ("OPTIONS", "/api/v1/namespaces", 204),
    "the same about a path that is not there": ("OPTIONS", "/none", 204),
}


@pytest.mark.parametrize(("method", "path", "status"), ANSWERS.values(), ids=ANSWERS)
def test_pages_of_allowed_origins_may_see_every_answer(method: str, path: str, status: int, api: Api) -> None:
    answer = api.send(method, path, headers={"Origin": ALLOWED})
    assert answer.status == status
    assert cors_of(answer.headers) == CORS
    assert ("vary", "Origin") in answer.all_headers
    if method == "OPTIONS":
        assert answer.body == b""
        assert "content-length" not in answer.headers


@pytest.mark.parametrize(("method", "path", "status"), ANSWERS.values(), ids=ANSWERS)
def test_every_answer_has_browsers_stay_with_https(method: str, path: str, status: int, api: Api) -> None:
    origins: list[dict[str, str]] = [{"Origin": ALLOWED}]
    if method != "OPTIONS":  # Only pages ask that.
        origins.append({})
    for headers in origins:
        answer = api.send(method, path, headers=headers)
        assert answer.status == status
        assert answer.headers["strict-transport-security"] == "max-age=60; includeSubDomains"


def test_browsers_ask_without_credentials(api: Api) -> None:
    """The answer that there are none is shown to the page, too."""
    with api.as_caller("") as stranger:
        assert stranger.send("OPTIONS", "/api/v1/pods", headers={"Origin": ALLOWED}).status == 204
    with api.as_caller("wrong") as stranger:
        refused = stranger.get("/api/v1/pods", headers={"Origin": ALLOWED})
    assert (refused.status, cors_of(refused.headers)) == (401, CORS)
    assert "strict-transport-security" in refused.headers


@pytest.mark.parametrize("origin", ["", "https://evil.example", "null"])
def test_pages_of_other_origins_are_told_nothing(origin: str, api: Api) -> None:
    headers = {"Origin": origin} if origin else {}
    for method, path, status in (("GET", "/version", 200), ("OPTIONS", "/api/v1/namespaces", 405)):
        answer = api.send(method, path, headers=headers)
        assert answer.status == status
        assert cors_of(answer.headers) == {}
        assert ("vary", "Origin") in answer.all_headers  # The answer to another origin differs.


def test_without_the_flag_there_is_no_cors(server: ServerProcess) -> None:
    with Api(server) as api:
        answer = api.get("/version", headers={"Origin": ALLOWED})
    assert cors_of(answer.headers) == {}
    assert "vary" not in answer.headers
