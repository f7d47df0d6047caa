"""What the system tells of the process."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from apiserver.metrics.process import ProcessMetrics

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
    lines = [line for family in ProcessMetrics(path).families() for line in family.series]
    found = dict(line.split() for line in lines)
    assert found.pop("process_virtual_memory_max_bytes").isdigit()
    assert found == {f"process_network_{name}_bytes_total": value for name, value in expected.items()}
