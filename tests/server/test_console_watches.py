"""Many watches over one WebSocket, as docs/reference/console-watches.md describes them."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from aiohttp import WSCloseCode
from websocket import ABNF

from tests.support.api import Api
from tests.support.audit import audit_flags
from tests.support.eventually import until
from tests.support.metrics import metric
from tests.support.objects import config_map, config_maps, named
from tests.support.rbac import RBAC, grant, rule
from tests.support.server_process import ServerProcess
from tests.support.watches_client import PATH, PROTOCOL, TABLE, WatchesClient, watching
from tests.support.websocket_tokens import token_protocol

# How the interval appears that is a minute for users.
RECHECK: Final = "--authorization-recheck-interval=200ms"
SUBSCRIPTIONS_MAX: Final = 64
UNAUTHENTICATED: Final = 4401


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that looks often whether clients still may watch, and keeps two changes of each resource."""
    with ServerProcess(
        tmp_path_factory.mktemp("server") / "data",
        RECHECK,
        "--default-watch-cache-size=2",
        "--cors-allowed-origins=//board[.]example$",
    ) as server:
        yield server


@pytest.fixture
def api(shared: ServerProcess) -> Iterator[Api]:
    with Api(shared) as api:
        yield api


@pytest.fixture
def client(shared: ServerProcess) -> Iterator[WatchesClient]:
    with watching(shared) as client:
        yield client


def watch_of(collection: str, query: str = "") -> str:
    return f"{collection}?watch=true{query and '&'}{query}"


# ---- events


def test_the_events_of_each_subscription_have_its_number(client: WatchesClient, api: Api) -> None:
    for number, name in ((1, "one"), (2, "two"), (7, "seven")):
        api.post("/api/v1/namespaces", named(name)).ok()
        assert client.begin(number, watch_of(config_maps(name))) == {"warnings": []}
    for number, name in ((7, "seven"), (1, "one"), (2, "two"), (7, "seven")):
        made = api.post(config_maps(name), {"metadata": {"generateName": "a-"}}).ok()
        event = client.event(number)
        assert event["type"] == "ADDED"
        assert event["object"] == {"kind": "ConfigMap", "apiVersion": "v1", **made}


FORMS: Final = {
    "objects": "application/json",
    "tables": TABLE,
    "tables with whole objects": f"{TABLE},application/json",
    "metadata": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
}


@pytest.mark.parametrize("accept", FORMS.values(), ids=FORMS)
def test_events_are_those_of_an_ordinary_watch_byte_for_byte(
    accept: str, client: WatchesClient, api: Api, configmaps: str
) -> None:
    last = api.post(configmaps, config_map("first")).ok()["metadata"]["resourceVersion"]
    path = watch_of(configmaps, f"resourceVersion={last}&allowWatchBookmarks=true&timeoutSeconds=3")
    client.begin(1, path, accept)
    with api.watch(path, Accept=accept) as plain:
        for size in (1, 100, 70_000):
            api.put(f"{configmaps}/first", config_map("first", padding="x" * size)).ok()
        api.delete(f"{configmaps}/first").ok()
        expected = plain.body().splitlines(keepends=True)
    opening = b'{"id":1,"event":'
    received = []
    while (message := client.receive()).startswith(opening):
        received.append(message[len(opening) : -1])
    assert message == b'{"id":1,"end":{"status":null}}'
    assert without_ages(received) == without_ages(expected)
    assert [json.loads(each)["type"] for each in received][:4] == ["MODIFIED"] * 3 + ["DELETED"]


def without_ages(events: list[bytes]) -> list[bytes]:
    """Events without the cells of tables that time changes."""
    return [re.sub(rb'"[0-9]+s"', b'""', each) for each in events]


def test_warnings_come_before_events(client: WatchesClient, api: Api) -> None:
    begun = client.begin(1, watch_of("/api/v1/endpoints"))
    assert begun == {"warnings": api.get("/api/v1/endpoints").warnings}
    assert "is deprecated" in begun["warnings"][0]


