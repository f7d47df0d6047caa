"""Pods that pretend answer `log`, `exec`, `attach` and `portforward`, in all protocols of kubelets.

Source: k8s.io/kubernetes, pkg/kubelet/server; k8s.io/cri-streaming; k8s.io/client-go, tools/remotecommand and
tools/portforward.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import http.client
import io
import json
import socket
import socketserver
import ssl
import tarfile
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote_plus, urlencode, urlsplit

import pytest
import websocket
from websocket import ABNF

from apiserver.endpoints.reverse_proxy.spdy import SpdyClient
from apiserver.meta.conditions import is_condition_true
from apiserver.testing import ApiServer
from tests.support.eventually import WITHIN_S
from tests.support.kubectl import Kubectl, oldest_and_newest, program
from tests.support.required import library

PODS: Final = "/api/v1/namespaces/default/pods"
STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
V4: Final = "v4.channel.k8s.io"
V5: Final = "v5.channel.k8s.io"
SUCCESS: Final = {"metadata": {}, "status": "Success"}
COMMANDS: Final[list[dict[str, Any]]] = [
    {"command": "uptime", "stdout": "up 3 days\n"},
    {"command": "fail *", "stdout": "out", "stderr": "err", "exitCode": 7},
    {"command": "tar cf - /report", "stdoutBase64": ""},
    {"command": "tar *xmf - *", "readsStdin": True},
]


@pytest.fixture(scope="module")
def base() -> Iterator[ApiServer]:
    with ApiServer(flags=["--simulate-nodes=2"]) as server:
        server.wait_for("ServiceAccount", "default", "default")
        server.wait_for("Node", "simulated-1", until=lambda it: is_condition_true(it, "Ready"))
        yield server


@pytest.fixture
def server(base: ApiServer) -> Iterator[ApiServer]:
    with base.fork() as server:
        yield server


def add_pod(
    server: ApiServer, annotations: Mapping[str, object] | None = None, *, name: str = "p", **spec: Any
) -> None:
    """Adds a pod, with one container `c` if nothing else is said."""
    ours = {
        f"simulate.apiserver/{key}": each if isinstance(each, str) else json.dumps(each)
        for key, each in (annotations or {}).items()
    }
    body = {
        "metadata": {"name": name, "annotations": ours},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }
    code, answer = server.request("POST", PODS, body)
    assert code == 201, answer


def run_pod(
    server: ApiServer, annotations: Mapping[str, object] | None = None, *, name: str = "p", **spec: Any
) -> None:
    """Adds a pod, and waits until it is ready."""
    add_pod(server, annotations, name=name, **spec)
    server.wait_for("Pod", name, "default", until=lambda it: is_condition_true(it, "Ready"))


def await_phase(server: ApiServer, phase: str) -> None:
    server.wait_for("Pod", "p", "default", until=lambda it: it["status"].get("phase") == phase)


def _restarts(pod: dict[str, Any]) -> int:
    return sum(each["restartCount"] for each in pod["status"].get("containerStatuses", ()))


def log(server: ApiServer, query: str = "") -> tuple[int, str]:
    """Returns the status and the text of a log, or what a refusal says."""
    code, answer = server.request("GET", f"{PODS}/p/log?{query}")
    return code, answer["message"] if isinstance(answer, dict) else answer


# ---- logs

LOGS: Final = {
    "all": ("", "one\ntwo\nthree\n"),
    "the last lines": ("tailLines=2", "two\nthree\n"),
    "some bytes": ("limitBytes=6", "one\ntw"),
    "since some seconds": ("sinceSeconds=3600", "one\ntwo\nthree\n"),
    "since the future": ("sinceTime=2999-01-01T00:00:00Z", ""),
    "not of another run": ("previous=false&follow=false", "one\ntwo\nthree\n"),
}


def test_logs(server: ApiServer) -> None:
    run_pod(server, {"log": "one\ntwo\nthree\n"})
    assert {name: log(server, query) for name, (query, _) in LOGS.items()} == {
        name: (200, text) for name, (_, text) in LOGS.items()
    }
    times = [line.partition(" ")[0] for line in log(server, "timestamps=true")[1].splitlines()]
    assert times == sorted(set(times))
    assert log(server, f"sinceTime={times[0][:19]}Z&tailLines=1") == (200, "three\n")


def test_a_log_of_which_nothing_is_said_is_empty(server: ApiServer) -> None:
    run_pod(server)
    assert log(server) == (200, "")


def test_logs_of_several_containers(server: ApiServer) -> None:
    containers: list[dict[str, Any]] = [{"name": name, "image": "i"} for name in ("c", "d", "e")]
    containers[2] |= {"command": ["sh", "-c", "echo of its own; cat /etc/x"]}
    inits: list[dict[str, Any]] = [
        {"name": "i", "image": "i", "command": ["echo", "$(NAME)"], "env": [{"name": "NAME", "value": "n"}]}
    ]
    run_pod(server, {"log": "of all", "log.d": "of d"}, containers=containers, initContainers=inits)
    ephemeral = {"ephemeralContainers": [{"name": "f", "image": "i", "command": ["echo", "late"]}]}
    headers = {"Content-Type": "application/strategic-merge-patch+json"}
    path = f"{PODS}/p/ephemeralcontainers"
    assert server.request("PATCH", path, {"spec": ephemeral}, headers=headers)[0] == 200
    server.wait_for(
        "Pod",
        "p",
        "default",
        until=lambda it: it["status"]["ephemeralContainerStatuses"][0]["state"]["running"],
    )
    # What is annotated for all is not for init containers.
    found = {name: log(server, f"container={name}")[1] for name in "cdeif"}
    assert found == {"c": "of all", "d": "of d", "e": "of all", "i": "n\n", "f": "of all"}


def test_logs_of_the_runs_of_a_container(tmp_path: Path) -> None:
    stages = tmp_path / "stages.yaml"
    stages.write_text(
        'stages: [{times: 1, phase: Failed, log: "no database\\n"}, {phase: Running, log: "ready\\n"}]'
    )
    with ApiServer(flags=["--simulate-nodes=1", f"--simulate-stages={stages}"]) as server:
        add_pod(server)
        # Its first run may be ready for a moment before it fails.
        server.wait_for(
            "Pod", "p", "default", until=lambda it: _restarts(it) > 0 and is_condition_true(it, "Ready")
        )
        assert log(server) == (200, "ready\n")
        assert log(server, "previous=true") == (200, "no database\n")


@contextmanager
def followed(server: ApiServer, query: str = "") -> Iterator[Any]:
    """A log that is followed: its lines, as they come."""
    with closing(server.connect()) as connection:
        connection.request("GET", f"{PODS}/p/log?follow=true&{query}", headers=server.admin_headers)
        # The connection forgets a response that ends with it, but does not close it.
        with connection.getresponse() as response:
            assert response.status == 200
            yield response


def test_a_log_is_followed_until_its_container_ends(server: ApiServer) -> None:
    ends = {"duration": "2s", "exit-code": "1"}
    run_pod(
        server, {"log": "one\ntwo\nthree\nfour\nfive\n", "log-interval": "1s", **ends}, restartPolicy="Never"
    )
    with followed(server, "tailLines=10") as response:
        assert response.read() == b"one\ntwo\nthree\n"
    await_phase(server, "Failed")
    assert log(server) == (200, "one\ntwo\nthree\n")


def test_a_log_is_followed_until_its_pod_is_gone(server: ApiServer) -> None:
    run_pod(server, {"log": "one\n"})
    with followed(server) as response:
        assert response.readline() == b"one\n"
        assert server.request("DELETE", f"{PODS}/p?gracePeriodSeconds=0")[0] == 200
        assert response.read() == b""


def test_a_log_that_grows_is_followed(server: ApiServer) -> None:
    """A test writes to it by changing the annotation."""
    run_pod(server, {"log": "one\n"})
    with followed(server) as response:
        assert response.readline() == b"one\n"
        change = {"metadata": {"annotations": {"simulate.apiserver/log": "one\ntwo\n"}}}
        headers = {"Content-Type": "application/merge-patch+json"}
        assert server.request("PATCH", f"{PODS}/p", change, headers=headers)[0] == 200
        assert response.readline() == b"two\n"


def test_a_log_follows_the_servers_clock(server: ApiServer) -> None:
    run_pod(server, {"log": "one\ntwo\n", "log-interval": "1h"})
    with followed(server) as response:
        assert response.readline() == b"one\n"
        server.clock.advance(hours=1)
        assert response.readline() == b"two\n"


def test_a_followed_log_is_cut_off_at_its_limit(server: ApiServer) -> None:
    run_pod(server, {"log": "one\ntwo\n"})
    with followed(server, "limitBytes=5") as response:
        assert response.read() == b"one\nt"


def test_logs_by_stream() -> None:
    flags = ["--simulate-nodes=1", "--feature-gates=PodLogsQuerySplitStreams=true"]
    with ApiServer(flags=flags) as server:
        run_pod(server, {"log": "out\n", "log-stderr": "err\n"})
        found = {stream: log(server, f"stream={stream}") for stream in ("All", "Stdout", "Stderr")}
        assert found == {"All": (200, "out\nerr\n"), "Stdout": (200, "out\n"), "Stderr": (200, "err\n")}
        assert log(server, "stream=None")[0] == 422


# ---- what is refused, always with a Status and never with a 500

WAITING: Final = {"phase": "Pending", "reason": "ImagePullBackOff"}
TWO: Final = {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]}
SEVERAL: Final = "a container name must be specified for pod p, choose one of: [c d]"
UNKNOWN: Final = (
    'container c is simulated and does not know the command "uptime -p": neither the '
    "annotation simulate.apiserver/commands nor commands of a stage list it"
)
NO_PORT: Final = (
    "pod p is simulated and cannot forward port 80: neither the annotation simulate.apiserver/ports "
    "nor ports of a stage has an address for it"
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
    add_pod(server, annotations, **spec)
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


# ---- exec and attach over WebSocket


class Shell:
    """A client of a session over WebSocket."""

    def __init__(self, connection: websocket.WebSocket) -> None:
        self._connection = connection
        self.protocol = connection.getsubprotocol() or ""

    @property
    def _is_text(self) -> bool:
        return "base64" in self.protocol

    def settimeout(self, seconds: float) -> None:
        self._connection.settimeout(seconds)

    def send(self, channel: int, data: bytes) -> None:
        if self._is_text:
            self._connection.send(f"{channel}{base64.b64encode(data).decode()}")
        else:
            self._connection.send(bytes((channel,)) + data, ABNF.OPCODE_BINARY)

    def receive(self) -> tuple[int, bytes]:
        """Returns the channel of the next message, and what it has; a channel of -1 at the end."""
        opcode, payload = self._connection.recv_data()
        if opcode == ABNF.OPCODE_CLOSE:
            return -1, b""
        if self._is_text:
            assert opcode == ABNF.OPCODE_TEXT
            return int(payload[:1]), base64.b64decode(payload[1:])
        assert opcode == ABNF.OPCODE_BINARY
        return payload[0], payload[1:]

    def read(self, size: int, channel: int = STDOUT) -> bytes:
        """Returns so many bytes of a channel, on which alone something comes."""
        received = b""
        while len(received) < size:
            found, data = self.receive()
            assert found == channel or not data, data
            received += data
        return received

    def rest(self) -> dict[int, bytes]:
        """Returns what comes until the session is over."""
        found: dict[int, bytes] = {}
        while (message := self.receive())[0] >= 0:
            found[message[0]] = found.get(message[0], b"") + message[1]
        return {channel: data for channel, data in found.items() if data}


@contextmanager
def shell(
    server: ApiServer, *words: str, streams: str = "stdin,stdout,stderr", protocol: str = V4, query: str = ""
) -> Iterator[Shell]:
    """A session of `exec`; of `attach` without a command."""
    asked = [("command", each) for each in words] + [(name, "true") for name in streams.split(",")]
    below = f"{'exec' if words else 'attach'}?{urlencode(asked)}{query}"
    connection = websocket.create_connection(
        f"{server.url.replace('https', 'wss')}{PODS}/p/{below}",
        timeout=WITHIN_S,
        subprotocols=[protocol] if protocol else None,
        header=server.admin_headers,
        sslopt={"ca_certs": str(server.ca)},
    )
    try:
        yield Shell(connection)
    finally:
        connection.shutdown()  # type: ignore[no-untyped-call]


def status_of(told: bytes) -> dict[str, Any]:
    status: dict[str, Any] = json.loads(told)
    return status


def exit_code(told: bytes) -> int:
    """Returns the code that a Status on the channel for errors tells, as clients read it."""
    status = status_of(told)
    if status["status"] == "Success":
        return 0
    assert status["reason"] == "NonZeroExitCode"
    (cause,) = status["details"]["causes"]
    assert cause["reason"] == "ExitCode"
    return int(cause["message"])


# The protocol that is offered, and what a success and a failure are told as on the channel for errors.
SHELL_PROTOCOLS: Final = {
    "the fifth": (V5, "Success", "ExitCode"),
    "the fourth": (V4, "Success", "ExitCode"),
    "the fourth, as text": ("v4.base64.channel.k8s.io", "Success", "ExitCode"),
    "the first": ("channel.k8s.io", "", "non-zero exit code: exit status 7"),
    "the first, as text": ("base64.channel.k8s.io", "", "non-zero exit code: exit status 7"),
    "none": ("", "", "non-zero exit code: exit status 7"),
}


@pytest.mark.parametrize(("protocol", "success", "failure"), SHELL_PROTOCOLS.values(), ids=SHELL_PROTOCOLS)
def test_commands(server: ApiServer, protocol: str, success: str, failure: str) -> None:
    run_pod(server, {"commands": COMMANDS})
    with shell(server, "uptime", streams="stdout,stderr", protocol=protocol) as found:
        assert found.protocol == protocol
        ended = found.rest()
        assert ended.pop(STDOUT) == b"up 3 days\n"
        assert success in ended.pop(ERROR, b"").decode()
        assert ended == {}
    with shell(server, "fail", "x", streams="stdout,stderr", protocol=protocol) as found:
        ended = found.rest()
        assert (ended[STDOUT], ended[STDERR]) == (b"out", b"err")
        assert failure in ended[ERROR].decode()
    with shell(server, "fail", "x", streams="stderr", protocol=protocol) as found:
        assert found.rest().keys() == {STDERR, ERROR}


EXITS: Final = {
    "a command": (["uptime"], 0),
    "a failure": (["fail", "now"], 7),
    "a script": (["sh", "-c", "echo a; exit 3"], 3),
    "true": (["true"], 0),
    "false": (["false"], 1),
}


@pytest.mark.parametrize("protocol", [V4, V5])
def test_exit_codes(server: ApiServer, protocol: str) -> None:
    run_pod(server, {"commands": COMMANDS})
    found = {}
    for name, (words, _) in EXITS.items():
        with shell(server, *words, streams="stdout", protocol=protocol) as session:
            found[name] = exit_code(session.rest()[ERROR])
    assert found == {name: code for name, (_, code) in EXITS.items()}


def test_input_and_its_end(server: ApiServer) -> None:
    """The fifth protocol can tell the end of the input."""
    run_pod(server)
    large = bytes(range(256)) * 2_000
    with shell(server, "cat", protocol=V5) as found:
        for data in (b"hello", large):
            found.send(STDIN, data)
            assert found.read(len(data)) == data
        found.send(CLOSE, bytes((STDIN,)))
        assert status_of(found.rest()[ERROR]) == SUCCESS


@pytest.mark.parametrize("protocol", [V4, V5, "v4.base64.channel.k8s.io"])
def test_a_shell_that_is_typed_into(server: ApiServer, protocol: str) -> None:
    run_pod(server)
    with shell(server, "/bin/sh", protocol=protocol) as found:
        found.send(STDIN, b"echo one\n")
        assert found.read(4) == b"one\n"
        found.send(STDIN, b"echo two >&2\n")
        assert found.read(4, STDERR) == b"two\n"
        found.send(STDIN, b"exit 4\n")
        assert exit_code(found.rest()[ERROR]) == 4


@pytest.mark.parametrize("protocol", [V4, V5])
def test_a_terminal(server: ApiServer, protocol: str) -> None:
    run_pod(server)
    with shell(server, "sh", streams="stdin,stdout,tty", protocol=protocol) as found:
        found.send(RESIZE, b'{"Width": 80, "Height": 24}')
        assert found.read(4) == b"/ # "
        for keys, shown in {
            b"echo a\r": b"echo a\r\na\r\n/ # ",
            b"cat\r": b"cat\r\n",
            b"b\r": b"b\r\nb\r\n",
            b"\x04": b"/ # ",
            b"sleep 9999\r": b"sleep 9999\r\n",
            b"\x03": b"^C\r\n/ # ",
            b"echo $?\r": b"echo $?\r\n130\r\n/ # ",
        }.items():
            found.send(STDIN, keys)
            assert found.read(len(shown)) == shown
        found.send(STDIN, b"exit\r")
        assert exit_code(found.rest()[ERROR]) == 0


def test_a_command_sleeps_by_the_servers_clock(server: ApiServer) -> None:
    run_pod(server)
    with shell(server, "sh", "-c", "echo a; sleep 3600; date +%F", streams="stdout") as found:
        assert found.read(2) == b"a\n"
        server.clock.advance(hours=1)
        assert found.rest()[STDOUT] == f"{server.clock.now():%F}\n".encode()


@pytest.mark.parametrize("protocol", [V4, V5])
def test_a_command_ends_with_its_container(server: ApiServer, protocol: str) -> None:
    run_pod(server)
    with shell(server, "sh", "-c", "echo a; sleep 9999", streams="stdout", protocol=protocol) as found:
        assert found.read(2) == b"a\n"
        assert server.request("DELETE", f"{PODS}/p?gracePeriodSeconds=0")[0] == 200
        assert exit_code(found.rest()[ERROR]) == 137


def test_input_that_nobody_reads_is_bounded(server: ApiServer) -> None:
    """A client that sends on and on is not read on; when it leaves, the session ends."""
    run_pod(server)
    sent = 0
    with shell(server, "sleep", "9999") as found:
        found.settimeout(1.0)
        with contextlib.suppress(websocket.WebSocketTimeoutException, TimeoutError):
            while sent < 100 * 1024 * 1024:
                found.send(STDIN, bytes(512 * 1024))
                sent += 512 * 1024
    assert sent < 50 * 1024 * 1024


def test_what_a_client_is_attached_to(server: ApiServer) -> None:
    containers = [
        {"name": "c", "image": "i", "stdin": True, "command": ["cat"]},
        {"name": "d", "image": "i", "command": ["serve"]},
        {"name": "e", "image": "i"},
        {"name": "f", "image": "i", "stdin": True},
    ]
    commands = [{"command": "serve", "stdout": "served\n", "exitCode": 5}]
    run_pod(
        server, {"commands": commands, "log.e": "one\ntwo\n", "log-interval.e": "1h"}, containers=containers
    )
    with shell(server, query="&container=c", protocol=V5) as found:
        found.send(STDIN, b"a")
        assert found.read(1) == b"a"
        found.send(CLOSE, bytes((STDIN,)))
        assert exit_code(found.rest()[ERROR]) == 0
    with shell(server, query="&container=d") as found:
        ended = found.rest()
        assert (ended[STDOUT], exit_code(ended[ERROR])) == (b"served\n", 5)
    with shell(server, query="&container=f") as found:
        found.send(STDIN, b"echo shell; exit\n")
        assert found.rest()[STDOUT] == b"shell\n"
    with shell(server, query="&container=e", streams="stdout") as found:
        assert found.receive() == (STDOUT, b"")
        server.clock.advance(hours=1)
        assert found.read(4) == b"two\n"
        assert server.request("DELETE", f"{PODS}/p?gracePeriodSeconds=0")[0] == 200
        assert status_of(found.rest()[ERROR]) == SUCCESS


# ---- exec over SPDY


@asynccontextmanager
async def spdy(
    server: ApiServer, below: str, protocols: Sequence[str]
) -> AsyncIterator[tuple[SpdyClient, str]]:
    """A connection that is upgraded to SPDY, and the protocol that the server has chosen."""
    where = urlsplit(server.url)
    context = ssl.create_default_context(cafile=server.ca)
    reader, writer = await asyncio.open_connection(where.hostname, where.port, ssl=context)
    lines = [
        f"POST {PODS}/p/{below} HTTP/1.1",
        f"Host: {where.netloc}",
        "Connection: Upgrade",
        "Upgrade: SPDY/3.1",
    ]
    lines += [f"X-Stream-Protocol-Version: {each}" for each in protocols]
    lines += [f"{name}: {value}" for name, value in server.admin_headers.items()]
    try:
        writer.write("\r\n".join((*lines, "", "")).encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        assert head.startswith("HTTP/1.1 101 "), head
        chosen = [
            line.partition(": ")[2] for line in head.splitlines() if line.lower().startswith("x-stream")
        ]
        yield SpdyClient(reader, writer), "".join(chosen)
    finally:
        writer.close()
        with contextlib.suppress(OSError):  # The server may be faster.
            await writer.wait_closed()


SPDY_PROTOCOLS: Final = {
    "the newest of both": (("v5.channel.k8s.io", V4, "v3.channel.k8s.io"), V4, "ExitCode"),
    "the third": (("v3.channel.k8s.io",), "v3.channel.k8s.io", "exit status 7"),
    "the second": (("v2.channel.k8s.io", "channel.k8s.io"), "v2.channel.k8s.io", "exit status 7"),
    "none": ((), "channel.k8s.io", "exit status 7"),
}


@pytest.mark.parametrize(("offered", "chosen", "told"), SPDY_PROTOCOLS.values(), ids=SPDY_PROTOCOLS)
async def test_commands_over_spdy(server: ApiServer, offered: Sequence[str], chosen: str, told: str) -> None:
    await asyncio.to_thread(run_pod, server, {"commands": COMMANDS})
    below = "exec?command=fail&command=x&stdout=true&stderr=true"
    async with spdy(server, below, offered) as (client, protocol):
        assert protocol == chosen
        names = {await client.open({"streamType": name}): name for name in ("error", "stdout", "stderr")}
        received = dict.fromkeys(names.values(), b"")
        ended = set()
        async for number, data, is_last in client.arrivals():
            received[names[number]] += data
            ended |= {names[number]} if is_last else set()
        assert ended == received.keys()
        assert (received["stdout"], received["stderr"]) == (b"out", b"err")
        assert told in received["error"].decode()


async def test_a_terminal_over_spdy(server: ApiServer) -> None:
    await asyncio.to_thread(run_pod, server)
    async with spdy(server, "exec?command=cat&stdin=true&stdout=true&tty=true", [V4]) as (client, _):
        numbers = {
            name: await client.open({"streamtype": name}) for name in ("error", "stdin", "stdout", "resize")
        }
        await client.send(numbers["resize"], b'{"Width":80,"Height":24}\n')
        await client.send(numbers["stdin"], b"a\r\x04")
        received: dict[int, bytes] = {}
        async for number, data, _ in client.arrivals():
            received[number] = received.get(number, b"") + data
        assert received[numbers["stdout"]] == b"a\r\na\r\n"
        assert status_of(received[numbers["error"]]) == SUCCESS


async def test_a_client_without_a_terminal_attaches_to_a_container_with_one(server: ApiServer) -> None:
    container = {"name": "c", "image": "i", "stdin": True, "tty": True, "command": ["cat"]}
    await asyncio.to_thread(run_pod, server, None, containers=[container])
    async with spdy(server, "attach?stdin=true&stdout=true", [V4]) as (client, _):
        numbers = {name: await client.open({"streamtype": name}) for name in ("error", "stdin", "stdout")}
        await client.send(numbers["stdin"], b"a\r\x04")
        received = b""
        async for number, data, _ in client.arrivals():
            received += data if number == numbers["stdout"] else b""
        assert received == b"a\r\na\r\n"


def test_sessions_do_not_hold_up_a_server_that_stops(base: ApiServer) -> None:
    with base.fork() as server:
        run_pod(server, {"log": "one\n"})
        with shell(server, "sleep", "9999") as session, followed(server) as response:
            assert session.receive() == (STDOUT, b"")
            assert response.readline() == b"one\n"
            server.stop()
            with pytest.raises(http.client.IncompleteRead):
                response.read()
            with contextlib.suppress(OSError, websocket.WebSocketConnectionClosedException):
                assert session.receive()[0] == -1


# ---- ports


class _Echo(socketserver.BaseRequestHandler):
    """Sends back what it gets, in upper case, until there is no more."""

    def handle(self) -> None:
        while data := self.request.recv(65_536):
            self.request.sendall(data.upper())


@pytest.fixture(scope="module")
def echo() -> Iterator[int]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Echo) as listening:
        listening.daemon_threads = True
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield listening.server_address[1]
        listening.shutdown()


@contextmanager
def forwarded(server: ApiServer, ports: str, protocol: str = "") -> Iterator[Shell]:
    connection = websocket.create_connection(
        f"{server.url.replace('https', 'wss')}{PODS}/p/portforward?ports={quote_plus(ports)}",
        timeout=WITHIN_S,
        subprotocols=[protocol] if protocol else None,
        header=server.admin_headers,
        sslopt={"ca_certs": str(server.ca)},
    )
    try:
        yield Shell(connection)
    finally:
        connection.shutdown()  # type: ignore[no-untyped-call]


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
        assert b"has an address for it" in errors[5]
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


# ---- clients


@pytest.fixture
def kubectl(request: pytest.FixtureRequest, server: ApiServer, tmp_path: Path) -> Kubectl:
    return Kubectl(program(request.param), server.kubeconfig, "default", tmp_path)


@pytest.mark.parametrize("kubectl", oldest_and_newest(), indirect=True)
def test_kubectl(server: ApiServer, kubectl: Kubectl, echo: int, tmp_path: Path) -> None:
    """The oldest uses SPDY, the newest WebSocket."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        (content := tarfile.TarInfo("report")).size = 4
        archive.addfile(content, io.BytesIO(b"done"))
    commands = [each for each in COMMANDS if each["command"] != "tar cf - /report"]
    commands.append(
        {"command": "tar cf - /report", "stdoutBase64": base64.b64encode(packed.getvalue()).decode()}
    )
    run_pod(server, {"log": "one\ntwo\n", "commands": commands, "ports": {80: f"127.0.0.1:{echo}"}})
    assert kubectl("logs", "p", "--tail=1") == "two\n"
    assert kubectl("exec", "p", "--", "uptime") == "up 3 days\n"
    assert kubectl("exec", "-i", "p", "--", "cat", stdin="hello") == "hello"
    failed = kubectl.run("exec", "p", "--", "sh", "-c", "echo a; exit 3")
    assert (failed.returncode, failed.stdout) == (3, "a\n")
    unknown = kubectl.run("exec", "p", "--", "reboot")
    assert (unknown.returncode, "does not know the command" in unknown.stderr) == (1, True)
    kubectl("cp", "p:/report", str(tmp_path / "report"))
    assert (tmp_path / "report").read_text() == "done"
    kubectl("cp", str(tmp_path / "report"), "p:/tmp/report")
    with kubectl.start("port-forward", "pod/p", ":80") as forwarding:
        assert forwarding.stdout is not None
        try:
            port = int(forwarding.stdout.readline().split("127.0.0.1:")[1].split(" ")[0])
            for _ in range(2):
                with socket.create_connection(("127.0.0.1", port), WITHIN_S) as connection:
                    connection.sendall(b"hello")
                    assert connection.recv(65_536) == b"HELLO"
        finally:
            forwarding.terminate()


