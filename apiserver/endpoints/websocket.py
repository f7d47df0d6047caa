"""Provides watches over WebSocket, as web pages open them: each event is a message.

The handshake, the frames of the client and the closing handshake are aiohttp's (`WebSocketResponse`).
The frames with events are made here: aiohttp would encode them again for each client, and send them from a
coroutine for each. Here an event is framed once for all watches of the same form, and written by
`WatchStreams.flush_queue` in its turn. A frame from a server is its length and the data; the data is never
masked, fragmented or compressed.

Like any watch, it buffers only what its connection and its watcher's queue hold, and ends when its time is
up. Messages from clients are dropped. aiohttp accepts unmasked frames from clients, which RFC 6455 forbids.

Sources: k8s.io/apiserver, pkg/endpoints/handlers/watch.go, HandleWS; golang.org/x/net/websocket. The
subprotocols `binary.k8s.io` and `base64.binary.k8s.io` change nothing for a watch; they do for logs.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from aiohttp import WSMessage, WSMsgType, hdrs, web

from apiserver.auth.authn.websocket_protocols import read_protocols
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.cors import AllowedOrigins
from apiserver.endpoints.representation import Encoder
from apiserver.endpoints.responses import begin_response, warning_values
from apiserver.golang.quoting import go_quote
from apiserver.meta.errors import BadRequest, Forbidden
from apiserver.storage.event_loop_turns import Turn

# Longer messages of a client end its watch; it need not send any.
CLIENT_MESSAGE_BYTES_MAX: Final = 64 * 1024
# How long the client has to answer that the WebSocket is closed.
CLOSE_WITHIN_S: Final = 2.0
VERSION: Final = "13"

_FINAL: Final = 0x80
# Lengths up to this one are in the second byte of a frame; greater values there say that two or eight follow.
_SHORT_MAX: Final = 125
_TWO_BYTES, _EIGHT_BYTES = 126, 127
# Sixteen bytes in base64.
_KEY: Final = re.compile(r"[A-Za-z0-9+/]{22}==")
_PROTOCOL: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def asks_for_websocket(request: web.BaseRequest) -> bool:
    """Whether a request is the client's part of a WebSocket handshake."""
    headers = request.headers
    if headers.get(hdrs.UPGRADE, "").strip().lower() != "websocket":
        return False
    options = ",".join(headers.getall(hdrs.CONNECTION, ())).lower().split(",")
    return any(option.strip() == "upgrade" for option in options)


def message(opcode: int, payload: bytes) -> bytes:
    """Returns a message of a server, in one frame (RFC 6455, 5.2)."""
    return message_head(opcode, len(payload)) + payload


def message_head(opcode: int, size: int) -> bytes:
    """Returns what precedes the payload of a message of a server. size: of the payload, in bytes."""
    if size <= _SHORT_MAX:
        return b"%c%c" % (_FINAL | opcode, size)
    if size < 1 << 16:
        return b"%c%c%b" % (_FINAL | opcode, _TWO_BYTES, size.to_bytes(2, "big"))
    return b"%c%c%b" % (_FINAL | opcode, _EIGHT_BYTES, size.to_bytes(8, "big"))


def split_messages(messages: bytes) -> Sequence[bytes]:
    """Returns each of the messages that `message` has made."""
    found, position = [], 0
    while position < len(messages):
        size, head = messages[position + 1], 2
        if size > _SHORT_MAX:
            head += 2 if size == _TWO_BYTES else 8
            size = int.from_bytes(messages[position + 2 : position + head], "big")
        end = position + head + size
        found.append(messages[position:end])
        position = end
    return found


def _event_message(opcode: int, head_bytes: int, event: bytes) -> bytes:
    return message(opcode, event[head_bytes:])


class WebSocketEvents:
    """Sends the events of one watch as messages. See `watch_stream.EventTransport`."""

    # Distinguishes these frames from those of `responses.Stream`.
    framing = "message"

    def __init__(self, call: ApiCall, socket: web.WebSocketResponse, encoder: Encoder) -> None:
        opcode = WSMsgType.TEXT if encoder.is_text else WSMsgType.BINARY
        # A message has its own ends: what marks off events in a stream of bytes is not sent.
        self.frame = partial(_event_message, opcode.value, encoder.event_head_bytes)
        self._connection = call.connection
        self._socket = socket
        self._reading = asyncio.get_running_loop().create_task(self._read())

    @property
    def can_write(self) -> bool:
        """Whether the client has read what was written before, and is connected."""
        connection = self._connection
        is_open = connection.transport is not None and not self._socket.closed
        return is_open and not connection.writing_paused

    def write(self, event: bytes) -> None:
        self.write_frames(self.frame(event))

    def write_frames(self, frames: bytes) -> None:
        transport = self._connection.transport
        if transport is None or self._socket.closed:
            raise ConnectionResetError("the client is gone")
        transport.write(frames)

    async def drain(self) -> None:
        await self._connection.drain()

    def abort(self) -> None:
        if self._connection.transport is not None:
            self._connection.transport.abort()

    async def close(self) -> None:
        """Close the WebSocket, with the code 1000, and wait a little for the client to do so, too."""
        # aiohttp waits for the client's response only if no other task receives.
        self._reading.cancel()
        await asyncio.wait([self._reading])
        try:
            async with asyncio.timeout(CLOSE_WITHIN_S):
                await self._socket.close(drain=False)
        except TimeoutError:
            self.abort()

    async def _read(self) -> None:
        """Answer pings, and close the WebSocket when the client closes it or breaks its rules."""
        # Whether the client is still there is seen when the connection is lost.
        with contextlib.suppress(ConnectionError):
            turn = Turn()
            while not self._socket.closed:
                received = await self._socket.receive()
                if received.type is WSMsgType.PING:
                    await self._socket.pong(received.data)
                # Thousands of small messages may have come at once, for which nothing waits.
                if turn.is_over():
                    await turn.next()


