"""The HTTP/2 connection to etcd, at the level of frames: RFC 9113, and gRPC over it."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Final

import hpack
import pytest

from apiserver.storage.etcd.http2_calls import StreamCall, UnaryCall
from apiserver.storage.etcd.http2_connection import (
    BLOCKED_MESSAGES_MAX,
    CONNECTION_WINDOW_BYTES,
    HEADER_BLOCK_BYTES_MAX,
    KEEPALIVE_INTERVAL_S,
    KEEPALIVE_TIMEOUT_S,
    MESSAGE_BYTES_MAX,
    WRITE_BUFFER_BYTES_MAX,
    Connection,
)
from apiserver.storage.etcd.http2_frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
    request_block,
)
from apiserver.storage.etcd.rpc import CallEnded, Code, RpcError

WINDOW: Final = 64 * 1024
BLOCK: Final = request_block("/etcdserverpb.KV/Range", "127.0.0.1:2379", is_tls=False)


def block(fields: dict[str | bytes, str | bytes]) -> bytes:
    """A header block of an encoder without a table, which says so first."""
    encoder = hpack.Encoder()
    encoder.header_table_size = 0
    return encoder.encode(fields)


STARTED: Final = block({":status": "200", "content-type": "application/grpc"})


def trailers(code: int = 0, message: str = "") -> bytes:
    return block({"grpc-status": str(code), "grpc-message": message})


def refusal(code: int, message: str, stream_id: int = 1) -> bytes:
    """An answer that is nothing but an error."""
    return frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        stream_id,
        block({":status": "200", "grpc-status": str(code), "grpc-message": message}),
    )


def message(content: bytes) -> bytes:
    return b"\0" + struct.pack(">L", len(content)) + content


def settings(**values: int) -> bytes:
    numbers = {"max_concurrent_streams": 3, "initial_window_size": 4, "max_frame_size": 5}
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HL", numbers[name], n) for name, n in values.items()))


def answer(stream_id: int, content: bytes) -> bytes:
    return (
        frame(HEADERS, END_HEADERS, stream_id, STARTED)
        + frame(DATA, 0, stream_id, message(content))
        + frame(HEADERS, END_HEADERS | END_STREAM, stream_id, trailers())
    )


class Clock(asyncio.SelectorEventLoop):
    """An event loop whose time can be put forward."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s


class Wire(asyncio.Transport):
    """What a connection writes to."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def get_write_buffer_size(self) -> int:
        return len(self.written)

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def frames(self) -> list[tuple[int, int, int, bytes]]:
        """Returns the kind, flags, stream and payload of the frames that were written since."""
        data, found = self.written.removeprefix(PREFACE), []
        self.written = b""
        while data:
            length, (stream_id,) = int.from_bytes(data[:3], "big"), struct.unpack(">L", data[5:9])
            found.append((data[3], data[4], stream_id, data[9 : 9 + length]))
            data = data[9 + length :]
        return found


class Peer:
    """A connection, and the server's end of it."""

    def __init__(self, *first: bytes, window: int = WINDOW) -> None:
        self.wire = Wire()
        self.connection = Connection(asyncio.get_running_loop(), window)
        self.connection.connection_made(self.wire)
        self.greeting, self.wire.written = self.wire.written, b""
        for data in first:
            self.connection.data_received(data)

    async def call(self, content: bytes = b"?", deadline: float = 1e9) -> asyncio.Future[bytes]:
        found: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        call = UnaryCall(self.connection, found, deadline)
        await self.connection.open(call, BLOCK, deadline)
        self.connection.send(call, content, is_last=True)
        return found

    async def stream(self) -> StreamCall:
        call = StreamCall(self.connection, None)
        await self.connection.open(call, BLOCK, 1e9)
        return call

    async def sent(self) -> list[tuple[int, int, int, bytes]]:
        """What the connection has sent, once it has had its turn."""
        await asyncio.sleep(0)
        return self.wire.frames()

    async def credited(self, stream_id: int) -> int:
        """How many bytes the connection has credited to a stream since."""
        return sum(
            int.from_bytes(payload, "big")
            for kind, _, of, payload in await self.sent()
            if (kind, of) == (WINDOW_UPDATE, stream_id)
        )


