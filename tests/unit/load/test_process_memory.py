"""The limit of the container, and the memory of the process."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import Final

import psutil
import pytest

from apiserver.load.process_memory import Allocator, ResidentMemory, container_limit_bytes

# Files -> the limit.
GROUPS: Final[dict[str, tuple[dict[str, str], int]]] = {
    "version 2, in a container": (
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n"},
        536_870_912,
    ),
    "version 2, no limit": ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 0),
    "version 2, the tightest of those above": (
        {
            "proc/self/cgroup": "0::/system.slice/a.service\n",
            "sys/fs/cgroup/system.slice/memory.max": "1000\n",
            "sys/fs/cgroup/system.slice/a.service/memory.max": "2000\n",
        },
        1_000,
    ),
    "version 1": (
        {
            "proc/self/cgroup": "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n0::/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "3000\n",
        },
        3_000,
    ),
    "version 1, no limit": (
        {
            "proc/self/cgroup": "4:memory:/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
        0,
    ),
    "no groups": ({}, 0),
}


@pytest.mark.parametrize(("files", "expected"), GROUPS.values(), ids=GROUPS)
def test_the_limit_of_the_container(tmp_path: Path, files: dict[str, str], expected: int) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert container_limit_bytes(tmp_path) == expected


def test_resident_memory_is_that_of_the_process() -> None:
    memory = ResidentMemory()
    resident = memory.bytes()
    memory.close()
    memory.close()
    if sys.platform == "linux":
        assert resident == pytest.approx(psutil.Process().memory_info().rss, rel=0.1)
    else:
        assert resident is None
    assert memory.bytes() is None


# Blocks of less than glibc maps by themselves, and more than Python's own allocator gives out.
BLOCK_BYTES: Final = 16_000
BLOCKS: Final = 4_000


def test_memory_that_is_free_within_the_heap_is_given_back() -> None:
    """By glibc; other C libraries are left alone."""
    allocator, process = Allocator(), psutil.Process()
    allocator.tune()
    blocks = [bytes(BLOCK_BYTES) for _ in range(BLOCKS)]
    del blocks[:-1]  # The last one keeps the end of the heap where it is.
    before = process.memory_info().rss
    allocator.trim()
    given_back = before - process.memory_info().rss
    if platform.libc_ver()[0] == "glibc":
        assert given_back > BLOCK_BYTES * BLOCKS / 2
