"""Where connections go, whatever a name stands for."""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncIterator

import pytest

from apiserver.reverse_proxy.backends import Backends
from apiserver.reverse_proxy.errors import RequestFailed
from apiserver.reverse_proxy.target import Backend, Target
from apiserver.webhooks.addresses import AddressDenied

DENIED = [ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128")]


@pytest.fixture
async def backends() -> AsyncIterator[Backends]:
    backends = Backends(DENIED)
    yield backends
    await backends.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "localhost"])
async def test_denied_addresses_are_not_connected_to(backends: Backends, host: str) -> None:
    """Names are resolved first: what is checked is what is connected to."""
    backend = Backend(host, 9)
    for connecting in (
        backends.request("GET", Target(backend, "/"), [], None),
        backends.dial(backend),
    ):
        with pytest.raises(AddressDenied, match="denied by --proxy-deny-cidrs"):
            await connecting


@pytest.mark.parametrize("host", ["0251.254.1", "no.such.host.invalid", ""])
async def test_hosts_that_are_nowhere(backends: Backends, host: str) -> None:
    backend = Backend(host, 9)
    for connecting in (
        backends.request("GET", Target(backend, "/"), [], None),
        backends.dial(backend),
    ):
        with pytest.raises(RequestFailed):
            await connecting
