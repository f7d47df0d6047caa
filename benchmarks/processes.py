"""The processes that are measured: the server, and the bare ones it is held against."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

# The command of `benchmarks.ping`.
PING: Final = (sys.executable, "-m", "benchmarks.ping")


class Measured:
    """A process whose CPU time and memory are read from outside."""

    def __init__(self, pid: int, url: str) -> None:
        self._process = psutil.Process(pid)
        self.url = url

    def cpu_s(self) -> float:
        times = self._process.cpu_times()
        return times.user + times.system

    def memory_bytes(self) -> int:
        """Resident: what the process really takes of the machine."""
        resident: int = self._process.memory_info().rss
        return resident


@contextmanager
def bare(kind: str, *arguments: str) -> Iterator[Measured]:
    """A server of `benchmarks.bare`."""
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


def seconds_until_ready(data_dir: Path) -> float:
    """From the command to its `ready` line."""
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
