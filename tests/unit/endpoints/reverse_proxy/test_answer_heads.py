"""Which heads of answers are passed on, in whatever pieces they come."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import pytest
from aiohttp.client_proto import ResponseHandler

from apiserver.endpoints.reverse_proxy.answer_heads import HeadCheck, MalformedHead, is_malformed

HEAD: Final = b"HTTP/1.1 200 OK\r\nX-A: a\r\n"
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
# What comes, and whether it is passed on.
ANSWERS: Final[dict[str, tuple[bytes, bool]]] = {
    "a head": (HEAD + b"\r\n", True),
    "no headers": (b"HTTP/1.1 200 OK\r\n\r\n", True),
    "a body": (HEAD + b"\r\na\nb\rc\0", True),
    "an answer before it": (CONTINUE + HEAD + b"\r\na\nb", True),
    "two answers before it": (CONTINUE * 2 + HEAD + b"\r\na\nb", True),
    "a change of protocol": (b"HTTP/1.1 101 Switching Protocols\r\n\r\na\nb", True),
    "a line feed in a value": (HEAD + b"X-B: b\nX-C: c\r\n\r\n", False),
    "a line feed in a name": (HEAD + b"X-B\n: b\r\n\r\n", False),
    "a line feed at the end": (HEAD + b"X-B: b\n\r\n", False),
    "line feeds alone": (b"HTTP/1.1 200 OK\nX-A: a\n\n", False),
    "a line feed in the status line": (b"HTTP/1.1 200 OK\nX-A: a\r\n\r\n", False),
    "a line feed before": (b"\n" + HEAD + b"\r\n", False),
    "a line before": (b"\r\n" + HEAD + b"X-B: b\nX-C: c\r\n\r\n", False),
    "an empty head before": (b"\r\n\r\n" + HEAD + b"X-B: b\nX-C: c\r\n\r\n", False),
    "a carriage return in a value": (HEAD + b"X-B: b\rX-C: c\r\n\r\n", False),
    "two carriage returns": (HEAD + b"X-B: b\r\r\n\r\n", False),
    "a null": (HEAD + b"X-B: b\0c\r\n\r\n", False),
    "a line feed in the answer before": (b"HTTP/1.1 103 Early\nX: y\r\n\r\n" + HEAD + b"\r\n", False),
    "a line feed in the last answer": (CONTINUE + HEAD + b"X-B: b\nX-C: c\r\n\r\n", False),
    "one in the last of three": (CONTINUE * 2 + HEAD + b"X-B: b\nX-C: c\r\n\r\n", False),
    "an answer of another version before it": (
        b"HTTP/2.0 100 Continue\r\n\r\n" + HEAD + b"X-B: b\nX-C: c\r\n\r\n",
        False,
    ),
}


class Transport(asyncio.Transport):
    """A connection that has been made."""

    def __init__(self) -> None:
        super().__init__()
        self.protocol: Any = None
        self.is_aborted = False

    def get_protocol(self) -> asyncio.BaseProtocol:
        found: asyncio.BaseProtocol = self.protocol
        return found

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def is_closing(self) -> bool:
        return self.is_aborted

    def abort(self) -> None:
        self.is_aborted = True


class Noted(ResponseHandler):
    """Notes what is passed on."""

    def __init__(self) -> None:
        super().__init__(asyncio.get_running_loop())
        self.data = b""

    def data_received(self, data: bytes) -> None:
        self.data += data


def begun() -> tuple[Transport, Noted]:
    transport, noted = Transport(), Noted()
    transport.set_protocol(noted)
    noted.connection_made(transport)
    HeadCheck.begin(noted)
    return transport, noted


def receive(transport: Transport, pieces: Sequence[bytes]) -> None:
    for piece in pieces:
        if not transport.is_aborted:
            transport.protocol.data_received(piece)


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1_000])
@pytest.mark.parametrize(("data", "is_passed"), ANSWERS.values(), ids=ANSWERS)
async def test_which_answers_are_passed_on(data: bytes, is_passed: bool, size: int) -> None:
    transport, noted = begun()
    receive(transport, pieces(data, size))
    assert transport.is_aborted is not is_passed
    assert isinstance(noted.exception(), MalformedHead) is not is_passed
    assert (noted.data == data) is is_passed


async def test_each_answer_of_a_connection_is_looked_at() -> None:
    transport, noted = begun()
    body = b"a\nb"
    receive(transport, [HEAD + b"Content-Length: 3\r\n\r\n" + body])
    check = transport.protocol
    HeadCheck.begin(noted)
    assert transport.protocol is check, "once for a connection"
    receive(transport, [HEAD, b"X-B: b\nX-C: c\r\n\r\n"])
    assert transport.is_aborted


async def test_a_lost_connection_is_left_to_aiohttp() -> None:
    noted = Noted()
    HeadCheck.begin(noted)
    assert noted.transport is None


def test_a_head_that_has_come_as_a_whole() -> None:
    assert not is_malformed(HEAD + b"\r\n")
    assert is_malformed(HEAD + b"X-B: b\nX-C: c\r\n\r\n")
