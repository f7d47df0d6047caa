"""However a host is spelt: what leads to this machine is denied where its loopback addresses are.

All callers that addresses are denied to are tried: each has to check at the moment of connecting, after
names have been resolved.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Final

import pytest

from apiserver.endpoints.aggregation.extension_client import (
    ExtensionClient,
    ExtensionFailed,
    ExtensionRequest,
)
from apiserver.endpoints.aggregation.remote_versions import RemoteVersion, ServiceReference
from apiserver.endpoints.reverse_proxy.backends import BackendConnector
from apiserver.endpoints.reverse_proxy.errors import BackendRequestFailed
from apiserver.endpoints.reverse_proxy.target import ProxyBackend, ProxyTarget
from apiserver.load.offload import Offload
from apiserver.meta.vocabulary import Document, GroupVersion, IPNetwork
from apiserver.webhooks.addresses import AddressDenied, AddressRules, NotProxyable
from apiserver.webhooks.client import CallSecurity, WebhookClient
from apiserver.webhooks.errors import CallFailed
from tests.support.authority import Authority
from tests.support.eventually import WITHIN_S
from tests.support.loopback import ADDRESSES, LOOPBACK, OTHERS, SPELLINGS, listening

CHANNEL: Final = CallSecurity(ssl.create_default_context())
REFUSED: Final = (AddressDenied, BackendRequestFailed, CallFailed, ExtensionFailed)
# (the denied networks, the host, the port): connects, or raises one of these.
Call = Callable[[tuple[IPNetwork, ...], str, int], Awaitable[object]]


def test_there_are_enough() -> None:
    assert len(set(SPELLINGS)) == len(ADDRESSES) + len(OTHERS) > 60


@pytest.mark.parametrize("address", ADDRESSES)
def test_what_an_address_means_is_denied(address: str) -> None:
    with pytest.raises(AddressDenied, match="is denied by"):
        AddressRules(LOOPBACK).require_host(address)
    with pytest.raises(NotProxyable, match="address not allowed"):
        AddressRules((), only_proxyable=True).require_host(address)


# None of these is this machine, however it looks.
ELSEWHERE: Final = (
    "10.0.0.1",
    "128.0.0.1",
    "0.0.0.2",
    "::2",
    "::ffff:10.0.0.1",
    "64:ff9b::a00:1",
    "2002:a00:1::1",
    "2001:db8::7f00:1",
    "2001:0:4136:e378:8000:63bf:f5ff:fffe",
    "fd00::1",
)


@pytest.mark.parametrize("address", ELSEWHERE)
def test_what_leads_elsewhere_is_not(address: str) -> None:
    AddressRules(LOOPBACK).require_host(address)
    AddressRules(LOOPBACK, only_proxyable=True).require_host(address)


# Addresses that no request of a user is forwarded to, whatever the flags say.
SPECIAL: Final = (
    "169.254.169.254",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "fe80::1%eth0",
    "224.0.0.1",
    "ff02::1",
    "255.255.255.255",
    "::ffff:255.255.255.255",
)


@pytest.mark.parametrize("address", SPECIAL)
def test_what_is_no_single_machine_is_not_proxyable(address: str) -> None:
    with pytest.raises(NotProxyable):
        AddressRules((), only_proxyable=True).require_host(address)
    AddressRules(()).require_host(address)


# ---- who connects


class OneService:
    """The Service `a`, which is an ExternalName, or has an endpoint."""

    def __init__(self, *, endpoint: tuple[str, int] | None = None, external_name: str = "") -> None:
        self._endpoint, self._external_name = endpoint, external_name

    async def service(self, namespace: str, name: str) -> Document:
        kind = "ExternalName" if self._endpoint is None else "ClusterIP"
        return {"spec": {"type": kind, "externalName": self._external_name, "ports": [{"port": 443}]}}

    async def slices(self, namespace: str, service: str) -> Iterable[Document]:
        assert self._endpoint is not None
        address, port = self._endpoint
        return [{"ports": [{"port": port}], "endpoints": [{"addresses": [address]}]}]


@asynccontextmanager
async def backends(denied: tuple[IPNetwork, ...]) -> AsyncIterator[BackendConnector]:
    made = BackendConnector(denied)
    try:
        yield made
    finally:
        await made.close()


async def forward(denied: tuple[IPNetwork, ...], host: str, port: int) -> None:
    async with backends(denied) as made:
        (await made.request("GET", ProxyTarget(ProxyBackend(host, port), "/"), [], None)).close()


async def upgrade(denied: tuple[IPNetwork, ...], host: str, port: int) -> None:
    async with backends(denied) as made:
        (await made.dial(ProxyBackend(host, port))).writer.close()


async def forward_for_user(denied: tuple[IPNetwork, ...], host: str, port: int) -> None:
    """What leads to pods, endpoints and ports of nodes: no flag is needed."""
    async with backends(()) as made:
        backend = ProxyBackend(host, port, only_proxyable=bool(denied))
        (await made.request("GET", ProxyTarget(backend, "/"), [], None)).close()


async def upgrade_for_user(denied: tuple[IPNetwork, ...], host: str, port: int) -> None:
    async with backends(()) as made:
        (await made.dial(ProxyBackend(host, port, only_proxyable=bool(denied)))).writer.close()


async def post(denied: tuple[IPNetwork, ...], url: str, services: OneService) -> None:
    offload = Offload()
    client = WebhookClient(offload, services, denied)
    try:
        await client.post(url, b"{}", CHANNEL, WITHIN_S)
    finally:
        await client.close()
        offload.close()


async def call_url(denied: tuple[IPNetwork, ...], host: str, port: int) -> None:
    await post(denied, f"https://{f'[{host}]' if ':' in host else host}:{port}/x", OneService())


async def call_endpoint(denied: tuple[IPNetwork, ...], host: str, port: int) -> None:
    await post(denied, "https://a.default.svc:443/x", OneService(endpoint=(host, port)))


async def call_external_name(denied: tuple[IPNetwork, ...], host: str, port: int) -> None:
    await post(denied, f"https://a.default.svc:{port}/x", OneService(external_name=host))


async def ask(denied: tuple[IPNetwork, ...], services: OneService, port: int) -> None:
    client = ExtensionClient(services, CERTIFICATE[0], denied)
    version = RemoteVersion(
        "v1.a.example",
        GroupVersion("a.example", "v1"),
        ServiceReference("default", "a", port),
        verifies=False,
    )
    try:
        await client.ask(version, ExtensionRequest(path="/apis", bytes_max=1, timeout_s=WITHIN_S))
    finally:
        await client.close()


async def ask_endpoint(denied: tuple[IPNetwork, ...], host: str, port: int) -> None:
    await ask(denied, OneService(endpoint=(host, port)), 443)


async def ask_external_name(denied: tuple[IPNetwork, ...], host: str, port: int) -> None:
    await ask(denied, OneService(external_name=host), port)


CALLS: Final[Mapping[str, Call]] = {
    "a forwarded request": forward,
    "a forwarded upgrade": upgrade,
    "a request to what a user names": forward_for_user,
    "an upgrade to what a user names": upgrade_for_user,
    "a webhook's URL": call_url,
    "a webhook's endpoint": call_endpoint,
    "a webhook's external name": call_external_name,
    "an extension server's endpoint": ask_endpoint,
    "an extension server's external name": ask_external_name,
}
CERTIFICATE: Final[list[tuple[bytes, bytes]]] = []


@pytest.fixture(scope="module", autouse=True)
def certificate(tmp_path_factory: pytest.TempPathFactory) -> None:
    own = Authority(tmp_path_factory.mktemp("loopback") / "authority").issue("own")
    CERTIFICATE[:] = [(own.certificate.read_bytes(), own.key.read_bytes())]


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_no_spelling_leads_to_this_machine(call: Call) -> None:
    async with listening() as (port, connected):

        async def attempt(host: str) -> str:
            try:
                await call(LOOPBACK, host, port)
            except REFUSED:
                return ""
            return host

        assert not [host for host in await asyncio.gather(*map(attempt, SPELLINGS)) if host]
        assert not connected


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::ffff:0:0"])
async def test_where_nothing_is_denied_they_do(call: Call, host: str) -> None:
    async with listening() as (port, connected):
        with contextlib.suppress(*REFUSED):  # The listener says nothing that could be understood.
            await call((), host, port)
        assert connected
