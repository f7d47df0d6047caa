"""The subresource `proxy` of pods, services and nodes: requests forwarded to other servers. Row A08.

Sources: k8s.io/kubernetes, test/e2e/network/proxy.go; k8s.io/apimachinery, pkg/util/proxy.
"""

from __future__ import annotations

import asyncio
import gzip
import threading
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from http.client import HTTPException
from typing import Any, Final

import pytest
from aiohttp import web

from tests.support.api import Api, until_status
from tests.support.backend_server import BackendServer, Speaking, own_address
from tests.support.eventually import WITHIN_S, until
from tests.support.fixtures import server_with
from tests.support.metrics import metrics_of
from tests.support.offloaded import LARGE, pieces_offloaded
from tests.support.raw import raw_connection
from tests.support.rbac import grant, rule
from tests.support.websocket_client import connected

DENIED: Final = "198.51.100.0/24"
SLOTS: Final = 4


# Few slots, all of which a test can fill.
server = server_with(
    f"--proxy-deny-cidrs={DENIED}",
    f"--max-requests-inflight={SLOTS}",
    f"--max-mutating-requests-inflight={SLOTS}",
)


@pytest.fixture(scope="module")
def served_backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackendServer]:
    with BackendServer(tmp_path_factory.mktemp("backend")) as backend:
        yield backend


@pytest.fixture
def backend(served_backend: BackendServer) -> BackendServer:
    served_backend.reset()
    return served_backend


@pytest.fixture(scope="module")
def address() -> str:
    return own_address()


@pytest.fixture
def core(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}"


def create_pod(api: Api, core: str, address: str, port: int, name: str = "p") -> None:
    container = {"name": "c", "image": "i", "ports": [{"containerPort": port}]}
    api.post(f"{core}/pods", {"metadata": {"name": name}, "spec": {"containers": [container]}}).ok()
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
    api.patch(f"{core}/pods/{name}/status", {"status": status}).ok()


@pytest.fixture
def pod(api: Api, core: str, backend: BackendServer, address: str) -> str:
    """The proxy of a pod whose first port is the backend's."""
    create_pod(api, core, address, backend.port)
    return f"{core}/pods/p/proxy"


@pytest.fixture
def raw_pod(api: Api, core: str, backend: BackendServer, address: str) -> str:
    """The proxy of a pod that speaks as a test has it."""
    create_pod(api, core, address, backend.raw_port)
    return f"{core}/pods/p/proxy"


def shown(answer: Any) -> dict[str, Any]:
    """What the backend has seen."""
    seen: dict[str, Any] = answer.ok()
    return seen


# ---- what is passed on


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_any_method_is_passed_on(api: Api, pod: str, method: str) -> None:
    body = b"some text" if method in ("POST", "PUT", "PATCH") else None
    seen = shown(api.send(method, f"{pod}/a/b?c=%20d", body, type="text/plain"))
    assert (seen["method"], seen["target"], seen["body"]) == (method, "/a/b?c=%20d", (body or b"").decode())


def test_head_has_no_body(api: Api, pod: str) -> None:
    answer = api.send("HEAD", f"{pod}/x")
    assert answer.status == 200
    assert int(answer.headers["content-length"]) > 0
    assert answer.body == b""


PATHS: Final = {
    "the root": ("/", "/"),
    "a slash at the end": ("/a/", "/a/"),
    "escapes": ("/a%20b%3F", "/a%20b%3F"),
    "an escaped slash": ("/a%2Fb", "/a/b"),
    "double slashes": ("/a//b", "/a/b"),
    "slashes first": ("//a", "/a"),
    "dots": ("/a/../b/./c", "/b/c"),
    "above the root": ("/../../x", "/x"),
    "names of the API": ("/api/v1/watch/pods?watch=true", "/api/v1/watch/pods?watch=true"),
    "a query without a path": ("?a=b", "/?a=b"),
    "backslashes, which separate nothing": ("/a/\\..\\b", "/a/%5C..%5Cb"),
    "escaped backslashes": ("/a/%5C..%5Cb", "/a/%5C..%5Cb"),
    "a parameter path": ("/x?path=/y", "/x?path=/y"),
}


