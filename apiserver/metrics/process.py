"""What the system tells of the process: what it uses, what its network has carried, how large it may get.

prometheus-client reads most of that. Source of the other names: github.com/prometheus/client_golang,
prometheus/process_collector_linux.go.
"""

from __future__ import annotations

import itertools
import resource
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from apiserver.metrics.declarations import known_metrics
from apiserver.metrics.series import Family, family, single

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

# Of the network that the process is in, with all others that are: Linux counts no single one's.
NETWORK_COUNTERS: Final = Path("/proc/self/net/netstat")
_SECTION: Final = "IpExt:"
# As Go tells a limit that there is not.
UNLIMITED_BYTES: Final = 2**64 - 1


def process_families() -> Iterable[Family]:
    """Yields what prometheus-client knows of every process, as it is now: nothing where it is not Linux's."""
    known = known_metrics()
    for collector in process_collectors():
        for sample in itertools.chain.from_iterable(metric.samples for metric in collector.collect()):
            if (metric := known.get(sample.name)) is not None:
                yield family(sample.name, [([sample.labels[label] for label in metric.labels], sample.value)])


@cache
def process_collectors() -> Sequence[Collector]:
    """Returns those of prometheus-client. The first call imports it: 10 to 25 ms, not part of a start."""
    from prometheus_client import PLATFORM_COLLECTOR, PROCESS_COLLECTOR

    return PROCESS_COLLECTOR, PLATFORM_COLLECTOR


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
