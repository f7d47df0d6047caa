"""Implements `rpc.Channel` with `http2_connection`."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from typing import Final
from weakref import WeakSet

from apiserver.storage.etcd.http2_calls import StreamCall, UnaryCall
from apiserver.storage.etcd.http2_connection import UNARY_WINDOW_BYTES, Connection
from apiserver.storage.etcd.http2_frames import request_block
from apiserver.storage.etcd.rpc import CallEnded, ChannelClosed, Code, Endpoint, Metadata, RpcError, Tls

# A connection, with its handshakes, that takes longer has failed: an endpoint far away, or on a busy machine,
# needs some tenths of a second. For so long an endpoint from which nothing comes holds up the others.
CONNECT_TIMEOUT_S: Final = 2.0
# After a failure calls fail at once for so long; twice as long after the next one, up to the maximum.
RECONNECT_FIRST_S: Final = 0.1
RECONNECT_MAX_S: Final = 2.0
# How long a stream waits until it can be opened.
OPEN_TIMEOUT_S: Final = 10.0
# After so many seconds without data the system asks whether the peer is there.
TCP_IDLE_S: Final = 10


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
        # The context, and the state of the files that it was loaded from.
        self._loaded: tuple[object, ssl.SSLContext] | None = None
        try:
            self._context()
        except (OSError, ValueError) as error:
            raise ValueError(f"the TLS files for etcd cannot be used: {_reason(error)}") from None
        self._connection: Connection | None = None
        # With those that take no more calls, on which some may go on.
        self._connections: WeakSet[Connection] = WeakSet()
        self._connecting: asyncio.Task[Connection] | None = None
        self._address = ""  # of the last connection
        self._failure = ""
        self._retry_at = self._pause_s = self._connected_at = 0.0
        # Bounded, as paths and timeouts are constants.
        self._blocks: dict[tuple[str, Metadata, float | None], bytes] = {}
        self._is_closed = False

    async def unary(self, path: str, message: bytes, timeout_s: float) -> bytes:
        """Sends a message and returns the answer, see `rpc.Channel.unary`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        is_repeated = False
        while True:
            connection = self._connection
            if connection is None or not connection.is_usable:
                connection = await self.connect()
            answer: asyncio.Future[bytes] = loop.create_future()
            call = UnaryCall(connection, answer, deadline)
            try:
                await connection.open(call, self._block(path, timeout_s=timeout_s), deadline)
                connection.send(call, message, is_last=True)
                return await answer
            except asyncio.CancelledError:
                connection.cancel(call)
                raise
            except RpcError as error:
                if not error.is_unsent or is_repeated or loop.time() >= deadline:
                    raise
                is_repeated = True

    def server_stream(self, path: str, message: bytes, timeout_s: float | None = None) -> Http2Stream:
        """Opens a call that reads many messages, see `rpc.Channel.server_stream`."""
        return Http2Stream(self, self._block(path, timeout_s=timeout_s), message, timeout_s)

    def stream(self, path: str, metadata: Metadata = ()) -> Http2Stream:
        """Opens a call that sends and reads many messages, see `rpc.Channel.stream`."""
        return Http2Stream(self, self._block(path, metadata), None, None)

    def retire_connection(self) -> None:
        """Uses another connection for later calls, see `rpc.Channel.retire_connection`."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.retire()

    async def close(self) -> None:
        self._is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        await asyncio.gather(*(each.close() for each in self._connections))

    async def connect(self) -> Connection:
        """Returns a connection for new calls. Raises RpcError, unsent; CallEnded; ChannelClosed."""
        if self._is_closed:
            raise ChannelClosed("the channel is closed")
        connection = self._connection
        if connection is not None and connection.is_usable:
            return connection
        if self._connecting is None:
            self._require_no_pause(connection)
            self._connecting = asyncio.create_task(self._connect(), name="etcd-connect")
            self._connecting.add_done_callback(self._on_connected)
        try:
            return await asyncio.shield(self._connecting)
        except asyncio.CancelledError:
            if self._is_closed and not _is_cancelling():
                raise CallEnded from None
            raise

    def _require_no_pause(self, ended: Connection | None) -> None:
        """Raises RpcError, unsent, soon after the last attempt to connect. ended: the last connection."""
        now = asyncio.get_running_loop().time()
        if ended is not None:
            self._connection = None
            if not ended.has_completed_calls and now - self._connected_at < RECONNECT_MAX_S:
                self._failed("the last connection ended before it completed a call", self._connected_at)
            else:
                self._pause_s = 0.0
        if now < self._retry_at:
            raise RpcError(Code.UNAVAILABLE, f"cannot connect: {self._failure}", is_unsent=True)

    def _failed(self, reason: str, at: float) -> None:
        self._pause_s = min(max(2 * self._pause_s, RECONNECT_FIRST_S), RECONNECT_MAX_S)
        self._failure, self._retry_at = reason, at + self._pause_s

    def _on_connected(self, connecting: asyncio.Task[Connection]) -> None:
        self._connecting = None
        if not connecting.cancelled():
            connecting.exception()  # The callers get it; perhaps none of them waits any more.

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            context = self._context()
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                connection = await self._connect_to_any(context)
        except (OSError, ValueError, RpcError) as error:
            reason = _reason(error)
            self._failed(reason, loop.time())
            raise RpcError(Code.UNAVAILABLE, f"cannot connect: {reason}", is_unsent=True) from error
        self._connection, self._connected_at = connection, loop.time()
        self._connections.add(connection)
        return connection

    async def _connect_to_any(self, context: ssl.SSLContext | None) -> Connection:
        """Try the addresses of the host, each for its share of the time, first the one that answered last."""
        host, port, _ = self._endpoint
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
        if self._address in addresses:
            addresses.remove(self._address)
            addresses.insert(0, self._address)
        last: OSError | RpcError | None = None
        for address in addresses:
            share_s = CONNECT_TIMEOUT_S / len(addresses)
            try:
                async with asyncio.timeout(share_s) as timeout:
                    connection = await self._connect_to(address, context)
            except (OSError, RpcError) as error:
                is_late = timeout.expired()
                last = OSError(f"no response from {address} within {share_s:.2g} s") if is_late else error
            else:
                self._address = address
                return connection
        raise last or OSError("the host name has no address")

    async def _connect_to(self, address: str, context: ssl.SSLContext | None) -> Connection:
        loop = asyncio.get_running_loop()
        host, port, is_tls = self._endpoint
        transport, connection = await loop.create_connection(
            lambda: Connection(loop, self._stream_window),
            address,
            port,
            ssl=context,
            server_hostname=host if is_tls else None,
        )
        try:
            if is_tls and transport.get_extra_info("ssl_object").selected_alpn_protocol() != "h2":
                raise OSError("the server does not support HTTP/2")
            _detect_dead_peers(transport)
            await connection.ready
        except BaseException:
            transport.abort()
            raise
        return connection

    def _context(self) -> ssl.SSLContext | None:
        """Returns the context of the TLS files as they are now. Raises OSError, ValueError."""
        if not self._endpoint.is_tls:
            return None
        state = tuple(
            (each.st_mtime_ns, each.st_ino, each.st_size) for each in map(os.stat, filter(None, self._tls))
        )
        if self._loaded is None or self._loaded[0] != state:
            self._loaded = (state, _load(self._tls))
        return self._loaded[1]

    def _block(self, path: str, metadata: Metadata = (), *, timeout_s: float | None = None) -> bytes:
        key = path, metadata, timeout_s
        block = self._blocks.get(key)
        if block is None:
            # The server ends work for which nobody waits any more.
            timeout = [] if timeout_s is None else [("grpc-timeout", f"{timeout_s * 1000:.0f}m")]
            block = self._blocks[key] = request_block(
                path,
                self._endpoint.authority,
                is_tls=self._endpoint.is_tls,
                headers=[("user-agent", self._user_agent), *timeout, *metadata],
            )
        return block


class Http2Stream:
    """A `rpc.Stream` that is opened when it is first used, since a connection may have to be made."""

    def __init__(
        self, channel: Http2Channel, block: bytes, message: bytes | None, timeout_s: float | None
    ) -> None:
        """message: the only one, which is sent when the call is opened; None: `write` sends any number."""
        self._channel, self._block = channel, block
        self._message, self._timeout_s = message, timeout_s
        self._may_repeat = message is not None  # until the first read
        self._call: StreamCall | None = None
        self._opening: asyncio.Task[StreamCall] | None = None
        self._is_cancelled = False
        self._made_at = asyncio.get_running_loop().time()

    @property
    def silent_since(self) -> float | None:
        """Says how long a reader has waited, see `rpc.Stream`."""
        return self._made_at if self._call is None else self._call.silent_since

    async def read(self) -> bytes | None:
        """Returns the next message, see `rpc.Stream.read`."""
        may_repeat, self._may_repeat = self._may_repeat, False
        try:
            return await (self._call or await self._opened()).read()
        except RpcError as error:
            if not (may_repeat and error.is_unsent):
                raise
        self._call = self._opening = None
        return await self.read()

    async def write(self, message: bytes) -> None:
        """Sends a message, see `rpc.Stream.write`."""
        (self._call or await self._opened()).write(message)

    def cancel(self) -> None:
        """Ends the call, see `rpc.Stream.cancel`."""
        self._is_cancelled = True
        if self._call is not None:
            self._call.cancel()
        elif self._opening is not None:
            self._opening.cancel()

    async def _opened(self) -> StreamCall:
        if self._is_cancelled:
            raise CallEnded
        if self._opening is None:
            self._opening = asyncio.create_task(self._open(), name="etcd-stream")
            self._opening.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            return await asyncio.shield(self._opening)
        except asyncio.CancelledError:
            if self._is_cancelled and not _is_cancelling():
                raise CallEnded from None
            raise

    async def _open(self) -> StreamCall:
        connection = await self._channel.connect()
        call = StreamCall(connection, None if self._timeout_s is None else self._made_at + self._timeout_s)
        await connection.open(call, self._block, call.deadline or self._made_at + OPEN_TIMEOUT_S)
        self._call = call
        if self._message is not None:
            call.write(self._message, is_last=True)
        return call


def _is_cancelling() -> bool:
    """Whether the running task itself is being cancelled, and not only what it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _detect_dead_peers(transport: asyncio.BaseTransport) -> None:
    """Have the system end an idle connection whose peer is gone: etcd forbids PINGs without calls."""
    options = {
        "SO_KEEPALIVE": 1,
        "TCP_KEEPIDLE": TCP_IDLE_S,
        "TCP_KEEPINTVL": TCP_IDLE_S // 2,
        "TCP_KEEPCNT": 2,
    }
    connected = transport.get_extra_info("socket")
    for name, value in options.items():
        if hasattr(socket, name):
            level = socket.SOL_SOCKET if name.startswith("SO_") else socket.IPPROTO_TCP
            connected.setsockopt(level, getattr(socket, name), value)


def _reason(error: Exception) -> str:
    if isinstance(error, RpcError):
        return error.details
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the server's certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"the TLS handshake failed: {error.reason or error}"
    if isinstance(error, TimeoutError):
        return f"no response within {CONNECT_TIMEOUT_S:g} s"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def _load(tls: Tls) -> ssl.SSLContext:
    """Raises OSError, and ValueError with the reason."""
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
            reason = error.reason or "the files cannot be read"
            raise ValueError(f"{tls.certificate} and its key cannot be used: {reason}") from None
    return context


def _no_password() -> str:
    """Without it, the library would ask on the terminal."""
    raise ValueError("the private key is encrypted")
