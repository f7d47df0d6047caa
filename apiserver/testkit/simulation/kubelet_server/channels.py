"""Channels over WebSocket: the first byte of a message identifies its stream.

Kubelets speak the protocols up to the fourth; the API server translates the fifth. In those for texts, the
channel is a digit, and the rest base64.
Source: k8s.io/streaming, pkg/httpstream/wsstream; k8s.io/cri-streaming, pkg/streaming/remotecommand and
pkg/streaming/portforward (websocket.go).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Self

from aiohttp import WSMsgType, hdrs, web

from apiserver.meta.vocabulary import Document
from apiserver.storage.event_loop_turns import Turn
from apiserver.testkit.simulation.kubelet_server.requests import no_common_protocol
from apiserver.testkit.simulation.kubelet_server.sessions import ClientGone, status_bytes

MESSAGE_BYTES_MAX: Final = 1024 * 1024
_STDIN, _STDOUT, _STDERR, _ERROR = range(4)
_CLOSE_WITHIN_S: Final = 2.0


class Subprotocol(NamedTuple):
    """A WebSocket subprotocol of kubelets.

    is_text: channels are digits, and data is base64. has_status: the end of a program is reported as JSON.
    """

    is_text: bool = False
    has_status: bool = False


SHELL_PROTOCOLS: Final[Mapping[str, Subprotocol]] = {
    "": Subprotocol(),
    "channel.k8s.io": Subprotocol(),
    "base64.channel.k8s.io": Subprotocol(is_text=True),
    "v4.channel.k8s.io": Subprotocol(has_status=True),
    "v4.base64.channel.k8s.io": Subprotocol(is_text=True, has_status=True),
}
PORT_PROTOCOLS: Final[Mapping[str, Subprotocol]] = {
    name: protocol for name, protocol in SHELL_PROTOCOLS.items() if not name or name.startswith("v4.")
}


class Channels:
    """A WebSocket of channels."""

    def __init__(self, socket: web.WebSocketResponse, protocol: Subprotocol) -> None:
        self.socket, self.protocol = socket, protocol
        self._turn = Turn()

    @classmethod
    async def open(cls, request: web.BaseRequest, known: Mapping[str, Subprotocol]) -> Self:
        """Answers a handshake. Raises Forbidden if none of the offered protocols is known."""
        headers = request.headers.getall(hdrs.SEC_WEBSOCKET_PROTOCOL, ())
        offered = [each.strip() for each in ",".join(headers).split(",") if each.strip()]
        name = next((each for each in offered or [""] if each in known), None)
        if name is None:
            accepted = [each for each in known if each]
            raise no_common_protocol(offered, accepted)
        socket = web.WebSocketResponse(
            protocols=[name] if name else [],
            timeout=_CLOSE_WITHIN_S,
            autoping=False,
            compress=False,
            max_msg_size=MESSAGE_BYTES_MAX,
        )
        await socket.prepare(request)
        return cls(socket, known[name])

    async def send(self, channel: int, data: bytes) -> None:
        """Sends data on one channel. Raises ClientGone."""
        try:
            if self.protocol.is_text:
                await self.socket.send_str(f"{channel}{base64.b64encode(data).decode()}")
            else:
                await self.socket.send_bytes(bytes((channel,)) + data)
        except OSError:
            raise ClientGone from None

    async def receive(self) -> tuple[int, bytes]:
        """Returns received data and its channel. Raises ClientGone."""
        while True:
            message = await self.socket.receive()
            if self._turn.is_over():
                await self._turn.next()
            match message.type:
                case WSMsgType.BINARY | WSMsgType.TEXT:
                    data = message.data if isinstance(message.data, bytes) else message.data.encode()
                    if data:
                        return self._parsed(data)
                case WSMsgType.PING:
                    await self.socket.pong(message.data)
                case WSMsgType.PONG:
                    pass
                case _:
                    raise ClientGone

    def _parsed(self, data: bytes) -> tuple[int, bytes]:
        """Returns the channel and the data of a message."""
        if not self.protocol.is_text:
            return data[0], data[1:]
        try:
            return data[0] - ord("0"), base64.b64decode(data[1:])
        except binascii.Error:
            raise ClientGone from None

    async def close(self) -> None:
        await self.socket.close()


class ShellChannels:
    """A session of `exec` or `attach`. wanted: the requested streams, by name."""

    def __init__(self, channels: Channels, wanted: Sequence[str]) -> None:
        self._channels = channels
        self._wanted = frozenset(
            number for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)) if name in wanted
        )

    async def begin(self) -> None:
        """Signal by an empty message that the session has begun. Raises ClientGone."""
        outputs = self._wanted & {_STDOUT, _STDERR}
        await self._channels.send(min(outputs, default=_ERROR), b"")

    async def read(self) -> bytes:
        while True:
            channel, data = await self._channels.receive()
            if channel == _STDIN and channel in self._wanted and data:
                return data

    async def write(self, stream: int, data: bytes) -> None:
        if stream in self._wanted:
            await self._channels.send(stream, data)

    async def finish(self, status: Document) -> None:
        told = status_bytes(status, is_json=self._channels.protocol.has_status)
        if told:
            await self._channels.send(_ERROR, told)
        await self._channels.close()
