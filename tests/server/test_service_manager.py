"""A server under a service manager, as systemd starts one with `Type=notify` and `WatchdogSec=`."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil
import pytest

from tests.support.api import Api
from tests.support.etcd_process import EtcdProcess
from tests.support.eventually import WITHIN_S, until
from tests.support.server_process import ServerProcess

# The server takes its environment with it, so it has an interpreter of its own.
MODULE: Final = "apiserver"
WATCHDOG_S: Final = 2


class Manager:
    """The socket of a service manager, and what has arrived at it. WATCHDOG=1 is counted, and not listed."""

    def __init__(self, bound: socket.socket) -> None:
        self._bound = bound
        self.environment = {"NOTIFY_SOCKET": bound.getsockname(), "WATCHDOG_USEC": f"{WATCHDOG_S}000000"}
        self.reports: list[str] = []
        self.alive = 0

    def receive(self) -> None:
        text = self._bound.recv(4096).decode()
        if text == "WATCHDOG=1":
            self.alive += 1
        else:
            self.reports.append(text)

    def await_report(self) -> str:
        """Returns the next report but WATCHDOG=1."""
        before = len(self.reports)
        while len(self.reports) == before:
            self.receive()
        return self.reports[-1]

    def await_alive(self) -> None:
        before = self.alive
        while self.alive == before:
            self.receive()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind(str(tmp_path / "notify"))
        bound.settimeout(WITHIN_S)
        yield Manager(bound)


def test_a_server_reports_that_it_is_ready_alive_and_stopping(tmp_path: Path, manager: Manager) -> None:
    with ServerProcess(tmp_path / "data", module=MODULE, environment=manager.environment) as server:
        assert manager.await_report() == f"READY=1\nSTATUS=Serving {server.url}"
        manager.await_alive()
        server.send_signal(signal.SIGTERM)
        assert manager.await_report() == "STOPPING=1"
        assert server.wait() == 0


def test_a_server_whose_watchdog_ends_it_leaves_its_stacks(tmp_path: Path, manager: Manager) -> None:
    with ServerProcess(tmp_path / "data", module=MODULE, environment=manager.environment) as server:
        manager.await_alive()
        server.send_signal(signal.SIGABRT)  # as systemd does
        assert server.wait() == -signal.SIGABRT
    assert "Fatal Python error: Aborted" in server.stderr
    assert "process.py" in server.stderr


@pytest.mark.etcd
def test_with_workers_the_supervisor_reports_and_replaces_a_stuck_worker(
    tmp_path: Path, manager: Manager, etcd: EtcdProcess
) -> None:
    """After a pause of all processes it ends none."""
    flags = (f"--etcd-servers={etcd.url}", "--etcd-prefix=/watchdog", "--workers=2")
    with ServerProcess(tmp_path / "data", *flags, environment=manager.environment) as server:
        assert manager.await_report() == f"READY=1\nSTATUS=Serving {server.url} with 2 workers"
        manager.await_alive()
        workers = [process.pid for process in psutil.Process(server.pid).children()]
        # As `docker pause` and `docker unpause` do, and the supervisor is the first to continue.
        for pid in (server.pid, *workers):
            os.kill(pid, signal.SIGSTOP)
        time.sleep(1.2 * WATCHDOG_S)
        server.send_signal(signal.SIGCONT)
        manager.await_alive()
        for pid in workers:
            os.kill(pid, signal.SIGCONT)
        for _ in range(2):
            manager.await_alive()
        assert " is stuck" not in server.stderr
        stuck = workers[0]
        os.kill(stuck, signal.SIGSTOP)
        until(lambda: " is ready again" in server.stderr, what="the worker was replaced")
        assert f"(process {stuck}) is stuck; sending SIGABRT" in server.stderr
        assert f"(process {stuck}) is stuck; sending SIGKILL" in server.stderr
        assert stuck not in [process.pid for process in psutil.Process(server.pid).children()]
        with Api(server) as api:
            assert api.get("/readyz").status == 200
        server.send_signal(signal.SIGTERM)
        assert manager.await_report() == "STOPPING=1"
        assert server.wait() == 0
