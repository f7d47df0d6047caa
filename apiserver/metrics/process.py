"""What prometheus-client does not tell of the process: what its network has carried, how large it may get.

Source of names: github.com/prometheus/client_golang, prometheus/process_collector_linux.go.
"""

from __future__ import annotations

import resource
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from apiserver.metrics.series import Family, values

# Of the network that the process is in, with all others that are: Linux counts no single one's.
NETWORK_COUNTERS: Final = Path("/proc/self/net/netstat")
_SECTION: Final = "IpExt:"
# As Go tells a limit that there is not.
UNLIMITED_BYTES: Final = 2**64 - 1


class ProcessMetrics:
    """Reads the counters when /metrics is requested. counters: a file as `NETWORK_COUNTERS`."""

    def __init__(self, counters: Path = NETWORK_COUNTERS) -> None:
        self._counters = counters

    def families(self) -> Iterable[Family]:
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        yield values(
            "process_virtual_memory_max_bytes",
            "gauge",
            "Maximum amount of virtual memory available in bytes.",
            (),
            [((), UNLIMITED_BYTES if limit == resource.RLIM_INFINITY else limit)],
        )
        counted = self._network()
        for name, counter, text in (
            ("process_network_receive_bytes_total", "InOctets", "received by"),
            ("process_network_transmit_bytes_total", "OutOctets", "sent over"),
        ):
            yield values(
                name,
                "counter",
                f"Number of bytes {text} the network that the process is in.",
                (),
                [((), counted[counter])] if counter in counted else [],
            )

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