async def test_it_begins_with_the_preface_and_settings_that_forbid_a_header_table() -> None:
    peer = Peer()
    assert peer.greeting.startswith(PREFACE)
    peer.wire.written = peer.greeting
    (kind, flags, stream_id, payload), credit = peer.wire.frames()
    assert (kind, flags, stream_id) == (SETTINGS, 0, 0)
    assert dict(struct.iter_unpack(">HL", payload)) == {1: 0, 2: 0, 4: WINDOW}
    assert credit == (WINDOW_UPDATE, 0, 0, struct.pack(">L", CONNECTION_WINDOW_BYTES - 65_535))
    assert not peer.connection.ready.done()
    peer.connection.data_received(settings())
    await peer.connection.ready
    assert await peer.sent() == [(SETTINGS, ACK, 0, b"")]


async def test_a_call_is_one_write_and_its_answer_is_the_message() -> None:
    peer = Peer(settings())
    found = await peer.call(b"question")
    assert await peer.sent() == [
        (SETTINGS, ACK, 0, b""),
        (HEADERS, END_HEADERS, 1, BLOCK),
        (DATA, END_STREAM, 1, message(b"question")),
    ]
    peer.connection.data_received(answer(1, b"answer"))
    assert await found == b"answer"


def test_request_blocks_are_what_a_decoder_expects() -> None:
    long = "x" * 300
    made = request_block("/etcdserverpb.KV/Txn", "etcd:2379", is_tls=True, headers=[("hasleader", long)])
    decoded = [(str(name), str(value)) for name, value in hpack.Decoder().decode(made)]
    assert decoded == [
        (":method", "POST"),
        (":scheme", "https"),
        (":path", "/etcdserverpb.KV/Txn"),
        (":authority", "etcd:2379"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("hasleader", long),
    ]


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 10, 13])
async def test_frames_may_be_cut_anywhere(size: int) -> None:
    peer = Peer()
    data = settings() + frame(PING, 0, 0, b"12345678")
    for begin in range(0, len(data), size):
        peer.connection.data_received(data[begin : begin + size])
    found = await peer.call()
    data = answer(1, b"a" * 100)
    for begin in range(0, len(data), size):
        peer.connection.data_received(data[begin : begin + size])
    assert await found == b"a" * 100
    assert (PING, ACK, 0, b"12345678") in await peer.sent()


ANSWERS: Final[dict[str, bytes]] = {
    "padded, with a priority": frame(
        HEADERS, END_HEADERS | PADDED | PRIORITY, 1, b"\x02" + bytes(5) + STARTED + bytes(2)
    )
    + frame(DATA, PADDED, 1, b"\x03" + message(b"answer") + bytes(3))
    + frame(HEADERS, END_HEADERS | END_STREAM, 1, trailers()),
    "in pieces": frame(HEADERS, 0, 1, STARTED[:2])
    + frame(CONTINUATION, 0, 1, STARTED[2:3])
    + frame(CONTINUATION, END_HEADERS, 1, STARTED[3:])
    + frame(DATA, 0, 1, message(b"answer")[:7])
    + frame(DATA, 0, 1, message(b"answer")[7:])
    + frame(HEADERS, END_STREAM, 1, trailers()[:4])
    + frame(CONTINUATION, END_HEADERS, 1, trailers()[4:]),
    "after an interim response": frame(HEADERS, END_HEADERS, 1, block({":status": "103"}))
    + answer(1, b"answer"),
    "among frames of unknown kinds": frame(0xFA, 0, 0, b"?") + answer(1, b"answer") + frame(0xFB, 9, 7, b""),
}


