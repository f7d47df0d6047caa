"""Metrics of the process: information, resource usage, and limits.

prometheus-client reads most of them. Source of the other names: github.com/prometheus/client_golang,
prometheus/process_collector_linux.go.
"""

from __future__ import annotations

import itertools
import resource
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from apiserver.metrics.declarations import known_metrics
from apiserver.metrics.series import Family, family, single

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from apiserver.load.memory_budget import MemoryBudget
    from apiserver.load.offload import Offload
    from apiserver.meta.releases.gates import FeatureGates

# The counters of the process's network namespace: Linux does not count the bytes of single processes.
NETWORK_COUNTERS: Final = Path("/proc/self/net/netstat")
_SECTION: Final = "IpExt:"
# Go's value for no limit.
UNLIMITED_BYTES: Final = 2**64 - 1
# The fields of /version that the labels show, in their order.
_BUILD_FIELDS: Final = (
    *("major", "minor", "gitVersion", "gitCommit", "gitTreeState", "buildDate"),
    *("goVersion", "compiler", "platform"),
)


def process_families() -> Iterable[Family]:
    """Yields the current metrics of the process from prometheus-client: none on systems other than Linux."""
    known = known_metrics()
    for collector in process_collectors():
        for sample in itertools.chain.from_iterable(metric.samples for metric in collector.collect()):
            if (metric := known.get(sample.name)) is not None:
                yield family(sample.name, [([sample.labels[label] for label in metric.labels], sample.value)])


@cache
def process_collectors() -> Sequence[Collector]:
    """Returns the collectors of prometheus-client. The first call imports it, in 10 to 25 ms."""
    from prometheus_client import PLATFORM_COLLECTOR, PROCESS_COLLECTOR

    return PROCESS_COLLECTOR, PLATFORM_COLLECTOR


class ProcessMetrics:
    """Shows the memory limit of the process, and the traffic of its network.

    counters: the path of a file like `NETWORK_COUNTERS`.
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
        """Returns the network counters by name; none if the file is missing, or has another format."""
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


class MemoryMetrics:
    """Shows the memory budget at the time of the request for /metrics."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget

    def families(self) -> Iterable[Family]:
        budget = self._budget
        yield single("apiserver_memory_limit_bytes", budget.limit_bytes)
        yield single("apiserver_memory_pressure", int(budget.pressure))
        refused = budget.refused.items()
        yield family("apiserver_memory_refused_requests_total", [((kind,), count) for kind, count in refused])


class OffloadMetrics:
    """Shows the lanes of an `Offload` at the time of the request for /metrics."""

    def __init__(self, offload: Offload) -> None:
        self._lanes = offload.lanes

    def families(self) -> Iterable[Family]:
        lanes = [((lane.name,), lane) for lane in self._lanes.values()]
        yield family("apiserver_offload_waiting", [(name, lane.waiting) for name, lane in lanes])
        yield family("apiserver_offload_done_total", [(name, lane.done_total) for name, lane in lanes])
        yield family("apiserver_offload_refused_total", [(name, lane.refused_total) for name, lane in lanes])
        yield family("apiserver_offload_busy_seconds_total", [(name, lane.busy_s) for name, lane in lanes])


class ConnectionCounts(Protocol):
    """The connections of `app.secure_serving.SecureServing`."""

    @property
    def open_connections(self) -> int: ...
    @property
    def connections_max(self) -> int: ...
    @property
    def refused_connections(self) -> int: ...


class WatchCounts(Protocol):
    """The watches of `endpoints.watch_stream.WatchStreams`."""

    watches_max: int
    refused_total: int
    unauthorized_total: int

    @property
    def limited_count(self) -> int: ...


class LimitMetrics:
    """Shows connections, watches and requests beside their limits.

    requests_max: the limits of requests in flight, by kind.
    """

    def __init__(
        self, connections: ConnectionCounts, watches: WatchCounts, requests_max: Mapping[str, int]
    ) -> None:
        self._connections, self._watches, self._requests_max = connections, watches, requests_max

    def families(self) -> Iterable[Family]:
        connections, watches = self._connections, self._watches
        yield single("apiserver_connections", connections.open_connections)
        yield single("apiserver_connections_max", connections.connections_max)
        yield single("apiserver_connections_refused_total", connections.refused_connections)
        limits = self._requests_max.items()
        yield family("apiserver_inflight_requests_max", [((kind,), limit) for kind, limit in limits])
        yield single("apiserver_watches", watches.limited_count)
        yield single("apiserver_watches_max", watches.watches_max)
        yield single("apiserver_watches_refused_total", watches.refused_total)
        yield single("apiserver_watches_unauthorized_total", watches.unauthorized_total)


class BuildInfo:
    """The metric of the build: always 1, with labels that describe the build. version: the body of
    /version.
    """

    def __init__(self, version: Mapping[str, str]) -> None:
        self._labels = [version[field] for field in _BUILD_FIELDS]

    def families(self) -> Iterable[Family]:
        yield family("kubernetes_build_info", [(self._labels, 1)])


class FeatureGateMetrics:
    """Shows which feature gates are on. Source: k8s.io/component-base, metrics/prometheus/feature."""

    def __init__(self, gates: FeatureGates) -> None:
        self._gates = gates

    def families(self) -> Iterable[Family]:
        states = [((name, stage), int(is_on)) for name, stage, is_on in self._gates.states()]
        yield family("kubernetes_feature_enabled", states)
