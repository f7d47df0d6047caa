"""What the system tells of the process: what it uses, what its network has carried, how large it may get.

Source of names: github.com/prometheus/client_golang, prometheus/process_collector_linux.go; and of
`python_info`, prometheus-client of Python.
"""

from __future__ import annotations

import os
import platform
import resource
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

from apiserver.metrics.series import Family, family, single

# Of the network that the process is in, with all others that are: Linux counts no single one's.
NETWORK_COUNTERS: Final = Path("/proc/self/net/netstat")
_SECTION: Final = "IpExt:"
# As Go tells a limit that there is not.
UNLIMITED_BYTES: Final = 2**64 - 1


def process_families() -> Iterable[Family]:
    """Yields what every process uses, where Linux tells that, and which Python it runs."""
    try:
        # Behind the name of the program, which may contain anything.
        stat = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        open_files = len(os.listdir("/proc/self/fd"))
        booted_at = _booted_at()
    except OSError:
        pass
    else:
        ticks = os.sysconf("SC_CLK_TCK")
        yield single("process_virtual_memory_bytes", int(stat[20]))
        yield single("process_resident_memory_bytes", int(stat[21]) * resource.getpagesize())
        yield single("process_start_time_seconds", booted_at + int(stat[19]) / ticks)
        yield single("process_cpu_seconds_total", (int(stat[11]) + int(stat[12])) / ticks)
        yield single("process_open_fds", open_files)
        yield single("process_max_fds", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    labels = (platform.python_version(), platform.python_implementation(), *platform.python_version_tuple())
    yield family("python_info", [(labels, 1)])


@cache
def _booted_at() -> int:
    """Returns when the system has started, in seconds since 1970."""
    lines = Path("/proc/stat").read_bytes().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(b"btime "))


class ProcessMetrics:
    """Shows how large the process may get, and what its network has carried.

    counters: a file as `NETWORK_COUNTERS`.
    """

    def __init__(self, counters: Path = NETWORK_COUNTERS) -> None:
        self._counters = counters

    def families(self) -> Iterable[Family]:
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        yield single(
            "process_virtual_memory_max_bytes", UNLIMITED_BYTES if limit == resource.RLIM_INFINITY else limit
        )
        counted = self._network()
        yield single("process_network_receive_bytes_total", counted.get("InOctets"))
        yield single("process_network_transmit_bytes_total", counted.get("OutOctets"))

    def _network(self) -> dict[str, int]:
        """Returns the counters by name; none where the system has no such file, or another one."""
        try:
            lines = self._counters.read_text().splitlines()
        except OSError:
            return {}
        # Names, and on the next line that begins in the same way their values.
        names, *rows = [line.split()[1:] for line in lines if line.startswith(_SECTION)] or [[]]
        try:
            return {name: int(text) for row in rows[:1] for name, text in zip(names, row, strict=False)}
        except ValueError:
            return {}
