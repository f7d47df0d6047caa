"""TLS between the store and etcd."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest

from apiserver.storage.errors import OutcomeUnknown, StorageUnavailable
from apiserver.storage.etcd import EtcdClient, Tls
from apiserver.storage.etcd.client import CALL_TIMEOUT_S, HTTP2
from apiserver.storage.keys import prefix_range
from tests.support.authority import Authority
from tests.support.etcd_process import EtcdProcess, TlsFiles
from tests.support.etcd_stores import ALL, P, Stores, binary, events, until_answered

pytestmark = pytest.mark.etcd


def tls_from(files: TlsFiles, *, certificate: bool = True) -> Tls:
    if not certificate:
        return Tls(ca=files.ca)
    return Tls(files.ca, files.certificate, files.key)


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


@pytest.fixture
async def open_http2_store() -> AsyncIterator[Stores]:
    stores = Stores(HTTP2)
    yield stores
    await stores.close()


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
            tls=Tls(client.ca, stranger.certificate, stranger.key),
        ),
        "to a server of another authority": open_store(tls_etcd.url, tls=tls_from(stranger)),
        "under a name that its certificate does not have": open_store(
            tls_etcd.url.replace("127.0.0.1", "localhost"), tls=tls_from(client)
        ),
        "without TLS": open_store(tls_etcd.url.replace("https", "http")),
    }
    for how, store in refused.items():
        async with asyncio.timeout(CALL_TIMEOUT_S):
            with pytest.raises(StorageUnavailable):
                await store.check_health()
            with pytest.raises((StorageUnavailable, OutcomeUnknown)):
                await store.create(P + how, b"1")
    good = open_store(tls_etcd.url, tls=tls_from(client))
    assert [await good.count(prefix_range(P + how)) for how in refused] == [0] * len(refused)


async def test_files_are_read_for_each_connection(tmp_path: Path, open_http2_store: Stores) -> None:
    """A certificate, its key and the authorities may be replaced while the server runs."""
    before, after = (Authority(tmp_path / name) for name in ("before", "after"))
    used = TlsFiles(*(tmp_path / name for name in ("ca", "certificate", "key")))

    def use(files: TlsFiles) -> None:
        for source, target in zip(files, used, strict=True):
            target.write_bytes(source.read_bytes())

    (tmp_path / "etcd").mkdir()
    etcd = EtcdProcess(binary(), tmp_path / "etcd", tls=before.issue("server")).start()
    use(before.issue("client"))
    store = open_http2_store(etcd.url, tls=tls_from(used))
    await until_answered(store.check_health)
    etcd.kill()
    etcd.tls = after.issue("server")
    etcd.start()
    try:
        with pytest.raises(StorageUnavailable):
            await store.check_health()  # Its connection was lost with the server, which it may not know yet.
        with pytest.raises(StorageUnavailable, match="certificate is not trusted"):
            await store.check_health()
        use(after.issue("client"))
        await until_answered(store.check_health)
    finally:
        etcd.kill()


UNUSABLE: Final = {
    "a file that is not there": (("missing", None, None), "missing: No such file or directory"),
    "no certificate": (("garbage", None, None), "contains no certificate that can be read"),
    "no key": ((None, "garbage", "garbage"), "and its key cannot be used: "),
}


@pytest.mark.parametrize(("names", "problem"), UNUSABLE.values(), ids=UNUSABLE)
async def test_files_that_cannot_be_used_are_refused_at_once(
    names: tuple[str | None, ...], problem: str, tmp_path: Path
) -> None:
    (tmp_path / "garbage").write_text("garbage")
    tls = Tls(*(None if name is None else tmp_path / name for name in names))
    with pytest.raises(ValueError, match=f"the TLS files for etcd cannot be used: .*{problem}"):
        EtcdClient(["https://127.0.0.1:2379"], tls)
