"""Connections to webhooks, over HTTP/1.1 with TLS, kept open for the next request.

A call is a few kilobytes each way, and there may be several for each write: the overhead of a general HTTP
client would exceed the rest of the call.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol, cast

from apiserver.tracing.request_trace import no_request
from apiserver.webhooks.http_answers import AnswerReader

# To each place.
CONNECTIONS_MAX: Final = 100
# How many of those may be opened at once. A handshake takes the event loop a millisecond or two, and no other
# task runs between those that hundreds of requests begin together.
CONNECTING_MAX: Final = 4
# How long an idle connection is kept. Servers close idle connections, some of them after half a minute.
KEEP_ALIVE_S: Final = 15.0
# How long an address is taken to be right: endpoints of Services change.
ADDRESSES_TTL_S: Final = 1.0
# Of one host, that are tried.
ADDRESSES_MAX: Final = 16
# After so long, the next address is tried beside those before. RFC 8305, 5.
NEXT_ADDRESS_AFTER_S: Final = 0.25
# If there are more places, their addresses are forgotten.
PLACES_MAX: Final = 1_024
# What a transport that is aborted needs at most.
CLOSING_TURNS: Final = 10
# What is read at a time: a turn of the event loop, of a long answer.
READ_BYTES: Final = 64 * 1024


class ResolvedAddress(NamedTuple):
    """An address and a port to connect to. host: an IP address."""

    host: str
    port: int


class Resolver(Protocol):
    """Finds the addresses of a host, each with its port."""

    async def addresses(self, host: str, port: int) -> Sequence[ResolvedAddress]:
        """Returns the addresses to connect to. Raises OSError, ValueError."""
        ...


class ConnectionTarget(NamedTuple):
    """A server that connections are opened to, and how they are secured.

    context: verifies the server, and has the client certificate; None for a connection without TLS.
    server_name: the name that the server's certificate must have.
    """

    host: str
    port: int
    context: ssl.SSLContext | None
    server_name: str


class ConnectFailed(Exception):
    """No address of a host accepts a connection. cause: the error of the last address."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class ConnectionBroken(Exception):
    """A connection was lost before the response was complete. cause: None if the other side has closed it."""

    def __init__(self, cause: Exception | None) -> None:
        super().__init__(str(cause or "EOF"))
        self.cause = cause


class WebhookConnection(asyncio.BufferedProtocol):
    """A connection to a webhook, with one request at a time."""

    def __init__(self, buffer: memoryview, opened: set[WebhookConnection]) -> None:
        """buffer: what all connections read into, since received data is consumed at once.

        opened: all of them.
        """
        self._buffer = buffer
        self._opened = opened
        self._transport: asyncio.Transport | None = None
        self._reader: AnswerReader | None = None
        self._done: asyncio.Future[None] | None = None
        # Since when it is idle, by the loop's clock.
        self.idle_since = 0.0

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_free(self) -> bool:
        """Whether the connection may be used for another request, as the last one was sent completely."""
        transport = self._transport
        return transport is not None and not transport.is_closing() and not transport.get_write_buffer_size()

    async def exchange(self, head: bytes, body: bytes, reader: AnswerReader) -> None:
        """Send a request, and wait until the response is complete.

        Raises ConnectionBroken, and the errors of the reader. If cancelled or failed, the connection is
        closed.
        """
        transport = self._transport
        if transport is None or transport.is_closing():
            raise ConnectionBroken(None)
        self._done = asyncio.get_running_loop().create_future()
        self._reader = reader
        try:
            # One piece is one TLS record, and one packet; a copy of a long body would cost more than that.
            if len(body) < READ_BYTES:
                transport.write(head + body)
            else:
                transport.write(head)
                transport.write(body)
            await self._done
        except BaseException:
            self.abort()
            raise
        finally:
            self._reader = self._done = None

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # ---- what the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._opened.add(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        reader, done = self._reader, self._done
        if reader is None or done is None or done.done():
            self.abort()  # No request is pending.
            return
        try:
            reader.feed(bytes(self._buffer[:nbytes]))
        except ValueError as error:
            done.set_exception(error)
            return
        if reader.is_complete:
            done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._opened.discard(self)
        if self._done is None or self._done.done() or self._reader is None:
            return
        self._reader.feed_eof()
        if self._reader.is_complete:
            self._done.set_result(None)
        else:
            self._done.set_exception(ConnectionBroken(exc))


class _Slots:
    """The connections to one destination. users: how many requests are in progress, or wait for a
    connection.
    """

    def __init__(self) -> None:
        self.idle: deque[WebhookConnection] = deque()
        self.free = asyncio.Semaphore(CONNECTIONS_MAX)
        self.connecting = asyncio.Semaphore(CONNECTING_MAX)
        self.users = 0

    def take(self) -> WebhookConnection | None:
        """Returns the connection that was used last."""
        while self.idle:
            connection = self.idle.pop()
            if connection.is_open:
                return connection
        return None


