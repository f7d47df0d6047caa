"""Logs, exec, attach and port-forward: the kubelet of a pod's node answers.

Source: k8s.io/kubernetes, pkg/registry/core/pod/strategy_test.go and pkg/registry/core/pod/rest.
"""

from __future__ import annotations

import base64
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import pytest
from cryptography import x509

from apiserver.app.serving import pki
from tests.support.api import Api
from tests.support.eventually import WITHIN_S, until
from tests.support.fake_kubelet import FakeKubelet
from tests.support.kubectl import Kubectl, each_version, program
from tests.support.offloaded import LARGE, pieces_offloaded
from tests.support.raw import raw_connection
from tests.support.required import library
from tests.support.server_process import ServerProcess
from tests.support.websocket_client import connected

ADMIN: Final = {"Authorization": "Bearer admin-token"}


@pytest.fixture(scope="module")
def served_kubelet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeKubelet]:
    with FakeKubelet(tmp_path_factory.mktemp("kubelet")) as kubelet:
        yield kubelet


@pytest.fixture
def kubelet(served_kubelet: FakeKubelet) -> FakeKubelet:
    served_kubelet.asked.clear()
    served_kubelet.answers.clear()
    return served_kubelet


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, served_kubelet: FakeKubelet) -> Iterator[ServerProcess]:
    """A server that kubelets know by the administrator's certificate."""
    files = served_kubelet.pki
    with ServerProcess(
        tmp_path_factory.mktemp("server") / "data",
        f"--kubelet-certificate-authority={files.ca_cert}",
        f"--kubelet-client-certificate={files.admin_cert}",
        f"--kubelet-client-key={files.admin_key}",
        "--kubelet-preferred-address-types=InternalIP,Hostname",
    ) as server:
        yield server


@pytest.fixture
def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def create_node(api: Api, name: str, port: int, address: str = "127.0.0.1") -> None:
    api.post("/api/v1/nodes", {"metadata": {"name": name}}).ok()
    addresses = [{"type": "InternalIP", "address": address}]
    endpoint = {"kubeletEndpoint": {"Port": port}}
    status = {"status": {"addresses": addresses, "daemonEndpoints": endpoint}}
    api.patch(f"/api/v1/nodes/{name}/status", status).ok()


def create_pod(api: Api, pods: str, node: str, *containers: str, **spec: Any) -> None:
    listed = [{"name": name, "image": "i"} for name in containers or ("c",)]
    scheduled = {"nodeName": node} if node else {}
    body = {"metadata": {"name": "p"}, "spec": {"containers": listed, **scheduled, **spec}}
    api.post(pods, body).ok()
    api.patch(f"{pods}/p/status", {"status": {"phase": "Running"}}).ok()


@pytest.fixture
def pod(api: Api, pods: str, namespace: str, kubelet: FakeKubelet) -> str:
    """A pod with one container, on a node that has a kubelet."""
    create_node(api, namespace, kubelet.port)
    create_pod(api, pods, namespace)
    return f"{pods}/p"


def enlarge(api: Api, path: str) -> None:
    api.patch(path, {"metadata": {"annotations": LARGE}}).ok()


@pytest.mark.parametrize("below", ["log", "exec?command=sh", "attach", "portforward?ports=1"])
def test_large_pods_and_nodes_are_decoded_beside_the_event_loop(
    api: Api, pod: str, namespace: str, below: str
) -> None:
    ask = partial(api.get, f"{pod}/{below}")
    small = pieces_offloaded(api, ask)
    enlarge(api, pod)
    enlarge(api, f"/api/v1/nodes/{namespace}")
    assert pieces_offloaded(api, ask) - small == 2


# ---- logs


def test_a_log(api: Api, pod: str, namespace: str, kubelet: FakeKubelet) -> None:
    query = "previous=true&timestamps=1&tailLines=5&limitBytes=100&sinceTime=2026-01-01T01:00:00%2B01:00"
    answer = api.get(f"{pod}/log?{query}&container=c&follow=false")
    assert (answer.status, answer.body) == (200, b"line1\nline2\n")
    assert answer.headers["content-type"] == "text/plain"
    asked = kubelet.asked[0]
    parameters = "limitBytes=100&previous=true&sinceTime=2026-01-01T00%3A00%3A00Z&tailLines=5&timestamps=true"
    assert asked.target == f"/containerLogs/{namespace}/p/c?{parameters}"
    assert asked.certificate == "kubernetes-admin"
    assert "authorization" not in asked.headers


