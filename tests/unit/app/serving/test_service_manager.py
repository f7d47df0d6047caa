"""Reports to a service manager: sd_notify(3) and sd_watchdog_enabled(3)."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from apiserver.app.serving.service_manager import ALIVE, ServiceManager

PID: Final = 17


@pytest.fixture
def received(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind(str(tmp_path / "notify"))
        bound.setblocking(False)
        yield bound


def messages(received: socket.socket) -> list[str]:
    found = []
    try:
        while True:
            found.append(received.recv(4096).decode())
    except BlockingIOError:
        return found


ENVIRONMENTS: Final[dict[str, tuple[dict[str, str], float]]] = {
    "no manager": ({}, 0.0),
    "a manager without a watchdog": ({"NOTIFY_SOCKET": "/s"}, 0.0),
    "a watchdog for any process": ({"NOTIFY_SOCKET": "/s", "WATCHDOG_USEC": "1500000"}, 1.5),
    "a watchdog for this process": (
        {"NOTIFY_SOCKET": "/s", "WATCHDOG_USEC": "1500000", "WATCHDOG_PID": str(PID)},
        1.5,
    ),
    "a watchdog for another process": (
        {"NOTIFY_SOCKET": "/s", "WATCHDOG_USEC": "1500000", "WATCHDOG_PID": "18"},
        0.0,
    ),
    "a watchdog without a manager": ({"WATCHDOG_USEC": "1500000"}, 0.0),
    "not a number": ({"NOTIFY_SOCKET": "/s", "WATCHDOG_USEC": "-1"}, 0.0),
}


@pytest.mark.parametrize(("environment", "watchdog_s"), ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_the_environment_names_the_manager(environment: dict[str, str], watchdog_s: float) -> None:
    left = {**environment, "PATH": "/bin"}
    assert ServiceManager.take_from(left, PID).watchdog_s == watchdog_s
    assert left == {"PATH": "/bin"}


def test_states_are_the_lines_of_one_datagram(received: socket.socket) -> None:
    ServiceManager(received.getsockname()).notify("READY=1", "STATUS=Serving")
    assert messages(received) == ["READY=1\nSTATUS=Serving"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has abstract names of sockets")
def test_an_abstract_name_begins_with_an_at_sign(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind(f"\0{tmp_path}")
        ServiceManager(f"@{tmp_path}").notify("READY=1")
        assert bound.recv(4096) == b"READY=1"


def test_without_a_manager_nothing_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    ServiceManager().notify("READY=1")
    assert caplog.messages == []


def test_a_manager_that_is_gone_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        ServiceManager(str(tmp_path / "gone")).notify("READY=1", "STATUS=Serving")
    assert caplog.messages == ["cannot report READY=1 to the service manager: No such file or directory"]


async def test_a_manager_that_does_not_read_holds_up_the_loop_only_briefly(received: socket.socket) -> None:
    manager = ServiceManager(received.getsockname())
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as full:
        full.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                full.sendto(b"x", received.getsockname())
    began = time.perf_counter()
    manager.notify(ALIVE)
    assert time.perf_counter() - began < 2


async def test_the_watchdog_hears_of_each_half_of_its_time_while_the_loop_turns(
    received: socket.socket,
) -> None:
    manager = ServiceManager(received.getsockname(), watchdog_s=0.1)
    manager.feed_watchdog(asyncio.get_running_loop())
    await asyncio.sleep(0.25)
    assert len(messages(received)) >= 3
    time.sleep(0.25)
    assert messages(received) == []
    await asyncio.sleep(0.06)
    assert messages(received)[0] == ALIVE


async def test_without_a_watchdog_it_hears_nothing(received: socket.socket) -> None:
    ServiceManager(received.getsockname()).feed_watchdog(asyncio.get_running_loop())
    await asyncio.sleep(0)
    assert messages(received) == []
