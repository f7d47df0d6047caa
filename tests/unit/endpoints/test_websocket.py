"""Frames of a server, clients that do not read them, and those that send too much."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from aiohttp import WSMessage, WSMsgType, web
from hypothesis import example, given
from hypothesis import strategies as st

from apiserver.endpoints.connection import Server
from apiserver.endpoints.representation.json_forms import JsonEncoder
from apiserver.endpoints.request_info import parse_query, parse_target
from apiserver.endpoints.responses import chunk, split_chunks
from apiserver.endpoints.watch_stream import WatchStream, WatchStreams
from apiserver.endpoints.websocket import WebSocketEvents, message, split_messages
from apiserver.meta.brand import Brand
from apiserver.metrics.requests import RequestMetrics
from apiserver.registry.stored_object import StoredObject, encode
from apiserver.storage.watch_cache import KeyVersion, Watcher
from apiserver.storage.watch_cache.events import CacheEvent, WatcherEvent
from tests.support.eventually import WITHIN_S
from tests.support.in_process import resource
from tests.unit.endpoints.connections import connected
from tests.unit.endpoints.handlers import calls

PATH: Final = "/api/v1/configmaps"
CONFIG_MAPS: Final = resource("configmaps", "")
HANDSHAKE: Final = (
    f"GET {PATH}?watch=1 HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
).encode()
# The answer to this key in RFC 6455, 1.3.
ACCEPTED: Final = b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
PADDING: Final = "x" * 100_000
# More than are read at once.
MESSAGES: Final = 1_000_000


def payload_of(frame: bytes) -> bytes:
    """Reads a frame by the table of RFC 6455, 5.2, which wants the shortest form of the length."""
    assert frame[1] & 0x80 == 0, "a server must not mask"
    size, start = frame[1], 2
    if size == 126:
        size, start = int.from_bytes(frame[2:4], "big"), 4
        assert size > 125
    elif size == 127:
        size, start = int.from_bytes(frame[2:10], "big"), 10
        assert size > 0xFFFF
    assert len(frame) == start + size
    return frame[start:]


@given(st.one_of(st.integers(0, 300), st.integers(65_500, 65_600)), st.sampled_from([1, 2]))
@example(125, 1)
@example(126, 1)
@example(65_535, 2)
@example(65_536, 2)
def test_a_message_is_one_frame(size: int, opcode: int) -> None:
    payload = b"x" * size
    frame = message(opcode, payload)
    assert frame[0] == 0x80 | opcode
    assert payload_of(frame) == payload


def changed(revision: int) -> WatcherEvent[StoredObject]:
    document = {"metadata": {"name": f"n{revision}"}, "data": {"padding": PADDING}}
    head = CONFIG_MAPS.head
    obj = StoredObject(f"/n{revision}", head, encode(document, head)[len(head) :])
    event = CacheEvent(KeyVersion(obj.key, obj, revision=revision, create_revision=revision))
    return WatcherEvent(event.type, event)


async def test_a_client_that_reads_nothing_is_dropped() -> None:
    """Row M09: its queue is full one day, as that of an ordinary watch."""
    loop = asyncio.get_running_loop()
    streams = WatchStreams(RequestMetrics(), loop.time)
    opened: asyncio.Future[tuple[Watcher[StoredObject], Callable[[], None]]] = loop.create_future()
    ended = asyncio.Event()

    async def watch(request: web.BaseRequest) -> web.StreamResponse:
        info, query = parse_target("GET", PATH, True), parse_query("watch=1")
        call = calls.made(request, info, query, received_at=loop.time())
        call.resource = CONFIG_MAPS
        encoder = JsonEncoder(CONFIG_MAPS, Brand())
        stream = WatchStream(call, encoder, CONFIG_MAPS, streams, lifetime_s=100 * WITHIN_S)
        on_ready = stream.on_event
        watcher = Watcher[StoredObject](after=0, predicate=None, on_ready=on_ready, queued_events_max=4)
        opened.set_result((watcher, on_ready))
        try:
            with streams.open(stream):
                await stream.run(
                    watcher, [], initial_bookmark=None, progress=lambda: 0, sends_bookmarks=False
                )
        finally:
            ended.set()
        return calls.sent(call)

    async with connected(Server(watch)) as (reader, writer):
        writer.write(HANDSHAKE)
        assert ACCEPTED in await reader.readuntil(b"\r\n\r\n")
        watcher, on_ready = await opened
        revision = 0
        while not watcher.is_overrun:
            revision += 1
            if watcher.offer(changed(revision)):
                on_ready()
            await asyncio.sleep(0)  # The stream writes what the connection takes.
        watcher.overrun()
        await ended.wait()


class FloodedSocket:
    """A WebSocket of which many messages are there already."""

    closed = False

    def __init__(self, kind: WSMsgType) -> None:
        self._message = WSMessage(kind, b"", None)
        self.received = self.ponged = 0

    async def receive(self) -> WSMessage:
        self.received += 1
        self.closed = self.received == MESSAGES
        return self._message

    async def pong(self, data: bytes) -> None:
        self.ponged += 1

    async def close(self, *, drain: bool) -> None:
        self.closed = True


@pytest.mark.parametrize("kind", [WSMsgType.TEXT, WSMsgType.PING, WSMsgType.PONG])
async def test_a_client_that_sends_and_sends_does_not_keep_others_waiting(kind: WSMsgType) -> None:
    socket = FloodedSocket(kind)
    call: Any = SimpleNamespace(connection=None)
    encoder: Any = SimpleNamespace(is_text=True, event_head_bytes=0)
    events = WebSocketEvents(call, cast(Any, socket), encoder)
    while not socket.received:
        await asyncio.sleep(0)
    assert socket.received < MESSAGES
    assert socket.ponged in ((socket.received,) if kind is WSMsgType.PING else (0,))
    await events.close()


@given(st.lists(st.sampled_from([0, 1, 125, 126, 300, 65_535, 65_536, 70_000]), max_size=4))
def test_messages_and_chunks_are_told_apart(sizes: list[int]) -> None:
    messages = [message(1, b"x" * size) for size in sizes]
    assert split_messages(b"".join(messages)) == messages
    chunks = [chunk(b"\r\n" * size) for size in sizes if size]
    assert split_chunks(b"".join(chunks)) == chunks
