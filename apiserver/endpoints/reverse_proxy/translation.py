"""Translates WebSockets of clients for kubelets that speak SPDY: a shell, and ports.

Kubelets know the protocols of shells up to v4; v5 can also signal the end of the input. So this server
terminates the WebSocket, and is the client of SPDY. Ports are simpler: the WebSocket carries SPDY unchanged.
Source: k8s.io/kubernetes, pkg/registry/core/pod/rest; k8s.io/apiserver, pkg/util/proxy (streamtranslator.go,
streamtunnel.go).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import orjson
from aiohttp import WSMsgType, web

from apiserver.auth.authn.websocket_protocols import read_protocols
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.cors import AllowedOrigins
from apiserver.endpoints.reverse_proxy.backends import BackendConnection, BackendConnector
from apiserver.endpoints.reverse_proxy.errors import BackendRequestFailed, ForwardingFailed
from apiserver.endpoints.reverse_proxy.headers import Headers
from apiserver.endpoints.reverse_proxy.spdy import SpdyClient
from apiserver.endpoints.reverse_proxy.target import ProxyTarget
from apiserver.endpoints.reverse_proxy.upgrades import UNSENT_BYTES_MAX, ask, dial, first_of, refuse
from apiserver.endpoints.websocket import accept_websocket, asks_for_websocket
from apiserver.storage.event_loop_turns import Turn

SHELL_PROTOCOL: Final = "v5.channel.k8s.io"
PORTS_PROTOCOL: Final = "SPDY/3.1+portforward.k8s.io"
# Clients send what a terminal or a file gives them, some kilobytes at a time.
MESSAGE_BYTES_MAX: Final = 1024 * 1024
# A short Status reports how a shell has ended.
ERROR_BYTES_MAX: Final = 64 * 1024

_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE = range(5)
_CLOSE: Final = 255
_CHANNELS: Final = {"error": _ERROR, "stdin": _STDIN, "stdout": _STDOUT, "stderr": _STDERR, "resize": _RESIZE}
_FROM_CLIENT: Final = frozenset({_STDIN, _RESIZE})
_SUCCESS: Final = orjson.dumps({"metadata": {}, "status": "Success"})


class _ProtocolPair(NamedTuple):
    """The protocol of a WebSocket, and the kubelet's protocol that it is translated to."""

    protocol: str
    kubelet_protocol: str
    relay: Callable[[BackendConnection, web.WebSocketResponse], Coroutine[Any, Any, None]]


def protocol_to_translate(call: ApiCall) -> str:
    """Returns the offered protocol that kubelets do not support; empty if there is none."""
    if not asks_for_websocket(call.request):
        return ""
    offered = read_protocols(call.request.headers.getall("Sec-WebSocket-Protocol", ())).others
    return next((each for each in (SHELL_PROTOCOL, PORTS_PROTOCOL) if each in offered), "")


async def translate_shell(
    call: ApiCall,
    backends: BackendConnector,
    target: ProxyTarget,
    headers: Headers,
    *,
    origins: AllowedOrigins,
    streams: Sequence[str],
) -> None:
    """Relays a shell. streams: the shell's streams, except that of errors.

    Raises ForwardingFailed, AddressDenied, Forbidden, BadRequest.
    """

    async def relay(connection: BackendConnection, socket: web.WebSocketResponse) -> None:
        await _Shell(SpdyClient(*connection), socket).run(("error", *streams))

    pair = _ProtocolPair(SHELL_PROTOCOL, "v4.channel.k8s.io", relay)
    await _translate(call, backends, target, headers, origins, pair)


async def tunnel_ports(
    call: ApiCall,
    backends: BackendConnector,
    target: ProxyTarget,
    headers: Headers,
    *,
    origins: AllowedOrigins,
) -> None:
    """Relays forwarded ports. Raises ForwardingFailed, AddressDenied, Forbidden, BadRequest."""

    async def relay(connection: BackendConnection, socket: web.WebSocketResponse) -> None:
        await first_of(_messages_to(connection.writer, socket), _bytes_to(socket, connection.reader))

    pair = _ProtocolPair(PORTS_PROTOCOL, "portforward.k8s.io", relay)
    await _translate(call, backends, target, headers, origins, pair)


