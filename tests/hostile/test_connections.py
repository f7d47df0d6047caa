"""Connections that nobody uses: what they cost, and that they keep nobody out."""

from __future__ import annotations

import resource
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import psutil
import pytest

from tests.support.api import Api
from tests.support.eventually import WITHIN_S, until
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="Linux is missing: limits and memory are read from its /proc"
)

# What each idle connection may cost. It takes 19.7 KB, of which OpenSSL's part is 15: another OpenSSL, or
# another allocator, may take more. With a buffer for one record it would be 36 KB.
IDLE_BYTES: Final = 30_000
GET: Final = b"GET /version HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin-token\r\n\r\n"


@pytest.fixture(autouse=True)
def _open_files() -> Iterator[None]:
    """Let this process have as many connections as it may."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


class Clients:
    """Connections that are left idle, from one address."""

    def __init__(self, server: ServerProcess, stack: ExitStack) -> None:
        self._where, self._stack = urlsplit(server.url), stack
        self._context = ssl.create_default_context(cafile=server.ca_path)

    def plain(self) -> socket.socket:
        where = (self._where.hostname or "", self._where.port or 0)
        return self._stack.enter_context(socket.create_connection(where, WITHIN_S))

    def connect(self) -> ssl.SSLSocket:
        secured = self._context.wrap_socket(self.plain(), server_hostname=self._where.hostname)
        return self._stack.enter_context(secured)


COUNTS: Final = [1_000, pytest.param(10_000, marks=(pytest.mark.slow, pytest.mark.longest))]


@pytest.mark.parametrize("count", COUNTS)
def test_idle_connections_cost_little(count: int, tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--max-connections-per-client=0") as server, ExitStack() as stack:
        clients, process = Clients(server, stack), psutil.Process(server.pid)
        for _ in range(100):  # Whatever is made once is there.
            clients.connect()
        before = process.memory_info().rss
        connections = [clients.connect() for _ in range(count)]
        # The server has done the last handshake when it answers.
        connections[-1].sendall(GET)
        assert connections[-1].recv(12) == b"HTTP/1.1 200"
        assert process.memory_info().rss - before < count * IDLE_BYTES + 1_000_000


def test_idle_connections_keep_nobody_out(tmp_path: Path) -> None:
    flags = ("--max-connections=30", "--max-connections-per-client=20")
    with ServerProcess(tmp_path, *flags) as server, ExitStack() as stack:
        api, clients = Api(server), Clients(server, stack)
        watch = clients.connect()
        watch.sendall(GET.replace(b"/version", b"/api/v1/namespaces?watch=1"))
        assert watch.recv(12) == b"HTTP/1.1 200"
        for _ in range(100):
            clients.connect()
            assert api.get("/version").status == 200
        # The watch has been there for longer than any of them; it is not idle.
        api.post("/api/v1/namespaces", {"metadata": {"name": "seen"}}).ok()
        received = b""
        while b'"seen"' not in received:
            received += watch.recv(65_536)
        api.close()


def test_handshakes_that_never_end_keep_nobody_out(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, ExitStack() as stack:
        clients = Clients(server, stack)
        for number in range(2_100):
            half = clients.plain()
            if number % 2:
                half.sendall(b"\x16\x03\x01\x02\x00")
        api = Api(server)
        assert api.get("/version").status == 200
        assert api.get("/readyz").status == 200
        api.close()


def test_running_out_of_files_is_no_end_and_no_busy_loop(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, ExitStack() as stack:
        api, process = Api(server), psutil.Process(server.pid)
        assert api.get("/version").status == 200
        files = process.num_fds() + 20
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (files, files))
        clients = Clients(server, stack)
        for _ in range(10):
            watch = clients.connect()
            watch.sendall(GET.replace(b"/version", b"/api/v1/namespaces?watch=1"))
            assert watch.recv(12) == b"HTTP/1.1 200"
        for _ in range(100):
            clients.plain()
        until(lambda: process.num_fds() >= files - 1, what="no file is left")
        began = server.cpu_s
        for _ in range(100):
            assert api.get("/version").status == 200
        assert server.cpu_s - began < 1.0
        stack.close()
        with Api(server) as new:
            assert new.get("/version").status == 200
        api.close()
