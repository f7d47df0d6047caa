"""What this server shows to extension servers."""

from __future__ import annotations

import ipaddress
import ssl
from pathlib import Path
from typing import Final

import pytest
from cryptography import x509

from apiserver.endpoints.aggregation.extension_client import (
    ExtensionClient,
    ExtensionFailed,
    ExtensionRequest,
)
from apiserver.endpoints.aggregation.remote_versions import RemoteVersion, ServiceReference
from apiserver.meta.vocabulary import Document, GroupVersion
from tests.support.authority import Authority
from tests.support.eventually import WITHIN_S

VERSION: Final = RemoteVersion(
    "v1.a.example", GroupVersion("a.example", "v1"), ServiceReference("default", "a", 443), verifies=False
)


class NoServices:
    """Nothing is asked for where extension servers are."""

    async def service(self, namespace: str, name: str) -> Document | None:
        return None

    async def slices(self, namespace: str, name: str) -> list[Document]:
        return []


async def shown(client: ExtensionClient, server: ssl.SSLContext) -> str:
    """The common name of the certificate that a server sees."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    ours = (await client.context(VERSION)).wrap_bio(to_client, to_server)
    for _ in range(3):
        for end in (ours, theirs):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    found = x509.load_der_x509_certificate(theirs.getpeercert(True) or b"")
    return found.subject.rfc4514_string()


async def test_a_new_certificate_is_shown_on_new_connections(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    serving, one, other = (authority.issue(name) for name in ("serving", "one", "other"))
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.ca)
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_cert_chain(serving.certificate, serving.key)

    client = ExtensionClient(NoServices(), (one.certificate.read_bytes(), one.key.read_bytes()))
    before = await client.context(VERSION)
    assert await shown(client, server) == "CN=one"
    assert await client.context(VERSION) is before
    client.use_certificate((other.certificate.read_bytes(), other.key.read_bytes()))
    assert await shown(client, server) == "CN=other"


class OneService(NoServices):
    """An extension server at an address that is denied."""

    async def service(self, namespace: str, name: str) -> Document:
        return {"spec": {"ports": [{"port": 443}]}}

    async def slices(self, namespace: str, name: str) -> list[Document]:
        return [{"ports": [{"port": 443}], "endpoints": [{"addresses": ["198.51.100.9"]}]}]


async def test_the_flag_is_told_that_denies_an_address(tmp_path: Path) -> None:
    own = Authority(tmp_path / "authority").issue("own")
    shown_by_it = (own.certificate.read_bytes(), own.key.read_bytes())
    client = ExtensionClient(OneService(), shown_by_it, [ipaddress.ip_network("198.51.100.0/24")])
    with pytest.raises(ExtensionFailed, match=r"198\.51\.100\.9: address is denied by --proxy-deny-cidrs"):
        await client.ask(VERSION, ExtensionRequest(path="/apis", bytes_max=1, timeout_s=WITHIN_S))
    await client.close()