@pytest.mark.parametrize(("below", "target"), PATHS.values(), ids=PATHS)
def test_which_path_the_backend_sees(api: Api, pod: str, below: str, target: str) -> None:
    assert shown(api.post(f"{pod}{below}", b"", type="text/plain"))["target"] == target


def test_the_root_is_asked_for_with_a_slash(api: Api, pod: str) -> None:
    answer = api.get(f"{pod}?a=b")
    assert (answer.status, answer.headers["location"]) == (301, f"{pod}/?a=b")


def test_a_backend_does_not_learn_who_asks(api: Api, pod: str) -> None:
    given = {
        "Impersonate-User": "admin",
        "Impersonate-Group": "system:masters",
        "X-Remote-User": "root",
        "Cookie": "a=b",
        "X-Forwarded-For": "192.0.2.77",
        "Connection": "keep-alive, X-Hop",
        "X-Hop": "1",
    }
    seen = dict(shown(api.get(f"{pod}/x", headers=given))["headers"])
    assert not seen.keys() & {"authorization", "x-remote-user", "x-hop"}
    assert not [name for name in seen if name.startswith("impersonate")]
    assert seen["cookie"] == "a=b"
    assert seen["x-forwarded-for"] == "192.0.2.77, 127.0.0.1"
    assert seen["x-forwarded-uri"] == f"{pod}/x"
    assert seen["host"] == api.server.url.removeprefix("https://")