@pytest.mark.parametrize("data", ANSWERS.values(), ids=ANSWERS)
async def test_answers_come_in_many_forms(data: bytes) -> None:
    peer = Peer(settings())
    found = await peer.call()
    peer.connection.data_received(data)
    assert await found == b"answer"


FAILURES: Final[dict[str, tuple[bytes, Code, str, bool]]] = {
    "an error": (
        refusal(11, "etcdserver: mvcc: compacted"),
        Code.OUT_OF_RANGE,
        "etcdserver: mvcc: compacted",
        False,
    ),
    "an error with an escaped message": (
        refusal(2, "caf%C3%A9 100%"),
        Code.UNKNOWN,
        "café 100%",
        False,
    ),
    "an error that gRPC does not know": (
        refusal(99, "?"),
        Code.UNKNOWN,
        "?",
        False,
    ),
    "no message": (
        frame(HEADERS, END_HEADERS, 1, STARTED) + frame(HEADERS, END_HEADERS | END_STREAM, 1, trailers()),
        Code.INTERNAL,
        "the response is incomplete",
        False,
    ),
    "half a message": (
        frame(DATA, 0, 1, message(b"answer")[:8]) + frame(HEADERS, END_HEADERS | END_STREAM, 1, trailers()),
        Code.INTERNAL,
        "the response is incomplete",
        False,
    ),
    "a compressed message": (
        frame(DATA, 0, 1, b"\1" + message(b"answer")[1:]),
        Code.INTERNAL,
        "the response is compressed or too long (6 bytes)",
        False,
    ),
    "an answer of a proxy": (
        frame(HEADERS, END_HEADERS, 1, block({":status": "502"})),
        Code.UNKNOWN,
        "the response has HTTP status 502",
        False,
    ),
    "an answer of a proxy that ends there": (
        frame(HEADERS, END_HEADERS | END_STREAM, 1, block({":status": "404"})),
        Code.UNKNOWN,
        "the response has HTTP status 404",
        False,
    ),
    "no status": (
        frame(HEADERS, END_HEADERS | END_STREAM, 1, STARTED),
        Code.UNKNOWN,
        "the response has no grpc-status",
        False,
    ),
    "no trailers": (
        frame(DATA, END_STREAM, 1, message(b"")),
        Code.INTERNAL,
        "the response has no trailers",
        False,
    ),
    "more than one message": (
        frame(DATA, 0, 1, message(b"answer") + b"1"),
        Code.INTERNAL,
        "the response is more than one message",
        False,
    ),
    "a reset": (
        frame(RST_STREAM, 0, 1, struct.pack(">L", 2)),
        Code.INTERNAL,
        "the server has reset the call, error 2",
        False,
    ),
    "a refused call, which nobody has seen": (
        frame(RST_STREAM, 0, 1, struct.pack(">L", 7)),
        Code.UNAVAILABLE,
        "the server has reset the call, error 7",
        True,
    ),
    "a server that goes before the call": (
        frame(GOAWAY, 0, 0, struct.pack(">LL", 0, 0) + b"max_age"),
        Code.UNAVAILABLE,
        "the server has sent GOAWAY, error 0: max_age",
        True,
    ),
}


@pytest.mark.parametrize(("data", "code", "details", "is_unsent"), FAILURES.values(), ids=FAILURES)
async def test_calls_fail_with_the_code_and_the_reason(
    data: bytes, code: Code, details: str, is_unsent: bool
) -> None:
    peer = Peer(settings())
    found = await peer.call()
    peer.connection.data_received(data)
    with pytest.raises(RpcError) as raised:
        await found
    error = raised.value
    assert (error.code, error.details, error.is_unsent) == (code, details, is_unsent)


