"""One WebSocket: its subscriptions, and whether its client is still authenticated."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final, NamedTuple

import orjson
from aiohttp import WSCloseCode, WSMsgType, hdrs, web

from apiserver.auth.authn.chain import Authenticate, Credentials, Identity
from apiserver.auth.authn.peer_certificates import PeerCertificates
from apiserver.auth.authn.token_file import bearer_token
from apiserver.console.watches.client_messages import (
    BrokenProtocol,
    Renew,
    Subscribe,
    Unsubscribe,
    read_message,
)
from apiserver.console.watches.subscription import Subscription, end_message
from apiserver.console.watches.watch_requests import PassedHeaders, watch_request
from apiserver.endpoints import console_paths
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.cors import AllowedOrigins
from apiserver.endpoints.middleware import identify
from apiserver.endpoints.websocket import CLOSE_WITHIN_S
from apiserver.load.token_bucket import TokenBucket
from apiserver.meta.errors import ApiError, TooManyRequests, Unauthorized
from apiserver.meta.vocabulary import ANONYMOUS, UNAUTHENTICATED, UserInfo
from apiserver.storage.event_loop_turns import Turn

SUBSCRIPTIONS_MAX: Final = 64
# A page that comes back subscribes to all of its watches at once, and then to some as its user looks around.
MESSAGES_AT_ONCE: Final = 2 * SUBSCRIPTIONS_MAX
MESSAGES_PER_S: Final = 20
# Subscriptions whose requests have no answer yet: as many connections as browsers have to one server. Others
# begin later, so that a client does not request faster than over connections on which it waits for answers.
BEGINNING_MAX: Final = 6
# A code for applications (RFC 6455, 7.4.2), with the one of HTTP in it.
UNAUTHENTICATED_CODE: Final = 4401


class WatchAccess(NamedTuple):
    """How clients of the WebSockets are authenticated.

    authenticate, certificates: as for other requests. origins: of the pages that may open WebSockets.
    recheck_interval_s: the time between two authentications of a client; 0 for never.
    """

    authenticate: Authenticate
    certificates: PeerCertificates
    origins: AllowedOrigins
    recheck_interval_s: float


class Closing(NamedTuple):
    """How a WebSocket is closed. error: that of its subscriptions; None if they may be resumed."""

    code: int
    reason: str = ""
    error: ApiError | None = None


class Multiplexer:
    """The subscriptions of one WebSocket."""

    def __init__(
        self,
        call: ApiCall,
        socket: web.WebSocketResponse,
        access: WatchAccess,
        passed: PassedHeaders,
        token: str,
    ) -> None:
        """call: its handshake, already answered. passed: the headers of subscriptions.

        token: the one among the subprotocols of the handshake; empty if there is none.
        """
        self._call, self._connection, self._socket = call, call.connection, socket
        self._access, self._passed = access, passed
        header = call.request.headers.get(hdrs.AUTHORIZATION, "")
        self._authorization = f"Bearer {token}" if token and not bearer_token(header) else header
        self._loop = loop = asyncio.get_running_loop()
        self._throttle = TokenBucket(MESSAGES_PER_S, MESSAGES_AT_ONCE, loop.time)
        # By their numbers; those that wait to begin in the order in which they will.
        self._waiting: dict[int, Subscribe] = {}
        self._subscriptions: dict[int, Subscription] = {}
        self._beginning: set[Subscription] = set()
        self._paused: list[Subscription] = []
        self._writable = asyncio.Event()
        self._writable.set()
        self._leaving: asyncio.Future[None] = loop.create_future()
        self._all_ended = asyncio.Event()

    async def run(self) -> None:
        """Serve the WebSocket until it is closed, or the client is gone."""
        self._connection.on_finish = self._leave
        reading = asyncio.ensure_future(self._read())
        try:
            closing = await self._until_closing(reading)
            reading.cancel()
            await asyncio.wait([reading])
            self._end_waiting(closing.error)
            if closing.code == WSCloseCode.GOING_AWAY:
                await self._until_all_ended()
            self._end_all(closing.error)
            await self._close(closing)
        finally:
            reading.cancel()
            self._connection.on_finish = self._connection.on_writable = None
            self._end_all(None)

    # ---- what subscriptions need

    @property
    def transport(self) -> asyncio.Transport | None:
        return self._connection.transport

    def send(self, subscription: Subscription, frames: bytes) -> None:
        self._write(frames)
        if self._connection.writing_paused and subscription.pause():
            self._paused.append(subscription)

    def _write(self, messages: bytes) -> None:
        transport = self._connection.transport
        if transport is None or transport.is_closing() or self._socket.closed:
            return  # The client is gone, or has closed the WebSocket.
        transport.write(messages)
        if self._connection.writing_paused and self._writable.is_set():
            self._writable.clear()
            self._connection.on_writable = self._resume

    def begun(self, subscription: Subscription) -> None:
        self._beginning.discard(subscription)
        if self._waiting:
            # Not within a call of another subscription.
            self._loop.call_soon(self._begin_waiting)

    def ended(self, subscription: Subscription) -> None:
        self._subscriptions.pop(subscription.number, None)
        self.begun(subscription)
        if not self._subscriptions:
            self._all_ended.set()

    def _resume(self) -> None:
        paused, self._paused = self._paused, []
        self._writable.set()
        for each in paused:
            each.resume()

    # ---- messages of the client

    async def _read(self) -> Closing:
        """Handle the client's messages. Returns how the WebSocket has been, or is to be, closed."""
        turn = Turn()
        try:
            while True:
                received = await self._socket.receive()
                if delay_s := self._throttle.reserve():
                    await asyncio.sleep(delay_s)
                # Answers to messages would wait for the client, too.
                await self._writable.wait()
                if received.type is WSMsgType.TEXT:
                    self._handle(received.data)
                elif received.type is WSMsgType.PING:
                    await self._socket.pong(received.data)
                elif received.type is WSMsgType.BINARY:
                    raise BrokenProtocol("a message must be text")
                elif received.type is not WSMsgType.PONG:
                    return Closing(WSCloseCode.OK)
                if turn.is_over():
                    await turn.next()
        except BrokenProtocol as error:
            return Closing(WSCloseCode.POLICY_VIOLATION, str(error))
        except ConnectionError:
            return Closing(WSCloseCode.OK)  # The client is gone.

    def _handle(self, text: str) -> None:
        """Handle a message. Raises BrokenProtocol, ConnectionError."""
        match read_message(text):
            case Subscribe() as wanted:
                self._subscribe(wanted)
            case Renew(token):
                self._authorization = f"Bearer {token}"
            case Unsubscribe(number):
                if number in self._subscriptions:
                    self._subscriptions[number].end()
                elif self._waiting.pop(number, None) is not None:
                    self._refuse(number, None)
                # Otherwise it has ended in the meantime.

    def _subscribe(self, wanted: Subscribe) -> None:
        if wanted.id in self._subscriptions or wanted.id in self._waiting:
            raise BrokenProtocol(f"subscribe: id {wanted.id} is in use")
        if len(self._subscriptions) + len(self._waiting) >= SUBSCRIPTIONS_MAX:
            self._refuse(
                wanted.id, TooManyRequests(f"a WebSocket may have at most {SUBSCRIPTIONS_MAX} subscriptions")
            )
            return
        self._waiting[wanted.id] = wanted
        self._begin_waiting()

    def _begin_waiting(self) -> None:
        """Begin subscriptions that wait, as many as may begin now."""
        while self._waiting and len(self._beginning) < BEGINNING_MAX and self._connection.connected:
            number = next(iter(self._waiting))
            wanted = self._waiting.pop(number)
            try:
                request = watch_request(wanted, self._passed, self._authorization)
            except ApiError as error:
                self._refuse(number, error)
                continue
            subscription = Subscription(number, self._connection.sibling(), self)
            self._subscriptions[number] = subscription
            self._beginning.add(subscription)
            subscription.begin(request)

    def _refuse(self, number: int, error: ApiError | None) -> None:
        """End a subscription that has not begun. error: None if the client may resume it."""
        self._write(end_message(number, None if error is None else orjson.dumps(error.status())))

    # ---- the end

    def _leave(self) -> None:
        """Close the WebSocket, because the server is stopping and has ended all watches."""
        if not self._leaving.done():
            self._leaving.set_result(None)

    async def _until_closing(self, reading: asyncio.Future[Closing]) -> Closing:
        """Wait until the WebSocket has to be closed; authenticate the client again at intervals meanwhile."""
        interval_s = self._access.recheck_interval_s or None
        while True:
            waited_for = (reading, self._leaving)
            await asyncio.wait(waited_for, timeout=interval_s, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                return reading.result()
            if self._leaving.done():
                return Closing(WSCloseCode.GOING_AWAY, "the server is stopping")
            if not await self._is_authenticated():
                return Closing(UNAUTHENTICATED_CODE, "Unauthorized", Unauthorized())

    async def _is_authenticated(self) -> bool:
        """Returns whether the client's credentials are still valid, and ends subscriptions of others.

        They belong to others if the token was renewed, and the new one is another user's, or gives another
        identity to the same user, who may be in other groups. Clients resume them with that token.
        """
        certificate = self._connection.certificate or identify(self._connection, self._access.certificates)
        credentials = Credentials(certificate, self._authorization, self._call.request.headers)
        try:
            found = await self._access.authenticate(credentials, console_paths.WATCHES)
        except TooManyRequests:
            return True  # It is not known; the next time it may be.
        except ApiError:
            return False
        user = found.user if isinstance(found, Identity) else found
        if is_anonymous(user):
            return False
        for each in list(self._subscriptions.values()):
            if each.asker not in (None, user):
                each.end()
        return True

    async def _until_all_ended(self) -> None:
        """Wait a moment for the last messages of the watches that the server has ended."""
        self._all_ended.clear()
        if self._subscriptions:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_WITHIN_S):
                    await self._all_ended.wait()

    def _end_waiting(self, error: ApiError | None) -> None:
        waiting, self._waiting = self._waiting, {}
        for number in waiting:
            self._refuse(number, error)

    def _end_all(self, error: ApiError | None) -> None:
        self._end_waiting(error)
        for each in list(self._subscriptions.values()):
            each.end(error)

    async def _close(self, closing: Closing) -> None:
        """Close the WebSocket, and wait a little for the client to do so, too."""
        try:
            async with asyncio.timeout(CLOSE_WITHIN_S):
                await self._socket.close(code=closing.code, message=closing.reason.encode(), drain=False)
        except TimeoutError:
            if self._connection.transport is not None:
                self._connection.transport.abort()


def is_anonymous(user: UserInfo) -> bool:
    return user.name == ANONYMOUS or UNAUTHENTICATED in user.groups
