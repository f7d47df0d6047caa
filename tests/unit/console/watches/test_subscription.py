"""What becomes of an answer: the messages of a subscription."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.console.watches.subscription import (
    ANSWER_BYTES_MAX,
    FORWARDED_EVENT_BYTES_MAX,
    Subscription,
)
from apiserver.endpoints.responses import chunk, warning_values
from apiserver.endpoints.websocket import split_messages

STREAM: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json;stream=watch\r\nTransfer-Encoding: chunked\r\n\r\n"
)
LAST_CHUNK: Final = b"0\r\n\r\n"
STATUS: Final = b'{"kind":"Status","code":403,"message":"no"}\n'


class Outlet:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.sent = b""
        self.has_ended = False

    def send(self, subscription: Subscription, frames: bytes) -> None:
        self.sent += frames

    def begun(self, subscription: Subscription) -> None:
        assert self.messages == [{"id": 7, "begun": {"warnings": self.messages[0]["begun"]["warnings"]}}]

    def ended(self, subscription: Subscription) -> None:
        assert not self.has_ended
        self.has_ended = True

    @property
    def texts(self) -> list[bytes]:
        """The messages, without their heads."""
        heads = {126: 4, 127: 10}
        return [frame[heads.get(frame[1], 2) :] for frame in split_messages(self.sent)]

    @property
    def messages(self) -> list[Any]:
        return [json.loads(text) for text in self.texts]


class Answered:
    """A subscription with what its connection writes. is_forwarded: another server's answer."""

    def __init__(self, *, is_forwarded: bool = False) -> None:
        self.outlet = Outlet()
        self.lost = 0
        connection: Any = SimpleNamespace(may_stall=is_forwarded, connection_lost=self._lose)
        self.subscription = Subscription(7, connection, self.outlet)

    def _lose(self, error: Exception | None) -> None:
        self.lost += 1

    async def write(self, *pieces: bytes, closes: bool = True) -> list[Any]:
        """Returns the messages. closes: whether the connection is closed after the pieces."""
        for piece in pieces:
            self.subscription.write(piece)
        if closes:
            self.subscription.close()
            assert self.lost == 0  # not within the call
        await asyncio.sleep(0)
        assert self.lost == self.outlet.has_ended
        return self.outlet.messages


EVENTS: Final = st.lists(st.binary(max_size=400).map(lambda data: orjson.dumps(data.hex()) + b"\n"))


@given(EVENTS, st.data())
async def test_each_chunk_is_an_event_however_many_are_written_at_once(
    events: list[bytes], data: st.DataObject
) -> None:
    answered = Answered()
    chunks = [*map(chunk, events), LAST_CHUNK]
    cuts = sorted(data.draw(st.sets(st.integers(0, len(chunks)))))
    pieces = [b"".join(chunks[a:b]) for a, b in zip([0, *cuts], [*cuts, len(chunks)], strict=True)]
    await answered.write(STREAM, *pieces)
    begun, *sent, end = answered.outlet.texts
    assert begun == b'{"id":7,"begun":{"warnings":[]}}'
    assert sent == [b'{"id":7,"event":%b}' % event for event in events]
    assert end == b'{"id":7,"end":{"status":null}}'


@given(EVENTS, st.data())
async def test_the_lines_of_another_server_are_events_wherever_its_chunks_end(
    events: list[bytes], data: st.DataObject
) -> None:
    events = [b'{"type":"ADDED","object":%b}\n' % event.rstrip() for event in events]
    answered, body = Answered(is_forwarded=True), b"".join(events)
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(body) - 1)))))
    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    await answered.write(STREAM, *(chunk(piece) for piece in pieces if piece), LAST_CHUNK)
    assert answered.outlet.texts[1:-1] == [b'{"id":7,"event":%b}' % event.rstrip() for event in events]
    assert answered.outlet.messages[-1] == {"id": 7, "end": {"status": None}}


@pytest.mark.parametrize("size", [0, 107, 108, 109, 65_516, 65_517, 65_518, 1_000_000])
async def test_messages_of_all_sizes(size: int) -> None:
    event = b'"%b"' % (b"x" * size)
    messages = await Answered().write(STREAM, chunk(event))
    assert messages[1] == {"id": 7, "event": "x" * size}


@pytest.mark.parametrize("is_forwarded", [False, True])
async def test_an_error_event_is_in_the_end(is_forwarded: bool) -> None:
    events = b'{"type":"ADDED","object":{}}\n', b'{"type":"ERROR","object":{"code":410}}\n'
    messages = await Answered(is_forwarded=is_forwarded).write(STREAM, *map(chunk, events), LAST_CHUNK)
    assert messages[1:] == [
        {"id": 7, "event": {"type": "ADDED", "object": {}}},
        {"id": 7, "end": {"status": {"code": 410}}},
    ]


def head(status: int, *lines: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status} x", *lines, "", ""]).encode()


