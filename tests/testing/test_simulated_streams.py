"""What simulated pods refuse of `log`, `exec`, `attach` and `portforward`; ports that they forward.

Source: k8s.io/kubernetes, pkg/kubelet/server; k8s.io/cri-streaming; k8s.io/client-go, tools/remotecommand and
tools/portforward.
"""

from __future__ import annotations

import base64
import socket
from typing import Any, Final

import pytest

from apiserver.testing import ApiServer
from tests.testing.simulated import PODS, add_pod, run_pod, simulating
from tests.testing.streams import V4, forwarded

original = simulating()


WAITING: Final = {"phase": "Pending", "reason": "ImagePullBackOff"}


TWO: Final = {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]}


SEVERAL: Final = "a container name must be specified for pod p, choose one of: [c d]"


UNKNOWN: Final = (
    'container c is simulated and cannot run the command "uptime -p": neither the '
    "annotation simulate.apiserver/commands nor the commands of a stage contain this command"
)


NO_PORT: Final = (
    "pod p is simulated and cannot forward port 80: neither the annotation simulate.apiserver/ports "
    "nor the ports of a stage contain an address for this port"
)


BAD: Final = {"commands": "uptime"}


BAD_TEXT: Final = "metadata.annotations[simulate.apiserver/commands]: must be JSON: unexpected character"


# Annotations, the rest of the spec, what is asked for, and how it is answered.
REFUSALS: Final[dict[str, tuple[dict[str, str], dict[str, Any], str, int, str]]] = {
    "a log of several": ({}, TWO, "log", 400, SEVERAL),
    "a log of none": ({}, {}, "log?container=x", 400, "container x is not valid for pod p"),
    "a log of before": (
        {},
        {},
        "log?previous=true",
        400,
        'previous terminated container "c" in pod "p" not found',
    ),
    "a log of what waits": (
        WAITING,
        {},
        "log",
        400,
        'container "c" in pod "p" is waiting to start: trying and failing to pull image',
    ),
    "a log by annotations that are wrong": (BAD, {}, "log", 400, BAD_TEXT),
    "a command in several": ({}, TWO, "exec?command=ls&stdout=true", 400, SEVERAL),
    "a command in none": ({}, {}, "exec?container=x&command=ls", 400, "container x is not valid for pod p"),
    "a command in what waits": (WAITING, {}, "exec?command=ls&stdout=true", 404, 'container not found ("c")'),
    "a command that it does not know": ({}, {}, "exec?command=uptime&command=-p&stdout=true", 400, UNKNOWN),
    "a command by annotations that are wrong": (BAD, {}, "exec?command=ls&stdout=true", 400, BAD_TEXT),
    "no command": (
        {},
        {},
        "exec?stdout=true",
        400,
        "you must specify at least one command for the container",
    ),
    "no streams": ({}, {}, "exec?command=ls", 400, "you must specify at least 1 of stdin, stdout, stderr"),
    "to attach to what waits": (WAITING, {}, "attach?stdout=true", 404, 'container not found ("c")'),
    "a port without an address": ({}, {}, "portforward?ports=80", 400, NO_PORT),
    "ports by annotations that are wrong": (BAD, {}, "portforward?ports=80", 400, BAD_TEXT),
    "a port of what waits": (WAITING, {}, "portforward?ports=80", 404, 'pod not found ("p_default")'),
}


@pytest.mark.parametrize(("annotations", "spec", "below", "code", "message"), REFUSALS.values(), ids=REFUSALS)
def test_refusals(
    server: ApiServer, annotations: dict[str, str], spec: dict[str, Any], below: str, code: int, message: str
) -> None:
    add_pod(server, "p", annotations, **spec)
    server.wait_for("Pod", "p", "default", until=lambda it: "containerStatuses" in it["status"])
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(),
    }
    headers = {} if below.startswith("log") else {**upgrade, "Sec-WebSocket-Protocol": V4}
    found, status = server.request("GET", f"{PODS}/p/{below}", headers=headers)
    assert (found, status["kind"], status["code"]) == (code, "Status", code), status
    assert status["message"].startswith(message)
    if headers:
        spdy = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": V4}
        if "portforward" in below:
            spdy["X-Stream-Protocol-Version"] = "portforward.k8s.io"
        found, status = server.request("POST", f"{PODS}/p/{below}", headers=spdy)
        assert (found, status["kind"]) == (code, "Status")