async def _translate(
    call: ApiCall,
    backends: BackendConnector,
    target: ProxyTarget,
    headers: Headers,
    origins: AllowedOrigins,
    pair: _ProtocolPair,
) -> None:
    connection = await dial(backends, target)
    try:
        head = await ask(connection, "POST", target, _spdy_headers(headers, pair.kubelet_protocol))
        if head.status >= 400:
            await refuse(call, connection, head)
            return
        if head.status != HTTPStatus.SWITCHING_PROTOCOLS:
            raise ForwardingFailed(f"invalid upgrade response: status code {head.status}")
        socket = await accept_websocket(call, origins, pair.protocol, MESSAGE_BYTES_MAX)
        with call.connection.relaying():
            await pair.relay(connection, socket)
            await socket.close()
    finally:
        connection.writer.close()


def _spdy_headers(headers: Headers, protocol: str) -> Headers:
    kept = [
        (name, value)
        for name, value in headers
        if not name.lower().startswith("sec-websocket-") and name.lower() not in ("connection", "upgrade")
    ]
    upgrade = [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", protocol)]
    return [*kept, *upgrade, ("Content-Length", "0")]


async def messages(socket: web.WebSocketResponse) -> AsyncIterator[bytes]:
    """Yields the messages of a client, until there are no more."""
    turn = Turn()
    while True:
        message = await socket.receive()
        # Thousands of small ones may have come at once, for which nothing waits.
        if turn.is_over():
            await turn.next()
        match message.type:
            case WSMsgType.BINARY:
                yield message.data
            case WSMsgType.TEXT:  # Go's server takes both for the same.
                yield message.data.encode()
            case WSMsgType.PING:
                await socket.pong(message.data)
            case WSMsgType.PONG:
                pass
            case _:
                return


async def _messages_to(writer: asyncio.StreamWriter, socket: web.WebSocketResponse) -> None:
    with contextlib.suppress(OSError):
        async for message in messages(socket):
            writer.write(message)
            await writer.drain()


async def _bytes_to(socket: web.WebSocketResponse, reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(UNSENT_BYTES_MAX):
            await socket.send_bytes(data)


class _Shell:
    """One shell, between a WebSocket and a kubelet."""

    def __init__(self, spdy: SpdyClient, socket: web.WebSocketResponse) -> None:
        self._spdy, self._socket = spdy, socket
        self._numbers: dict[int, int] = {}  # of SPDY's streams, by the WebSocket's channels
        self._has_left = False

    async def run(self, streams: Sequence[str]) -> None:
        """Relays until the shell has ended, or the client has disconnected."""
        with contextlib.suppress(OSError):
            for name in streams:
                self._numbers[_CHANNELS[name]] = await self._spdy.open({"streamtype": name})
        sending = asyncio.create_task(self._to_kubelet())
        receiving = asyncio.create_task(self._to_client())
        try:
            await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
            if not (receiving.done() or self._has_left):
                await receiving  # The kubelet takes no more, and may have said why.
        finally:
            sending.cancel()
            receiving.cancel()
            await asyncio.wait((sending, receiving))

    async def _to_kubelet(self) -> None:
        with contextlib.suppress(OSError):
            async for data in messages(self._socket):
                if not data:
                    continue
                closes = data[0] == _CLOSE and len(data) > 1
                channel = data[1] if closes else data[0]
                number = self._numbers.get(channel) if channel in _FROM_CLIENT else None
                if number is not None:
                    await self._spdy.send(number, b"" if closes else data[1:], is_last=closes)
            self._has_left = True

    async def _to_client(self) -> None:
        channels = {number: channel for channel, number in self._numbers.items()}
        open_streams = {number for channel, number in self._numbers.items() if channel not in _FROM_CLIENT}
        error, has_ended = b"", False
        with contextlib.suppress(OSError, BackendRequestFailed):
            async for number, data, is_last in self._spdy.arrivals():
                channel = channels.get(number)
                if channel == _ERROR:
                    error = (error + data)[:ERROR_BYTES_MAX]
                elif channel is not None and data:
                    await self._socket.send_bytes(bytes((channel,)) + data)
                if is_last:
                    open_streams.discard(number)
                has_ended = not open_streams
                if has_ended:
                    break
        told = error or (_SUCCESS if has_ended else _failure("the connection to the kubelet was lost"))
        with contextlib.suppress(OSError):
            await self._socket.send_bytes(bytes((_ERROR,)) + told)


def _failure(message: str) -> bytes:
    status = {"metadata": {}, "status": "Failure", "message": message, "reason": "InternalError", "code": 500}
    return orjson.dumps(status)
