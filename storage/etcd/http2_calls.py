"""The calls on a connection of `http2_connection`: of one message, and of many."""

from __future__ import annotations

import asyncio
from collections import deque

from apiserver.storage.etcd.http2_connection import (
    CREDIT_SHARE,
    MESSAGE_BYTES_MAX,
    MESSAGE_PREFIX,
    Connection,
    Headers,
)
from apiserver.storage.etcd.rpc import CallEnded, Code, RpcError


class UnaryCall:
    """A call that sends and receives one message. answer: the received message, or RpcError or CallEnded."""

    __slots__ = (
        *("_chunks", "_expected", "_received", "_uncredited"),
        *("answer", "connection", "deadline", "stream_id", "window"),
    )

    def __init__(self, connection: Connection, answer: asyncio.Future[bytes], deadline: float) -> None:
        self.connection, self.answer = connection, answer
        self.deadline: float | None = deadline
        self.stream_id = self.window = 0
        self._chunks: list[bytes] = []
        self._received = self._uncredited = 0
        self._expected: int | None = None  # the length with the prefix, once it is known

    def on_message_bytes(self, data: bytes, size: int) -> None:
        self._uncredited += size
        if data:
            self._chunks.append(data)
            self._received += len(data)
        if self._expected is None and self._received >= MESSAGE_PREFIX.size:
            is_compressed, length = MESSAGE_PREFIX.unpack_from(self._message())
            if is_compressed or length > MESSAGE_BYTES_MAX:
                self._refuse(f"the response is compressed or too long ({length} bytes)")
                return
            self._expected = MESSAGE_PREFIX.size + length
        if self._received > (self._expected or MESSAGE_PREFIX.size):
            self._refuse("the response is more than one message")
        elif self._uncredited >= self.connection.stream_window_bytes // CREDIT_SHARE:
            self.connection.credit(self, self._uncredited)
            self._uncredited = 0

    def on_end(self, headers: Headers) -> None:
        if headers.code is not Code.OK:
            self.fail(RpcError(headers.code or Code.UNKNOWN, headers.message))
        elif self._received != self._expected:
            self.fail(RpcError(Code.INTERNAL, "the response is incomplete"))
        elif not self.answer.done():
            self.answer.set_result(self._message()[MESSAGE_PREFIX.size :])

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)

    def _message(self) -> bytes:
        return self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)

    def _refuse(self, what: str) -> None:
        self.connection.cancel(self)
        self.fail(RpcError(Code.INTERNAL, what))


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
        self._silent_since = 0.0  # while there is a reader
        self._end: Exception | None = None
        self._is_ended = False

    def on_message_bytes(self, data: bytes, size: int) -> None:
        self._unread += size
        self._silent_since = self.connection.loop.time()
        if self._unread > self._window_bytes:
            self._refuse("the server exceeded its flow-control window")
            return
        buffer = self._buffer
        buffer += data
        while len(buffer) >= MESSAGE_PREFIX.size:
            is_compressed, length = MESSAGE_PREFIX.unpack_from(buffer)
            if is_compressed:
                self._refuse("a message is compressed")
                return
            if length > MESSAGE_BYTES_MAX:
                self._refuse(f"a message is too long ({length} bytes)")
                return
            if len(buffer) < (end := MESSAGE_PREFIX.size + length):
                break
            self._messages.append(bytes(buffer[MESSAGE_PREFIX.size : end]))
            self._held += end
            del buffer[:end]
        if self._messages:
            self._wake()
        elif self._reader is not None:
            self._credit(0)

    def on_end(self, headers: Headers) -> None:
        if headers.code is not Code.OK:
            self.fail(RpcError(headers.code or Code.UNKNOWN, headers.message))
        elif self._buffer:
            self.fail(RpcError(Code.INTERNAL, "the last message is incomplete"))
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

    @property
    def silent_since(self) -> float | None:
        """Says how long a reader has waited, see `rpc.Stream`."""
        return None if self._reader is None or self._messages else self._silent_since

    async def read(self) -> bytes | None:
        """Returns the next message, see `rpc.Stream.read`."""
        while not self._messages:
            if self._end is not None:
                raise self._end
            if self._is_ended:
                return None
            self._credit(0)
            loop = self.connection.loop
            self._reader, self._silent_since = loop.create_future(), loop.time()
            try:
                await self._reader
            finally:
                self._reader = None
        message = self._messages.popleft()
        self._held -= MESSAGE_PREFIX.size + len(message)
        self._credit(len(self._buffer))
        return message

    def write(self, message: bytes, *, is_last: bool = False) -> None:
        """Sends a message. Raises RpcError, CallEnded."""
        if self._is_ended:
            raise self._end or RpcError(Code.UNAVAILABLE, "the server has ended the call")
        self.connection.send(self, message, is_last=is_last)

    def cancel(self) -> None:
        """End the call, and drop its unread messages."""
        self._messages.clear()
        self._buffer.clear()
        self.connection.cancel(self)
        self.fail(CallEnded())
        self._end = self._end or CallEnded()

    def _credit(self, held_back: int) -> None:
        """Credit what was read, once it is enough. held_back: the bytes of a message without a reader."""
        size = self._unread - self._held - held_back
        if size >= self._window_bytes // CREDIT_SHARE:
            self._unread -= size
            self.connection.credit(self, size)

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