def test_initial_events_and_their_bookmark(client: WatchesClient, api: Api, configmaps: str) -> None:
    for number in range(200):
        api.post(configmaps, config_map(f"n{number:03}")).ok()
    initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    client.begin(1, watch_of(configmaps, initial))
    events = [client.event(1) for _ in range(201)]
    assert [event["object"]["metadata"]["name"] for event in events[:200]] == [
        f"n{number:03}" for number in range(200)
    ]
    assert events[200]["type"] == "BOOKMARK"


# ---- subscriptions and their ends


def test_a_number_can_be_used_again_after_the_end(client: WatchesClient, api: Api, configmaps: str) -> None:
    client.begin(1, watch_of(configmaps))
    client.send({"unsubscribe": {"id": 1}})
    assert client.end(1) is None
    client.send({"unsubscribe": {"id": 1}})  # It is ignored.
    client.begin(1, watch_of(configmaps, "timeoutSeconds=1"))
    api.post(configmaps, config_map("a")).ok()
    assert client.event(1)["object"]["metadata"]["name"] == "a"
    assert client.end(1) is None


def test_a_watch_that_cannot_continue_ends_with_its_status(
    client: WatchesClient, api: Api, configmaps: str
) -> None:
    """The server keeps two changes."""
    first, *_ = [api.post(configmaps, config_map(f"n{number}")).ok()["metadata"] for number in range(5)]
    client.begin(1, watch_of(configmaps, f"resourceVersion={first['resourceVersion']}"))
    status = client.end(1)
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")


REFUSED: Final = {
    "no watch": ("/api/v1/configmaps", "application/json", 400),
    "a watch that is none": ("/api/v1/configmaps?watch=false", "application/json", 400),
    "an object": ("/api/v1/namespaces/default", "application/json", 400),
    "a subresource": ("/api/v1/namespaces/a/pods/b/log?watch=true", "application/json", 400),
    "a proxied path": ("/api/v1/namespaces/a/services/b/proxy/c?watch=true", "application/json", 400),
    "another path": ("/metrics?watch=true", "application/json", 400),
    "itself": (f"{PATH}?watch=true", "application/json", 400),
    "a URL": ("https://evil.example/api/v1/configmaps?watch=true", "application/json", 400),
    "no path": ("", "application/json", 400),
    "another request in the path": ("/api/v1/pods?watch=true HTTP/1.1\r\nX: y", "application/json", 400),
    "a line end": ("/api/v1/pods?watch=true\n", "application/json", 400),
    "a NUL": ("/api/v1/pods?watch=true&a=\0", "application/json", 400),
    "a fragment": ("/api/v1/pods?watch=true#a", "application/json", 400),
    "what is not ASCII": ("/api/v1/pods?watch=true&labelSelector=ä", "application/json", 400),
    "an escape that is not UTF-8": ("/api/v1/%ff?watch=true", "application/json", 400),
    "too long": (f"/api/v1/pods?watch=true&labelSelector={'a' * 9_000}", "application/json", 400),
    "an invalid option": ("/api/v1/pods?watch=true&resourceVersion=x", "application/json", 400),
    "an unknown resource": ("/api/v1/nothing?watch=true", "application/json", 404),
    "an unknown group": ("/apis/example.com/v1/nothing?watch=true", "application/json", 404),
    "a header in accept": ("/api/v1/pods?watch=true", "application/json\r\nX-Remote-User: admin", 400),
    "an accept that is too long": ("/api/v1/pods?watch=true", "application/json," * 100, 400),
    "protobuf": ("/api/v1/pods?watch=true", "application/vnd.kubernetes.protobuf", 406),
    "one of several media types": ("/api/v1/pods?watch=true", "application/json, application/yaml", 406),
    "YAML as a parameter": (
        "/api/v1/pods?watch=true&accept=application/yaml",
        "application/json",
        406,
    ),
}


