"""What servers in a test's process take to start, to fork and to reset, and what a thousand of them leave.

`make bench ARGS="forks servers"`
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from statistics import median
from typing import Final, TypeVar

import psutil

from apiserver.testing import ApiServer
from benchmarks.bodies import config_map
from benchmarks.report import Result
from benchmarks.workloads import CONFIGMAPS, Settings
from tests.support.servers_left import left_by_servers

T = TypeVar("T")

# What a test's process does before its first test, if it does nothing else.
_COLD: Final = """
from apiserver.testing import ApiServer
with ApiServer():
    print("ready", flush=True)
"""
STARTS: Final = 12
COLD_S_MAX: Final = 0.6
WARM_S_MAX: Final = 0.15
OBJECTS: Final = 1_000
TIMES: Final = 50
FORK_MS_MAX: Final = 20.0
RESET_MS_MAX: Final = 20.0
# A test that has a fork for itself, and asks it for one object.
TESTS: Final = 100
TESTS_S_MAX: Final = 6.0
KEPT: Final = 20
FORK_MB_MAX: Final = 3.0
SERVERS: Final = 1_000
LEFT_MB_MAX: Final = 16.0


async def forks(settings: Settings) -> AsyncIterator[Result]:
    """On one core, as the servers of a process share it. Medians, beside the processor time."""
    cold_s = median([_seconds_from_cold() for _ in range(STARTS)])
    yield Result("a cold Python to ready", "s", cold_s, target=COLD_S_MAX, is_bound=True)
    path = CONFIGMAPS.format("default")
    with ApiServer() as server:
        _fill(server, path)
        snapshot = server.snapshot()

        def use_fork() -> None:
            with server.fork(snapshot) as fork:
                status, _ = fork.request("GET", f"{path}/c-000001")
                assert status == 200

        use_fork()
        # Before others have ended, whose memory the process has still.
        process = psutil.Process()
        before = process.memory_info().rss
        kept = [server.fork(snapshot) for _ in range(KEPT)]
        grown_mb = (process.memory_info().rss - before) / KEPT / 1e6
        for fork in kept:
            fork.stop()
        yield Result("memory of a fork", "MB", grown_mb, target=FORK_MB_MAX, is_bound=True)
        yield _bounded("fork, 1,000 objects", FORK_MS_MAX, lambda: server.fork(snapshot), ApiServer.stop)
        with server.fork(snapshot) as fork:
            yield _bounded("reset, 1,000 objects", RESET_MS_MAX, lambda: fork.reset(snapshot), lambda _: None)
        began = time.perf_counter()
        for _ in range(TESTS):
            use_fork()
        took_s = time.perf_counter() - began
        yield Result(f"{TESTS} tests with a fork each", "s", took_s, target=TESTS_S_MAX, is_bound=True)
    warm_s = median([_seconds_to_answer() for _ in range(STARTS)])
    yield Result("start to the first answer", "s", warm_s, target=WARM_S_MAX, is_bound=True)


async def servers(settings: Settings) -> AsyncIterator[Result]:
    """In a process of their own, one after another: the first ten fill caches that have bounds."""
    at_10, at_1000 = await asyncio.to_thread(left_by_servers, 10, SERVERS)
    note = f"{at_10.memory / 1e6:.1f} MB after 10, {at_1000.memory / 1e6:.1f} MB after {SERVERS:,}"
    grown_mb = (at_1000.memory - at_10.memory) / 1e6
    yield Result(
        "memory that 990 servers leave", "MB", grown_mb, target=LEFT_MB_MAX, is_bound=True, note=note
    )
    yield Result("files and threads of them", "", sum(at_1000[2:]) - sum(at_10[2:]), note=str(at_1000))


def _seconds_from_cold() -> float:
    """From starting the interpreter to a server that is ready."""
    began = time.perf_counter()
    with subprocess.Popen([sys.executable, "-c", _COLD], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return time.perf_counter() - began


def _seconds_to_answer() -> float:
    """From starting one more server in a process to its first answer."""
    began = time.perf_counter()
    with ApiServer() as server:
        status, _ = server.request("GET", "/version")
        assert status == 200
        return time.perf_counter() - began


def _fill(server: ApiServer, path: str) -> None:
    connection = server.connect()
    headers = {**server.admin_headers, "Content-Type": "application/json"}
    for number in range(OBJECTS):
        connection.request("POST", path, config_map(f"c-{number:06}"), headers)
        assert connection.getresponse().read()
    connection.close()


def _bounded(work: str, ms_max: float, act: Callable[[], T], undo: Callable[[T], None]) -> Result:
    """undo: called with what `act` has returned, which takes no part."""
    taken_s, cpu_s = [], []
    for _ in range(TIMES):
        began, cpu_began = time.perf_counter(), time.process_time()
        made = act()
        taken_s.append(time.perf_counter() - began)
        cpu_s.append(time.process_time() - cpu_began)
        undo(made)
    return Result(work, "ms", median(taken_s) * 1e3, target=ms_max, is_bound=True, cpu_us=median(cpu_s) * 1e6)
