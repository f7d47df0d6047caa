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
from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol, cast
from urllib.parse import unquote

import hpack

from apiserver.storage.etcd.rpc import CallEnded, Code, RpcError

# Kinds of frames, and their flags.
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PUSH_PROMISE, _PING, _GOAWAY, _WINDOW_UPDATE, _CONTINUATION = (
    *(0x0, 0x1, 0x3, 0x4, 0x5, 0x6, 0x7, 0x8, 0x9),
)
_ACK = _END_STREAM = 0x1
_END_HEADERS, _PADDED, _PRIORITY = 0x4, 0x8, 0x20
# Settings.
_HEADER_TABLE_SIZE, _ENABLE_PUSH, _MAX_CONCURRENT_STREAMS, _INITIAL_WINDOW_SIZE, _MAX_FRAME_SIZE = range(1, 6)
# Errors.
_PROTOCOL_ERROR, _REFUSED_STREAM, _CANCEL = 0x1, 0x7, 0x8

_FRAME: Final = struct.Struct(">HBBBL")  # the length as 16 and 8 bits, kind, flags, stream
_MESSAGE: Final = struct.Struct(">BL")  # whether it is compressed, length
_SETTING: Final = struct.Struct(">HL")
_UINT32: Final = struct.Struct(">L")
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

_INITIAL_WINDOW_BYTES: Final = 65_535  # of the connection and of each stream, unless settings say otherwise
_INITIAL_FRAME_BYTES: Final = 16_384  # the longest frame, likewise; this client never allows longer ones
_WINDOW_MAX: Final = (1 << 31) - 1
_STREAM_ID_MAX: Final = (1 << 31) - 1
# How many bytes the server may send ahead on a connection, and of a call that gets one message.
CONNECTION_WINDOW_BYTES: Final = 16 * 1024 * 1024
UNARY_WINDOW_BYTES: Final = 4 * 1024 * 1024
# Bytes are credited when this share of a window has come: the sender is never stopped, and credits are few.
_CREDIT_SHARE: Final = 4
# A header block that comes in pieces, and how many blocks are remembered. etcd's have about 50 bytes.
HEADER_BLOCK_BYTES_MAX: Final = 64 * 1024
HEADER_BLOCKS_MAX: Final = 256
# How often deadlines and silence are looked at.
TICK_S: Final = 0.5
KEEPALIVE_INTERVAL_S: Final = 10.0  # etcd disconnects clients that ping more often than every 5 s
KEEPALIVE_TIMEOUT_S: Final = 10.0

_CODES: Final = {int(code): code for code in Code}


class Headers(NamedTuple):
    """The relevant fields of a header block. status: HTTP's; None in trailers. code: gRPC's; None before
    trailers.
    """

    status: int | None
    code: Code | None
    message: str


class _ProtocolError(Exception):
    """Bytes of the server that are not HTTP/2, or not gRPC over it."""


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


def request_block(
    path: str, authority: str, *, is_tls: bool, headers: Iterable[tuple[str, str]] = ()
) -> bytes:
    """Returns the header block of a gRPC request, whose fields are all literals without indexing."""
    static = b"\x83" + (b"\x87" if is_tls else b"\x86")  # :method: POST, :scheme: https or http
    return b"".join(
        [
            static,
            b"\x04" + _text(path),  # :path
            b"\x01" + _text(authority),  # :authority
            *(
                b"\x00" + _text(name) + _text(value)
                for name, value in (("te", "trailers"), ("content-type", "application/grpc"), *headers)
            ),
        ]
    )


def _text(text: str) -> bytes:
    """Returns a string literal without Huffman coding. Its length is an integer with a 7-bit prefix."""
    encoded = text.encode("ascii")
    length = len(encoded)
    if length < 0x7F:
        return bytes([length]) + encoded
    rest, prefix = length - 0x7F, bytearray([0x7F])
    while rest >= 0x80:
        prefix.append(rest & 0x7F | 0x80)
        rest >>= 7
    prefix.append(rest)
    return bytes(prefix) + encoded


