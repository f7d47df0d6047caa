"""Where connections go, whatever a name stands for."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from apiserver.endpoints.reverse_proxy.backends import BackendConnector
from apiserver.endpoints.reverse_proxy.errors import BackendRequestFailed
from apiserver.endpoints.reverse_proxy.target import ProxyBackend, ProxyTarget
from apiserver.webhooks.addresses import AddressDenied
from tests.support.ports import free_port

DENIED = [ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128")]


@pytest.fixture
async def backends() -> AsyncIterator[BackendConnector]:
    backends = BackendConnector(DENIED)
    yield backends
    await backends.close()


def connections(backends: BackendConnector, backend: ProxyBackend) -> Iterable[Awaitable[object]]:
    """Yields both ways to connect to a backend."""
    yield backends.request("GET", ProxyTarget(backend, "/"), [], None)
    yield backends.dial(backend)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "localhost"])
async def test_denied_addresses_are_not_connected_to(backends: BackendConnector, host: str) -> None:
    """Names are resolved first: what is checked is what is connected to."""
    backend = ProxyBackend(host, 9)
    for connecting in connections(backends, backend):
        with pytest.raises(AddressDenied, match="denied by --proxy-deny-cidrs"):
            await connecting


# With a server that listens on the loopback address, a URL with one of these would lead to it.
NO_HOSTS = (
    "a@127.0.0.1",
    "a:b@127.0.0.1",
    "127.0.0.1/x?",
    "127.0.0.1#",
    "127.0.0.1\\x",
    "[::1]",
    "::1%a@b",
    "%31%32%37.0.0.1",
    "127.0.0.1 x",
    "127.0.0.1\r\nX: y",
    "a..b",
    "",
)


@pytest.mark.parametrize("host", NO_HOSTS)
async def test_what_is_no_host_leads_nowhere(backends: BackendConnector, host: str) -> None:
    """Nodes may have any text as an address: what is in it must not be taken for other parts of a URL."""
    connected: list[str] = []

    def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.append(host)
        writer.close()

    async with await asyncio.start_server(close, "127.0.0.1", 0) as listening:
        backend = ProxyBackend(host, listening.sockets[0].getsockname()[1])
        for connecting in connections(backends, backend):
            with pytest.raises(BackendRequestFailed):
                await connecting
    assert not connected


async def test_a_name_that_cannot_be_asked_for_has_no_addresses(backends: BackendConnector) -> None:
    with pytest.raises(BackendRequestFailed, match=r"lookup a\.\.b: no such host"):
        await backends.require_addresses(ProxyBackend("a..b", 80))


@pytest.mark.parametrize("port", [-1, 0, 65_536, 1 << 31])
async def test_ports_that_cannot_be(backends: BackendConnector, port: int) -> None:
    backend = ProxyBackend("192.0.2.1", port)
    for connecting in connections(backends, backend):
        with pytest.raises(BackendRequestFailed, match=f"address {port}: invalid port"):
            await connecting


class Names(AbstractResolver):
    """Knows one name. addresses: that it has."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(hostname=host, host=each, port=port, family=family, proto=0, flags=0)
            for each in self._addresses
        ]

    async def close(self) -> None:
        pass


async def test_all_addresses_of_a_name_are_tried() -> None:
    def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(close, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        backends = BackendConnector(resolver=Names(["127.0.0.2", "127.0.0.3", "127.0.0.1"]))
        dialled = await backends.dial(ProxyBackend("name.example", port))
        assert dialled.writer.get_extra_info("peername") == ("127.0.0.1", port)
        assert not await dialled.reader.read()
        dialled.writer.close()
        await dialled.writer.wait_closed()


async def test_of_addresses_that_all_fail_the_first_failure_is_told() -> None:
    port = free_port()
    backends = BackendConnector(resolver=Names(["127.0.0.2", "127.0.0.1"]))
    with pytest.raises(
        BackendRequestFailed, match=f"^dial tcp name.example:{port}: connect: connection refused"
    ):
        await backends.dial(ProxyBackend("name.example", port))


@pytest.mark.parametrize("host", ["0251.254.1", "no.such.host.invalid", ""])
async def test_hosts_that_are_nowhere(backends: BackendConnector, host: str) -> None:
    backend = ProxyBackend(host, 9)
    for connecting in connections(backends, backend):
        with pytest.raises(BackendRequestFailed):
            await connecting