@pytest.mark.parametrize(("path", "accept", "code"), REFUSED.values(), ids=REFUSED)
def test_subscriptions_that_are_refused_end_with_a_status(
    path: str, accept: str, code: int, client: WatchesClient
) -> None:
    client.subscribe(1, path, accept)
    status = client.end(1)
    assert (status["kind"], status["status"], status["code"]) == ("Status", "Failure", code)
    client.begin(1, "/api/v1/pods?watch=true")  # Nothing else has happened.


def test_the_status_of_a_refusal_is_that_of_the_request(client: WatchesClient, api: Api) -> None:
    for path in ("/api/v1/nothing?watch=true", "/api/v1/pods?watch=true&resourceVersion=x"):
        client.subscribe(1, path)
        assert client.end(1) == api.get(path).json


def test_there_may_be_so_many_subscriptions_and_no_more(
    client: WatchesClient, api: Api, configmaps: str
) -> None:
    for number in range(1, SUBSCRIPTIONS_MAX + 1):
        client.begin(number, watch_of(configmaps))
    client.subscribe(100, watch_of(configmaps))
    status = client.end(100)
    assert (status["code"], status["details"]) == (429, {"retryAfterSeconds": 1})
    api.post(configmaps, config_map("a")).ok()
    received = [json.loads(client.receive())["id"] for _ in range(SUBSCRIPTIONS_MAX)]
    assert sorted(received) == list(range(1, SUBSCRIPTIONS_MAX + 1))
    client.send({"unsubscribe": {"id": 1}})
    assert client.end(1) is None
    client.begin(100, watch_of(configmaps))


# ---- messages that break the protocol

BROKEN: Final[dict[str, tuple[object, str]]] = {
    "no JSON": (b"hello", "a message is not JSON"),
    "nothing": (b"", "a message is not JSON"),
    "a list": ([], "an object with one field"),
    "an empty object": ({}, "an object with one field"),
    "two fields": ({"token": "a", "unsubscribe": {"id": 1}}, "an object with one field"),
    "an unknown field": ({"hello": {}}, "subscribe, unsubscribe or token"),
    "a number that is 0": ({"subscribe": {"id": 0, "path": "/"}}, "subscribe: id "),
    "a negative number": ({"unsubscribe": {"id": -1}}, "unsubscribe: id "),
    "a number that JavaScript lacks": ({"subscribe": {"id": 2**53, "path": "/"}}, "subscribe: id "),
    "a number with a fraction": ({"subscribe": {"id": 1.5, "path": "/"}}, "subscribe: id "),
    "no number": ({"subscribe": {"path": "/"}}, "subscribe: id "),
    "true as a number": ({"subscribe": {"id": True, "path": "/"}}, "subscribe: id "),
    "no path": ({"subscribe": {"id": 1}}, "subscribe: path "),
    "a path that is no string": ({"subscribe": {"id": 1, "path": ["/"]}}, "subscribe: path "),
    "an accept that is no string": ({"subscribe": {"id": 1, "path": "/", "accept": 1}}, "subscribe: path "),
    "an unknown option": ({"subscribe": {"id": 1, "path": "/", "method": "DELETE"}}, "unknown fields"),
    "what is no object": ({"subscribe": "/api/v1/pods"}, "subscribe: must be an object"),
    "an empty token": ({"token": ""}, "token: "),
    "a token with a line end": ({"token": "a\r\nX-Remote-User: admin"}, "token: "),
    "a token with a space": ({"token": "a b"}, "token: "),
    "a token that is no string": ({"token": None}, "token: "),
}


@pytest.mark.parametrize(("message", "reason"), BROKEN.values(), ids=BROKEN)
def test_what_breaks_the_protocol_closes_the_websocket(
    message: object, reason: str, client: WatchesClient
) -> None:
    text = message if isinstance(message, bytes) else json.dumps(message).encode()
    client.connection.send(ABNF.OPCODE_TEXT, text)
    opcode, payload = client.connection.receive()
    assert (opcode, payload[:2]) == (ABNF.OPCODE_CLOSE, WSCloseCode.POLICY_VIOLATION.to_bytes(2, "big"))
    assert reason in payload[2:].decode()


