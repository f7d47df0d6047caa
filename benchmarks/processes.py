"""The processes that are measured: the server, and the bare servers that it is compared with."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, Self

import psutil

from benchmarks.watch_clients import Received

# Either idle, too, or counted in another field already.
_NOT_BUSY: Final = ("iowait", "guest", "guest_nice")


def machine_cpu_s() -> float:
    """The CPU time of all processes together, and the time that the machine's host takes (steal)."""
    times = psutil.cpu_times()
    return sum(times) - times.idle - sum(getattr(times, name, 0.0) for name in _NOT_BUSY)


class Measured:
    """A process whose CPU time and memory are read from outside."""

    def __init__(self, pid: int, url: str) -> None:
        self._process = psutil.Process(pid)
        self.url = url

    def cpu_s(self) -> float:
        if sys.platform == "linux":
            # The kernel's clock of the process, as psutil's ticks of 10 ms are too coarse for a short run.
            return time.clock_gettime((~self._process.pid << 3) | 2)
        times = self._process.cpu_times()
        return times.user + times.system

    def memory_bytes(self) -> int:
        """The resident memory of the process."""
        resident: int = self._process.memory_info().rss
        return resident


@contextmanager
def bare(kind: str, *arguments: str) -> Iterator[Measured]:
    """Run a server of `benchmarks.bare`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.bare", kind, *arguments], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        port = process.stdout.readline().strip()
        if not port:
            raise RuntimeError(f"the bare server {kind} did not start")
        yield Measured(process.pid, f"https://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


class Pings:
    """The result of `pings`. longest_s: the longest wait; set when the pings have ended."""

    longest_s = 0.0


@asynccontextmanager
async def pings(url: str) -> AsyncIterator[Pings]:
    """Send very small requests again and again, from a process of its own.

    Another workload may keep this process busy meanwhile.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.ping", url),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    found = Pings()
    try:
        await process.stdout.readline()
        yield found
        output, _ = await process.communicate(b"\n")
        found.longest_s = float(output)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


class WatchClients:
    """A process of `benchmarks.watch_clients` with many watches on one target, all of which have begun."""

    def __init__(self, process: asyncio.subprocess.Process, watchers: int) -> None:
        self._process, self.watchers = process, watchers

    @classmethod
    @asynccontextmanager
    async def of(cls, url: str, target: str, watchers: int) -> AsyncIterator[Self]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.watch_clients", url, target, str(watchers)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            watch_clients = cls(process, watchers)
            await watch_clients._line()
            yield watch_clients
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def expect(self, events: int) -> None:
        """Count `events` from now on."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"%d\n" % events)
        await self._line()

    async def received(self) -> Received:
        """Wait until every watch has received as many events as expected."""
        return Received(**json.loads(await self._line()))

    async def _line(self) -> bytes:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError("the watches ended early; the error is above")
        return line


def seconds_until_ready(data_dir: Path) -> float:
    """The time from starting the command to its `ready` line."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "apiserver", f"--data-dir={data_dir}", "--secure-port=0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        seconds = time.perf_counter() - began
        if not line.startswith("ready "):
            raise RuntimeError("the server did not start")
        return seconds
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
