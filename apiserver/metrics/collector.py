"""Everything that /metrics shows, put together when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from apiserver.metrics.requests import RequestMetrics
from apiserver.metrics.storage import StorageMetrics
from apiserver.registry.stored_object import StoredObject
from storage.watch_cache import WatchCache

_RESOURCE: Final = ("group", "resource")


class MetricsCollector(Collector):
    """States, read when /metrics is asked for."""

    def __init__(
        self,
        requests: RequestMetrics,
        storage: StorageMetrics,
        cache: WatchCache[StoredObject],
        resource_of: Callable[[str], tuple[str, str]],
    ) -> None:
        """resource_of: a resource's group and name from its key prefix."""
        self._requests, self._storage, self._cache, self._resource_of = requests, storage, cache, resource_of

    def collect(self) -> Iterable[Metric]:
        in_flight = GaugeMetricFamily(
            "apiserver_current_inflight_requests",
            "Requests that are being answered now, watches left out.",
            labels=["request_kind"],
        )
        in_flight.add_metric(["mutating"], self._requests.in_flight.mutating)
        in_flight.add_metric(["readOnly"], self._requests.in_flight.read_only)
        yield in_flight
        yield GaugeMetricFamily(
            "apiserver_longrunning_requests", "Watches that are open.", value=self._requests.watches
        )
        objects = GaugeMetricFamily(
            "apiserver_storage_objects", "Objects that are stored.", labels=["resource"]
        )
        capacity = GaugeMetricFamily(
            "watch_cache_capacity",
            "Changes that the watch cache keeps at the most.",
            labels=_RESOURCE,
        )
        kept = GaugeMetricFamily(
            "apiserver_watch_cache_history_bytes",
            "Obsolete object versions that the watch cache keeps.",
            labels=_RESOURCE,
        )
        received = CounterMetricFamily(
            "apiserver_watch_cache_events_received",
            "Changes that the watch cache was told of.",
            labels=_RESOURCE,
        )
        filled = CounterMetricFamily(
            "apiserver_watch_cache_initializations",
            "How often the watch cache listed everything: at the start, and when it lost its place.",
            labels=_RESOURCE,
        )
        dropped = CounterMetricFamily(
            "apiserver_terminated_watchers",
            "Watches that were ended because their clients did not keep up.",
            labels=_RESOURCE,
        )
        for prefix, resource in self._cache.resources.items():
            labels = group, name = self._resource_of(prefix)
            objects.add_metric([f"{name}.{group}" if group else name], len(resource.snapshots))
            capacity.add_metric(labels, resource.history.limits.events_max)
            kept.add_metric(labels, resource.history.bytes)
            received.add_metric(labels, resource.events_total)
            filled.add_metric(labels, self._cache.fills_total)
            dropped.add_metric(labels, resource.fanout.dropped_total)
        yield from (objects, capacity, kept, received, filled, dropped)
        checks = CounterMetricFamily(
            "apiserver_storage_consistency_checks",
            "How often a resource's cache was compared with the store: success, failure, or error.",
            labels=(*_RESOURCE, "status"),
        )
        for (prefix, outcome), count in self._cache.checks_total.items():
            checks.add_metric((*self._resource_of(prefix), outcome), count)
        yield checks
        yield GaugeMetricFamily(
            "apiserver_watch_cache_history_bytes_max",
            "What the obsolete object versions of all resources may weigh together.",
            value=self._cache.history_bytes_max,
        )
        yield from self._requests.families()
        yield from self._storage.families()
        yield GaugeMetricFamily(
            "apiserver_watch_cache_resource_version",
            "The revision that the watch cache has reached.",
            value=self._cache.revision,
        )