class _WebSocket(web.WebSocketResponse):
    """A WebSocket that leaves no cycles to the garbage collector when it ends.

    aiohttp keeps the exception that ended it, whose frames refer to it and to its whole connection.
    """

    async def close(self, **options: Any) -> bool:
        try:
            return await super().close(**options)
        finally:
            self._forget_frames()

    async def receive(self, timeout: float | None = None) -> WSMessage:
        try:
            return await super().receive(timeout)
        finally:
            if self.closed:
                self._forget_frames()

    def _forget_frames(self) -> None:
        failure = self.exception()
        while failure is not None:
            failure.__traceback__ = None
            failure = failure.__context__


async def open_websocket(call: ApiCall, encoder: Encoder, origins: AllowedOrigins) -> WebSocketEvents:
    """Answer the WebSocket handshake of a call. Raises BadRequest, Forbidden."""
    protocols = read_protocols(call.request.headers.getall(hdrs.SEC_WEBSOCKET_PROTOCOL, ())).others
    if len(protocols) > 1:
        raise BadRequest(
            "Sec-WebSocket-Protocol: a watch can offer at most one subprotocol besides the token"
        )
    protocol = protocols[0] if protocols else ""
    if protocol and not _PROTOCOL.fullmatch(protocol):
        raise BadRequest("Sec-WebSocket-Protocol: is not a token")
    socket = await accept_websocket(call, origins, protocol, CLIENT_MESSAGE_BYTES_MAX)
    return WebSocketEvents(call, socket, encoder)


async def accept_websocket(
    call: ApiCall, origins: AllowedOrigins, protocol: str, message_bytes_max: int
) -> web.WebSocketResponse:
    """Answer a WebSocket handshake, with the given subprotocol.

    protocol: one that the client offers; empty for none.

    Raises BadRequest, Forbidden.
    """
    require_allowed_origin(call.request, origins)
    clean = _handshake(call.request, protocol)
    socket = _WebSocket(
        protocols=[protocol] if protocol else [],
        timeout=CLOSE_WITHIN_S,
        autoping=False,  # `receive` would not return, nor wait, between pings and pongs that come at once.
        compress=False,
        max_msg_size=message_bytes_max,
    )
    # aiohttp sees, and logs, nothing else of what the client has sent, which may contain its token.
    request = call.request.clone(headers=clean)
    # A task that was cancelled has frames that refer to its request: aiohttp does this only for its own.
    request._task = None  # type: ignore[assignment]
    if not socket.can_prepare(request):
        raise BadRequest("the WebSocket handshake is not valid")
    socket.headers[hdrs.SERVER] = "apiserver"
    socket.headers["Audit-Id"] = call.audit_id.encode("ascii", "replace").decode()
    for value in warning_values(call.warnings):
        socket.headers.add(hdrs.WARNING, value.decode())
    begin_response(call, 101)
    call.closes_connection = True
    await socket.prepare(request)
    return socket


def require_allowed_origin(request: web.BaseRequest, origins: AllowedOrigins) -> None:
    """Refuse a web page whose origin may not open WebSockets. Raises Forbidden."""
    origin = request.headers.get(hdrs.ORIGIN, "")
    if not origins.allows_websocket(origin, request.headers.get(hdrs.HOST, "")):
        raise Forbidden(f"the origin {go_quote(origin)} is not allowed by --cors-allowed-origins")


def _handshake(request: web.BaseRequest, protocol: str) -> Mapping[str, str]:
    """Returns the relevant headers of a handshake, once they are checked. Raises BadRequest."""
    headers = request.headers
    version = headers.get(hdrs.SEC_WEBSOCKET_VERSION, "")
    if version != VERSION:
        raise BadRequest(f"Sec-WebSocket-Version: {go_quote(version)} is not supported; use {VERSION}")
    key = headers.get(hdrs.SEC_WEBSOCKET_KEY, "")
    if not _KEY.fullmatch(key):
        raise BadRequest("Sec-WebSocket-Key: must be 16 bytes in base64")
    clean: dict[str, str] = {
        hdrs.UPGRADE: "websocket",
        hdrs.CONNECTION: hdrs.UPGRADE,
        hdrs.SEC_WEBSOCKET_VERSION: version,
        hdrs.SEC_WEBSOCKET_KEY: key,
    }
    if protocol:
        clean[hdrs.SEC_WEBSOCKET_PROTOCOL] = protocol
    return clean