def test_a_renewed_certificate_is_shown(api: Api, pod: str, kubelet: FakeKubelet) -> None:
    kubelet.pki.admin_cert.unlink()
    assert pki.renew(kubelet.pki.ca_cert.parent, ["127.0.0.1", "localhost"])
    renewed = x509.load_pem_x509_certificate(kubelet.pki.admin_cert.read_bytes()).serial_number

    def serial() -> int:
        assert api.get(f"{pod}/log").status == 200
        return int(kubelet.asked[-1].serial, 16)

    until(serial, lambda shown: shown == renewed, "the renewed certificate")


def test_a_log_is_followed(api: Api, pod: str, kubelet: FakeKubelet) -> None:
    with raw_connection(api.server) as connection:
        head = f"GET {pod}/log?follow=true HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer admin-token\r\n\r\n"
        connection.sendall(head.encode())
        received = b""
        while b"line1\n" not in received:
            received += connection.recv(65_536)
        assert b"line2" not in received
        kubelet.go_on()
        while not received.endswith(b"0\r\n\r\n"):
            received += connection.recv(65_536)
        assert b"line2\n" in received


# The protocol that is offered, and what comes: all bytes, in binary messages or in base64.
LOG_PROTOCOLS: Final = {
    "none": ((), 2, lambda data: data),
    "binary": (("binary.k8s.io",), 2, lambda data: data),
    "base64": (("base64.binary.k8s.io",), 1, base64.b64decode),
}


@pytest.mark.parametrize(("protocols", "opcode", "decode"), LOG_PROTOCOLS.values(), ids=LOG_PROTOCOLS)
def test_a_log_over_websocket(
    server: ServerProcess, pod: str, protocols: tuple[str, ...], opcode: int, decode: Callable[[bytes], bytes]
) -> None:
    with connected(server, f"{pod}/log", *protocols, **ADMIN) as client:
        received = b""
        while received != b"line1\nline2\n":
            found, payload = client.receive()
            assert found == opcode
            received += decode(payload)
        assert client.close_code() == 1000


