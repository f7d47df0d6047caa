"""Ports of simulated pods over WebSocket: what is left of connections when one of them loses its client."""

from __future__ import annotations

import asyncio
import socket

from apiserver.endpoints.reverse_proxy.backends import BackendConnection
from apiserver.testkit.simulation.kubelet_server.channels import Channels
from apiserver.testkit.simulation.kubelet_server.forwarding import PodPorts, forward_channels
from apiserver.testkit.simulation.kubelet_server.sessions import ClientGone
from apiserver.testkit.simulation.ports import HostPort
from tests.support.eventually import WITHIN_S


class HalfGone(Channels):
    """A client that sends nothing, and can be sent nothing but how its connections begin."""

    def __init__(self) -> None:
        self.begun = 0

    async def send(self, channel: int, data: bytes) -> None:
        self.begun += 1
        if self.begun > 4:
            raise ClientGone

    async def receive(self) -> tuple[int, bytes]:
        await asyncio.Event().wait()
        raise ClientGone


async def test_all_connections_end_with_the_first_that_loses_its_client() -> None:
    ends: dict[int, socket.socket] = {}

    async def dial(address: HostPort) -> BackendConnection:
        ours, ends[address.port] = socket.socketpair()
        return BackendConnection(*await asyncio.open_connection(sock=ours))

    pod_ports = PodPorts("p", "uid", {80: HostPort("h", 80), 81: HostPort("h", 81)}, dial)
    before = asyncio.all_tasks()
    forwarding = asyncio.create_task(forward_channels(HalfGone(), [80, 81], pod_ports))
    async with asyncio.timeout(WITHIN_S):
        while len(ends) < 2:
            await asyncio.sleep(0)
        ends[80].send(b"data")  # The other one stays silent.
        await forwarding
    assert asyncio.all_tasks() == before
    for end in ends.values():
        end.setblocking(False)
        assert end.recv(1) == b""
        end.close()
