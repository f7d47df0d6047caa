"""Extension API servers learn the CAs of clients from a ConfigMap, whichever servers have which."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import pytest
from cryptography import x509

from apiserver.app.serving import pki
from apiserver.auth.authn.request_header import RequestHeaderNames
from apiserver.controllers.authentication_info import AuthenticationInfo, TrustedClients
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.store import Registry
from apiserver.storage.embedded import EmbeddedStore
from tests.support.eventually import eventually
from tests.support.in_process import TABLE, resource, running, server

CONFIG_MAP: Final = ("kube-system", "extension-apiserver-authentication")


def ca(directory: Path) -> str:
    return pki.local_identity(directory).ca_cert.decode()


async def published(registry: Registry) -> str:
    found = await registry.get(resource("configmaps", ""), *CONFIG_MAP)
    return str(found.document()["data"]["client-ca-file"])


async def kept(registry: Registry, client_cas: str, now: float = 0.0) -> str:
    """What is published once a server has looked."""
    info = AuthenticationInfo(registry, ServedTable(TABLE), TrustedClients(client_cas, ""), lambda: now)
    await info.reconcile()
    return await published(registry)


async def test_servers_with_different_cas_add_theirs(tmp_path: Path, store: EmbeddedStore) -> None:
    one, other = ca(tmp_path / "one"), ca(tmp_path / "other")
    async with server(store) as registry:
        assert await kept(registry, one) == one
        assert await kept(registry, other) == one + other
        before = await store.current_revision()
        assert await kept(registry, one) == one + other
        assert await store.current_revision() == before


async def test_a_change_of_cas_is_published_without_waiting(tmp_path: Path, store: EmbeddedStore) -> None:
    one, other = ca(tmp_path / "one"), ca(tmp_path / "other")
    async with server(store) as registry:
        info = AuthenticationInfo(registry, ServedTable(TABLE), TrustedClients(one, ""), lambda: 0.0)
        has_begun = asyncio.Event()
        async with running(info.run(has_begun.set)):
            await has_begun.wait()
            assert await published(registry) == one
            info.trust(TrustedClients(other, ""))
            key = registry.key(resource("configmaps", ""), *CONFIG_MAP)

            def is_published() -> bool:
                found = registry.cache.get_cached(key)
                assert found is not None
                assert found.value is not None
                return bool(found.value.document()["data"]["client-ca-file"] == one + other)

            await eventually(is_published)


async def test_expired_cas_are_removed(tmp_path: Path, store: EmbeddedStore) -> None:
    one = ca(tmp_path)
    ends_at = x509.load_pem_x509_certificate(one.encode()).not_valid_after_utc.timestamp()
    async with server(store) as registry:
        assert await kept(registry, one) == one
        assert await kept(registry, one, ends_at + 1) == ""


@pytest.mark.parametrize("text", ["", "-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n"])
async def test_what_is_no_certificate_is_left_out(tmp_path: Path, store: EmbeddedStore, text: str) -> None:
    one = ca(tmp_path)
    async with server(store) as registry:
        assert await kept(registry, text + one) == one


async def test_it_is_written_at_the_start(tmp_path: Path, store: EmbeddedStore) -> None:
    one, done = ca(tmp_path), []
    async with server(store) as registry:
        info = AuthenticationInfo(registry, ServedTable(TABLE), TrustedClients(one, ""))
        running = asyncio.create_task(info.run(lambda: done.append(True)))
        await eventually(lambda: done)
        running.cancel()
        assert await published(registry) == one


async def test_front_proxies_are_published_with_their_names_and_headers(
    tmp_path: Path, store: EmbeddedStore
) -> None:
    one, other = ca(tmp_path / "one"), ca(tmp_path / "other")
    headers = RequestHeaderNames(users=("X-Remote-User", "X-User"))
    async with server(store) as registry:

        async def data_after(trusted: TrustedClients) -> dict[str, str]:
            await AuthenticationInfo(registry, ServedTable(TABLE), trusted, lambda: 0).reconcile()
            found = await registry.get(resource("configmaps", ""), *CONFIG_MAP)
            data: dict[str, str] = found.document()["data"]
            return data

        data = await data_after(TrustedClients("", one, ("front-proxy-client",)))
        assert data == {
            "client-ca-file": "",
            "requestheader-client-ca-file": one,
            "requestheader-allowed-names": '["front-proxy-client"]',
            "requestheader-username-headers": '["X-Remote-User"]',
            "requestheader-uid-headers": '["X-Remote-Uid"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        }
        data = await data_after(TrustedClients("", other, ("proxy",), headers))
        assert data["requestheader-client-ca-file"] == one + other
        assert data["requestheader-allowed-names"] == '["front-proxy-client", "proxy"]'
        assert data["requestheader-username-headers"] == '["X-Remote-User", "X-User"]'
        assert await data_after(TrustedClients("", one, ("proxy",))) == data