def test_a_number_in_use_closes_the_websocket(client: WatchesClient) -> None:
    client.begin(1, "/api/v1/pods?watch=true")
    client.subscribe(1, "/api/v1/pods?watch=true")
    assert client.end(1) is None
    assert client.close_code() == WSCloseCode.POLICY_VIOLATION


FRAMES: Final = {
    "a binary message": (ABNF.OPCODE_BINARY, b"{}", WSCloseCode.POLICY_VIOLATION),
    "a message that is too long": (ABNF.OPCODE_TEXT, b" " * 65_537, WSCloseCode.MESSAGE_TOO_BIG),
}


@pytest.mark.parametrize(("opcode", "payload", "code"), FRAMES.values(), ids=FRAMES)
def test_frames_that_are_no_messages(
    opcode: int, payload: bytes, code: WSCloseCode, client: WatchesClient
) -> None:
    client.connection.send(opcode, payload)
    assert client.close_code() == code


def test_pings_are_answered(client: WatchesClient) -> None:
    client.connection.send(ABNF.OPCODE_PING, b"are you there?")
    assert client.connection.receive() == (ABNF.OPCODE_PONG, b"are you there?")


# ---- who may


def test_each_subscription_is_authorized(shared: ServerProcess, api: Api) -> None:
    for name in ("allowed", "forbidden"):
        api.post("/api/v1/namespaces", named(name)).ok()
    grant(api, "allowed", "alice", rule("watch", "configmaps"))
    with watching(shared, "alice-token") as alice:
        alice.begin(1, watch_of(config_maps("allowed")))
        alice.subscribe(2, watch_of(config_maps("forbidden")))
        status = alice.end(2)
        assert (status["code"], status["reason"]) == (403, "Forbidden")
        assert 'User "alice" cannot watch resource "configmaps"' in status["message"]
        api.post(config_maps("allowed"), config_map("a")).ok()
        assert alice.event(1)["object"]["metadata"]["name"] == "a"


def test_a_revoked_role_ends_its_subscriptions(shared: ServerProcess, api: Api) -> None:
    api.post("/api/v1/namespaces", named("revoked")).ok()
    grant(api, "revoked", "alice", rule("watch", "configmaps"))
    path = watch_of(config_maps("revoked"))
    with watching(shared, "alice-token") as alice:
        alice.begin(1, path)
        api.delete(f"{RBAC}/namespaces/revoked/rolebindings/alice").ok()
        assert alice.end(1) is None
        alice.subscribe(1, path)
        assert alice.end(1)["code"] == 403


def account_token(api: Api, name: str) -> str:
    """Returns a token of a new service account, which is valid while the account exists."""
    account = "/api/v1/namespaces/default/serviceaccounts"
    api.post(account, named(name)).ok()
    return str(api.post(f"{account}/{name}/token", {}).ok()["status"]["token"])


def test_credentials_that_are_no_longer_valid_close_the_websocket(shared: ServerProcess, api: Api) -> None:
    token = account_token(api, "brief")
    grant(api, "default", "system:serviceaccounts:default", rule("watch", "*"), subject_kind="Group")
    with watching(shared, token) as client:
        client.begin(1, watch_of(config_maps("default")))
        client.begin(2, watch_of("/api/v1/namespaces/default/secrets"))
        api.delete("/api/v1/namespaces/default/serviceaccounts/brief").ok()
        assert [client.end(number)["code"] for number in (1, 2)] == [401, 401]
        assert client.close_code() == UNAUTHENTICATED


