"""Accepts the WebSockets of /console/watches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from aiohttp import hdrs

from apiserver.auth.authn.websocket_protocols import read_protocols
from apiserver.console.watches.multiplexer import Multiplexer, WatchAccess, is_anonymous
from apiserver.console.watches.watch_requests import PassedHeaders
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.websocket import accept_websocket, asks_for_websocket
from apiserver.load.user_shares import SharedPool, holder_of
from apiserver.meta.errors import BadRequest, MethodNotAllowed, TooManyRequests, Unauthorized
from apiserver.meta.vocabulary import UserInfo
from apiserver.metrics.requests import RequestMetrics

PROTOCOL: Final = "watches.v1"
MESSAGE_BYTES_MAX: Final = 64 * 1024
# Some hundred kilobytes each, with the state of TLS and some watches.
SOCKETS_MAX: Final = 500
# One for each tab of a browser, and people share accounts.
SOCKETS_PER_USER_MAX: Final = 100


class WatchesEndpoint:
    """The open WebSockets of /console/watches, within their bounds."""

    def __init__(self, access: WatchAccess, metrics: RequestMetrics) -> None:
        self._access, self._metrics = access, metrics
        self._places = SharedPool(SOCKETS_MAX)

    async def respond(self, call: ApiCall) -> None:
        """Serve a WebSocket until it is closed. Raises ApiError for handshakes that are refused."""
        if call.info.method != hdrs.METH_GET:
            raise MethodNotAllowed
        if not asks_for_websocket(call.request):
            raise BadRequest("this path is served only to WebSockets")
        user = call.impersonator or call.user
        if is_anonymous(user):
            raise Unauthorized
        offered = read_protocols(call.request.headers.getall(hdrs.SEC_WEBSOCKET_PROTOCOL, ()))
        if PROTOCOL not in offered.others:
            raise BadRequest(f"Sec-WebSocket-Protocol: must offer {PROTOCOL}")
        passed = PassedHeaders.of(call.request.raw_headers)
        with self._place(user), self._metrics.long_running(call):
            socket = await accept_websocket(call, self._access.origins, PROTOCOL, MESSAGE_BYTES_MAX)
            await Multiplexer(call, socket, self._access, passed, offered.token).run()

    @contextmanager
    def _place(self, user: UserInfo) -> Iterator[None]:
        """Reserves a place for a WebSocket. Raises TooManyRequests."""
        holder = holder_of(user)
        if self._places.held(holder) >= SOCKETS_PER_USER_MAX or not self._places.take(holder):
            raise TooManyRequests("Too many WebSockets, please try again later.")
        try:
            yield
        finally:
            self._places.give_back(holder)