NOT_FOUND: Final = "the server could not find the requested resource"
ENDS: Final[dict[str, tuple[list[bytes], object]]] = {
    "a refusal": ([head(403, f"Content-Length: {len(STATUS)}") + STATUS], json.loads(STATUS)),
    "its head first": ([head(403), STATUS[:9], STATUS[9:]], json.loads(STATUS)),
    "its head in pieces": ([head(403)[:9], head(403)[9:] + STATUS], json.loads(STATUS)),
    "in chunks": (
        [head(403, "Transfer-Encoding: chunked"), chunk(STATUS[:9]), chunk(STATUS[9:]), LAST_CHUNK],
        json.loads(STATUS),
    ),
    "no answer": ([], None),
    "half a head": ([head(403)[:-2]], None),
}


@pytest.mark.parametrize(("pieces", "status"), ENDS.values(), ids=ENDS)
async def test_how_a_subscription_ends(pieces: list[bytes], status: object) -> None:
    assert await Answered().write(*pieces) == [{"id": 7, "end": {"status": status}}]


# What is no Status of this server, and what the client gets: code and message.
OTHERS: Final[dict[str, tuple[list[bytes], int, str]]] = {
    "text": ([head(404) + b"404 page not found\n"], 404, NOT_FOUND),
    "another document": ([head(502) + b'{"kind":"Pod"}'], 502, "status code 502"),
    "a list": ([head(503) + b"[]"], 503, "status code 503"),
    "half a Status": ([head(403) + STATUS[:9]], 403, "status code 403"),
    "a redirect": ([head(301, "Location: /")], 301, "status code 301"),
    "what is not HTTP": ([b"hello\r\n\r\n"], 502, "malformed"),
    "an object": ([head(200, "Content-Type: application/json", "Content-Length: 2") + b"{}"], 400, "path: "),
    "a stream of protobuf": (
        [head(200, "Content-Type: application/vnd.kubernetes.protobuf", "Transfer-Encoding: chunked")],
        406,
        "application/json",
    ),
    "a stream of an unknown type": ([head(200, "Transfer-Encoding: chunked")], 406, "application/json"),
    "without an end": ([head(500) + b"x" * ANSWER_BYTES_MAX], 502, "too long"),
    "a head without an end": ([b"HTTP/1.1 200 OK\r\nA: " + b"x" * ANSWER_BYTES_MAX], 502, "too long"),
}


@pytest.mark.parametrize(("pieces", "code", "text"), OTHERS.values(), ids=OTHERS)
async def test_answers_that_are_neither_events_nor_a_status(
    pieces: list[bytes], code: int, text: str
) -> None:
    (message,) = await Answered().write(*pieces)
    status = message["end"]["status"]
    assert (status["kind"], status["status"], status["code"]) == ("Status", "Failure", code)
    assert text in status["message"]


# Lines of another server.
NO_EVENTS: Final = {
    "no JSON": (b"hello\n", "not a JSON object"),
    "no object": (b"1\n", "not a JSON object"),
    "more than one value": (b'{"type":"ADDED"},"id":8\n', "not a JSON object"),
    "what closes the message": (b'{}}\x81\x02{"id":8}\n', "not a JSON object"),
    "too long": (b'"%b' % (b"x" * FORWARDED_EVENT_BYTES_MAX), "too long"),
}


@pytest.mark.parametrize(("line", "text"), NO_EVENTS.values(), ids=NO_EVENTS)
async def test_another_server_cannot_forge_messages(line: bytes, text: str) -> None:
    answered = Answered(is_forwarded=True)
    messages = await answered.write(STREAM, chunk(b"\n{}\n"), chunk(line), chunk(b"{}\n"), closes=False)
    assert messages[1] == {"id": 7, "event": {}}
    status = messages[2]["end"]["status"]
    assert (status["code"], len(messages)) == (502, 3)
    assert text in status["message"]


async def test_an_aborted_watch_can_be_resumed() -> None:
    answered = Answered()
    await answered.write(STREAM, chunk(b"{}"), closes=False)
    answered.subscription.abort()
    answered.subscription.close()
    answered.subscription.write(chunk(b"{}"))  # It is lost, as on any transport.
    assert await answered.write() == [
        {"id": 7, "begun": {"warnings": []}},
        {"id": 7, "event": {}},
        {"id": 7, "end": {"status": None}},
    ]


@given(st.lists(st.text(st.characters(min_codepoint=32, exclude_characters="\x7f"), min_size=1), unique=True))
async def test_warnings_are_those_that_were_given(texts: list[str]) -> None:
    texts = [text for text in texts if list(warning_values([text]))][:3]
    lines = b"".join(b"Warning: %b\r\n" % value for value in warning_values(texts))
    messages = await Answered().write(STREAM.replace(b"\r\n\r\n", b"\r\n" + lines + b"\r\n"))
    assert messages[0]["begun"]["warnings"] == texts