LOG_OPTIONS: Final = {
    "lines below zero": ("tailLines=-1", 422, "tailLines: Invalid value: -1: must be greater than or equal"),
    "no bytes": ("limitBytes=0", 422, "limitBytes: Invalid value: 0: must be greater than 0"),
    "no seconds": ("sinceSeconds=0", 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
    "two beginnings": (
        "sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z",
        422,
        "at most one of `sinceTime` or `sinceSeconds` may be specified",
    ),
    "a stream of its own": ("stream=Stdout", 422, "stream: Forbidden: may not be specified"),
    "no number": ("tailLines=many", 400, 'strconv.ParseInt: parsing "many": invalid syntax'),
    "a number too large": ("tailLines=" + "9" * 30, 400, "value out of range"),
    "no time": ("sinceTime=yesterday", 400, 'parsing time "yesterday"'),
    "another container": ("container=d", 400, "container d is not valid for pod p"),
}


@pytest.mark.parametrize(("query", "status", "message"), LOG_OPTIONS.values(), ids=LOG_OPTIONS)
def test_options_of_logs(api: Api, pod: str, query: str, status: int, message: str) -> None:
    refused = api.get(f"{pod}/log?{query}")
    assert refused.status == status
    assert message in refused.message


KUBELET_ERRORS: Final = {
    "a bad request": (400, b"no previous container", 400, "BadRequest", "no previous container"),
    "an error": (500, b"oops", 500, "InternalError", "Internal error occurred: oops"),
    "nothing there": (
        *(404, b"gone", 404, "NotFound"),
        "the server could not find the requested resource ( pods/log p)",
    ),
    "not for this server": (403, b"no", 403, "Forbidden", "no ( pods/log p)"),
    "a redirection": (302, b"", 500, "", "redirects forbidden"),
}


@pytest.mark.parametrize(
    ("status", "body", "code", "reason", "message"), KUBELET_ERRORS.values(), ids=KUBELET_ERRORS
)
def test_a_kubelet_refuses_logs(
    api: Api,
    pod: str,
    namespace: str,
    kubelet: FakeKubelet,
    status: int,
    body: bytes,
    code: int,
    reason: str,
    message: str,
) -> None:
    kubelet.answers[f"/containerLogs/{namespace}/p/c"] = (status, body)
    refused = api.get(f"{pod}/log")
    assert (refused.status, refused.json.get("reason", ""), refused.message) == (code, reason, message)


# ---- which container, and which node

STREAMS: Final = ("log", "exec?command=sh&stdout=1", "attach?stdout=1")


@pytest.mark.parametrize("below", STREAMS)
def test_a_container_must_be_named_if_there_are_several(
    api: Api, pods: str, namespace: str, kubelet: FakeKubelet, below: str
) -> None:
    create_node(api, namespace, kubelet.port)
    create_pod(api, pods, namespace, "a", "b", initContainers=[{"name": "i", "image": "i"}])
    refused = api.get(f"{pods}/p/{below}")
    told = "a container name must be specified for pod p, choose one of: [a b]"
    told += " or one of the init containers: [i]"
    assert (refused.status, refused.reason, refused.message) == (400, "BadRequest", told)
    mark = "&" if "?" in below else "?"
    wrong = api.get(f"{pods}/p/{below}{mark}container=x")
    assert (wrong.status, wrong.message) == (400, "container x is not valid for pod p")
    if below == "log":
        assert api.get(f"{pods}/p/log?container=i").status == 200


@pytest.mark.parametrize("below", [*STREAMS[1:], "portforward?ports=80"])
def test_only_upgrades_are_streams(api: Api, pod: str, below: str) -> None:
    refused = api.get(f"{pod}/{below}")
    assert (refused.status, refused.message) == (400, "Upgrade request required")


def test_a_pod_that_is_nowhere(api: Api, pods: str) -> None:
    create_pod(api, pods, "")
    answer = api.get(f"{pods}/p/log")
    assert (answer.status, answer.body) == (204, b"")
    for below in (*STREAMS[1:], "portforward"):
        refused = api.get(f"{pods}/p/{below}")
        assert (refused.status, refused.message) == (400, "pod p does not have a host assigned")
        assert api.get(f"{pods}/q/{below}").message == 'pods "q" not found'


def test_a_node_that_is_not_there(api: Api, pods: str, namespace: str) -> None:
    create_pod(api, pods, namespace)
    for below in (*STREAMS, "portforward"):
        refused = api.get(f"{pods}/p/{below}")
        assert (refused.status, refused.message) == (404, f'nodes "{namespace}" not found')
    api.post("/api/v1/nodes", {"metadata": {"name": namespace}}).ok()
    for below in (*STREAMS, "portforward"):
        refused = api.get(f"{pods}/p/{below}")
        told = "no preferred addresses found; known addresses: []"
        assert (refused.status, refused.message, "reason" in refused.json) == (500, told, False)


def test_a_kubelet_that_cannot_be_reached(api: Api, pods: str, namespace: str) -> None:
    create_node(api, namespace, 1)
    create_pod(api, pods, namespace)
    dial = "dial tcp 127.0.0.1:1: connect: connection refused"
    refused = api.get(f"{pods}/p/log")
    url = f"https://127.0.0.1:1/containerLogs/{namespace}/p/c"
    assert (refused.status, refused.message) == (500, f'Get "{url}": {dial}')
    upgrade = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
    refused = api.get(f"{pods}/p/exec?command=sh", headers=upgrade)
    assert (refused.status, refused.message) == (500, f"error dialing backend: {dial}")


def test_a_kubelet_whose_certificate_is_another(
    api: Api, pods: str, namespace: str, kubelet: FakeKubelet, tmp_path: Path
) -> None:
    with FakeKubelet(tmp_path, kubelet.pki.ca_cert) as stranger:
        create_node(api, namespace, stranger.port)
        create_pod(api, pods, namespace)
        refused = api.get(f"{pods}/p/log")
        assert refused.status == 500
        assert "failed to verify certificate" in refused.message
        assert not stranger.asked
        assert api.get(f"{pods}/p/log?insecureSkipTLSVerifyBackend=true").body == b"line1\nline2\n"


# ---- what clients do


@pytest.fixture
def kubectl(server: ServerProcess, namespace: str, tmp_path: Path, request: pytest.FixtureRequest) -> Kubectl:
    return Kubectl(program(request.param), server.kubeconfig, namespace, tmp_path)


@contextmanager
def running(kubectl: Kubectl, *arguments: str) -> Iterator[str]:
    """The first line that a command says which goes on until it is ended."""
    with kubectl.start(*arguments) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline()
        finally:
            process.terminate()


@pytest.mark.parametrize("kubectl", each_version(0, -1), indirect=True)
def test_kubectl_logs_and_runs_commands(pod: str, kubectl: Kubectl, kubelet: FakeKubelet) -> None:
    assert kubectl("logs", "p") == "line1\nline2\n"
    assert kubectl("exec", "p", "--", "sh", "-c", "a b") == "ran\n"
    last = kubelet.asked[-1]
    assert last.target.partition("?")[2] == "command=sh&command=-c&command=a+b&error=1&output=1"
    assert kubectl("exec", "-i", "p", "--", "cat", stdin="hello") == "ran\nhello"
    assert kubectl.run("attach", "p").stdout == "ran\n"


@pytest.mark.parametrize("kubectl", each_version(0, -1), indirect=True)
def test_kubectl_forwards_ports(pod: str, kubectl: Kubectl) -> None:
    with running(kubectl, "port-forward", "pod/p", ":8080") as first:
        port = int(first.split("127.0.0.1:")[1].split(" ")[0])
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", port), WITHIN_S) as connection:
                connection.sendall(b"hello")
                received = b""
                while piece := connection.recv(65_536):
                    received += piece
            assert received == b"8080:hello"


@pytest.mark.parametrize("kubectl", each_version(-1), indirect=True)
def test_kubectl_proxies(api: Api, pod: str, kubectl: Kubectl, namespace: str) -> None:
    path = f"/api/v1/nodes/{namespace}/proxy/containerLogs/{namespace}/p/c"
    assert kubectl("get", "--raw", path) == "line1\nline2\n"
    with running(kubectl, "proxy", "--port=0") as first:
        where = first.strip().rpartition(" ")[2]
        with urlopen(f"http://{where}{path}", timeout=WITHIN_S) as answer:
            assert answer.read() == b"line1\nline2\n"


TEXT: Final = 1
BINARY: Final = 2
V5: Final = "v5.channel.k8s.io"
STDIN, STDOUT, _, ERROR, _, CLOSE = 0, 1, 2, 3, 4, 255


@pytest.mark.parametrize("kubectl", each_version(-1), indirect=True)
def test_kubectl_uses_websockets(pod: str, kubectl: Kubectl, kubelet: FakeKubelet) -> None:
    """And the kubelet SPDY; that a command has failed gets through."""
    failed = kubectl.run("exec", "p", "--", "fail")
    assert (failed.returncode, failed.stdout) == (7, "ran\n")
    (asked,) = kubelet.asked
    assert (asked.method, asked.headers["upgrade"]) == ("POST", "SPDY/3.1")
    assert not [name for name in asked.headers if name.startswith("sec-websocket")]


def test_a_shell_over_websocket(server: ServerProcess, pod: str) -> None:
    path = f"{pod}/exec?command=cat&stdin=1&stdout=1"
    with connected(server, path, V5, "v4.channel.k8s.io", **ADMIN) as client:
        assert client.protocol == V5
        assert client.receive() == (BINARY, bytes((STDOUT,)) + b"ran\n")
        large = bytes(range(256)) * 1_000
        for piece in (b"hello", large):
            client.send(BINARY, bytes((STDIN,)) + piece)
            received = b""
            while len(received) < len(piece):
                received += client.receive()[1][1:]
            assert received == piece
        client.send(TEXT, bytes((STDIN,)) + b"text")  # as some clients send what is a text
        assert client.receive() == (BINARY, bytes((STDOUT,)) + b"text")
        client.send(BINARY, b"")  # nothing
        client.send(BINARY, b"\x09no such channel")
        client.send(BINARY, bytes((CLOSE, STDIN)))
        assert client.receive() == (BINARY, bytes((ERROR,)) + b'{"metadata": {}, "status": "Success"}')
        assert client.close_code() == 1000


def test_a_shell_that_breaks_off(server: ServerProcess, pod: str, kubelet: FakeKubelet) -> None:
    kubelet.breaks_off = True
    try:
        with connected(server, f"{pod}/exec?command=cat&stdin=1&stdout=1", V5, **ADMIN) as client:
            channel, *told = client.receive()[1]
        assert channel == ERROR
        status = json.loads(bytes(told))
        assert (status["status"], status["reason"], status["code"]) == ("Failure", "InternalError", 500)
    finally:
        kubelet.breaks_off = False


def test_a_kubelet_refuses_a_shell(api: Api, pod: str, namespace: str, kubelet: FakeKubelet) -> None:
    kubelet.answers[f"/exec/{namespace}/p/c"] = (404, b"no such container")
    handshake = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol": V5,
    }
    refused = api.get(f"{pod}/exec?command=sh", headers=handshake)
    assert (refused.status, refused.body) == (404, b"no such container")


