"""Clients of the logs, commands and ports of simulated pods.

Source: k8s.io/kubernetes, pkg/kubelet/server; k8s.io/cri-streaming; k8s.io/client-go, tools/remotecommand and
tools/portforward.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

import websocket
from websocket import ABNF

from apiserver.testing import ApiServer
from tests.support.eventually import WITHIN_S
from tests.testing.simulated import PODS

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


def log(server: ApiServer, query: str = "") -> tuple[int, str]:
    """Returns the status and the text of a log, or what a refusal says."""
    code, answer = server.request("GET", f"{PODS}/p/log?{query}")
    return code, answer["message"] if isinstance(answer, dict) else answer


@contextmanager
def followed(server: ApiServer, query: str = "") -> Iterator[Any]:
    """A log that is followed: its lines, as they come."""
    with closing(server.connect()) as connection:
        connection.request("GET", f"{PODS}/p/log?follow=true&{query}", headers=server.admin_headers)
        # The connection forgets a response that ends with it, but does not close it.
        with connection.getresponse() as response:
            assert response.status == 200
            yield response


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
def _connected(server: ApiServer, below: str, protocol: str) -> Iterator[Shell]:
    """A WebSocket to a path below the pod `p`."""
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


@contextmanager
def shell(
    server: ApiServer, *words: str, streams: str = "stdin,stdout,stderr", protocol: str = V4, query: str = ""
) -> Iterator[Shell]:
    """A session of `exec`; of `attach` without a command."""
    asked = [("command", each) for each in words] + [(name, "true") for name in streams.split(",")]
    below = f"{'exec' if words else 'attach'}?{urlencode(asked)}{query}"
    with _connected(server, below, protocol) as client:
        yield client


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


@contextmanager
def forwarded(server: ApiServer, ports: str, protocol: str = "") -> Iterator[Shell]:
    with _connected(server, f"portforward?ports={quote_plus(ports)}", protocol) as client:
        yield client
