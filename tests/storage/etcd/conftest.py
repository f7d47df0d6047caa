"""The servers, and stores on them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from apiserver.storage.etcd.client import TRANSPORTS
from tests.support.etcd_process import EtcdProcess
from tests.support.etcd_stores import Stores, binary


@pytest.fixture(scope="module", params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    """What carries the calls to etcd."""
    return str(request.param)


@pytest.fixture(scope="module")
def etcd(transport: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdProcess]:
    """An etcd for tests that only read and write, each below a prefix of its own."""
    etcd = EtcdProcess(binary(), tmp_path_factory.mktemp(f"etcd-{transport}")).start()
    yield etcd
    etcd.kill()


@pytest.fixture
def own_etcd(tmp_path: Path) -> Iterator[EtcdProcess]:
    """An etcd for tests that stop it, fill it or compact it."""
    etcd = EtcdProcess(binary(), tmp_path).start()
    yield etcd
    etcd.kill()


@pytest.fixture
async def open_store(transport: str) -> AsyncIterator[Stores]:
    stores = Stores(transport)
    yield stores
    await stores.close()