def test_a_renewed_token_prolongs_subscriptions(shared: ServerProcess, api: Api, configmaps: str) -> None:
    """The other token is of another user, as whom the client resumes."""
    with watching(shared, account_token(api, "renewing")) as client:
        client.subscribe(1, watch_of(configmaps))
        assert client.end(1)["code"] == 403
        client.send({"token": "admin-token"})
        client.begin(1, watch_of(configmaps))
        api.delete("/api/v1/namespaces/default/serviceaccounts/renewing").ok()
        api.post(configmaps, config_map("a")).ok()
        assert client.event(1)["type"] == "ADDED"
        client.send({"token": "alice-token"})
        assert client.end(1) is None  # It is the administrator's.
        client.subscribe(1, watch_of(configmaps))
        assert client.end(1)["code"] == 403
        client.send({"token": "wrong"})
        assert client.close_code() == UNAUTHENTICATED


def test_subscriptions_are_impersonated(shared: ServerProcess, api: Api) -> None:
    api.post("/api/v1/namespaces", named("impersonated")).ok()
    grant(api, "impersonated", "carol", rule("watch", "configmaps"))
    with watching(shared, **{"Impersonate-User": "carol"}) as client:
        client.begin(1, watch_of(config_maps("impersonated")))
        client.subscribe(2, "/api/v1/pods?watch=true")
        assert 'User "carol" cannot watch' in client.end(2)["message"]


HANDSHAKE: Final = {
    "Upgrade": "websocket",
    "Connection": "keep-alive, Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Protocol": f"{token_protocol('admin-token')}, {PROTOCOL}",
}
HANDSHAKES: Final[dict[str, tuple[str, dict[str, str], int]]] = {
    "no credentials": ("GET", {"Sec-WebSocket-Protocol": PROTOCOL}, 401),
    "a wrong token": ("GET", {"Sec-WebSocket-Protocol": f"{token_protocol('wrong')}, {PROTOCOL}"}, 401),
    "another origin": ("GET", {"Origin": "https://evil.example"}, 403),
    "a user who may not impersonate": (
        "GET",
        {
            "Sec-WebSocket-Protocol": f"{token_protocol('alice-token')}, {PROTOCOL}",
            "Impersonate-User": "carol",
        },
        403,
    ),
    "no page of a host": ("GET", {"Origin": "null"}, 403),
    "no protocol": ("GET", {"Sec-WebSocket-Protocol": "", "Authorization": "Bearer admin-token"}, 400),
    "another protocol": ("GET", {"Sec-WebSocket-Protocol": f"{token_protocol('admin-token')}, v2"}, 400),
    "no handshake": ("GET", {"Upgrade": "h2c", "Authorization": "Bearer admin-token"}, 400),
    "another version": ("GET", {"Sec-WebSocket-Version": "8"}, 400),
    "another method": ("POST", {}, 405),
    "headers that are too long": ("GET", {"Impersonate-User": "x" * 20_000}, 400),
}


@pytest.mark.parametrize(("method", "headers", "status"), HANDSHAKES.values(), ids=HANDSHAKES)
def test_handshakes_that_are_refused(
    method: str, headers: dict[str, str], status: int, shared: ServerProcess
) -> None:
    with Api(shared, token="") as stranger:
        refused = stranger.send(method, PATH, headers=HANDSHAKE | headers)
    assert (refused.status, refused.json["kind"]) == (status, "Status")


@pytest.mark.parametrize("origin", ["", "https://board.example"])
def test_pages_of_allowed_origins_may_open_one(origin: str, shared: ServerProcess) -> None:
    with watching(shared, origin=origin or shared.url) as client:
        client.begin(1, "/api/v1/pods?watch=true")


def test_other_clients_send_their_credentials_as_headers(shared: ServerProcess) -> None:
    with watching(shared, "", Authorization="Bearer admin-token") as client:
        client.begin(1, "/api/v1/pods?watch=true")


def test_without_the_console_there_is_no_such_path(tmp_path_factory: pytest.TempPathFactory) -> None:
    with (
        ServerProcess(tmp_path_factory.mktemp("server") / "data", "--console=false") as server,
        Api(server) as api,
    ):
        assert api.send("GET", PATH, headers=HANDSHAKE).status == 404


# ---- the server