@pytest.mark.parametrize("kubectl", oldest_and_newest(), indirect=True)
def test_kubectl_runs_a_pod_and_attaches_to_it(server: ApiServer, kubectl: Kubectl) -> None:
    annotations = json.dumps({"metadata": {"annotations": {"simulate.apiserver/duration": "4s"}}})
    once = ("--restart=Never", "--image=busybox", f"--overrides={annotations}")
    end = kubectl.run("run", "p", "-i", *once, "--command", "--", "cat", stdin="hello")
    assert (end.returncode, end.stdout) == (0, "hello")


def test_the_commands_of_the_clients_own_tests(tmp_path: Path) -> None:
    """With the stages that docs/testing.md shows."""
    page = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
    stages = tmp_path / "clients.yaml"
    stages.write_text(page.partition("```yaml\n# clients.yaml\n")[2].partition("```")[0])
    with ApiServer(flags=["--simulate-nodes=1", f"--simulate-stages={stages}"]) as server:
        run_pod(server, containers=[{"name": name, "image": "i"} for name in ("sleep", "main", "sidecar")])
        for container, script, output in (
            ("sleep", "for i in $(seq 1 3); do date; done", b"now\nnow\nnow\n"),
            ("main", 'printf %s "$TARGET_CONTAINER"', b"main"),
            ("sidecar", 'printf %s "$TARGET_CONTAINER"', b"sidecar"),
        ):
            query = f"&container={container}"
            with shell(server, "/bin/sh", "-c", script, streams="stdout", query=query) as session:
                assert session.rest()[STDOUT] == output
        packing = 'echo -n "This is a test string" | gzip'
        with shell(server, "sh", "-c", packing, streams="stdout", query="&container=sleep") as session:
            assert gzip.decompress(session.rest()[STDOUT]) == b"This is a test string"
        with shell(server, "uptime", streams="stdout", query="&container=sleep") as session:
            assert session.rest()[STDOUT] == b"up 3 days\n"
        assert log(server, "container=main") == (200, "this is a test\n")


