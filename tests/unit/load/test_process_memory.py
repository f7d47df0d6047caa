"""The limit of the container, and the memory of the process."""

from __future__ import annotations

from pathlib import Path
from typing import Final

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
    assert resident is None or 10_000_000 < resident < 1 << 40
    assert memory.bytes() is None


def test_memory_can_be_given_back_whatever_the_c_library() -> None:
    allocator = Allocator()
    allocator.tune()
    allocator.trim()
