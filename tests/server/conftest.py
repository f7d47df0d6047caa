"""Servers for tests that need more than one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.api import Api
from tests.support.etcd_process import EtcdProcess, wheel_etcd
from tests.support.server_process import ServerProcess


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdProcess]:
    """An etcd for the tests of a module. Tests must not stop it."""
    with wheel_etcd(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory, etcd: EtcdProcess) -> Iterator[tuple[Api, Api]]:
    """Two servers over one etcd. Tests must not stop them."""
    directory, flag = tmp_path_factory.mktemp("replicas"), f"--etcd-servers={etcd.url}"
    with (
        ServerProcess(directory / "one", flag) as one,
        ServerProcess(directory / "two", flag) as two,
        Api(one) as here,
        Api(two) as there,
    ):
        yield here, there


@pytest.fixture
def path(api: Api, configmaps: str) -> str:
    """An object `a` with one entry in its data; its path."""
    api.post(configmaps, {"metadata": {"name": "a"}, "data": {"k": "v"}}).ok()
    return f"{configmaps}/a"