def test_kubernetes(server: ApiServer, echo: int) -> None:
    """As its own end-to-end tests do."""
    kubernetes, streaming = library("kubernetes"), library("kubernetes.stream")
    run_pod(server, {"commands": COMMANDS, "log": "one\ntwo\n", "ports": {80: f"127.0.0.1:{echo}"}})
    with kubernetes.config.new_client_from_config(str(server.kubeconfig)) as client:
        core = kubernetes.client.CoreV1Api(client)
        run = core.connect_get_namespaced_pod_exec
        out = {"stdin": False, "stdout": True, "stderr": True, "tty": False}
        session = streaming.stream(run, "p", "default", command=["uptime"], **out, _preload_content=False)
        session.run_forever(timeout=WITHIN_S)
        assert (session.read_stdout(), session.returncode) == ("up 3 days\n", 0)
        session.sock.shutdown()  # `close` leaves it open once the server has closed
        session = streaming.stream(
            run, "p", "default", command=["/bin/sh"], **{**out, "stdin": True}, _preload_content=False
        )
        session.write_stdin("echo one\n")
        assert session.readline_stdout(timeout=WITHIN_S) == "one"
        session.write_stdin("exit 3\n")
        session.run_forever(timeout=WITHIN_S)
        assert session.returncode == 3
        session.sock.shutdown()
        # As operators of Airflow follow a pod.
        answer = core.read_namespaced_pod_log("p", "default", tail_lines=1, _preload_content=False)
        assert b"".join(answer.stream()) == b"two\n"
        forwarding = streaming.portforward(
            core.connect_get_namespaced_pod_portforward, "p", "default", ports="80,81"
        )
        connection = forwarding.socket(80)
        connection.setblocking(True)
        connection.sendall(b"hello")
        assert connection.recv(1_024) == b"HELLO"
        other = forwarding.socket(81)
        other.setblocking(True)
        assert other.recv(1_024) == b""
        assert "has an address for it" in forwarding.error(81)
        connection.close()
        other.close()
        for thread in threading.enumerate():
            if thread.name.startswith("Kubernetes port forward proxy"):
                thread.join(WITHIN_S)
        forwarding.websocket.shutdown()  # which it leaves open if the server is first to close it


