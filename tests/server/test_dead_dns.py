"""A name for etcd that is in /etc/hosts needs no DNS: not even one that is configured, and never responds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from apiserver.storage.etcd.client import TRANSPORTS
from tests.server.test_tracing import SAMPLED, Collector
from tests.support.api import Api
from tests.support.dead_dns import NAME, NotPossibleHere, dead_dns
from tests.support.etcd_process import wheel_etcd
from tests.support.eventually import WITHIN_S
from tests.support.ports import free_port
from tests.support.required import missing
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.etcd

MODULE: Final = "tests.support.dead_dns"


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Mapping[str, str]]:
    try:
        with dead_dns(tmp_path) as environment:
            yield environment
    except NotPossibleHere as reason:
        missing(str(reason), "it takes Linux, and a superuser")


def flags(url: str, transport: str) -> tuple[str, ...]:
    return f"--etcd-servers={url.replace('127.0.0.1', NAME)}", f"--etcd-transport={transport}"


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_server_starts(tmp_path: Path, environment: Mapping[str, str], transport: str) -> None:
    with wheel_etcd(tmp_path) as etcd:
        server = ServerProcess(
            tmp_path / "data", *flags(etcd.url, transport), module=MODULE, environment=environment
        )
        with server.start(), Api(server) as api:
            assert api.get("/readyz").status == 200


def test_a_server_sends_traces(tmp_path: Path, environment: Mapping[str, str]) -> None:
    """The name of the collector is in /etc/hosts, too."""
    configuration = tmp_path / "tracing.yaml"
    with Collector() as collector:
        configuration.write_text(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"
            f"endpoint: {NAME}:{collector.port}\n"
        )
        flag = f"--tracing-config-file={configuration}"
        server = ServerProcess(tmp_path / "data", flag, module=MODULE, environment=environment)
        with server.start(), Api(server) as api:
            api.get("/api/v1/nodes", headers={"traceparent": SAMPLED, "Audit-Id": "traced"}).ok()
            request, _ = collector.of_request("traced")
    assert request.name == "GET /api/v1/nodes"


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_doctor_reaches_etcd(tmp_path: Path, environment: Mapping[str, str], transport: str) -> None:
    """Other commands than the server, too."""
    options = (f"--data-dir={tmp_path / 'data'}", f"--secure-port={free_port()}")
    with wheel_etcd(tmp_path) as etcd:
        done = subprocess.run(
            [sys.executable, "-m", MODULE, "doctor", "-o", "json", *options, *flags(etcd.url, transport)],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
        )
    found = [each for each in json.loads(done.stdout)["findings"] if each["check"] == "etcd"]
    assert found
    assert [each for each in found if each["severity"] == "error"] == []