NONSENSE: Final[dict[str, bytes]] = {
    "HTTP/1.1": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "a longer frame than is allowed": frame(DATA, 0, 1, bytes(16_385))[:9],
    "settings that are cut off": frame(SETTINGS, 0, 0, bytes(5)),
    "a window that is too large": settings(initial_window_size=1 << 31),
    "a PING that is too short": frame(PING, 0, 0, b"1"),
    "a reset that is too long": frame(RST_STREAM, 0, 1, bytes(5)),
    "a credit that is too short": frame(WINDOW_UPDATE, 0, 1, b"1"),
    "a GOAWAY that is cut off": frame(GOAWAY, 0, 0, bytes(7)),
    "a pushed answer": frame(PUSH_PROMISE, END_HEADERS, 1, bytes(4)),
    "a CONTINUATION without a header block": frame(CONTINUATION, END_HEADERS, 1, STARTED),
    "headers that are interrupted": frame(HEADERS, 0, 1, STARTED) + frame(PING, 0, 0, bytes(8)),
    "headers without an end": frame(HEADERS, 0, 1, b"")
    + frame(CONTINUATION, 0, 1, bytes(16_384)) * (HEADER_BLOCK_BYTES_MAX // 16_384 + 1),
    "headers that cannot be decoded": frame(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff"),
    "headers of a table that is forbidden": frame(HEADERS, END_HEADERS, 1, b"\x3f\xe1\x1f\xbe"),
    "a status that is no number": frame(HEADERS, END_HEADERS, 1, block({":status": "abc"})),
    "headers that are all priority": frame(HEADERS, END_HEADERS | PRIORITY, 1, b"1234"),
    "padding of more than the frame": frame(DATA, PADDED, 1, b"\x05123"),
    "padding of nothing": frame(DATA, PADDED, 1, b""),
    "settings that allow short frames": settings(max_frame_size=100),
    "settings that allow frames of any length": settings(max_frame_size=(1 << 32) - 1),
    "data of a call of the server": frame(DATA, 0, 2, b"1"),
    "an answer to a call that was not made": frame(HEADERS, END_HEADERS, 3, STARTED),
}


@pytest.mark.parametrize("data", NONSENSE.values(), ids=NONSENSE)
async def test_nonsense_ends_the_connection_and_a_call_may_have_happened(data: bytes) -> None:
    peer = Peer(settings())
    found = await peer.call()
    peer.connection.data_received(data)
    with pytest.raises(RpcError, match=r"the server sent invalid HTTP/2: .") as raised:
        await found
    assert (raised.value.code, raised.value.is_unsent) == (Code.UNAVAILABLE, False)
    assert peer.wire.is_closed
    assert not peer.connection.is_usable
    with pytest.raises(RpcError) as refused:
        await peer.call()
    assert refused.value.is_unsent


@pytest.mark.parametrize("data", [b"HTTP/1.1 400 Bad Request\r\n\r\n", frame(PING, 0, 0, bytes(8))])
async def test_a_server_that_begins_otherwise_does_not_speak_http2(data: bytes) -> None:
    peer = Peer(data)
    with pytest.raises(RpcError, match="the server sent invalid HTTP/2"):
        await peer.connection.ready


async def test_a_lost_connection_fails_its_calls_as_sent() -> None:
    peer = Peer(settings())
    found, stream = await peer.call(), await peer.stream()
    reading = asyncio.ensure_future(stream.read())
    await asyncio.sleep(0)
    peer.connection.connection_lost(ConnectionResetError("reset"))
    for each in (found, reading):
        with pytest.raises(RpcError, match="the connection was lost: reset") as raised:
            await each
        assert not raised.value.is_unsent


async def test_a_server_that_asks_and_does_not_read_is_disconnected() -> None:
    peer = Peer(settings())
    found = await peer.call()
    pings = frame(PING, 0, 0, bytes(8)) * 1_000_000
    for _ in range(WRITE_BUFFER_BYTES_MAX // len(pings) + 1):
        peer.connection.data_received(pings)
    await asyncio.sleep(0)
    with pytest.raises(RpcError, match="the server does not read"):
        await found
    assert peer.wire.is_closed


async def test_a_long_response_is_credited_as_it_comes() -> None:
    peer = Peer(settings())
    found, content = await peer.call(), b"m" * 5 * WINDOW
    peer.connection.data_received(frame(HEADERS, END_HEADERS, 1, STARTED))
    rest, window = message(content), WINDOW
    while rest:
        window += await peer.credited(1)
        part, rest = rest[: min(window, 16_384)], rest[min(window, 16_384) :]
        assert part, "the window is used up"
        window -= len(part)
        peer.connection.data_received(frame(DATA, 0, 1, part))
    peer.connection.data_received(frame(HEADERS, END_HEADERS | END_STREAM, 1, trailers()))
    assert await found == content


async def test_a_message_longer_than_protobuf_allows_ends_its_stream() -> None:
    peer = Peer(settings())
    stream = await peer.stream()
    peer.connection.data_received(frame(DATA, 0, 1, b"\0" + struct.pack(">L", MESSAGE_BYTES_MAX + 1)))
    with pytest.raises(RpcError, match=r"a message is too long \(2147483648 bytes\)"):
        await stream.read()


async def test_calls_under_way_end_before_a_server_that_goes() -> None:
    peer = Peer(settings())
    first, second = await peer.call(), await peer.call()
    peer.connection.data_received(frame(GOAWAY, 0, 0, struct.pack(">LL", 1, 0)))
    with pytest.raises(RpcError) as raised:
        await second
    assert raised.value.is_unsent
    assert not peer.connection.is_usable
    assert not peer.wire.is_closed
    peer.connection.data_received(answer(1, b"1"))
    assert await first == b"1"
    await asyncio.sleep(0)
    assert peer.wire.is_closed


async def test_large_messages_are_sent_as_the_windows_allow_and_calls_take_turns() -> None:
    peer = Peer(settings(initial_window_size=40_000))
    large, small = b"l" * 100_000, b"s" * 10
    await peer.call(large)
    await peer.call(small)
    sizes = [(of, len(payload)) for kind, _, of, payload in await peer.sent() if kind == DATA]
    assert sizes == [(1, 16_384), (1, 16_384), (1, 40_000 - 2 * 16_384), (3, 15)]
    peer.connection.data_received(frame(WINDOW_UPDATE, 0, 1, struct.pack(">L", 1_000_000)))
    sizes = [(of, len(payload)) for kind, _, of, payload in await peer.sent() if kind == DATA]
    assert sum(size for _, size in sizes) == 65_535 - 40_000 - 15
    peer.connection.data_received(frame(WINDOW_UPDATE, 0, 0, struct.pack(">L", 1_000_000)))
    rest = [(flags, payload) for kind, flags, _, payload in await peer.sent() if kind == DATA]
    assert sum(len(payload) for _, payload in rest) == 100_005 - (65_535 - 15)
    assert [flags for flags, _ in rest] == [0] * (len(rest) - 1) + [END_STREAM]


async def test_a_message_that_waits_is_dropped_with_its_call() -> None:
    peer = Peer(settings(initial_window_size=10))
    stream = await peer.stream()
    stream.write(b"x" * 100)
    stream.cancel()
    await peer.sent()
    peer.connection.data_received(frame(WINDOW_UPDATE, 0, 1, struct.pack(">L", 1_000)))
    assert await peer.sent() == []


async def test_a_limit_of_calls_makes_others_wait() -> None:
    peer = Peer(settings(max_concurrent_streams=1))
    first = await peer.call()
    waiting = asyncio.ensure_future(peer.call())
    await asyncio.sleep(0)
    assert not waiting.done()
    peer.connection.data_received(answer(1, b"1") + settings())
    await first
    second = await waiting
    peer.connection.data_received(answer(3, b"2"))
    assert await second == b"2"


async def test_a_turn_that_comes_to_a_call_that_is_cancelled_goes_to_the_next() -> None:
    peer = Peer(settings(max_concurrent_streams=1))
    first = await peer.call()
    waiting = [asyncio.ensure_future(peer.call()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[1].cancel()
    peer.connection.data_received(answer(1, b"1"))
    waiting[0].cancel()
    await first
    last = await waiting[2]
    peer.connection.data_received(answer(3, b"2"))
    assert await last == b"2"


@pytest.mark.parametrize("limit", [0, 1])
async def test_waiting_for_a_turn_has_a_deadline(limit: int) -> None:
    peer = Peer(settings(max_concurrent_streams=limit))
    if limit:
        await peer.stream()
    with pytest.raises(RpcError, match="the server allows no more calls") as raised:
        await peer.call(deadline=asyncio.get_running_loop().time() + 0.01)
    assert (raised.value.code, raised.value.is_unsent) == (Code.DEADLINE_EXCEEDED, True)


async def test_calls_that_wait_for_a_turn_are_unsent_when_the_connection_ends() -> None:
    peer = Peer(settings(max_concurrent_streams=0))
    waiting = asyncio.ensure_future(peer.call())
    await asyncio.sleep(0)
    peer.connection.eof_received()
    with pytest.raises(RpcError) as raised:
        await waiting
    assert raised.value.is_unsent


async def test_messages_that_wait_for_windows_are_bounded() -> None:
    peer = Peer(settings(initial_window_size=0))
    stream = await peer.stream()
    for _ in range(BLOCKED_MESSAGES_MAX):
        stream.write(b"?")
    with pytest.raises(RpcError, match="the server takes no more messages"):
        stream.write(b"?")


async def test_messages_of_a_stream_are_read_in_order_and_its_end_is_none() -> None:
    peer = Peer(settings())
    stream = await peer.stream()
    peer.connection.data_received(
        frame(HEADERS, END_HEADERS, 1, STARTED)
        + frame(DATA, 0, 1, message(b"1") + message(b"")[:3])
        + frame(DATA, 0, 1, message(b"")[3:] + message(b"333"))
    )
    assert [await stream.read() for _ in range(3)] == [b"1", b"", b"333"]
    peer.connection.data_received(frame(HEADERS, END_HEADERS | END_STREAM, 1, trailers()))
    assert await stream.read() is None
    with pytest.raises(RpcError, match="the server has ended the call"):
        stream.write(b"?")


async def test_what_is_not_read_is_not_credited() -> None:
    peer = Peer(settings())
    stream = await peer.stream()
    parts = [message(b"m" * 995)] * (WINDOW // 1000)
    for each in parts:
        peer.connection.data_received(frame(DATA, 0, 1, each))
    assert await peer.credited(1) == 0
    for _ in parts:
        await stream.read()
    credited = await peer.credited(1)
    assert WINDOW // 2 < credited <= WINDOW


async def test_a_message_longer_than_the_window_is_credited_while_it_is_waited_for() -> None:
    peer = Peer(settings())
    stream = await peer.stream()
    reading = asyncio.ensure_future(stream.read())
    rest, window = message(b"m" * 5 * WINDOW), WINDOW
    while rest:
        await asyncio.sleep(0)
        window += await peer.credited(1)
        part, rest = rest[: min(window, 16_384)], rest[min(window, 16_384) :]
        assert part, "the window is used up"
        window -= len(part)
        peer.connection.data_received(frame(DATA, 0, 1, part))
    assert await reading == b"m" * 5 * WINDOW


def test_a_stream_is_silent_only_while_somebody_waits_and_no_byte_comes() -> None:
    async def test(loop: Clock) -> None:
        def silence_s() -> float | None:
            return None if stream.silent_since is None else round(loop.time() - stream.silent_since)

        peer = Peer(settings())
        stream = await peer.stream()
        assert silence_s() is None
        loop.ahead_s += 10
        reading = asyncio.ensure_future(stream.read())
        await asyncio.sleep(0)
        assert silence_s() == 0
        loop.ahead_s += 10
        assert silence_s() == 10
        peer.connection.data_received(frame(DATA, 0, 1, message(b"12")[:6]))
        assert silence_s() == 0
        peer.connection.data_received(frame(DATA, 0, 1, b"2"))
        assert silence_s() is None, "the message waits for its reader"
        assert await reading == b"12"

    _with_clock(test)


async def test_a_server_that_sends_more_than_its_window_loses_the_call() -> None:
    peer = Peer(settings())
    stream = await peer.stream()
    for _ in range(WINDOW // 16_000 + 1):
        peer.connection.data_received(frame(DATA, 0, 1, message(bytes(15_995))))
    for _ in range(WINDOW // 16_000):
        assert await stream.read() == bytes(15_995)
    with pytest.raises(RpcError, match="exceeded its flow-control window"):
        await stream.read()


async def test_a_stream_that_is_not_read_does_not_stop_the_others() -> None:
    """What comes is credited to the connection, whichever call it is of."""
    peer = Peer(settings(), window=CONNECTION_WINDOW_BYTES)
    await peer.stream()
    for _ in range(CONNECTION_WINDOW_BYTES // 16_384 // 2):
        peer.connection.data_received(frame(DATA, 0, 1, message(bytes(16_000))))
    assert await peer.credited(0) > CONNECTION_WINDOW_BYTES // 4


async def test_a_cancelled_call_is_reset_and_what_still_comes_is_dropped() -> None:
    peer = Peer(settings())
    stream = await peer.stream()
    reading = asyncio.ensure_future(stream.read())
    await asyncio.sleep(0)
    stream.cancel()
    with pytest.raises(CallEnded):
        await reading
    assert (RST_STREAM, 0, 1, struct.pack(">L", 8)) in await peer.sent()
    peer.connection.data_received(answer(1, b"late"))
    assert peer.connection.is_usable
    with pytest.raises(CallEnded):
        await stream.read()


async def test_closing_ends_all_calls() -> None:
    peer = Peer(settings())
    found = await peer.call()
    closing = asyncio.ensure_future(peer.connection.close())
    with pytest.raises(CallEnded):
        await found
    peer.connection.connection_lost(None)
    await closing
    assert peer.wire.is_closed


def _with_clock(test: Callable[[Clock], object]) -> None:
    loop = Clock()
    try:
        loop.run_until_complete(test(loop))  # type: ignore[arg-type]
    finally:
        loop.close()


def test_a_call_has_a_deadline() -> None:
    async def test(loop: Clock) -> None:
        peer = Peer(settings())
        found, later = await peer.call(deadline=loop.time() + 10), await peer.call(deadline=loop.time() + 100)
        loop.ahead_s += 11
        with pytest.raises(RpcError) as raised:
            await found
        assert raised.value.code is Code.DEADLINE_EXCEEDED
        assert (RST_STREAM, 0, 1, struct.pack(">L", 8)) in await peer.sent()
        assert not later.done()
        peer.connection.connection_lost(None)
        later.exception()

    _with_clock(test)


def test_a_silent_server_is_pinged_while_calls_wait_and_lost_if_it_does_not_answer() -> None:
    async def test(loop: Clock) -> None:
        peer = Peer(settings())
        loop.ahead_s += 2 * KEEPALIVE_INTERVAL_S
        await asyncio.sleep(0.6)  # a tick; nothing else happens in it
        assert PING not in {kind for kind, *_ in await peer.sent()}, "etcd forbids pings without calls"
        stream = await peer.stream()
        reading = asyncio.ensure_future(stream.read())
        loop.ahead_s += KEEPALIVE_INTERVAL_S
        while PING not in {kind for kind, *_ in await peer.sent()}:
            await asyncio.sleep(0.05)
        loop.ahead_s += KEEPALIVE_TIMEOUT_S
        with pytest.raises(RpcError, match="a keepalive ping got no response"):
            await reading
        assert peer.wire.is_closed

    _with_clock(test)