def test_lightkube(server: ApiServer) -> None:
    lightkube, pods = library("lightkube"), library("lightkube.resources.core_v1")
    run_pod(server, {"commands": COMMANDS, "log": "one\n"})
    client = lightkube.Client(lightkube.KubeConfig.from_file(server.kubeconfig))
    assert pods.Pod is not None
    assert list(client.log("p")) == ["one\n"]
    run = client.exec("p", command=["/bin/cat"], stdin="hello", stdout=True)
    assert (run.stdout, run.exit_code) == ("hello", 0)
    failed = client.exec("p", command=["fail", "x"], stdout=True, stderr=True)
    assert (failed.stdout, failed.stderr, failed.exit_code) == ("out", "err", 7)


@pytest.mark.filterwarnings("ignore:Kubernetes version .* is not supported:UserWarning")
def test_kr8s(server: ApiServer, echo: int) -> None:
    kr8s, objects = library("kr8s"), library("kr8s.objects")
    run_pod(server, {"commands": COMMANDS, "log": "one\ntwo\n", "ports": {80: f"127.0.0.1:{echo}"}})
    api = kr8s.api(kubeconfig=str(server.kubeconfig))
    pod = objects.Pod.get("p", api=api)
    assert list(pod.logs()) == ["one", "two"]
    assert pod.exec(["uptime"]).stdout == b"up 3 days\n"
    assert pod.exec(["fail", "x"], check=False).returncode == 7
    with (
        pod.portforward(80, address="127.0.0.1") as port,
        socket.create_connection(("127.0.0.1", port)) as client,
    ):
        client.sendall(b"hello")
        assert client.recv(1_024) == b"HELLO"


async def test_kubernetes_asyncio(server: ApiServer) -> None:
    asyncio_client, config = library("kubernetes_asyncio.client"), library("kubernetes_asyncio.config")
    streaming = library("kubernetes_asyncio.stream")
    await asyncio.to_thread(run_pod, server, {"commands": COMMANDS})
    configuration = asyncio_client.Configuration()
    await config.load_kube_config(str(server.kubeconfig), client_configuration=configuration)
    async with streaming.WsApiClient(configuration) as client:
        run = asyncio_client.CoreV1Api(client).connect_get_namespaced_pod_exec
        out = {"stdin": False, "stdout": True, "stderr": True, "tty": False}
        assert await run("p", "default", command="uptime", **out) == "up 3 days\n"
        async with await run("p", "default", command=["false"], **out, _preload_content=False) as session:
            told = [message.data[1:] async for message in session if message.data[0] == ERROR]
        assert client.parse_error_data(told[-1]) == 1
