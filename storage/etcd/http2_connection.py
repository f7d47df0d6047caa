"""An HTTP/2 connection to etcd, and its gRPC calls.

`grpc.aio` takes 330 µs of processor time for a transaction, of which its messages are 15 µs. This connection
does what this client needs, on the event loop, and nothing more:

- The header blocks of requests are made once for each path. The settings forbid the server a header table, so
  that equal blocks of responses always have the same meaning: known ones are looked up, others are decoded by
  `hpack`.
- Frames are written once per iteration of the event loop, whatever number of calls they belong to.
- A call that gets one message has no queue, and its deadline no timer: one timer checks all calls.
- The bytes of a stream are credited to the server only as they are read, so that a window limits the unread
  bytes. Those of the connection are credited when they arrive: an unread stream does not stop the others.
- PINGs are sent only while calls wait for an answer: etcd disconnects clients that send them without any.

If the server sends anything else, the connection ends with a reason and all its calls fail. All buffers are
bounded, except messages, whose length etcd determines.

Sources: RFC 9113 (HTTP/2), RFC 7541 (HPACK), grpc/grpc doc/PROTOCOL-HTTP2.md.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from typing import Final, NamedTuple, Protocol, cast
from urllib.parse import unquote

import hpack

from apiserver.storage.etcd.http2_frames import (
    ACK,
    CANCEL,
    CONTINUATION,
    DATA,
    ENABLE_PUSH,
    END_HEADERS,
    END_STREAM,
    FRAME_BYTES_MAX,
    FRAME_BYTES_MIN,
    FRAME_HEAD,
    GOAWAY,
    HEADER_TABLE_SIZE,
    HEADERS,
    INITIAL_WINDOW_BYTES,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    MAX_FRAME_SIZE,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PUSH_PROMISE,
    REFUSED_STREAM,
    RST_STREAM,
    SETTING,
    SETTINGS,
    STREAM_ID_MAX,
    UINT32,
    WINDOW_BYTES_MAX,
    WINDOW_UPDATE,
    ProtocolError,
    frame,
    only_uint32,
    unpadded,
    window_update,
)
from apiserver.storage.etcd.rpc import CallEnded, Code, RpcError

MESSAGE_PREFIX: Final = struct.Struct(">BL")  # whether a message of gRPC is compressed, and its length
# How many bytes the server may send ahead on a connection, and of a call that gets one message.
CONNECTION_WINDOW_BYTES: Final = 16 * 1024 * 1024
UNARY_WINDOW_BYTES: Final = 4 * 1024 * 1024
# Bytes are credited when this share of a window has come: the sender is never stopped, and credits are few.
CREDIT_SHARE: Final = 4
# A header block that comes in pieces, and how many blocks are remembered. etcd's have about 50 bytes.
HEADER_BLOCK_BYTES_MAX: Final = 64 * 1024
HEADER_BLOCKS_MAX: Final = 256
# How often deadlines and silence are looked at.
TICK_S: Final = 0.5
KEEPALIVE_INTERVAL_S: Final = 10.0  # etcd disconnects clients that ping more often than every 5 s
KEEPALIVE_TIMEOUT_S: Final = 10.0
CLOSE_TIMEOUT_S: Final = 1.0

# How many bytes may wait for a server that does not read. Messages wait for its windows elsewhere.
WRITE_BUFFER_BYTES_MAX: Final = 32 * 1024 * 1024
# How many messages of a call may wait for windows.
BLOCKED_MESSAGES_MAX: Final = 1_000
# The longest message, which is protobuf's.
MESSAGE_BYTES_MAX: Final = (1 << 31) - 1

_CODES: Final = {int(code): code for code in Code}


class Headers(NamedTuple):
    """The relevant fields of a header block. status: HTTP's; None in trailers. code: gRPC's; None before
    trailers.
    """

    status: int | None
    code: Code | None
    message: str


class Call(Protocol):
    """A call from the view of the connection. window: the bytes that may be sent now."""

    stream_id: int
    deadline: float | None
    window: int

    def on_message_bytes(self, data: bytes, size: int) -> None:
        """Takes a part of a message. size: of the frame with its padding, which counts against windows."""
        ...

    def on_end(self, headers: Headers) -> None: ...

    def fail(self, error: Exception) -> None: ...


class Connection(asyncio.Protocol):
    """An HTTP/2 connection, made by `loop.create_connection`. Calls may be opened once `ready` has a result.

    ready: fails with RpcError if the server does not speak HTTP/2.
    is_usable: whether new calls may be opened.
    has_completed_calls: whether a call was completed, with any gRPC code.
    stream_window_bytes: the bytes that the server may send ahead on a stream.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, stream_window_bytes: int) -> None:
        self.loop = loop
        self.stream_window_bytes = stream_window_bytes
        self.ready: asyncio.Future[None] = loop.create_future()
        self.ready.add_done_callback(
            lambda ready: ready.cancelled() or ready.exception()
        )  # It may not be awaited.
        self.is_usable = self.has_completed_calls = False
        self._transport: asyncio.Transport | None = None
        self._closed: asyncio.Future[None] = loop.create_future()
        self._calls: dict[int, Call] = {}
        self._next_id = 1
        self._calls_max = STREAM_ID_MAX
        self._waiting: dict[asyncio.Future[None], None] = {}  # to open one of `_calls_max` calls
        # Input: the beginning of a frame, and a header block of which not all frames have come.
        self._partial_frame = b""
        self._block = b""
        self._block_stream_and_flags: tuple[int, int] | None = None
        self._uncredited = 0
        self._received_at = self._pinged_at = 0.0
        self._is_pinged = False
        self._decoder = hpack.Decoder()
        self._decoder.max_allowed_table_size = 0
        self._known_blocks: dict[bytes, Headers] = {}
        # Output: what is written at the end of this iteration, and messages for which windows are too small.
        self._out: list[bytes] = []
        self._window = self._initial_window = INITIAL_WINDOW_BYTES
        self._frame_max = FRAME_BYTES_MIN
        self._blocked: dict[int, tuple[Call, deque[tuple[memoryview, bool]]]] = {}
        self._timer: asyncio.TimerHandle | None = None

    # ---- the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        settings = {
            HEADER_TABLE_SIZE: 0,
            ENABLE_PUSH: 0,
            INITIAL_WINDOW_SIZE: self.stream_window_bytes,
        }
        payload = b"".join(SETTING.pack(*each) for each in settings.items())
        self._out += [
            PREFACE,
            frame(SETTINGS, 0, 0, payload),
            window_update(0, CONNECTION_WINDOW_BYTES - INITIAL_WINDOW_BYTES),
        ]
        self._flush()
        self._received_at = self.loop.time()
        self._timer = self.loop.call_later(TICK_S, self._tick)

    def data_received(self, data: bytes) -> None:
        self._received_at = self.loop.time()
        self._is_pinged = False
        if self._partial_frame:
            data = self._partial_frame + data
        position, end = 0, len(data)
        try:
            while end - position >= 9:
                high, low, kind, flags, stream_id = FRAME_HEAD.unpack_from(data, position)
                length = high << 8 | low
                if length > FRAME_BYTES_MIN:
                    raise ProtocolError(f"a frame is too long ({length} bytes)")
                if (after := position + 9 + length) > end:
                    break
                self._on_frame(kind, flags, stream_id & STREAM_ID_MAX, data[position + 9 : after])
                position = after
        except ProtocolError as error:
            self._abort(f"the server sent invalid HTTP/2: {error}")
            return
        self._partial_frame = data[position:]

    def eof_received(self) -> None:
        self._abort("the connection was closed")  # What is written from now on would not be sent.

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(f"the connection was lost: {exc}" if exc else "the connection was closed")
        if not self._closed.done():
            self._closed.set_result(None)

    # ---- the client's side

    async def open(self, call: Call, block: bytes, deadline: float) -> None:
        """Send the headers of a call, once the server allows one more.

        deadline: by the clock of the event loop. Raises RpcError, unsent, when it is over, and if the
        connection is no longer usable.
        """
        if len(self._calls) >= self._calls_max:
            await self._capacity(deadline)
        if not self.is_usable:
            raise RpcError(Code.UNAVAILABLE, "the connection accepts no more calls", is_unsent=True)
        call.stream_id, call.window = self._next_id, self._initial_window
        self._calls[call.stream_id] = call
        self._next_id += 2
        if self._next_id > STREAM_ID_MAX:
            self.is_usable = False
        self._write(frame(HEADERS, END_HEADERS, call.stream_id, block))

    async def _capacity(self, deadline: float) -> None:
        """Wait until the server allows another call, or the connection is no longer usable."""
        try:
            async with asyncio.timeout_at(deadline):
                while len(self._calls) >= self._calls_max and self.is_usable:
                    await self._turn()
        except TimeoutError:
            why = "the server allows no more calls at the same time"
            raise RpcError(Code.DEADLINE_EXCEEDED, why, is_unsent=True) from None

    async def _turn(self) -> None:
        """Wait for a turn among those that want to open a call."""
        turn: asyncio.Future[None] = self.loop.create_future()
        self._waiting[turn] = None
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_turns()  # It had come: somebody else has it.
            raise
        finally:
            self._waiting.pop(turn, None)

    def send(self, call: Call, message: bytes, *, is_last: bool) -> None:
        """Send a message of an open call: now as far as the windows allow, and the rest later.

        Raises RpcError if `BLOCKED_MESSAGES_MAX` messages of the call wait already.
        """
        framed = MESSAGE_PREFIX.pack(0, len(message)) + message
        size = len(framed)
        if size <= self._window and size <= call.window and size <= self._frame_max and not self._blocked:
            self._window -= size
            call.window -= size
            self._write(frame(DATA, END_STREAM if is_last else 0, call.stream_id, framed))
        else:
            _, messages = self._blocked.setdefault(call.stream_id, (call, deque()))
            if len(messages) >= BLOCKED_MESSAGES_MAX:
                raise RpcError(Code.RESOURCE_EXHAUSTED, "the server takes no more messages of the call")
            messages.append((memoryview(framed), is_last))
            self._send_blocked()

    def cancel(self, call: Call) -> None:
        """Cancel a call at the server, if it has not ended."""
        if self._remove(call):
            self._write(frame(RST_STREAM, 0, call.stream_id, UINT32.pack(CANCEL)))

    def credit(self, call: Call, size: int) -> None:
        """Allow the server to send more bytes of a call."""
        if call.stream_id in self._calls:
            self._write(window_update(call.stream_id, size))

    def retire(self) -> None:
        """Open no more calls, and close the connection when the last one has ended."""
        self.is_usable = False
        self._give_turns()
        if not self._calls:
            self._close_transport()

    async def close(self) -> None:
        """Close the connection. Open calls raise CallEnded."""
        self.is_usable = False
        for call in list(self._calls.values()):
            self._remove(call)
            call.fail(CallEnded())
        if self._transport is None:
            return
        self._close_transport()
        try:
            await asyncio.wait([self._closed], timeout=CLOSE_TIMEOUT_S)
        finally:
            self._transport.abort()

    # ---- frames that come

    def _on_frame(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if not self.ready.done():
            if kind != SETTINGS or flags & ACK:
                raise ProtocolError("the first frame is not SETTINGS")
        elif self._block_stream_and_flags is not None and (
            kind != CONTINUATION or stream_id != self._block_stream_and_flags[0]
        ):
            raise ProtocolError("another frame interrupts a header block")
        if kind == DATA:
            self._on_data(flags, stream_id, payload)
        elif kind == HEADERS:
            self._on_headers(flags, stream_id, payload)
        elif kind == CONTINUATION:
            self._on_continuation(flags, payload)
        elif kind == SETTINGS:
            self._on_settings(flags, payload)
        elif kind == WINDOW_UPDATE:
            self._on_window_update(stream_id, only_uint32(payload) & WINDOW_BYTES_MAX)
        elif kind == PING:
            if len(payload) != 8:
                raise ProtocolError("a PING frame has the wrong size")
            if not flags & ACK:
                self._write(frame(PING, ACK, 0, payload))
        elif kind == RST_STREAM:
            self._on_reset(stream_id, only_uint32(payload))
        elif kind == GOAWAY:
            self._on_goaway(payload)
        elif kind == PUSH_PROMISE:
            raise ProtocolError("the settings do not allow a PUSH_PROMISE frame")

    def _on_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        size = len(payload)
        self._uncredited += size
        if self._uncredited >= CONNECTION_WINDOW_BYTES // CREDIT_SHARE:
            self._write(window_update(0, self._uncredited))
            self._uncredited = 0
        call = self._calls.get(stream_id)
        if call is None:
            self._require_known(stream_id)
            return  # It has been cancelled; what was under way still comes.
        call.on_message_bytes(unpadded(payload) if flags & PADDED else payload, size)
        if flags & END_STREAM and self._remove(call):
            call.fail(RpcError(Code.INTERNAL, "the response has no trailers"))

    def _on_headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        if flags & PADDED:
            payload = unpadded(payload)
        if flags & PRIORITY:
            if len(payload) < 5:
                raise ProtocolError("a header block is shorter than its priority")
            payload = payload[5:]
        if flags & END_HEADERS:
            self._on_block(flags, stream_id, payload)
        else:
            self._block, self._block_stream_and_flags = payload, (stream_id, flags)

    def _on_continuation(self, flags: int, payload: bytes) -> None:
        if self._block_stream_and_flags is None:
            raise ProtocolError("a CONTINUATION frame does not follow a header block")
        self._block += payload
        if len(self._block) > HEADER_BLOCK_BYTES_MAX:
            raise ProtocolError(f"a header block is longer than {HEADER_BLOCK_BYTES_MAX} bytes")
        if flags & END_HEADERS:
            (stream_id, first_flags), block = self._block_stream_and_flags, self._block
            self._block_stream_and_flags, self._block = None, b""
            self._on_block(first_flags, stream_id, block)

    def _on_block(self, flags: int, stream_id: int, block: bytes) -> None:
        headers = self._known_blocks.get(block) or self._decoded(block)
        call = self._calls.get(stream_id)
        if call is None:
            self._require_known(stream_id)
        elif flags & END_STREAM:
            self._remove(call)
            if headers.code is None:
                what = "no grpc-status" if headers.status in (None, 200) else f"HTTP status {headers.status}"
                call.fail(RpcError(Code.UNKNOWN, f"the response has {what}"))
            else:
                self.has_completed_calls = True
                call.on_end(headers)
        elif headers.status != 200 and not _is_interim(headers):
            self.cancel(call)
            call.fail(RpcError(Code.UNKNOWN, f"the response has HTTP status {headers.status}"))

    def _decoded(self, block: bytes) -> Headers:
        status: int | None = None
        code: Code | None = None
        message = ""
        try:
            for name, value in self._decoder.decode(block, raw=True):
                if name == b":status":
                    status = int(value)
                elif name == b"grpc-status":
                    code = _CODES.get(int(value), Code.UNKNOWN)
                elif name == b"grpc-message":
                    message = unquote(value.decode("ascii", "replace"))
        except (hpack.HPACKError, ValueError, IndexError) as error:
            raise ProtocolError(f"a header block cannot be decoded: {error}") from None
        headers = Headers(status, code, message)
        if len(self._known_blocks) >= HEADER_BLOCKS_MAX:
            self._known_blocks.clear()
        self._known_blocks[block] = headers
        return headers

    def _on_settings(self, flags: int, payload: bytes) -> None:
        if flags & ACK:
            return
        if len(payload) % SETTING.size:
            raise ProtocolError("a SETTINGS frame is incomplete")
        for setting, value in SETTING.iter_unpack(payload):
            if setting == MAX_CONCURRENT_STREAMS:
                self._calls_max = value
                self._give_turns()
            elif setting == INITIAL_WINDOW_SIZE:
                if value > WINDOW_BYTES_MAX:
                    raise ProtocolError("a flow-control window is too large")
                for call in self._calls.values():
                    call.window += value - self._initial_window
                self._initial_window = value
            elif setting == MAX_FRAME_SIZE:
                if not FRAME_BYTES_MIN <= value <= FRAME_BYTES_MAX:
                    raise ProtocolError(f"the frame size {value} in the settings is not valid")
                self._frame_max = value
        self._write(frame(SETTINGS, ACK, 0, b""))
        if not self.ready.done():
            self.ready.set_result(None)
            self.is_usable = True
        self._send_blocked()

    def _on_window_update(self, stream_id: int, size: int) -> None:
        if stream_id == 0:
            self._window += size
        elif (call := self._calls.get(stream_id)) is not None:
            call.window += size
        if self._blocked:
            self._send_blocked()

    def _on_reset(self, stream_id: int, error: int) -> None:
        call = self._calls.get(stream_id)
        if call is not None and self._remove(call):
            is_unsent = error == REFUSED_STREAM
            code = Code.UNAVAILABLE if is_unsent else Code.INTERNAL
            call.fail(RpcError(code, f"the server has reset the call, error {error}", is_unsent=is_unsent))

    def _on_goaway(self, payload: bytes) -> None:
        """Open no more calls. The server completes those up to an ID, and has not seen the others."""
        if len(payload) < 8:
            raise ProtocolError("a GOAWAY frame is incomplete")
        self.is_usable = False
        last, error = struct.unpack_from(">LL", payload)
        reason = payload[8 : 8 + 200].decode("utf-8", "replace")
        why = f"the server has sent GOAWAY, error {error}{f': {reason}' if reason else ''}"
        for call in [each for each in self._calls.values() if each.stream_id > last & STREAM_ID_MAX]:
            self._remove(call)
            call.fail(RpcError(Code.UNAVAILABLE, why, is_unsent=True))
        self.retire()

    def _require_known(self, stream_id: int) -> None:
        """Raises ProtocolError for a call that was never opened."""
        if not stream_id % 2 or stream_id >= self._next_id:
            raise ProtocolError(f"a frame belongs to stream {stream_id}, which is not open")

    # ---- timer and end

    def _tick(self) -> None:
        """Fail calls with an exceeded deadline, and ping a silent server."""
        now = self.loop.time()
        self._timer = self.loop.call_later(TICK_S, self._tick)
        for call in list(self._calls.values()):
            if call.deadline is not None and call.deadline <= now:
                self.cancel(call)
                call.fail(RpcError(Code.DEADLINE_EXCEEDED, "etcd did not respond in time"))
        if self._is_pinged:
            if now - self._pinged_at >= KEEPALIVE_TIMEOUT_S:
                self._abort("a keepalive ping got no response")
        elif self._calls and now - max(self._received_at, self._pinged_at) >= KEEPALIVE_INTERVAL_S:
            self._is_pinged, self._pinged_at = True, now
            self._write(frame(PING, 0, 0, b"apiserve"))

    def _remove(self, call: Call) -> bool:
        """Remove a call; returns False if it has already ended."""
        if self._calls.pop(call.stream_id, None) is None:
            return False
        self._blocked.pop(call.stream_id, None)
        if self._waiting:
            self._give_turns()
        if not self.is_usable and not self._calls and self.ready.done():
            self.loop.call_soon(self._close_transport)
        return True

    def _give_turns(self) -> None:
        free = self._calls_max - len(self._calls) if self.is_usable else len(self._waiting)
        for turn in list(self._waiting)[: max(0, free)]:
            del self._waiting[turn]
            if not turn.done():
                turn.set_result(None)

    def _abort(self, reason: str) -> None:
        """End the connection at once."""
        self._end(reason)
        if self._transport is not None:
            self._transport.abort()

    def _end(self, reason: str) -> None:
        """Fail all calls."""
        if self._timer is not None:
            self._timer.cancel()
        self.is_usable = False
        self._partial_frame = self._block = b""
        if not self.ready.done():
            self.ready.set_exception(RpcError(Code.UNAVAILABLE, reason))
        calls, self._calls = self._calls, {}
        self._blocked.clear()
        for call in calls.values():
            call.fail(RpcError(Code.UNAVAILABLE, reason))
        self._give_turns()

    def _close_transport(self) -> None:
        """Close the connection: at once, or if the server does not read what was written, a little later."""
        if self._transport is not None and not self._transport.is_closing():
            self._flush()
            self._transport.close()
            self.loop.call_later(CLOSE_TIMEOUT_S, self._transport.abort)

    # ---- output

    def _send_blocked(self) -> None:
        """Send waiting messages as far as the windows allow. Calls take turns, one frame each."""
        is_stopped = False
        while self._blocked and not is_stopped:
            is_stopped = True
            for stream_id, (call, messages) in list(self._blocked.items()):
                rest, is_last = messages[0]
                size = min(len(rest), self._window, call.window, self._frame_max)
                if size <= 0:
                    continue
                is_stopped = False
                self._window -= size
                call.window -= size
                if is_whole := size == len(rest):
                    messages.popleft()
                    if not messages:
                        del self._blocked[stream_id]
                else:
                    messages[0] = (rest[size:], is_last)
                flags = END_STREAM if is_whole and is_last else 0
                self._write(frame(DATA, flags, stream_id, bytes(rest[:size])))

    def _write(self, data: bytes) -> None:
        if not self._out:
            self.loop.call_soon(self._flush)
        self._out.append(data)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if out and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(out))
            if self._transport.get_write_buffer_size() > WRITE_BUFFER_BYTES_MAX:
                self._abort("the server does not read")


def _is_interim(headers: Headers) -> bool:
    """Whether an HTTP response with the actual status is still to come."""
    return headers.status is not None and 100 <= headers.status < 200