class Connection(asyncio.Protocol):
    """An HTTP/2 connection, made by `loop.create_connection`. Calls may be opened once `ready` has a result.

    ready: fails with RpcError if the server does not speak HTTP/2.
    is_usable: whether new calls may be opened.
    stream_window_bytes: the bytes that the server may send ahead on a stream.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, stream_window_bytes: int) -> None:
        self.loop = loop
        self.stream_window_bytes = stream_window_bytes
        self.ready: asyncio.Future[None] = loop.create_future()
        self.is_usable = False
        self._transport: asyncio.Transport | None = None
        self._closed: asyncio.Future[None] = loop.create_future()
        self._calls: dict[int, Call] = {}
        self._next_id = 1
        self._calls_max = _STREAM_ID_MAX
        self._waiting: deque[asyncio.Future[None]] = deque()  # for a place among `_calls_max`
        # Input: the beginning of a frame, and a header block of which not all frames have come.
        self._rest = b""
        self._block = b""
        self._block_of: tuple[int, int] | None = None
        self._uncredited = 0
        self._received_at = self._pinged_at = 0.0
        self._is_pinged = False
        self._decoder = hpack.Decoder()
        self._decoder.max_allowed_table_size = 0
        self._known_blocks: dict[bytes, Headers] = {}
        # Output: what is written at the end of this iteration, and messages for which windows are too small.
        self._out: list[bytes] = []
        self._window = self._initial_window = _INITIAL_WINDOW_BYTES
        self._frame_max = _INITIAL_FRAME_BYTES
        self._blocked: dict[int, tuple[Call, deque[tuple[memoryview, bool]]]] = {}
        self._timer: asyncio.TimerHandle | None = None

    # ---- the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        settings = {
            _HEADER_TABLE_SIZE: 0,
            _ENABLE_PUSH: 0,
            _INITIAL_WINDOW_SIZE: self.stream_window_bytes,
        }
        payload = b"".join(_SETTING.pack(*each) for each in settings.items())
        self._out += [
            _PREFACE,
            _frame(_SETTINGS, 0, 0, payload),
            _credit(0, CONNECTION_WINDOW_BYTES - _INITIAL_WINDOW_BYTES),
        ]
        self._flush()
        self._received_at = self.loop.time()
        self._timer = self.loop.call_later(TICK_S, self._tick)

    def data_received(self, data: bytes) -> None:
        self._received_at = self.loop.time()
        self._is_pinged = False
        if self._rest:
            data = self._rest + data
        position, end = 0, len(data)
        try:
            while end - position >= 9:
                high, low, kind, flags, stream_id = _FRAME.unpack_from(data, position)
                length = high << 8 | low
                if length > _INITIAL_FRAME_BYTES:
                    raise _ProtocolError(f"a frame of {length} bytes")
                if (after := position + 9 + length) > end:
                    break
                self._on_frame(kind, flags, stream_id & _STREAM_ID_MAX, data[position + 9 : after])
                position = after
        except _ProtocolError as error:
            self._abort(f"it does not speak HTTP/2 as gRPC does: {error}")
            return
        self._rest = data[position:]

    def eof_received(self) -> None:
        return None  # The transport closes itself.

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(f"the connection was lost: {exc}" if exc else "the connection was closed")
        if not self._closed.done():
            self._closed.set_result(None)

    # ---- the client's side

    @property
    def is_full(self) -> bool:
        """Whether the server allows no more calls at the moment."""
        return len(self._calls) >= self._calls_max

    async def place(self) -> None:
        """Wait until the server allows another call."""
        while self.is_full and self.is_usable:
            free = self.loop.create_future()
            self._waiting.append(free)
            await free

    def open(self, call: Call, block: bytes) -> None:
        """Send the headers of a call. Raises an unsent RpcError if the connection is no longer usable."""
        if not self.is_usable:
            raise RpcError(Code.UNAVAILABLE, "the connection accepts no more calls", is_unsent=True)
        call.stream_id, call.window = self._next_id, self._initial_window
        self._calls[call.stream_id] = call
        self._next_id += 2
        if self._next_id > _STREAM_ID_MAX:
            self.is_usable = False
        self._write(_frame(_HEADERS, _END_HEADERS, call.stream_id, block))

    def send(self, call: Call, message: bytes, *, is_last: bool) -> None:
        """Send a message of an open call: now as far as the windows allow, and the rest later."""
        framed = _MESSAGE.pack(0, len(message)) + message
        size = len(framed)
        if size <= self._window and size <= call.window and size <= self._frame_max and not self._blocked:
            self._window -= size
            call.window -= size
            self._write(_frame(_DATA, _END_STREAM if is_last else 0, call.stream_id, framed))
        else:
            _, messages = self._blocked.setdefault(call.stream_id, (call, deque()))
            messages.append((memoryview(framed), is_last))
            self._send_blocked()

    def cancel(self, call: Call) -> None:
        """Cancel a call at the server, if it has not ended."""
        if self._forget(call):
            self._write(_frame(_RST_STREAM, 0, call.stream_id, _UINT32.pack(_CANCEL)))

    def credit(self, call: Call, size: int) -> None:
        """Allow the server to send more bytes of a call."""
        if call.stream_id in self._calls:
            self._write(_credit(call.stream_id, size))

    async def close(self) -> None:
        """Close the connection. Open calls raise CallEnded."""
        self.is_usable = False
        for call in list(self._calls.values()):
            self._forget(call)
            call.fail(CallEnded())
        if self._transport is None:
            return
        self._flush()
        self._transport.close()
        try:
            async with asyncio.timeout(1):
                await self._closed
        except TimeoutError:
            self._transport.abort()

    # ---- frames that come

    def _on_frame(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if not self.ready.done():
            if kind != _SETTINGS or flags & _ACK:
                raise _ProtocolError("it does not begin with settings")
        elif self._block_of is not None and (kind != _CONTINUATION or stream_id != self._block_of[0]):
            raise _ProtocolError("a header block is interrupted")
        if kind == _DATA:
            self._on_data(flags, stream_id, payload)
        elif kind == _HEADERS:
            self._on_headers(flags, stream_id, payload)
        elif kind == _CONTINUATION:
            self._on_continuation(flags, payload)
        elif kind == _SETTINGS:
            self._on_settings(flags, payload)
        elif kind == _WINDOW_UPDATE:
            self._on_window_update(stream_id, _only_uint32(payload) & _WINDOW_MAX)
        elif kind == _PING:
            if len(payload) != 8:
                raise _ProtocolError("a PING of another size")
            if not flags & _ACK:
                self._write(_frame(_PING, _ACK, 0, payload))
        elif kind == _RST_STREAM:
            self._on_reset(stream_id, _only_uint32(payload))
        elif kind == _GOAWAY:
            self._on_goaway(payload)
        elif kind == _PUSH_PROMISE:
            raise _ProtocolError("a PUSH_PROMISE, which the settings forbid")

    def _on_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        size = len(payload)
        self._uncredited += size
        if self._uncredited >= CONNECTION_WINDOW_BYTES // _CREDIT_SHARE:
            self._write(_credit(0, self._uncredited))
            self._uncredited = 0
        call = self._calls.get(stream_id)
        if call is None:
            self._require_known(stream_id)
            return  # It has been cancelled; what was under way still comes.
        call.on_message_bytes(_unpadded(payload) if flags & _PADDED else payload, size)
        if flags & _END_STREAM:
            raise _ProtocolError("a response without trailers")

    def _on_headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        if flags & _PADDED:
            payload = _unpadded(payload)
        if flags & _PRIORITY:
            if len(payload) < 5:
                raise _ProtocolError("a header block shorter than its priority")
            payload = payload[5:]
        if flags & _END_HEADERS:
            self._on_block(flags, stream_id, payload)
        else:
            self._block, self._block_of = payload, (stream_id, flags)

    def _on_continuation(self, flags: int, payload: bytes) -> None:
        if self._block_of is None:
            raise _ProtocolError("a CONTINUATION without a header block")
        self._block += payload
        if len(self._block) > HEADER_BLOCK_BYTES_MAX:
            raise _ProtocolError(f"a header block of more than {HEADER_BLOCK_BYTES_MAX} bytes")
        if flags & _END_HEADERS:
            (stream_id, first_flags), block = self._block_of, self._block
            self._block_of, self._block = None, b""
            self._on_block(first_flags, stream_id, block)

    def _on_block(self, flags: int, stream_id: int, block: bytes) -> None:
        headers = self._known_blocks.get(block) or self._decoded(block)
        call = self._calls.get(stream_id)
        if call is None:
            self._require_known(stream_id)
        elif flags & _END_STREAM:
            self._forget(call)
            if headers.code is None:
                what = "no grpc-status" if headers.status in (None, 200) else f"HTTP status {headers.status}"
                call.fail(RpcError(Code.UNKNOWN, f"the response has {what}"))
            else:
                call.on_end(headers)
        elif headers.status != 200:
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
            raise _ProtocolError(f"a header block that cannot be decoded: {error}") from None
        headers = Headers(status, code, message)
        if len(self._known_blocks) >= HEADER_BLOCKS_MAX:
            self._known_blocks.clear()
        self._known_blocks[block] = headers
        return headers

    def _on_settings(self, flags: int, payload: bytes) -> None:
        if flags & _ACK:
            return
        if len(payload) % _SETTING.size:
            raise _ProtocolError("settings that are cut off")
        for setting, value in _SETTING.iter_unpack(payload):
            if setting == _MAX_CONCURRENT_STREAMS:
                self._calls_max = value
                self._give_places()
            elif setting == _INITIAL_WINDOW_SIZE:
                if value > _WINDOW_MAX:
                    raise _ProtocolError("a window that is too large")
                for call in self._calls.values():
                    call.window += value - self._initial_window
                self._initial_window = value
            elif setting == _MAX_FRAME_SIZE:
                self._frame_max = max(_INITIAL_FRAME_BYTES, value)
        self._write(_frame(_SETTINGS, _ACK, 0, b""))
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
        if call is not None and self._forget(call):
            is_unsent = error == _REFUSED_STREAM
            code = Code.UNAVAILABLE if is_unsent else Code.INTERNAL
            call.fail(RpcError(code, f"the server has reset the call, error {error}", is_unsent=is_unsent))

    def _on_goaway(self, payload: bytes) -> None:
        """Open no more calls. The server completes those up to an ID, and has not seen the others."""
        if len(payload) < 8:
            raise _ProtocolError("a GOAWAY that is cut off")
        self.is_usable = False
        last = _UINT32.unpack_from(payload)[0] & _STREAM_ID_MAX
        reason = payload[8 : 8 + 200].decode("utf-8", "replace")
        why = f"the server has sent GOAWAY{f': {reason}' if reason else ''}"
        for call in [each for each in self._calls.values() if each.stream_id > last]:
            self._forget(call)
            call.fail(RpcError(Code.UNAVAILABLE, why, is_unsent=True))
        self._give_places()
        if not self._calls:
            self._close_transport()

    def _require_known(self, stream_id: int) -> None:
        """Raises _ProtocolError for a call that was never opened."""
        if not stream_id % 2 or stream_id >= self._next_id:
            raise _ProtocolError(f"a frame of stream {stream_id}, which is not open")

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
            self._write(_frame(_PING, 0, 0, b"apiserve"))

    def _forget(self, call: Call) -> bool:
        """Remove a call; returns False if it has already ended."""
        if self._calls.pop(call.stream_id, None) is None:
            return False
        self._blocked.pop(call.stream_id, None)
        if self._waiting:
            self._give_places()
        if not self.is_usable and not self._calls and self.ready.done():
            self.loop.call_soon(self._close_transport)
        return True

    def _give_places(self) -> None:
        free = self._calls_max - len(self._calls) if self.is_usable else len(self._waiting)
        while self._waiting and free > 0:
            if not (waiting := self._waiting.popleft()).done():
                waiting.set_result(None)
                free -= 1

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
        self._rest = self._block = b""
        error = RpcError(Code.UNAVAILABLE, reason)
        if not self.ready.done():
            self.ready.set_exception(error)
        calls, self._calls = self._calls, {}
        self._blocked.clear()
        for call in calls.values():
            call.fail(error)
        self._give_places()

    def _close_transport(self) -> None:
        if self._transport is not None:
            self._flush()
            self._transport.close()

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
                flags = _END_STREAM if is_whole and is_last else 0
                self._write(_frame(_DATA, flags, stream_id, bytes(rest[:size])))

    def _write(self, data: bytes) -> None:
        if not self._out:
            self.loop.call_soon(self._flush)
        self._out.append(data)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if out and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(out))


class UnaryCall:
    """A call that sends and receives one message. answer: the received message, or RpcError or CallEnded."""

    __slots__ = ("_chunks", "_size", "answer", "connection", "deadline", "stream_id", "window")

    def __init__(self, connection: Connection, answer: asyncio.Future[bytes], deadline: float) -> None:
        self.connection, self.answer = connection, answer
        self.deadline: float | None = deadline
        self.stream_id = self.window = 0
        self._chunks: list[bytes] = []
        self._size = 0

    def on_message_bytes(self, data: bytes, size: int) -> None:
        self._chunks.append(data)
        self._size += size
        if self._size >= UNARY_WINDOW_BYTES // _CREDIT_SHARE:
            self.connection.credit(self, self._size)
            self._size = 0

    def on_end(self, headers: Headers) -> None:
        if headers.code is not Code.OK:
            self.fail(RpcError(headers.code or Code.UNKNOWN, headers.message))
        elif not self.answer.done():
            framed = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
            if len(framed) < _MESSAGE.size or _MESSAGE.unpack_from(framed) != (
                0,
                len(framed) - _MESSAGE.size,
            ):
                self.answer.set_exception(RpcError(Code.INTERNAL, "the response is not one whole message"))
            else:
                self.answer.set_result(framed[_MESSAGE.size :])

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class StreamCall:
    """A call that receives many messages: see `rpc.Stream`.

    Bytes are credited when their message is read, or when a reader waits for it.
    """

    def __init__(self, connection: Connection, deadline: float | None) -> None:
        self.connection, self.deadline = connection, deadline
        self._window_bytes = connection.stream_window_bytes
        self.stream_id = self.window = 0
        self._buffer = bytearray()  # the beginning of a message
        self._messages: deque[bytes] = deque()
        self._unread = 0  # the size of frames that have come and are not credited
        self._held = 0  # the size of `_messages`
        self._reader: asyncio.Future[None] | None = None
        self._end: Exception | None = None
        self._is_ended = False

    def on_message_bytes(self, data: bytes, size: int) -> None:
        self._unread += size
        if self._unread > self._window_bytes:
            self._refuse("the server has sent more than its window allows")
            return
        buffer = self._buffer
        buffer += data
        while len(buffer) >= _MESSAGE.size:
            is_compressed, length = _MESSAGE.unpack_from(buffer)
            if is_compressed:
                self._refuse("a message is compressed")
                return
            if len(buffer) < (end := _MESSAGE.size + length):
                break
            self._messages.append(bytes(buffer[_MESSAGE.size : end]))
            self._held += end
            del buffer[:end]
        if self._reader is not None:
            self._wake() if self._messages else self._credit(0)

    def on_end(self, headers: Headers) -> None:
        if headers.code is not Code.OK:
            self.fail(RpcError(headers.code or Code.UNKNOWN, headers.message))
        elif self._buffer:
            self.fail(RpcError(Code.INTERNAL, "the last message is cut off"))
        else:
            self._is_ended = True
            self._wake()

    def fail(self, error: Exception) -> None:
        if not self._is_ended:
            self._is_ended, self._end = True, error
            self._wake()

    def _refuse(self, what: str) -> None:
        self.connection.cancel(self)
        self.fail(RpcError(Code.INTERNAL, what))

    async def read(self) -> bytes | None:
        """Returns the next message, see `rpc.Stream.read`."""
        while not self._messages:
            if self._end is not None:
                raise self._end
            if self._is_ended:
                return None
            self._credit(0)
            self._reader = self.connection.loop.create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        message = self._messages.popleft()
        self._held -= _MESSAGE.size + len(message)
        self._credit(len(self._buffer))
        return message

    def write(self, message: bytes, *, is_last: bool = False) -> None:
        """Sends a message. Raises RpcError, CallEnded."""
        if self._is_ended:
            raise self._end or RpcError(Code.UNAVAILABLE, "the server has ended the call")
        self.connection.send(self, message, is_last=is_last)

    def cancel(self) -> None:
        """End the call, and drop its unread messages. What has come and was not read is dropped."""
        self._messages.clear()
        self._buffer.clear()
        self.connection.cancel(self)
        self.fail(CallEnded())
        self._end = self._end or CallEnded()

    def _credit(self, held_back: int) -> None:
        """Credit bytes that were read, once there are enough. held_back: the bytes of a message without a
        reader.
        """
        size = self._unread - self._held - held_back
        if size >= self._window_bytes // _CREDIT_SHARE:
            self._unread -= size
            self.connection.credit(self, size)

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


def _frame(kind: int, flags: int, stream_id: int, payload: bytes) -> bytes:
    length = len(payload)
    return _FRAME.pack(length >> 8, length & 0xFF, kind, flags, stream_id) + payload


def _credit(stream_id: int, size: int) -> bytes:
    return _frame(_WINDOW_UPDATE, 0, stream_id, _UINT32.pack(size))


def _only_uint32(payload: bytes) -> int:
    """Returns the integer of a payload. Raises _ProtocolError unless it has 32 bits."""
    if len(payload) != _UINT32.size:
        raise _ProtocolError("a frame of another size")
    number: int = _UINT32.unpack(payload)[0]
    return number


def _unpadded(payload: bytes) -> bytes:
    """Returns the content of a padded frame. Raises _ProtocolError for invalid padding."""
    if not payload or payload[0] >= len(payload):
        raise _ProtocolError("padding longer than its frame")
    return payload[1 : len(payload) - payload[0]]
