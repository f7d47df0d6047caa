"""Logins to the console that begin at one server and go on at another."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import orjson
import pytest

from tests.server.test_console_login import code_of, cookie_of, log_in, user_of
from tests.server.test_front_proxies import Shown, certificate
from tests.support.api import Api
from tests.support.etcd_process import EtcdProcess
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.etcd
# Enough for some to arrive at the same moment.
ATTEMPTS: Final = 8


@pytest.fixture(scope="module")
def servers(
    tmp_path_factory: pytest.TempPathFactory, etcd: EtcdProcess
) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    """Two servers over one etcd, one of which has two processes."""
    directory, flags = tmp_path_factory.mktemp("replicas"), (f"--etcd-servers={etcd.url}", "--console")
    with (
        ServerProcess(directory / "one", *flags) as one,
        ServerProcess(directory / "two", *flags, "--workers=2") as two,
    ):
        yield one, two


@pytest.fixture
def carol(servers: tuple[ServerProcess, ServerProcess], tmp_path: Path) -> Iterator[Api]:
    """A user with a client certificate of the cluster's CA, at the first server."""
    one, _ = servers
    pem = certificate(one.ca_path.parent, Shown("ca", "carol"), tmp_path / "carol.pem")
    with Api(one, "", certificate=pem) as carol:
        yield carol


def attempt(server: ServerProcess, code: str) -> int:
    with Api(server, "") as page:
        return log_in(page, {"code": code}).status


def test_a_code_is_used_once_wherever_it_is_used(
    servers: tuple[ServerProcess, ServerProcess], carol: Api
) -> None:
    code = code_of(carol)
    with ThreadPoolExecutor(ATTEMPTS) as threads:
        statuses = list(threads.map(lambda number: attempt(servers[number % 2], code), range(ATTEMPTS)))
    assert sorted(statuses) == [200, *[401] * (ATTEMPTS - 1)]


def test_a_session_of_one_server_is_one_of_the_other(
    servers: tuple[ServerProcess, ServerProcess], carol: Api
) -> None:
    with Api(servers[1], "") as there:
        answer = log_in(there, {"code": code_of(carol)})
        for server in servers:
            with Api(server, answer.ok()["token"]) as user:
                assert user_of(user)["username"] == "carol"
        for _ in range(4):  # Each connection may lead to another process.
            there.close()
            assert log_in(there, {}, Cookie=cookie_of(answer)).ok()["user"]["username"] == "carol"


def test_used_codes_expire(
    etcd: EtcdProcess, servers: tuple[ServerProcess, ServerProcess], carol: Api
) -> None:
    assert attempt(servers[0], code_of(carol)) == 200
    lines = etcd.ctl("get", "--prefix", "/registry/-/console-codes/", "--write-out=json")
    found = orjson.loads(lines)["kvs"]
    assert found
    assert all(each["lease"] for each in found)
