"""Client connections: aiohttp's protocol with extensions for this server."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Protocol, cast

import orjson
from aiohttp import web
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import BadHttpMethod

from apiserver.audit.event_fields import Caller
from apiserver.auth.authn.chain import PeerCertificate
from apiserver.load.offload import Offload
from apiserver.load.unread_answers import UnreadAnswers
from apiserver.meta.errors import ApiError, BadRequest, InternalError, MethodNotAllowed
from apiserver.meta.vocabulary import UserInfo
from apiserver.metrics.event_loop import EventLoopMonitor
from apiserver.tracing.request_trace import traced

# Also how long a client may take to send its headers: the clock starts with the connection, or with the
# previous response, and only a complete request stops it. kube-apiserver: 90 s idle, 32 s for headers.
IDLE_TIMEOUT_S: Final = 90.0
# Bearer tokens and label selectors can be long. Go allows 1 MB.
HEADER_BYTES_MAX: Final = 65_536
HEADERS_MAX: Final = 128
# The limit of kube-apiserver (row Q04).
BODY_BYTES_MAX: Final = 3 * 1024 * 1024
# About so much of a body that is not being read is kept; up to twice as much, and what came in one piece.
UNREAD_BYTES_MAX: Final = 64 * 1024
# When this many requests are queued on a connection, no more of them are read. Few clients send a request
# before the last one is answered, and queued requests may have bodies.
PIPELINED_REQUESTS_MAX: Final = 2
# What is held of another server's answer while the client does not take it.
RELAYED_BYTES: Final = 128 * 1024
# How long an unwanted body is read before the connection is closed.
LINGER_S: Final = 2.0
# How long a handler may take to end once it has been cancelled, when the server stops. aiohttp waits up to
# twice as long; 0 would mean forever.
CLOSE_WITHIN_S: Final = 0.1
# Counting requests would cost each of them; polling is enough for draining.
DRAIN_POLL_S: Final = 0.005


_ERROR_HEAD: Final = (
    b"HTTP/1.1 %d %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
)


class _AlreadySent(web.StreamResponse):
    """Signals to aiohttp that the response has been sent, and whether the connection stays open."""

    def __init__(self, *, keeps_alive: bool) -> None:
        super().__init__()
        self._keep_alive = keeps_alive

    async def prepare(self, request: web.BaseRequest) -> None:
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        return None


SENT: Final = _AlreadySent(keeps_alive=True)
SENT_LAST: Final = _AlreadySent(keeps_alive=False)


# The line that the parser quotes: its method is a token (RFC 9110, 9.1).
_IS_REQUEST_LINE: Final = re.compile(r"""b["'][-!#$%&'*+.^_`|~0-9A-Za-z]+ \S+ HTTP/1\.[01]["']""")


class RelayReceiver(Protocol):
    """Receives the bytes that a client sends once its connection has been upgraded."""

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Takes received bytes; returns whether the connection has ended, and the bytes that follow it."""
        ...

    def feed_eof(self) -> None:
        """Called when the connection is lost."""
        ...


class Connection(web.RequestHandler):
    """A client's connection.

    certificate: the identity that the client certificate proves, once that is known.
    is_last_answer: whether the connection must be closed after the current response.
    asker: the user of the last request whose user is known. offload: the last one of a user's request.
    audited: the user of the last recorded request, three headers of the client, and the record of both.
    held_bytes, is_shared, may_stall: see `unread_answers.UnreadConnection`.
    on_writable: called, once, when the transport takes data again.
    on_finish: ends the response that is under way, because the server is stopping, if it would not end by
        itself.
    """

    def __init__(self, manager: Server, **options: Any) -> None:
        super().__init__(manager, **options)
        self._max_msg_queue_size = PIPELINED_REQUESTS_MAX
        self._msg_queue_resume_size = PIPELINED_REQUESTS_MAX // 2
        self._unread_answers = manager.unread_answers
        self.asker: UserInfo | None = None
        self.offload: Offload | None = None
        self.audited: tuple[UserInfo | None, tuple[str, str, str], Caller] | None = None
        self.held_bytes = 0
        self.is_shared = False
        self.may_stall = False
        self._on_hesitation: Callable[[], None] | None = None
        self._loop_monitor = manager.loop_monitor
        self.certificate: PeerCertificate | None = None
        self.is_last_answer = False
        self.on_writable: Callable[[], None] | None = None
        self.on_finish: Callable[[], None] | None = None

    @property
    def is_answering(self) -> bool:
        """Whether a request is in flight on the connection."""
        return self._current_request is not None

    @property
    def idle_since(self) -> float | None:
        """The time at which the connection became idle, by the loop's clock; None while it is in use."""
        if self._waiter is None or self.writing_paused:
            return None
        return self._next_keepalive_close_time - self._keepalive_timeout

    def prolong_idleness(self, seconds: float) -> None:
        self._next_keepalive_close_time += seconds

    def sibling(self) -> Connection:
        """Returns a new connection of the same server for the same client, which has no transport yet.

        Raises ConnectionResetError if this one is lost.
        """
        if self._manager is None:
            raise ConnectionResetError("the client is gone")
        sibling = cast(Server, self._manager)()
        sibling.certificate = self.certificate
        return sibling

    def data_received(self, data: bytes) -> None:
        if self._loop_monitor.is_resting:
            self._loop_monitor.wake()
        super().data_received(data)
        request = self._current_request
        if (
            request is not None
            and self._messages
            and not isinstance(self._messages[-1][0], RawRequestMessage)
            and not request.content.is_eof()
        ):
            # The parser failed in the middle of a body. aiohttp reports it to the next request, but not to
            # the one in flight, which would wait for the rest until it times out.
            request.content.set_exception(web.RequestPayloadError("the body is not valid HTTP"))

    def begin_relay(self, receiver: RelayReceiver) -> None:
        """Pass all that the client sends from now on to a receiver, because the protocol is no longer
        HTTP.
        """
        # aiohttp asks no more of what reads its WebSockets.
        self.set_parser(cast(Any, receiver))

    @contextmanager
    def relaying(self) -> Iterator[None]:
        """Let the client read another server's response as slowly as it likes, since little of it is held."""
        self.may_stall, self.held_bytes = True, RELAYED_BYTES
        try:
            yield
        finally:
            self.may_stall, self.held_bytes = False, 0

    def finish(self) -> None:
        """Close the connection now if no request is in flight, otherwise after the response.

        aiohttp's own `close` discards what arrives afterwards: a body that is still being sent would never be
        complete.
        """
        self.is_last_answer = True
        if not self.is_answering:
            self.force_close()
        elif self.on_finish is not None:
            self.on_finish()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.transport is not None:
            self._unread_answers.add(self, self.transport)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread_answers.discard(self)
        self._call_on_writable()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._unread_answers.discard(self)
        super().connection_lost(exc)
        self._call_on_writable()

    def on_hesitation(self) -> None:
        callback, self._on_hesitation = self._on_hesitation, None
        if callback is not None:
            callback()

    async def drain(self, on_hesitation: Callable[[], None] | None = None) -> None:
        """Wait until the client has read what was written.

        on_hesitation: called, once, if the client reads nothing for a moment.
        Raises ConnectionResetError, also if `unread_answers` has dropped the connection.
        """
        if self.writing_paused:
            writable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.on_writable = lambda: None if writable.done() else writable.set_result(None)
            self._on_hesitation = on_hesitation
            try:
                await traced("response", writable)
            finally:
                self._on_hesitation = None
        if self.transport is None:
            raise ConnectionResetError("the client is gone")

    def _call_on_writable(self) -> None:
        callback, self.on_writable = self.on_writable, None
        if callback is not None:
            callback()

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Log an error of this server, but not what aiohttp finds in a body that it only discards."""
        if not isinstance(kw.get("exc_info"), web.RequestPayloadError):
            super().log_exception(*args, **kw)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Returns a response that has been sent, and whether the client has left while that was done."""
        if self._upgraded or not isinstance(resp, _AlreadySent):
            return await super().finish_response(request, resp, start_time)
        return resp, False

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Respond with a Status to input that is not HTTP, and to failures outside of the handler."""
        error: ApiError
        if isinstance(exc, ConnectionError):
            return SENT_LAST  # The client has disconnected: no response is possible, and nothing has failed.
        if status == 500:
            self.log_exception("Error handling request", exc_info=exc)
            error = InternalError("Internal error occurred")
        elif isinstance(exc, BadHttpMethod) and _IS_REQUEST_LINE.search(exc.message):
            error = MethodNotAllowed()  # The parser knows the methods that are registered, and a few more.
        else:
            error = BadRequest("the request is not valid HTTP")
        body = orjson.dumps(error.status())
        if request.transport is not None:
            request.transport.write(
                _ERROR_HEAD % (error.code, HTTPStatus(error.code).phrase.encode(), len(body)) + body
            )
        return SENT_LAST


class Server(web.Server):
    """Creates a `Connection` for each connection, and closes them all.

    handler: responds to a request.
    idle_timeout_s: how long a connection may stay open without a complete head of a request.
    unread_answers: bounds the responses that clients do not read.
    loop_monitor: measures the event loop, if it runs.
    """

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        *,
        idle_timeout_s: float = IDLE_TIMEOUT_S,
        unread_answers: UnreadAnswers | None = None,
        loop_monitor: EventLoopMonitor | None = None,
    ) -> None:
        # Getting the running loop is a system call in Python 3.11: too slow for each request.
        self._running_loop = asyncio.get_running_loop()
        super().__init__(
            handler,
            request_factory=partial(web.BaseRequest, loop=self._running_loop, client_max_size=BODY_BYTES_MAX),
            handler_cancellation=True,  # when the client is gone
        )
        self._idle_timeout_s = idle_timeout_s
        self._is_draining = self._is_leaving = False
        self.unread_answers = unread_answers or UnreadAnswers(self._running_loop)
        self.loop_monitor = loop_monitor or EventLoopMonitor(self._running_loop)

    def __call__(self) -> Connection:
        return Connection(
            self,
            loop=self._running_loop,
            access_log=None,
            keepalive_timeout=self._idle_timeout_s,
            lingering_time=LINGER_S,
            read_bufsize=UNREAD_BYTES_MAX,
            max_line_size=HEADER_BYTES_MAX,
            max_field_size=HEADER_BYTES_MAX,
            max_headers=HEADERS_MAX,
            auto_decompress=False,  # no client compresses requests, except for decompression bombs
        )

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        if self._is_leaving and isinstance(handler, Connection):
            handler.is_last_answer = True
        if self._is_draining:
            # Its TLS handshake was in progress when draining began.
            handler.force_close()

    def idle_since(self, protocol: asyncio.BaseProtocol) -> float | None:
        """Returns when a connection became idle, by the loop's clock; None while it has a request."""
        return protocol.idle_since if isinstance(protocol, Connection) else None

    def sender_of(self, protocol: asyncio.BaseProtocol) -> str:
        """Returns the user of the last request on a connection whose user is known; "" if there is none."""
        if not isinstance(protocol, Connection) or protocol.asker is None:
            return ""
        return protocol.asker.name

    def prolong_idleness(self, seconds: float) -> None:
        """Let connections be idle for longer, because the loop's clock was advanced but not the clients'."""
        for connection in self._open_connections():
            connection.prolong_idleness(seconds)

    def close_after_answers(self) -> None:
        """Close each connection after its next response, so that its client connects to another server."""
        self._is_leaving = True
        for connection in self._open_connections():
            connection.is_last_answer = True

    async def drain(self, timeout_s: float) -> None:
        """Accept no new requests, finish those in flight, then close the remaining connections after
        `timeout_s`.
        """
        self._is_draining = True
        for connection in self._open_connections():
            connection.finish()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while any(each.is_answering for each in self._open_connections()):  # noqa: ASYNC110
                    await asyncio.sleep(DRAIN_POLL_S)
        await self.shutdown(CLOSE_WITHIN_S)

    def forget_certificates(self) -> None:
        """Forget what client certificates prove, because the trusted CAs have changed."""
        for connection in self._open_connections():
            connection.certificate = None

    def _open_connections(self) -> list[Connection]:
        return cast(list[Connection], self.connections)