PROTOCOLS: Final = {
    "WebSocket": ({"Upgrade": "websocket", "Sec-WebSocket-Version": "13"}, "Sec-WebSocket-Protocol"),
    "SPDY": ({"Upgrade": "SPDY/3.1"}, "X-Stream-Protocol-Version"),
}


@pytest.mark.parametrize(("headers", "name"), PROTOCOLS.values(), ids=PROTOCOLS)
@pytest.mark.parametrize("below", ["exec?command=ls&stdout=true", "portforward?ports=80"])
def test_protocols_that_are_not_known(
    server: ApiServer, headers: dict[str, str], name: str, below: str
) -> None:
    run_pod(server, {"ports": {80: "127.0.0.1:1"}})
    key = base64.b64encode(bytes(16)).decode()
    sent = {**headers, "Connection": "Upgrade", "Sec-WebSocket-Key": key, name: "v9.channel.k8s.io"}
    code, status = server.request("GET", f"{PODS}/p/{below}", headers=sent)
    assert (code, status["reason"]) == (403, "Forbidden")
    assert (
        "unable to negotiate protocol: client supports [v9.channel.k8s.io], server acc" in status["message"]
    )


def test_pods_of_other_nodes_are_not_answered_for(server: ApiServer) -> None:
    run_pod(server, nodeName="simulated-0")
    path = "/api/v1/nodes/simulated-{}/proxy/containerLogs/default/{}/{}"
    asked = {
        "its node": (0, "p", "c"),
        "another node": (1, "p", "c"),
        "another pod": (0, "q", "c"),
        "another container": (0, "p", "d"),
    }
    found = {name: server.request("GET", path.format(*of)) for name, of in asked.items()}
    assert found == {
        "its node": (200, ""),
        "another node": (404, "pod does not exist"),
        "another pod": (404, "pod does not exist"),
        "another container": (404, 'container "d" not found in pod "p"'),
    }
    assert server.request("GET", "/api/v1/nodes/simulated-0/proxy/healthz") == (200, "ok")
    assert server.request("GET", "/api/v1/nodes/simulated-0/proxy/stats")[0] == 404


def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@pytest.mark.parametrize("protocol", ["", V4, "v4.base64.channel.k8s.io"])
def test_ports_over_channels(server: ApiServer, echo: int, protocol: str) -> None:
    run_pod(server, {"ports": {80: f"127.0.0.1:{echo}", 81: f"127.0.0.1:{closed_port()}"}})
    with forwarded(server, "80,81,82", protocol) as client:
        begun = [client.receive() for _ in range(6)]
        assert begun == [(channel, (80 + channel // 2).to_bytes(2, "little")) for channel in range(6)]
        errors = dict(client.receive() for _ in range(2))
        assert errors[3].startswith(b"error forwarding port 81 to pod p, uid ")
        assert errors[3].endswith(b"connect: connection refused")
        assert b"error forwarding port 82 to pod p, uid " in errors[5]
        assert b"contain an address for this port" in errors[5]
        for data in (b"hello", b"x" * 300_000):
            client.send(0, data)
            assert client.read(len(data), channel=0) == data.upper()


def test_forwarded_ports_end_with_their_pod(server: ApiServer, echo: int) -> None:
    run_pod(server, {"ports": {80: f"127.0.0.1:{echo}"}})
    with forwarded(server, "80") as client:
        assert [client.receive()[0] for _ in range(2)] == [0, 1]
        client.send(0, b"hello")
        assert client.read(5, channel=0) == b"HELLO"
        assert server.request("DELETE", f"{PODS}/p?gracePeriodSeconds=0")[0] == 200
        assert client.rest() == {}