class ConnectionPool:
    """The connections to all webhooks, busy and idle ones."""

    def __init__(self, resolver: Resolver, keep_alive_s: float = KEEP_ALIVE_S) -> None:
        """keep_alive_s: how long a connection waits for the next request."""
        self._resolver = resolver
        self._keep_alive_s = keep_alive_s
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._opened: set[WebhookConnection] = set()
        self._slots: dict[ConnectionTarget, _Slots] = {}
        self._sweep: asyncio.TimerHandle | None = None
        # Until when they count, by the loop's clock.
        self._addresses: dict[tuple[str, int], tuple[float, Sequence[ResolvedAddress]]] = {}

    @property
    def open_connections(self) -> int:
        """The number of open connections, busy or idle."""
        return len(self._opened)

    async def exchange(self, place: ConnectionTarget, head: bytes, body: bytes, reader: AnswerReader) -> None:
        """Send a request, on an idle connection or a new one, and wait until its response is complete.

        Raises ConnectFailed, ConnectionBroken, and the errors of the reader and of the resolver.
        """
        with self._slots_of(place) as slots:
            async with slots.free:
                connection = slots.take() or await self._connect(place, slots)
                await connection.exchange(head, body, reader)
                if reader.keeps_open and connection.is_free:
                    self._keep(slots, connection)
                else:
                    connection.abort()

    @contextlib.contextmanager
    def _slots_of(self, place: ConnectionTarget) -> Iterator[_Slots]:
        slots = self._slots.get(place)
        if slots is None:
            slots = self._slots[place] = _Slots()
        slots.users += 1
        try:
            yield slots
        finally:
            slots.users -= 1
            if not slots.users and not slots.idle:
                self._slots.pop(place, None)

    # ---- connections that wait

    def _keep(self, slots: _Slots, connection: WebhookConnection) -> None:
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        slots.idle.append(connection)
        if self._sweep is None:
            self._sweep = loop.call_later(self._keep_alive_s, self._close_idle, context=no_request())

    def _close_idle(self) -> None:
        """Close connections that were idle for long, and schedule another check if some are left."""
        loop = asyncio.get_running_loop()
        oldest = loop.time() - self._keep_alive_s
        for place, slots in [*self._slots.items()]:
            while slots.idle and (not slots.idle[0].is_open or slots.idle[0].idle_since <= oldest):
                slots.idle.popleft().abort()
            if not slots.idle and not slots.users:
                del self._slots[place]
        is_needed = any(slots.idle for slots in self._slots.values())
        self._sweep = (
            loop.call_later(self._keep_alive_s, self._close_idle, context=no_request()) if is_needed else None
        )

    async def close(self) -> None:
        """Close all connections; requests that wait for a response fail with ConnectionBroken."""
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in [*self._opened]:
            connection.abort()
        # Their sockets are closed in the next turns of the event loop.
        for _ in range(CLOSING_TURNS):
            if not self._opened:
                return
            await asyncio.sleep(0)

    # ---- new ones

    async def _connect(self, place: ConnectionTarget, slots: _Slots) -> WebhookConnection:
        addresses = await self._known_addresses(place.host, place.port)
        async with slots.connecting:
            # One may have come free meanwhile.
            if (connection := slots.take()) is not None:
                return connection
            try:
                if len(addresses) == 1:
                    return await self._connect_to(place, addresses[0])
                return await self._connect_to_first(place, addresses)
            except OSError as error:
                raise ConnectFailed(error) from None

    async def _known_addresses(self, host: str, port: int) -> Sequence[ResolvedAddress]:
        now, known = asyncio.get_running_loop().time(), self._addresses.get((host, port))
        if known is not None and now < known[0]:
            return known[1]
        found = (await self._resolver.addresses(host, port))[:ADDRESSES_MAX]
        if len(self._addresses) >= PLACES_MAX:
            self._addresses.clear()
        self._addresses[host, port] = now + ADDRESSES_TTL_S, found
        return found

    async def _connect_to(self, place: ConnectionTarget, address: ResolvedAddress) -> WebhookConnection:
        """Opens a connection to an address."""
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: WebhookConnection(self._buffer, self._opened),
            address.host,
            address.port,
            ssl=place.context,
            server_hostname=place.server_name if place.context is not None else None,
        )
        return connection

    async def _connect_to_first(
        self, place: ConnectionTarget, addresses: Sequence[ResolvedAddress]
    ) -> WebhookConnection:
        """Returns a connection to the first of several addresses that accepts one, tried in their order.

        Raises OSError.

        The next address is tried when one before has failed, or takes long.
        """
        left = deque(addresses)
        tasks: list[asyncio.Task[WebhookConnection]] = []
        pending: set[asyncio.Task[WebhookConnection]] = set()
        winner: asyncio.Task[WebhookConnection] | None = None
        failure: OSError = OSError("no address")
        try:
            while left or pending:
                if left:
                    tasks.append(asyncio.create_task(self._connect_to(place, left.popleft())))
                    pending.add(tasks[-1])
                done, pending = await asyncio.wait(
                    pending,
                    timeout=NEXT_ADDRESS_AFTER_S if left else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for task in done:
                    try:
                        connection = task.result()
                    except ssl.SSLError:
                        raise  # The other side has answered.
                    except OSError as error:
                        failure = error
                    else:
                        winner = task
                        return connection
        finally:
            for task in tasks:
                if task is not winner:
                    task.cancel()
                    task.add_done_callback(_abort_unwanted)
        raise failure


def _abort_unwanted(attempt: asyncio.Task[WebhookConnection]) -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().abort()