BODIES: Final = {
    "without a body": (b"", b""),
    "with a body": (b"Content-Length: 5\r\n", b"hello"),
    "with a body of any length": (b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n0\r\n\r\n"),
    "for an upgrade": (b"Connection: Upgrade\r\nUpgrade: a\xe9\r\n", b""),
}


@pytest.mark.parametrize(("framing", "body"), BODIES.values(), ids=BODIES)
def test_headers_that_are_not_utf8_are_passed_on_as_they_are(
    api: Api, raw_pod: str, backend: BackendServer, framing: bytes, body: bytes
) -> None:
    """Browsers send headers that a page sets, and cookies, as latin-1."""
    seen: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        if body:
            seen.append(await reader.readuntil(body))
        writer.write(b"HTTP/1.1 418 T\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()

    backend.speaking = answer
    given = [b"Cookie: name=Jos\xe9", b"X-Own: \xff", b"X-Own: \xc3\xa9\xe9", b"X-Forwarded-For: \xe9"]
    with raw_connection(api.server) as connection:
        head = f"PUT {raw_pod}/x HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer admin-token\r\n".encode()
        connection.sendall(head + b"\r\n".join(given) + b"\r\n" + framing + b"\r\n" + body)
        assert connection.recv(12) == b"HTTP/1.1 418"
    lines = seen[0].split(b"\r\n")
    assert set(given[:-1]) < set(lines)
    assert b"X-Forwarded-For: \xe9, 127.0.0.1" in lines
    assert lines.count(b"Upgrade: a\xe9") == framing.count(b"Upgrade: a")
    assert seen[1:] == [body] * bool(body)


def test_what_a_client_sees_of_an_answer(api: Api, pod: str, backend: BackendServer) -> None:
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        response = web.Response(status=418, text="short and stout")
        response.headers.extend({"X-Own": "1", "Access-Control-Allow-Origin": "*", "Audit-Id": "mine"})
        response.headers.add("Set-Cookie", "a=b")
        response.headers.add("Set-Cookie", "c=d")
        return response

    backend.answering = answer
    answered = api.get(f"{pod}/x")
    assert (answered.status, answered.body) == (418, b"short and stout")
    values = [value for name, value in answered.all_headers if name == "set-cookie"]
    assert values == ["a=b", "c=d"]
    assert answered.headers["x-own"] == "1"
    assert answered.headers["cache-control"] == "no-cache, private"
    assert "access-control-allow-origin" not in answered.headers
    assert answered.headers["audit-id"] != "mine"


PAGE: Final = b'<html><a href="/x">x</a><img src="y"><script>a="/z"</script></html>'


@pytest.mark.parametrize("encoding", ["", "gzip", "deflate"])
def test_links_of_pages_lead_back(api: Api, pod: str, backend: BackendServer, encoding: str) -> None:
    deflate = zlib.compressobj(wbits=-15)
    bodies = {"": PAGE, "gzip": gzip.compress(PAGE), "deflate": deflate.compress(PAGE) + deflate.flush()}

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        headers = {"Content-Type": "text/html; charset=utf-8"}
        return web.Response(
            body=bodies[encoding], headers=headers | ({"Content-Encoding": encoding} if encoding else {})
        )

    backend.answering = answer
    answered = api.get(f"{pod}/x", headers={"Accept-Encoding": "gzip"})
    assert answered.body == PAGE.replace(b'"/x"', f'"{pod}/x"'.encode())
    assert "content-encoding" not in answered.headers


def test_redirects_lead_back(api: Api, pod: str, backend: BackendServer) -> None:
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": "/there?a=b"})

    backend.answering = answer
    answered = api.get(f"{pod}/x")
    assert (answered.status, answered.headers["location"]) == (302, f"{pod}/there?a=b")


def test_bodies_stream_in_both_directions(api: Api, pod: str, backend: BackendServer) -> None:
    """Each side sends its next piece when it has the other's: nothing waits for an end."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while piece := await request.content.readany():
            await response.write(b"<%b>" % piece)
        await response.write_eof()
        return response

    backend.answering = answer
    with raw_connection(api.server) as connection:
        head = f"POST {pod}/x HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer admin-token\r\n"
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        received = b""
        for number in range(3):
            piece = b"piece-%d" % number
            connection.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
            while b"<%b>" % piece not in received:
                data = connection.recv(65_536)
                assert data
                received += data
        connection.sendall(b"0\r\n\r\n")
        while not received.endswith(b"0\r\n\r\n"):
            received += connection.recv(65_536)


def test_a_client_that_asks_whether_its_body_may_come(api: Api, pod: str) -> None:
    with raw_connection(api.server) as connection:
        head = f"POST {pod}/x HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer admin-token\r\n"
        connection.sendall(f"{head}Content-Length: 5\r\nExpect: 100-continue\r\n\r\n".encode())
        assert connection.recv(65_536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"hello")
        received = b""
        while b'"body":"hello"' not in received:
            received += connection.recv(65_536)
        assert received.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"100-continue" not in received


def test_a_part_of_a_page_stays_as_it_is(api: Api, pod: str, backend: BackendServer) -> None:
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        headers = {"Content-Type": "text/html", "Content-Range": f"bytes 0-{len(PAGE) - 1}/999"}
        return web.Response(status=206, body=PAGE, headers=headers)

    backend.answering = answer
    assert api.get(f"{pod}/x").body == PAGE


def test_bodies_of_any_length(api: Api, pod: str, backend: BackendServer) -> None:
    """Longer than what any object may have, and than what is held of them."""
    body = bytes(range(256)) * 32_768
    assert shown(api.put(f"{pod}/x", body, type="application/octet-stream"))["body"] == body.decode("latin-1")


# ---- where requests go


def test_names_of_pods(api: Api, core: str, pod: str, backend: BackendServer) -> None:
    port, tls = backend.port, backend.tls_port
    for name in ("p", f"p:{port}", f"http:p:{port}", f":p:{port}", f"https:p:{tls}"):
        assert shown(api.get(f"{core}/pods/{name}/proxy/x"))["target"] == "/x", name
    for name in ("a:b:c:d", "ftp:p:1", ":", "http::1"):
        refused = api.get(f"{core}/pods/{name}/proxy/x")
        assert (refused.status, refused.message) == (400, f'invalid pod request "{name}"')
    assert api.get(f"{core}/pods/q/proxy/x").message == 'pods "q" not found'


ADDRESSES: Final = (
    "",
    "127.0.0.1",
    "169.254.169.254",
    "224.0.0.1",
    "0.0.0.0",
    "::1",
    "fe80::1",
    "255.255.255.255",
)


@pytest.mark.parametrize("ip", ADDRESSES)
def test_addresses_that_no_pod_has(api: Api, core: str, ip: str) -> None:
    api.post(f"{core}/pods", {"metadata": {"name": "p"}, "spec": {"containers": [CONTAINER]}}).ok()
    if ip:
        api.patch(f"{core}/pods/p/status", {"status": {"podIP": ip, "podIPs": [{"ip": ip}]}}).ok()
    refused = api.get(f"{core}/pods/p/proxy/x")
    assert (refused.status, refused.message) == (400, "address not allowed")


CONTAINER: Final = {"name": "c", "image": "i"}


def test_denied_addresses(api: Api, core: str) -> None:
    create_pod(api, core, "198.51.100.9", 80)
    refused = api.get(f"{core}/pods/p/proxy/x")
    told = "dial tcp 198.51.100.9: address is denied by --proxy-deny-cidrs"
    assert (refused.status, refused.reason, refused.message) == (403, "Forbidden", told)
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}
    assert api.get(f"{core}/pods/p/proxy/x", headers=upgrade).message == told


def create_service(api: Api, core: str, *ports: dict[str, Any], **spec: Any) -> None:
    body = {"metadata": {"name": "s"}, "spec": {"ports": list(ports), **spec}}
    api.post(f"{core}/services", body).ok()


def create_slice(api: Api, core: str, name: str, *endpoints: dict[str, Any], **ports: int) -> None:
    group = core.replace("/api/v1", "/apis/discovery.k8s.io/v1")
    api.post(
        f"{group}/endpointslices",
        {
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "s"}},
            "addressType": "IPv4",
            "endpoints": list(endpoints),
            "ports": [{"name": each.strip("_"), "port": port} for each, port in ports.items()],
        },
    ).ok()


def test_services_are_at_their_endpoints(api: Api, core: str, backend: BackendServer, address: str) -> None:
    create_service(api, core, {"name": "web", "port": 80}, {"name": "tls", "port": 443})
    create_slice(
        api,
        core,
        "one",
        {"addresses": [address], "conditions": {"ready": True}},
        {"addresses": ["198.51.100.1"], "conditions": {"ready": False}},
        web=backend.port,
        tls=backend.tls_port,
    )
    for name in ("s:web", "s:80", "http:s:web", "https:s:tls", "https:s:443"):
        assert shown(api.get(f"{core}/services/{name}/proxy/x"))["target"] == "/x", name


LARGE_OBJECTS: Final = {
    "a pod": (("pods/p",), "pods/p/proxy/x", 1),
    "a Service": (("services/s",), "services/s:web/proxy/x", 1),
    "a Service and its slices": (
        ("services/s", "endpointslices/one", "endpointslices/two"),
        "services/s:80/proxy/x",
        3,
    ),
    "a node": (("nodes/{}",), "nodes/{}/proxy/x", 1),
}


@pytest.mark.parametrize(("paths", "asked", "expected"), LARGE_OBJECTS.values(), ids=LARGE_OBJECTS)
def test_large_objects_are_decoded_beside_the_event_loop(
    api: Api,
    core: str,
    namespace: str,
    pod: str,
    backend: BackendServer,
    address: str,
    paths: tuple[str, ...],
    asked: str,
    expected: int,
) -> None:
    create_service(api, core, {"name": "web", "port": 80})
    for name in ("one", "two"):
        create_slice(api, core, name, {"addresses": [address]}, web=backend.port)
    create_node(api, namespace, backend.tls_port, ("InternalIP", "127.0.0.1"))
    folders = {"nodes": "/api/v1", "endpointslices": core.replace("/api/v1", "/apis/discovery.k8s.io/v1")}

    def path_of(text: str) -> str:
        return f"{folders.get(text.partition('/')[0], core)}/{text.format(namespace)}"

    ask = partial(api.get, path_of(asked))
    small = pieces_offloaded(api, ask)
    for path in paths:
        api.patch(path_of(path), {"metadata": {"annotations": LARGE}}).ok()
    assert pieces_offloaded(api, ask) - small == expected


def test_a_headless_service_with_one_port(api: Api, core: str, backend: BackendServer, address: str) -> None:
    create_service(api, core, {"port": 80}, clusterIP="None")
    create_slice(api, core, "one", {"addresses": [address]}, _=backend.port)
    for name in ("s", "s:80", "http:s:"):
        assert shown(api.get(f"{core}/services/{name}/proxy/x"))["target"] == "/x", name


def test_services_without_endpoints(api: Api, core: str) -> None:
    create_service(api, core, {"name": "web", "port": 80})
    missing = api.get(f"{core}/services/t:web/proxy/x")
    assert (missing.status, missing.message) == (404, 'services "t" not found')
    unknown = api.get(f"{core}/services/s:web/proxy/x")
    assert (unknown.status, unknown.message) == (404, 'services "s" not found'), "it has no Endpoints"
    assert unknown.json["details"] == {"name": "s", "kind": "services"}

    def check(messages: dict[str, str]) -> None:
        for name, message in messages.items():
            refused = api.get(f"{core}/services/{name}/proxy/x")
            assert (refused.status, refused.reason) == (503, "ServiceUnavailable")
            assert refused.message == message

    api.post(f"{core}/endpoints", {"metadata": {"name": "s"}}).ok()
    empty = 'no endpoints available for service "s"'
    check(dict.fromkeys(("s:web", "s:80", "s", "http:s:"), empty))
    create_slice(api, core, "one", {"addresses": ["10.1.1.1"], "conditions": {"ready": False}}, web=1)
    names = ("s:web", "s:80", "s", "s:other", "http:s:web")
    check({name: f'no endpoints available for service "{name}"' for name in names})
    check({"s:81": 'no service port 81 found for service "s"'})
    assert api.get(f"{core}/services/a:b:c:d/proxy/x").message == 'invalid service request "a:b:c:d"'


def create_node(api: Api, name: str, port: int, *addresses: tuple[str, str]) -> str:
    api.post("/api/v1/nodes", {"metadata": {"name": name}}).ok()
    status = {
        "addresses": [{"type": kind, "address": address} for kind, address in addresses],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    api.patch(f"/api/v1/nodes/{name}/status", {"status": status}).ok()
    return f"/api/v1/nodes/{name}"


def test_nodes_are_at_their_kubelets(api: Api, namespace: str, backend: BackendServer, address: str) -> None:
    """The kubelet itself may be anywhere; another port of the node only where pods may be."""
    node = create_node(
        api, namespace, backend.tls_port, ("InternalIP", "127.0.0.1"), ("ExternalIP", "203.0.113.1")
    )
    for name in (node, f"{node}:{backend.tls_port}"):
        assert shown(api.get(f"{name}/proxy/stats/"))["target"] == "/stats/"
    refused = api.get(f"{node}:{backend.port}/proxy/x")
    assert (refused.status, refused.message) == (400, "address not allowed")
    other = create_node(api, f"{namespace}-2", backend.tls_port, ("InternalIP", address))
    assert shown(api.get(f"{other}:{backend.port}/proxy/x"))["target"] == "/x"
    nowhere = create_node(api, f"{namespace}-3", 1)
    refused = api.get(f"{nowhere}/proxy/x")
    told = "no preferred addresses found; known addresses: []"
    assert (refused.status, refused.message) == (500, told)


# ---- who may


def test_the_verb_follows_the_method(api: Api, namespace: str, pod: str) -> None:
    """And the name is the one in the path, with its port."""
    grant(api, namespace, "alice", rule("get", "pods/proxy", "p"))
    with api.as_caller("alice-token") as alice:
        until_status(200, lambda: alice.get(f"{pod}/x"))
        assert alice.send("HEAD", f"{pod}/x").status == 200
        for method, verb in {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.items():
            refused = alice.send(method, f"{pod}/x")
            assert refused.status == 403
            assert f'cannot {verb} resource "pods/proxy"' in refused.message
        other_port = pod.replace("/pods/p/", "/pods/p:80/")
        assert alice.get(f"{other_port}/x").status == 403


# ---- backends that do not behave


async def closes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")


async def talks_nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
    await writer.drain()


async def has_a_long_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\n")
    for _ in range(1_000):
        writer.write(b"X-Long: %b\r\n" % (b"x" * 1_000))
        await writer.drain()


async def switches(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
    await writer.drain()


BAD_BACKENDS: Final[dict[str, Speaking]] = {
    "hangs up": closes,
    "is no HTTP": talks_nonsense,
    "has a head without end": has_a_long_head,
    "changes the protocol unasked": switches,
}


@pytest.mark.parametrize("speaking", BAD_BACKENDS.values(), ids=BAD_BACKENDS)
def test_a_backend_that_does_not_answer(
    api: Api, raw_pod: str, backend: BackendServer, speaking: Speaking
) -> None:
    backend.speaking = speaking
    refused = api.get(f"{raw_pod}/x")
    assert (refused.status, refused.reason) == (503, "ServiceUnavailable")
    assert refused.message.startswith("error trying to reach service: ")
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}
    if speaking is not switches:
        assert api.get(f"{raw_pod}/x", headers=upgrade).status == 500


BAD_LINES: Final = {
    "a line feed in a value": b"X-A: a\nX-Evil: b\r\n",
    "a carriage return in a value": b"X-A: a\rX-Evil: b\r\n",
    "a null": b"X-A: a\0b\r\n",
}


@pytest.mark.parametrize("line", BAD_LINES.values(), ids=BAD_LINES)
@pytest.mark.parametrize("before", [b"", b"HTTP/1.1 100 Continue\r\n\r\n"], ids=["at once", "later"])
def test_headers_of_which_others_see_others_are_refused(
    api: Api, raw_pod: str, backend: BackendServer, line: bytes, before: bytes
) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(before + b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + line + b"\r\n")
        await writer.drain()

    backend.speaking = speak
    for headers in ({}, {"Connection": "Upgrade", "Upgrade": "websocket"}):
        refused = api.get(f"{raw_pod}/x", headers=headers)
        assert refused.status == 502
        assert refused.message.startswith("error trying to reach service: net/http: ")
        assert "x-evil" not in refused.headers


def test_nothing_listens(api: Api, core: str, address: str) -> None:
    create_pod(api, core, address, 1)
    refused = api.get(f"{core}/pods/p/proxy/x")
    dial = f"dial tcp {address}:1: connect: connection refused"
    assert (refused.status, refused.message) == (503, f"error trying to reach service: {dial}")
    upgraded = api.get(f"{core}/pods/p/proxy/x", headers={"Connection": "Upgrade", "Upgrade": "x"})
    assert (upgraded.status, upgraded.message) == (500, f"error dialing backend: {dial}")
    unknown = api.get(f"{core}/pods/p:http/proxy/x")
    assert (unknown.status, unknown.reason) == (503, "ServiceUnavailable")


@pytest.mark.parametrize(
    "head", [b"Content-Length: 100", b"Transfer-Encoding: chunked"], ids=["of a length", "in chunks"]
)
def test_an_answer_that_is_cut_off(api: Api, raw_pod: str, backend: BackendServer, head: bytes) -> None:
    """The client sees that something is missing."""

    async def breaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n%b\r\n\r\n5\r\nhello\r\n" % head)
        await writer.drain()

    backend.speaking = breaks
    with pytest.raises((HTTPException, OSError)):
        api.get(f"{raw_pod}/x")
    api.close()


@pytest.mark.parametrize("upgrades", [False, True], ids=["a request", "an upgrade"])
@pytest.mark.parametrize("answers", [False, True], ids=["that waits", "under way"])
def test_a_client_that_leaves_takes_its_request_along(
    api: Api, raw_pod: str, backend: BackendServer, upgrades: bool, answers: bool
) -> None:
    asked, gone = threading.Event(), threading.Event()

    async def stays(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if answers:
            status = b"101 S\r\nConnection: Upgrade\r\nUpgrade: x" if upgrades else b"200 OK"
            writer.write(b"HTTP/1.1 %b\r\n\r\nhello" % status)
        asked.set()
        await reader.read()
        gone.set()

    backend.speaking = stays
    with raw_connection(api.server) as connection:
        upgrade = "Connection: Upgrade\r\nUpgrade: x\r\n" if upgrades else ""
        head = f"GET {raw_pod}/x HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer admin-token\r\n{upgrade}\r\n"
        connection.sendall(head.encode())
        assert asked.wait(WITHIN_S)
        received = b""
        while answers and b"hello" not in received:
            received += connection.recv(65_536)
    assert gone.wait(WITHIN_S)


@pytest.mark.slow
def test_forwarded_requests_hold_no_slot(
    api: Api, namespace: str, core: str, raw_pod: str, backend: BackendServer
) -> None:
    """More of them than there are slots wait for a backend, and others are served."""
    asked: list[int] = []

    async def hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.append(1)
        await reader.read()

    backend.speaking = hangs
    grant(api, namespace, "alice", rule("*", "*"))
    with api.as_caller("alice-token") as alice:
        until_status(200, lambda: alice.get(f"{core}/pods"))
        waiting = []
        try:
            for number in range(2 * SLOTS + 2):
                method = "GET" if number % 2 else "POST"
                opened = raw_connection(api.server)
                connection = opened.__enter__()
                waiting.append(opened)
                head = (
                    f"{method} {raw_pod}/x HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer alice-token\r\n\r\n"
                )
                connection.sendall(head.encode())
            until(lambda: len(asked), lambda count: count == 2 * SLOTS + 2)
            assert alice.get(f"{core}/pods").status == 200
            assert alice.post(f"{core}/configmaps", {"metadata": {"name": "c"}}).status == 201
            # Those of tests before may be on their way out.
            open_ones = (
                'apiserver_longrunning_requests{component="apiserver",group="",resource="pods",'
                f'scope="resource",subresource="proxy",verb="CONNECT",version="v1"}} {2 * SLOTS + 2}\n'
            ).encode()
            until(lambda: api.get("/metrics").body, lambda text: open_ones in text)
        finally:
            for opened in waiting:
                opened.__exit__(None, None, None)


# ---- upgrades


def test_a_websocket(api: Api, pod: str, backend: BackendServer) -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=["chat"])
        await socket.prepare(request)
        async for message in socket:
            await socket.send_bytes(message.data)
        return socket

    backend.answering = answer
    headers = {"Authorization": "Bearer admin-token"}
    with connected(api.server, f"{pod}/x", "chat", **headers) as client:
        assert client.protocol == "chat"
        for size in (1, 70_000, 1_000_000):
            client.send(2, b"x" * size)
            received = b""
            while len(received) < size:
                received += client.receive()[1]
            assert received == b"x" * size


def upgrade_request(path: str) -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer admin-token\r\n"
        "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4\r\n\r\n"
    ).encode()


def test_any_protocol_passes_as_it_is(api: Api, raw_pod: str, backend: BackendServer) -> None:
    """Bytes that are no HTTP, in both directions, more of them than are held; then one end closes."""
    data = bytes(range(256)) * 4096
    heads: list[bytes] = []

    async def echoes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\nhi"
        )
        writer.write(await reader.readexactly(len(data)))
        await writer.drain()

    backend.speaking = echoes
    with raw_connection(api.server) as connection:
        connection.sendall(upgrade_request(f"{raw_pod}/x?y=z"))
        received = b""
        while not received.endswith(b"\r\n\r\nhi"):
            received += connection.recv(65_536)
        assert received.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
        connection.sendall(data)
        answered = b""
        while piece := connection.recv(65_536):
            answered += piece
        assert answered == data
    head = heads[0].decode()
    assert head.startswith("POST /x?y=z HTTP/1.1\r\n")
    assert "Upgrade: SPDY/3.1\r\n" in head
    assert "X-Stream-Protocol-Version: v4\r\n" in head
    assert "Authorization" not in head


def test_a_backend_that_is_not_read_is_not_read_on(api: Api, raw_pod: str, backend: BackendServer) -> None:
    """What a client sends is not gathered here while the backend takes nothing."""
    stop = threading.Event()

    async def reads_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
        await asyncio.to_thread(stop.wait, WITHIN_S)

    backend.speaking = reads_nothing
    with raw_connection(api.server) as connection:
        connection.sendall(upgrade_request(f"{raw_pod}/x"))
        assert connection.recv(65_536).endswith(b"\r\n\r\n")
        connection.settimeout(1)
        sent = 0
        with suppress(TimeoutError):
            while sent < 1 << 30:
                sent += connection.send(b"x" * 65_536)
        stop.set()
    assert sent < 64 * 1024 * 1024


REFUSALS: Final = {
    "an error": (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\nX-Own: 1\r\n\r\nnope", 403, b"nope"),
    "in chunks": (
        b"HTTP/1.1 400 B\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nnope\r\n0\r\n\r\n",
        400,
        b"nope",
    ),
}


@pytest.mark.parametrize(("answer", "status", "body"), REFUSALS.values(), ids=REFUSALS)
def test_a_backend_that_does_not_upgrade(
    api: Api, raw_pod: str, backend: BackendServer, answer: bytes, status: int, body: bytes
) -> None:
    async def refuses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await reader.read()

    backend.speaking = refuses
    refused = api.get(f"{raw_pod}/x", headers={"Connection": "Upgrade", "Upgrade": "websocket"})
    assert (refused.status, refused.body) == (status, body)


def test_an_upgrade_that_is_answered_as_if_there_were_none(api: Api, pod: str) -> None:
    refused = api.get(f"{pod}/x", headers={"Connection": "Upgrade", "Upgrade": "h2c"})
    assert (refused.status, refused.message) == (500, "invalid upgrade response: status code 200")


def test_an_upgrade_with_a_body(api: Api, pod: str) -> None:
    refused = api.post(f"{pod}/x", b"body", headers={"Connection": "Upgrade", "Upgrade": "h2c"})
    assert (refused.status, refused.reason) == (400, "BadRequest")


# ---- what operators see


def test_metrics(api: Api, pod: str) -> None:
    shown(api.get(f"{pod}/x"))
    labels = (
        'component="apiserver",dry_run="",group="",resource="pods",scope="resource",'
        'subresource="proxy",verb="CONNECT",version="v1",code="200"'
    )
    assert labels in metrics_of(api)


def test_discovery(api: Api) -> None:
    listed = {each["name"]: each for each in api.get("/api/v1").ok()["resources"]}
    verbs = ["create", "delete", "get", "patch", "update"]
    for name, kind in {"pods": "Pod", "services": "Service", "nodes": "Node"}.items():
        found = listed[f"{name}/proxy"]
        assert (found["kind"], found["verbs"]) == (f"{kind}ProxyOptions", verbs)