def test_the_websocket_is_closed_when_the_server_stops(tmp_path_factory: pytest.TempPathFactory) -> None:
    with (
        ServerProcess(tmp_path_factory.mktemp("server") / "data") as server,
        watching(server) as client,
        watching(server) as idle,
    ):
        client.begin(1, watch_of("/api/v1/podtemplates", "allowWatchBookmarks=true&resourceVersion=0"))
        assert client.event(1)["type"] == "BOOKMARK"  # of the initial events
        client.begin(2, "/api/v1/podtemplates?watch=true")
        server.send_signal(signal.SIGTERM)
        messages = [json.loads(client.receive()) for _ in range(2)]
        assert sorted(each["id"] for each in messages if each["end"] == {"status": None}) == [1, 2]
        assert client.close_code() == WSCloseCode.GOING_AWAY
        assert idle.close_code() == WSCloseCode.GOING_AWAY
        assert server.wait() == 0
        assert "Traceback" not in server.stderr


def test_it_lasts_longer_than_requests_may(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", "--request-timeout=1s") as server, watching(server) as client:
        path = watch_of("/api/v1/podtemplates", "timeoutSeconds=3")
        client.begin(1, path)
        client.begin(2, path)
        assert [client.end(number) for number in (1, 2)] == [None, None]
        client.begin(1, path)


def test_what_the_audit_log_has(tmp_path: Path) -> None:
    """The handshake, and each subscription as the watch that it is."""
    flags = audit_flags(tmp_path)
    with ServerProcess(tmp_path / "data", *flags) as server:
        with watching(server, **{"User-Agent": "tab"}) as client:
            client.begin(1, "/api/v1/podtemplates?watch=true")
            client.subscribe(2, "/api/v1/podtemplates?watch=true&resourceVersion=x")
            assert client.end(2)["code"] == 400
        server.stop()
        lines = (tmp_path / "audit.log").read_text().splitlines()
    events = [event for event in map(json.loads, lines) if event["user"]["username"] == "admin"]
    assert {(event["userAgent"], event["sourceIPs"][0]) for event in events} == {("tab", "127.0.0.1")}
    answers = [
        (event["stage"], event["verb"], event["requestURI"], event["responseStatus"]["code"])
        for event in events
        if event["stage"] != "RequestReceived"
    ]
    watch = "/api/v1/podtemplates?watch=true"
    assert sorted(answers) == [
        ("ResponseComplete", "get", PATH, 101),
        ("ResponseComplete", "watch", watch, 200),
        ("ResponseComplete", "watch", f"{watch}&resourceVersion=x", 400),
        ("ResponseStarted", "get", PATH, 101),
        ("ResponseStarted", "watch", watch, 200),
        ("ResponseStarted", "watch", f"{watch}&resourceVersion=x", 400),
    ]
    assert len({event["auditID"] for event in events}) == 3


def test_an_object_that_may_not_be_watched_by_its_path(tmp_path: Path) -> None:
    """With kube-apiserver's rules such a request gets the object, which is no watch."""
    with (
        ServerProcess(tmp_path / "data", "--strict-kube-compat") as server,
        watching(server) as client,
    ):
        client.subscribe(1, "/api/v1/namespaces/default?watch=true")
        status = client.end(1)
        assert (status["code"], status["message"]) == (400, "path: is not that of a watch")


def test_how_metrics_count_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    """As what runs long; the subscriptions as watches."""
    name = "apiserver_longrunning_requests"
    with ServerProcess(tmp_path_factory.mktemp("server") / "data") as server, Api(server) as api:
        with watching(server) as client:
            client.begin(1, "/api/v1/podtemplates?watch=true")
            assert metric(api, name, verb="CONNECT", resource="") == 1
            assert metric(api, name, verb="WATCH", resource="podtemplates") == 1
        until(lambda: metric(api, name), lambda found: found == 0)
        assert metric(api, "apiserver_request_total", verb="CONNECT", resource="", code="101") == 1
        assert metric(api, "apiserver_request_total", verb="WATCH", resource="podtemplates", code="200") == 1
