"""A client of /console/watches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from websocket import ABNF

from tests.support.server_process import ServerProcess
from tests.support.websocket_client import Connection, connected
from tests.support.websocket_tokens import token_protocol

PATH: Final = "/console/watches"
PROTOCOL: Final = "watches.v1"
TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"


class WatchesClient:
    """The client's end of a WebSocket with many watches."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def send(self, message: object) -> None:
        self.connection.send(ABNF.OPCODE_TEXT, json.dumps(message).encode())

    def subscribe(self, number: int, path: str, accept: str = "") -> None:
        fields = {"accept": accept} if accept else {}
        self.send({"subscribe": {"id": number, "path": path, **fields}})

    def begin(self, number: int, path: str, accept: str = "") -> Any:
        """Subscribe, and return what the server says when the watch has begun."""
        self.subscribe(number, path, accept)
        return self.next(number)["begun"]

    def receive(self) -> bytes:
        """Returns the next message as it came."""
        opcode, payload = self.connection.receive()
        assert opcode == ABNF.OPCODE_TEXT, payload
        return payload

    def next(self, number: int) -> Any:
        """Returns the next message, which must be for this subscription."""
        message = json.loads(self.receive())
        assert message.pop("id") == number, message
        return message

    def event(self, number: int) -> Any:
        return self.next(number)["event"]

    def end(self, number: int) -> Any:
        """Returns the Status with which a subscription ends, without an event before; None if it is null."""
        return self.next(number)["end"]["status"]

    def close_code(self) -> int:
        return self.connection.close_code()


@contextmanager
def watching(
    server: ServerProcess, token: str = "admin-token", *, origin: str = "", **headers: str
) -> Iterator[WatchesClient]:
    """A WebSocket with watches. token: offered as pages do; none if it is empty."""
    protocols = [token_protocol(token), PROTOCOL] if token else [PROTOCOL]
    with connected(server, PATH, *protocols, origin=origin, **headers) as connection:
        assert connection.protocol == PROTOCOL
        yield WatchesClient(connection)
