"""A client of WebSockets, which shows every frame of the server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import websocket
from websocket import ABNF

from tests.support.eventually import WITHIN_S
from tests.support.server_process import ServerProcess


class Connection:
    """A client's end of a WebSocket."""

    def __init__(self, socket: websocket.WebSocket) -> None:
        self._socket = socket

    @property
    def protocol(self) -> str | None:
        return self._socket.getsubprotocol()

    def receive(self) -> tuple[int, bytes]:
        """Returns the opcode and the payload of the next message or control frame."""
        opcode, payload = self._socket.recv_data(control_frame=True)
        return opcode, payload

    def next_event(self) -> Any:
        opcode, payload = self.receive()
        assert opcode == ABNF.OPCODE_TEXT
        return json.loads(payload)

    def close_code(self) -> int:
        """Returns the code with which the server closes."""
        opcode, payload = self.receive()
        assert opcode == ABNF.OPCODE_CLOSE
        return int.from_bytes(payload[:2], "big")

    def send(self, opcode: int, payload: bytes) -> None:
        self._socket.send(payload, opcode)

    def send_raw(self, data: bytes) -> None:
        """Send what no client sends."""
        assert self._socket.sock is not None
        self._socket.sock.sendall(data)


@contextmanager
def connected(
    server: ServerProcess, path: str, *protocols: str, origin: str = "", **headers: str
) -> Iterator[Connection]:
    """A WebSocket. A client that offers protocols fails if none of them is answered, as browsers do."""
    socket = websocket.create_connection(
        server.url.replace("https", "wss") + path,
        timeout=WITHIN_S,
        subprotocols=list(protocols) or None,
        header=headers,
        origin=origin or None,
        suppress_origin=not origin,
        sslopt={"ca_certs": str(server.ca_path)},
    )
    try:
        yield Connection(socket)
    finally:
        socket.shutdown()  # type: ignore[no-untyped-call]
