"""Forwards connections to the ports of a simulated pod to the addresses in its stages.

Source: k8s.io/cri-streaming, pkg/streaming/portforward (httpstream.go, websocket.go).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from apiserver.endpoints.reverse_proxy.backends import BackendConnection
from apiserver.endpoints.reverse_proxy.errors import BackendRequestFailed
from apiserver.endpoints.reverse_proxy.upgrades import first_of
from apiserver.testkit.simulation.kubelet_server.channels import Channels
from apiserver.testkit.simulation.kubelet_server.requests import CONNECTIONS_MAX, NO_ADDRESS
from apiserver.testkit.simulation.kubelet_server.sessions import ClientGone
from apiserver.testkit.simulation.kubelet_server.spdy import SpdySession, SpdyStream
from apiserver.testkit.simulation.ports import HostPort, parse_port
from apiserver.webhooks.addresses import AddressDenied

READ_BYTES: Final = 64 * 1024

_PORT, _TYPE, _REQUEST = "port", "streamtype", "requestid"


class PortClient(Protocol):
    """The client's end of a connection to a port."""

    async def read(self) -> bytes: ...

    async def write(self, data: bytes) -> None: ...


class PodPorts(NamedTuple):
    """The ports of a pod. dial: connects to an address; raises RequestFailed, AddressDenied."""

    pod: str
    uid: str
    addresses: Mapping[int, HostPort]
    dial: Callable[[HostPort], Awaitable[BackendConnection]]

    async def forward(self, port: int, client: PortClient) -> str:
        """Relays a connection until its address has no more to send; returns the error, if any."""
        address = self.addresses.get(port)
        begin = f"error forwarding port {port} to pod {self.pod}, uid {self.uid}: "
        if address is None:
            return begin + NO_ADDRESS
        try:
            connection = await self.dial(address)
        except (BackendRequestFailed, AddressDenied) as error:
            return begin + str(error)
        sending = asyncio.create_task(_send(client, connection.writer))
        try:
            with contextlib.suppress(OSError):
                while data := await connection.reader.read(READ_BYTES):
                    await client.write(data)
        finally:
            sending.cancel()
            await asyncio.wait((sending,))
            # What the address has not taken, it would not answer any more.
            connection.writer.transport.abort()
            with contextlib.suppress(OSError):
                await connection.writer.wait_closed()
        return ""


async def _send(client: PortClient, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ClientGone, OSError):
        while data := await client.read():
            writer.write(data)
            await writer.drain()
        writer.write_eof()


# ---- over WebSocket


class _ChannelClient:
    """A connection over a channel. arrived: the received data."""

    def __init__(self, channels: Channels, channel: int) -> None:
        self.arrived: asyncio.Queue[bytes] = asyncio.Queue(1)
        self.is_over = False
        self._channels, self._channel = channels, channel

    async def read(self) -> bytes:
        return await self.arrived.get()

    async def write(self, data: bytes) -> None:
        await self._channels.send(self._channel, data)


async def forward_channels(channels: Channels, ports: Sequence[int], pod_ports: PodPorts) -> None:
    """Relays a connection to each of the ports, the first with data on channel 0 and errors on 1."""
    clients = [_ChannelClient(channels, 2 * number) for number in range(len(ports))]

    async def forward(number: int) -> None:
        client, port = clients[number], ports[number]
        try:
            problem = await pod_ports.forward(port, client)
            if problem:
                await channels.send(2 * number + 1, problem.encode())
        finally:
            client.is_over = True
            with contextlib.suppress(asyncio.QueueEmpty):
                client.arrived.get_nowait()  # No task waits for room any more.

    async def forward_all() -> None:
        async with asyncio.TaskGroup() as tasks:
            for number in range(len(ports)):
                tasks.create_task(forward(number))

    async def receive() -> None:
        while True:
            channel, data = await channels.receive()
            number, is_error = divmod(channel, 2)
            if data and not is_error and 0 <= number < len(clients) and not clients[number].is_over:
                await clients[number].arrived.put(data)

    try:
        for number, port in enumerate(ports):
            begin = port.to_bytes(2, "little")
            await channels.send(2 * number, begin)
            await channels.send(2 * number + 1, begin)
        await first_of(forward_all(), receive())
    except* (ClientGone, OSError):
        pass


# ---- over SPDY


class _StreamClient:
    def __init__(self, stream: SpdyStream) -> None:
        self.read, self.write = stream.read, stream.write


class _Pair(NamedTuple):
    data: SpdyStream
    error: SpdyStream


async def forward_streams(session: SpdySession, pod_ports: PodPorts) -> None:
    """Relays the connections that a client opens, each by two streams, until the client disconnects."""
    running: set[asyncio.Task[None]] = set()

    async def accept() -> None:
        halves: dict[str, SpdyStream] = {}
        while True:
            stream = await session.opened.get()
            kind = stream.headers.get(_TYPE)
            if kind not in ("data", "error") or port_of(stream) is None:
                await stream.reset()
                continue
            request = _request_of(stream)
            other = halves.pop(request, None)
            if other is None or other.headers[_TYPE] == kind:
                if len(halves) + len(running) >= CONNECTIONS_MAX:
                    await stream.reset()
                else:
                    halves[request] = stream
                if other is not None:
                    await other.reset()
                continue
            pair = _Pair(stream, other) if kind == "data" else _Pair(other, stream)
            task = asyncio.create_task(_forward_pair(pair, pod_ports))
            running.add(task)
            task.add_done_callback(running.discard)

    try:
        with contextlib.suppress(OSError):
            await first_of(session.run(), accept())
    finally:
        for task in (ending := list(running)):
            task.cancel()
        if ending:
            await asyncio.wait(ending)


def port_of(stream: SpdyStream) -> int | None:
    return parse_port(stream.headers.get(_PORT, ""))


def _request_of(stream: SpdyStream) -> str:
    """Returns the request that both streams of a connection share; old clients open the error stream
    first.
    """
    named = stream.headers.get(_REQUEST)
    if named:
        return named
    return str(stream.number if stream.headers[_TYPE] == "error" else stream.number - 2)


async def _forward_pair(pair: _Pair, pod_ports: PodPorts) -> None:
    port = port_of(pair.data)
    assert port is not None
    with contextlib.suppress(OSError):
        problem = await pod_ports.forward(port, _StreamClient(pair.data))
        if problem:
            await pair.error.write(problem.encode())
        await pair.error.close()
        await pair.data.close()
