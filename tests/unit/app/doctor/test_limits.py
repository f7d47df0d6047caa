"""Findings about limits of open files and memory."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.app.doctor.limits import (
    Memory,
    OpenFiles,
    examine_memory,
    examine_open_files,
    gather_memory,
    gather_open_files,
)
from apiserver.cli.config import Config
from tests.unit.app.doctor.findings import told

GIB: Final = 1024**3
FILES: Final[dict[str, tuple[OpenFiles, tuple[str, str]]]] = {
    "no limit": (OpenFiles(None, 10_000), ("OK", "there is no limit on open files")),
    "enough": (
        OpenFiles(10_256, 10_000),
        ("OK", "the limit of 10256 open files is enough for --max-connections=10000"),
    ),
    "too few": (
        OpenFiles(1_024, 10_000),
        ("WARNING", "the limit of 1024 open files allows 768 connections, but --max-connections is 10000"),
    ),
    "nearly none": (
        OpenFiles(20, 10_000),
        ("WARNING", "the limit of 20 open files allows 1 connection, but --max-connections is 10000"),
    ),
    "no limit of connections": (
        OpenFiles(1_024, 0),
        ("NOTE", "the limit of 1024 open files allows 768 connections"),
    ),
}


@pytest.mark.parametrize(("facts", "found"), FILES.values(), ids=FILES)
def test_open_files(facts: OpenFiles, found: tuple[str, str]) -> None:
    assert told(examine_open_files(facts)) == [found]


PLAIN: Final = Memory(None, 0, 8 * GIB, GIB // 4, 1)
MEMORY: Final[dict[str, tuple[Memory, list[tuple[str, str]]]]] = {
    "none": (PLAIN, [("NOTE", "the server has no memory limit")]),
    "of the container": (PLAIN._replace(container=GIB), [("OK", "the memory limit is 1 GiB")]),
    "by the flag": (PLAIN._replace(flag=GIB, container=2 * GIB), [("OK", "the memory limit is 1 GiB")]),
    "switched off": (
        PLAIN._replace(flag=0, container=GIB),
        [("NOTE", "the server has no memory limit")],
    ),
    "above the container's": (
        PLAIN._replace(flag=2 * GIB, container=GIB),
        [("ERROR", "--memory-limit is 2 GiB, but the limit of the container is 1 GiB")],
    ),
    "above the machine's": (
        PLAIN._replace(flag=9 * GIB),
        [("WARNING", "the memory limit is 9 GiB, but this machine has only 8 GiB")],
    ),
    "mostly history": (
        PLAIN._replace(flag=GIB // 4),
        [
            ("OK", "the memory limit is 256 MiB"),
            ("WARNING", "--watch-cache-history-bytes is 256 MiB, but the memory limit is 256 MiB"),
        ],
    ),
    "shared by workers": (
        PLAIN._replace(flag=GIB, workers=4),
        [
            ("OK", "the memory limit is 1 GiB"),
            (
                "WARNING",
                (
                    "--watch-cache-history-bytes is 256 MiB, but the memory limit is 256 MiB for each of 4 "
                    "workers"
                ),
            ),
        ],
    ),
}


@pytest.mark.parametrize(("facts", "found"), MEMORY.values(), ids=MEMORY)
def test_memory(facts: Memory, found: list[tuple[str, str]]) -> None:
    assert told(examine_memory(facts)) == found


def test_limits_of_this_process() -> None:
    files, memory = gather_open_files(Config()), gather_memory(Config())
    assert files.connections == 10_000
    assert files.hard is None or files.hard > 0
    assert memory.machine > 0
    assert (memory.flag, memory.history, memory.workers) == (None, 256 * 1024**2, 1)
