"""The channel to one endpoint: when it connects, and what becomes of calls on connections that end."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import hpack
import pytest

from apiserver.storage.etcd.http2_channel import Http2Channel
from apiserver.storage.etcd.http2_frames import (
    GOAWAY,
    HEADERS,
    PING,
    PREFACE,
    REFUSED_STREAM,
    RST_STREAM,
    frame,
)
from apiserver.storage.etcd.rpc import CallEnded, ChannelClosed, Code, Endpoint, RpcError, Tls
from tests.storage.etcd.test_http2_connection import answer, settings
from tests.support.eventually import WITHIN_S

RANGE = "/etcdserverpb.KV/Range"


class Server:
    """Speaks HTTP/2 as far as needed. connections: those that were accepted; opened: headers that came;
    headers: the last of these; pongs: answers to PINGs.
    """

    def __init__(self) -> None:
        self.connections: list[asyncio.StreamWriter] = []
        self.opened: asyncio.Queue[tuple[asyncio.StreamWriter, int]] = asyncio.Queue()
        self.headers: dict[str, str] = {}
        self.pongs: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
        self.speaks = True

    async def __aenter__(self) -> Server:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.endpoint = Endpoint("127.0.0.1", self._server.sockets[0].getsockname()[1], False)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self.connections:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(writer)
        if not self.speaks:
            return
        writer.write(settings())
        try:
            await reader.readexactly(len(PREFACE))
            while True:
                head = await reader.readexactly(9)
                payload = await reader.readexactly(int.from_bytes(head[:3], "big"))
                if head[3] == HEADERS:
                    found = hpack.Decoder().decode(payload)
                    self.headers = {str(name): str(value) for name, value in found}
                    self.opened.put_nowait((writer, int.from_bytes(head[5:], "big")))
                elif head[3] == PING:
                    self.pongs.put_nowait(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass

    async def go_away(self, writer: asyncio.StreamWriter, last_stream_id: int) -> None:
        """Send GOAWAY, and wait until the client has read it."""
        writer.write(frame(GOAWAY, 0, 0, struct.pack(">LL", last_stream_id, 0)) + frame(PING, 0, 0, bytes(8)))
        async with asyncio.timeout(WITHIN_S):
            assert await self.pongs.get() is writer


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server() as server:
        yield server


@pytest.fixture
async def channel(server: Server) -> AsyncIterator[Http2Channel]:
    channel = Http2Channel(server.endpoint, Tls(), user_agent="test")
    yield channel
    await channel.close()


async def respond(server: Server, content: bytes) -> asyncio.StreamWriter:
    writer, stream_id = await opened(server)
    writer.write(answer(stream_id, content))
    return writer


async def opened(server: Server) -> tuple[asyncio.StreamWriter, int]:
    async with asyncio.timeout(WITHIN_S):
        return await server.opened.get()


Call = Callable[[Http2Channel], Awaitable[bytes | None]]
# Calls that send one message, and receive one or many.
CALLS: Final[dict[str, Call]] = {
    "one response": lambda channel: channel.unary(RANGE, b"", 10),
    "many responses": lambda channel: channel.server_stream(RANGE, b"", 10).read(),
}


async def complete_a_call(server: Server, channel: Http2Channel) -> None:
    call = asyncio.ensure_future(channel.unary(RANGE, b"", 10))
    await respond(server, b"")
    await call


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_the_server_is_told_how_long_the_client_waits(
    server: Server, channel: Http2Channel, call: Call
) -> None:
    waiting = asyncio.ensure_future(call(channel))
    await respond(server, b"1")
    assert await waiting == b"1"
    assert server.headers["grpc-timeout"] == "10000m"


async def test_a_stream_without_end_has_no_timeout(server: Server, channel: Http2Channel) -> None:
    waiting = asyncio.ensure_future(channel.server_stream(RANGE, b"").read())
    await respond(server, b"1")
    assert await waiting == b"1"
    assert "grpc-timeout" not in server.headers


async def test_calls_share_a_connection(server: Server, channel: Http2Channel) -> None:
    calls = [asyncio.ensure_future(channel.unary(RANGE, b"", 10)) for _ in range(3)]
    for content in (b"1", b"2", b"3"):
        await respond(server, content)
    assert await asyncio.gather(*calls) == [b"1", b"2", b"3"]
    assert len(server.connections) == 1


async def test_a_server_that_goes_finishes_its_calls_and_others_use_a_new_connection(
    server: Server, channel: Http2Channel
) -> None:
    await complete_a_call(server, channel)
    first = asyncio.ensure_future(channel.unary(RANGE, b"", 10))
    writer, stream_id = await opened(server)
    await server.go_away(writer, stream_id)
    second = asyncio.ensure_future(channel.unary(RANGE, b"", 10))
    await respond(server, b"new")
    assert await second == b"new"
    writer.write(answer(stream_id, b"old"))
    assert await first == b"old"
    assert len(server.connections) == 2


async def refuse_with_goaway(server: Server) -> None:
    writer, _ = await opened(server)
    writer.write(frame(GOAWAY, 0, 0, bytes(8)))


async def refuse_stream(server: Server) -> None:
    writer, stream_id = await opened(server)
    writer.write(frame(RST_STREAM, 0, stream_id, struct.pack(">L", REFUSED_STREAM)))


# How a server refuses a call that it has not looked at, and the number of connections that two calls take.
# https://www.rfc-editor.org/rfc/rfc9113#name-request-reliability
REFUSALS = {"it closes the connection": (refuse_with_goaway, 2), "it refuses the call": (refuse_stream, 1)}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(("refuse", "connections"), REFUSALS.values(), ids=REFUSALS)
async def test_a_call_that_the_server_has_not_seen_is_sent_again(
    server: Server,
    channel: Http2Channel,
    refuse: Callable[[Server], Awaitable[None]],
    connections: int,
    call: Call,
) -> None:
    await complete_a_call(server, channel)
    calling = asyncio.ensure_future(call(channel))
    await refuse(server)
    await respond(server, b"at last")
    assert await calling == b"at last"
    assert len(server.connections) == connections


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(("refuse", "connections"), REFUSALS.values(), ids=REFUSALS)
async def test_a_call_is_sent_again_once(
    server: Server,
    channel: Http2Channel,
    refuse: Callable[[Server], Awaitable[None]],
    connections: int,
    call: Call,
) -> None:
    await complete_a_call(server, channel)
    calling = asyncio.ensure_future(call(channel))
    await refuse(server)
    await refuse(server)
    with pytest.raises(RpcError) as raised:
        await calling
    assert raised.value.is_unsent
    assert len(server.connections) == connections
    assert server.opened.empty()


async def test_a_connection_that_is_retired_is_replaced_at_once(
    server: Server, channel: Http2Channel
) -> None:
    """It has not failed, although it has completed no call, as one with nothing but watches."""
    streams = []
    for _ in range(3):
        streams.append(asyncio.ensure_future(channel.stream(RANGE).read()))
        await opened(server)
        channel.retire_connection()
    assert len(server.connections) == 3
    await channel.close()
    for stream in streams:
        with pytest.raises(CallEnded):
            await stream


async def test_closing_ends_calls_on_connections_that_take_no_more(
    server: Server, channel: Http2Channel
) -> None:
    await complete_a_call(server, channel)
    stream = channel.stream(RANGE)
    reading = asyncio.ensure_future(stream.read())
    writer, stream_id = await opened(server)
    await server.go_away(writer, stream_id)
    await complete_a_call(server, channel)
    await channel.close()
    with pytest.raises(CallEnded):
        await reading
    with pytest.raises(ChannelClosed):
        await channel.unary(RANGE, b"", 10)


async def test_a_stream_that_is_cancelled_while_it_connects_is_not_opened(
    server: Server, channel: Http2Channel
) -> None:
    stream = channel.stream(RANGE)
    reading = asyncio.ensure_future(stream.read())
    await asyncio.sleep(0)
    stream.cancel()
    with pytest.raises(CallEnded):
        await reading
    assert server.opened.empty()


async def test_a_task_that_is_cancelled_while_it_connects_leaves_the_connection_to_others(
    server: Server, channel: Http2Channel
) -> None:
    first = asyncio.ensure_future(channel.unary(RANGE, b"", 10))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(channel.unary(RANGE, b"", 10))
    await asyncio.sleep(0)
    first.cancel()
    await respond(server, b"second")
    assert await second == b"second"
    assert first.cancelled()


async def test_calls_fail_at_once_after_a_failure_to_connect(server: Server) -> None:
    server.speaks = False
    channel = Http2Channel(server.endpoint, Tls(), user_agent="test")
    for _ in range(2):
        with pytest.raises(RpcError, match="cannot connect: no response within 2 s") as raised:
            await channel.unary(RANGE, b"", 10)
        assert (raised.value.code, raised.value.is_unsent) == (Code.UNAVAILABLE, True)
    assert len(server.connections) == 1
    await channel.close()


async def test_a_connection_that_ends_before_it_completes_a_call_is_not_replaced_at_once(
    server: Server, channel: Http2Channel
) -> None:
    first = asyncio.ensure_future(channel.unary(RANGE, b"", 10))
    writer, _ = await opened(server)
    writer.close()
    with pytest.raises(RpcError, match="closed"):
        await first
    with pytest.raises(RpcError, match="the last connection ended before it completed a call") as raised:
        await channel.unary(RANGE, b"", 10)
    assert raised.value.is_unsent
    assert len(server.connections) == 1


REFUSING_AND_SILENT: Final = ("127.0.0.2", "127.0.0.1")


class NameServer(asyncio.SelectorEventLoop):
    """An event loop for which a name has two addresses."""

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (each, port)) for each in REFUSING_AND_SILENT]


def test_the_error_of_a_silent_address_has_its_share_of_the_time() -> None:
    async def test() -> None:
        async with Server() as server:
            server.speaks = False
            endpoint = server.endpoint._replace(host="etcd.example")
            channel = Http2Channel(endpoint, Tls(), user_agent="test")
            with pytest.raises(RpcError, match=r"no response from 127\.0\.0\.1 within 1 s"):
                await channel.unary(RANGE, b"", 10)
            await channel.close()

    with asyncio.Runner(loop_factory=NameServer) as runner:
        runner.run(test())
