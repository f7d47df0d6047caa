"""What the system tells of the process."""

from __future__ import annotations

import platform
import resource
import sys
from pathlib import Path
from typing import Final

import psutil
import pytest

from apiserver.metrics.process import ProcessMetrics, process_families

COUNTERS: Final = "TcpExt: A B\nTcpExt: 1 2\nIpExt: InNoRoutes InOctets OutOctets\nIpExt: 3 70 80\n"
FILES: Final = {
    "as Linux writes it": (COUNTERS, {"receive": "70", "transmit": "80"}),
    "without one of them": (COUNTERS.replace("OutOctets", "Other"), {"receive": "70"}),
    "without its values": (COUNTERS.removesuffix("IpExt: 3 70 80\n"), {}),
    "with other values": (COUNTERS.replace("70", "many"), {}),
    "another file": ("", {}),
    "no file": (None, {}),
}


@pytest.mark.parametrize(("content", "expected"), FILES.values(), ids=FILES)
def test_the_network_of_the_process(tmp_path: Path, content: str | None, expected: dict[str, str]) -> None:
    path = tmp_path / "netstat"
    if content is not None:
        path.write_text(content)
    lines = [line for family in ProcessMetrics(path).families() for line in family.series if line]
    found = dict(line.split() for line in lines)
    assert found.pop("process_virtual_memory_max_bytes").isdigit()
    assert found == {f"process_network_{name}_bytes_total": value for name, value in expected.items()}


def test_the_python_of_the_process() -> None:
    (line,) = (line for family in process_families() for line in family.series if "python_info" in line)
    major, minor, _ = platform.python_version_tuple()
    assert line.startswith(f'python_info{{implementation="CPython",major="{major}",minor="{minor}",')


def test_what_linux_tells_of_the_process() -> None:
    """As psutil reads it. Other systems have no /proc, and tell nothing."""
    process = psutil.Process()
    lines = [line for family in process_families() for line in family.series if not family.metric.labels]
    told = {name.removeprefix("process_"): float(value) for name, value in map(str.split, lines)}
    used = process.cpu_times()
    memory = process.memory_info()
    expected = {
        "virtual_memory_bytes": pytest.approx(memory.vms, rel=0.2),
        "resident_memory_bytes": pytest.approx(memory.rss, rel=0.2),
        "start_time_seconds": pytest.approx(process.create_time(), abs=1),
        "cpu_seconds_total": pytest.approx(used.user + used.system, abs=1),
        "open_fds": pytest.approx(process.num_fds(), abs=1),
        "max_fds": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    }
    assert told == (expected if sys.platform == "linux" else {})