@pytest.mark.parametrize("below", ["exec?command=sh", "attach", "portforward?ports=1"])
@pytest.mark.parametrize("protocol", [V5, "v4.channel.k8s.io", "SPDY/3.1+portforward.k8s.io"])
def test_pages_of_other_origins_get_no_shell(
    api: Api, pod: str, kubelet: FakeKubelet, below: str, protocol: str
) -> None:
    """A browser would show them the user's certificate."""
    handshake = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol": protocol,
    }
    refused = api.get(f"{pod}/{below}", headers={**handshake, "Origin": "https://evil.example"})
    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert not kubelet.asked


def test_the_python_client_runs_commands(server: ServerProcess, pod: str, namespace: str) -> None:
    """Over WebSocket, with the protocol v4."""
    kubernetes, streaming = library("kubernetes"), library("kubernetes.stream")
    configuration = kubernetes.client.Configuration()
    kubernetes.config.load_kube_config(str(server.kubeconfig), client_configuration=configuration)
    with closing(kubernetes.client.ApiClient(configuration)) as client:
        core = kubernetes.client.CoreV1Api(client)
        command = streaming.stream(
            core.connect_get_namespaced_pod_exec,
            *("p", namespace),
            command=["sh"],
            stdout=True,
            stderr=True,
            _preload_content=False,
        )
        try:
            command.run_forever(timeout=WITHIN_S)
            assert (command.read_stdout(), command.returncode) == ("ran\n", 0)
        finally:
            command.sock.shutdown()  # `close` leaves it open once the server has closed
        assert core.read_namespaced_pod_log("p", namespace) == "line1\nline2\n"


def test_streams_do_not_hold_up_a_server_that_stops(tmp_path: Path, kubelet: FakeKubelet) -> None:
    with ServerProcess(tmp_path / "server") as server, Api(server) as api:
        pods = "/api/v1/namespaces/default/pods"
        create_node(api, "n", kubelet.port)
        create_pod(api, pods, "n")
        upgrade = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
        with raw_connection(server) as log, raw_connection(server) as shell:
            for connection, below, more in (
                (log, "log?follow=true", ""),
                (shell, "exec?command=sh&stdin=1&stdout=1", upgrade),
            ):
                head = f"GET {pods}/p/{below} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer admin-token\r\n"
                connection.sendall(f"{head}{more}\r\n".encode())
                assert connection.recv(65_536)
            began = time.monotonic()
            assert server.stop() == 0
            assert time.monotonic() - began < 30  # not the time that requests have
        kubelet.go_on()
