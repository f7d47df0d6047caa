"""Implements `rpc.Channel` with `grpc.aio`, gRPC's own library."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

from apiserver.storage.etcd.http2_channel import CONNECT_TIMEOUT_S, RECONNECT_FIRST_S, RECONNECT_MAX_S
from apiserver.storage.etcd.http2_connection import KEEPALIVE_INTERVAL_S, KEEPALIVE_TIMEOUT_S
from apiserver.storage.etcd.rpc import CallEnded, ChannelClosed, Code, Endpoint, Metadata, RpcError, Tls
from apiserver.storage.grpc_library import grpc

_UNLIMITED: Final = -1
_OPTIONS: Final = [
    # A page of large values, or one fragment of a watch, is above gRPC's 4 MB.
    ("grpc.max_receive_message_length", _UNLIMITED),
    ("grpc.max_send_message_length", _UNLIMITED),
    ("grpc.keepalive_time_ms", int(KEEPALIVE_INTERVAL_S * 1000)),
    ("grpc.keepalive_timeout_ms", int(KEEPALIVE_TIMEOUT_S * 1000)),
    ("grpc.max_reconnect_backoff_ms", int(RECONNECT_MAX_S * 1000)),
    ("grpc.initial_reconnect_backoff_ms", int(RECONNECT_FIRST_S * 1000)),
    # By this name gRPC has the least time that a connection may take, whatever the pauses between them are.
    ("grpc.min_reconnect_backoff_ms", int(CONNECT_TIMEOUT_S * 1000)),
]
# How gRPC says that it gave up while connecting.
_UNSENT: Final = ("failed to connect", "Failed to connect", "connections to all backends", "name resolution")


class GrpcChannel:
    """A channel to one endpoint that uses gRPC's library."""

    def __init__(self, endpoint: Endpoint, tls: Tls, *, stream_window_bytes: int | None = None) -> None:
        """stream_window_bytes: how many bytes the server may send ahead; None: gRPC measures it.

        Raises OSError if a TLS file cannot be read.
        """
        options = list(_OPTIONS)
        if stream_window_bytes is not None:
            options.append(("grpc.http2.lookahead_bytes", stream_window_bytes))
            # Measuring the bandwidth would let the window grow.
            options.append(("grpc.http2.bdp_probe", 0))
        target = endpoint.authority
        if endpoint.is_tls:
            ca, certificate, key = (None if path is None else path.read_bytes() for path in tls)
            credentials = grpc.ssl_channel_credentials(ca, key, certificate)
            self._channel = grpc.aio.secure_channel(target, credentials, options=options)
        else:
            self._channel = grpc.aio.insecure_channel(target, options=options)
        # By path: to make one takes longer than to look it up.
        self._calls: dict[str, Any] = {}
        self._is_closed = False

    async def unary(self, path: str, message: bytes, timeout_s: float) -> bytes:
        """Sends a message and returns the answer, see `rpc.Channel.unary`."""
        self._require_open()
        call = self._calls.get(path)
        if call is None:
            call = self._calls[path] = self._channel.unary_unary(path)
        with _translated():
            return cast(bytes, await call(message, timeout=timeout_s))

    def server_stream(self, path: str, message: bytes, timeout_s: float | None = None) -> GrpcStream:
        """Opens a call that reads many messages, see `rpc.Channel.server_stream`."""
        self._require_open()
        call: Any = self._channel.unary_stream(path)
        return GrpcStream(call(message, timeout=timeout_s))

    def stream(self, path: str, metadata: Metadata = ()) -> GrpcStream:
        """Opens a call that sends and reads many messages, see `rpc.Channel.stream`."""
        self._require_open()
        return GrpcStream(self._channel.stream_stream(path)(metadata=metadata))

    def retire_connection(self) -> None:
        """Does nothing, see `rpc.Channel.retire_connection`."""

    async def close(self) -> None:
        self._is_closed = True
        await self._channel.close()

    def _require_open(self) -> None:
        """Raises ChannelClosed for a closed channel, where gRPC would raise a UsageError."""
        if self._is_closed:
            raise ChannelClosed("the channel is closed")


class GrpcStream:
    """A call of gRPC as `rpc.Stream`."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._writing: asyncio.Task[None] | None = None
        self.silent_since: float | None = asyncio.get_running_loop().time()

    async def read(self) -> bytes | None:
        """Returns the next message, see `rpc.Stream.read`."""
        self.silent_since = asyncio.get_running_loop().time()
        try:
            with _translated():
                message = await self._call.read()
        finally:
            self.silent_since = None
        return None if message is grpc.aio.EOF else cast(bytes, message)

    async def write(self, message: bytes) -> None:
        """Sends a message, see `rpc.Stream.write`."""
        with _translated():
            try:
                self._writing = asyncio.create_task(self._call.write(message))
                await self._writing
            except asyncio.InvalidStateError as error:
                raise RpcError(Code.UNAVAILABLE, "the server has ended the call") from error

    def cancel(self) -> None:
        """Ends the call, see `rpc.Stream.cancel`."""
        self._call.cancel()
        if self._writing is not None:
            self._writing.cancel()  # gRPC leaves a write waiting that is still connecting.


@contextmanager
def _translated() -> Iterator[None]:
    """Raises CallEnded where gRPC cancels the waiting task itself, without a cancellation by the server's
    code.
    """
    try:
        yield
    except grpc.aio.AioRpcError as error:
        details = error.details() or ""
        code = Code(error.code().value[0])
        is_unsent = code is Code.UNAVAILABLE and any(each in details for each in _UNSENT)
        raise RpcError(code, details, is_unsent=is_unsent) from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise CallEnded from error
