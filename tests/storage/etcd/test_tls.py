"""TLS between the store and etcd."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from apiserver.storage.errors import OutcomeUnknown, StorageUnavailable
from apiserver.storage.etcd import Tls
from apiserver.storage.etcd.client import CALL_TIMEOUT_S
from apiserver.storage.keys import prefix_range
from tests.support.authority import Authority
from tests.support.etcd_process import EtcdProcess, TlsFiles
from tests.support.etcd_stores import ALL, P, Stores, binary, events

pytestmark = pytest.mark.etcd


def tls_from(files: TlsFiles, *, certificate: bool = True) -> Tls:
    if not certificate:
        return Tls(ca=files.ca.read_bytes())
    return Tls(files.ca.read_bytes(), files.certificate.read_bytes(), files.key.read_bytes())


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="module")
def tls_etcd(
    authority: Authority, transport: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EtcdProcess]:
    directory = tmp_path_factory.mktemp(f"tls-etcd-{transport}")
    etcd = EtcdProcess(binary(), directory, tls=authority.issue("server")).start()
    yield etcd
    etcd.kill()


async def test_tls_with_a_client_certificate(
    tls_etcd: EtcdProcess, authority: Authority, open_store: Stores
) -> None:
    store = open_store(tls_etcd.url, tls=tls_from(authority.issue("client")))
    await store.check_health()
    revision = await store.create(P + "a", b"1")
    assert [event.mod_revision for event in await events(store, ALL, after=1, count=1)] == [revision]


async def test_tls_mismatches_are_refused_in_time(
    tls_etcd: EtcdProcess, authority: Authority, tmp_path: Path, open_store: Stores
) -> None:
    client = authority.issue("client")
    stranger = Authority(tmp_path / "other").issue("client")
    refused = {
        "without a certificate": open_store(tls_etcd.url, tls=tls_from(client, certificate=False)),
        "with a certificate of another authority": open_store(
            tls_etcd.url,
            tls=Tls(client.ca.read_bytes(), stranger.certificate.read_bytes(), stranger.key.read_bytes()),
        ),
        "to a server of another authority": open_store(tls_etcd.url, tls=tls_from(stranger)),
        "without TLS": open_store(tls_etcd.url.replace("https", "http")),
    }
    for how, store in refused.items():
        async with asyncio.timeout(CALL_TIMEOUT_S):
            with pytest.raises(StorageUnavailable):
                await store.check_health()
            with pytest.raises((StorageUnavailable, OutcomeUnknown)):
                await store.create(P + how, b"1")
    good = open_store(tls_etcd.url, tls=tls_from(client))
    assert await good.count(prefix_range(P + "w")) == await good.count(prefix_range(P + "t")) == 0
