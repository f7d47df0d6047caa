"""Implements `rpc.Channel` with `http2_connection`."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import Final

from apiserver.storage.etcd.http2_connection import (
    UNARY_WINDOW_BYTES,
    Connection,
    StreamCall,
    UnaryCall,
    request_block,
)
from apiserver.storage.etcd.rpc import CallEnded, ChannelClosed, Code, Endpoint, RpcError, Tls

# A connection, with its handshakes, that takes longer has failed: an endpoint far away, or on a busy machine,
# needs some tenths of a second. For so long an endpoint from which nothing comes holds up the others.
CONNECT_TIMEOUT_S: Final = 2.0
# After a failure calls fail at once for so long; twice as long after the next one, up to the maximum.
RECONNECT_FIRST_S: Final = 0.1
RECONNECT_MAX_S: Final = 2.0


class Http2Channel:
    """Calls to one endpoint over one connection."""

    def __init__(
        self, endpoint: Endpoint, tls: Tls, *, user_agent: str, stream_window_bytes: int = UNARY_WINDOW_BYTES
    ) -> None:
        """tls: files that are read for each connection, so that they may be replaced.

        Raises ValueError if they cannot be used now.
        """
        self._endpoint = endpoint
        self._user_agent = user_agent
        self._stream_window = stream_window_bytes
        self._tls = tls
        if endpoint.is_tls:
            try:
                _context(tls)
            except (OSError, ValueError) as error:
                raise ValueError(f"the TLS files for etcd cannot be used: {_reason(error)}") from None
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[Connection] | None = None
        self._failure: RpcError | None = None
        self._retry_at = self._pause_s = 0.0
        self._blocks: dict[tuple[str, Sequence[tuple[str, str]]], bytes] = {}
        self._is_closed = False

    async def unary(self, path: str, message: bytes, timeout_s: float) -> bytes:
        """Sends a message and returns the answer, see `rpc.Channel.unary`."""
        connection = self._connection
        if connection is None or not connection.is_usable or connection.is_full:
            connection = await self.connect()
            await connection.place()
        loop = connection.loop
        answer: asyncio.Future[bytes] = loop.create_future()
        call = UnaryCall(connection, answer, loop.time() + timeout_s)
        connection.open(call, self._block(path))
        connection.send(call, message, is_last=True)
        try:
            return await answer
        except asyncio.CancelledError:
            connection.cancel(call)
            raise

    def server_stream(self, path: str, message: bytes, timeout_s: float | None = None) -> Http2Stream:
        """Opens a call that reads many messages, see `rpc.Channel.server_stream`."""
        return Http2Stream(self, self._block(path), message, timeout_s)

    def stream(self, path: str, metadata: Sequence[tuple[str, str]] = ()) -> Http2Stream:
        """Opens a call that sends and reads many messages, see `rpc.Channel.stream`."""
        return Http2Stream(self, self._block(path, metadata), None, None)

    async def close(self) -> None:
        self._is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        if self._connection is not None:
            await self._connection.close()

    async def connect(self) -> Connection:
        """Returns a connection for new calls. Raises an unsent RpcError, CallEnded, ChannelClosed."""
        if self._is_closed:
            raise ChannelClosed("the channel is closed")
        connection = self._connection
        if connection is not None and connection.is_usable:
            return connection
        if self._connecting is None:
            if self._failure is not None and asyncio.get_running_loop().time() < self._retry_at:
                raise RpcError(self._failure.code, self._failure.details, is_unsent=True)
            self._connecting = asyncio.create_task(self._connect(), name="etcd-connect")
            self._connecting.add_done_callback(self._on_connected)
        connecting = self._connecting
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            if connecting.cancelled() and self._is_closed:
                task = asyncio.current_task()
                if task is None or not task.cancelling():
                    raise CallEnded from None
            raise

    def _on_connected(self, connecting: asyncio.Task[Connection]) -> None:
        self._connecting = None
        if not connecting.cancelled():
            connecting.exception()  # The callers got it; perhaps none waits any more.

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        host, port, is_tls = self._endpoint
        transport: asyncio.Transport | None = None
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                transport, connection = await loop.create_connection(
                    lambda: Connection(loop, self._stream_window),
                    host,
                    port,
                    ssl=_context(self._tls) if is_tls else None,
                    server_hostname=host if is_tls else None,
                )
                if is_tls:
                    protocol = transport.get_extra_info("ssl_object").selected_alpn_protocol()
                    if protocol != "h2":
                        raise OSError("it does not speak HTTP/2")
                await connection.ready
        except (OSError, ValueError, RpcError) as error:
            if transport is not None:
                transport.abort()
            self._pause_s = min(max(2 * self._pause_s, RECONNECT_FIRST_S), RECONNECT_MAX_S)
            self._retry_at = loop.time() + self._pause_s
            reason = _reason(error)
            self._failure = RpcError(Code.UNAVAILABLE, f"cannot connect: {reason}", is_unsent=True)
            raise self._failure from error
        except asyncio.CancelledError:
            if transport is not None:
                transport.abort()
            raise
        self._connection, self._failure, self._pause_s = connection, None, 0.0
        return connection

    def _block(self, path: str, metadata: Sequence[tuple[str, str]] = ()) -> bytes:
        block = self._blocks.get((path, metadata))
        if block is None:
            block = self._blocks[path, metadata] = request_block(
                path,
                self._endpoint.authority,
                is_tls=self._endpoint.is_tls,
                headers=[("user-agent", self._user_agent), *metadata],
            )
        return block


class Http2Stream:
    """A `rpc.Stream` that is opened when it is first used, since a connection may have to be made."""

    def __init__(
        self, channel: Http2Channel, block: bytes, message: bytes | None, timeout_s: float | None
    ) -> None:
        """message: the only one, sent when the call opens; None: `write` sends any number."""
        self._channel, self._block = channel, block
        self._message, self._timeout_s = message, timeout_s
        self._call: StreamCall | None = None
        self._opening = asyncio.Lock()
        self._is_cancelled = False

    async def read(self) -> bytes | None:
        """Returns the next message, see `rpc.Stream.read`."""
        return await (self._call or await self._open()).read()

    async def write(self, message: bytes) -> None:
        """Sends a message, see `rpc.Stream.write`."""
        (self._call or await self._open()).write(message)

    def cancel(self) -> None:
        """Ends the call, see `rpc.Stream.cancel`."""
        self._is_cancelled = True
        if self._call is not None:
            self._call.cancel()

    async def _open(self) -> StreamCall:
        async with self._opening:
            if self._call is not None:
                return self._call
            connection = await self._channel.connect()
            await connection.place()
            if self._is_cancelled:
                raise CallEnded
            deadline = None if self._timeout_s is None else connection.loop.time() + self._timeout_s
            call = StreamCall(connection, deadline)
            connection.open(call, self._block)
            self._call = call
            if self._message is not None:
                call.write(self._message, is_last=True)
            return call


def _reason(error: Exception) -> str:
    if isinstance(error, RpcError):
        return error.details
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"the TLS handshake failed: {error.reason or error}"
    if isinstance(error, TimeoutError):
        return f"no answer within {CONNECT_TIMEOUT_S:g} s"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def _context(tls: Tls) -> ssl.SSLContext:
    """Raises OSError, and ValueError with the reason."""
    for path in filter(None, tls):
        path.open().close()  # Its error names the file, unlike that of `ssl`.
    try:
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=tls.ca)
    except ssl.SSLError:
        raise ValueError(f"{tls.ca} contains no certificate that can be read") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    if tls.certificate is not None:
        try:
            context.load_cert_chain(tls.certificate, tls.key, _no_password)
        except ssl.SSLError as error:
            reason = error.reason or "it cannot be read"
            raise ValueError(f"{tls.certificate} and its key cannot be used: {reason}") from None
    return context


def _no_password() -> str:
    """Without it, the library would ask on the terminal."""
    raise ValueError("the private key is encrypted")
