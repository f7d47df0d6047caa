"""Everything that /metrics shows, collected for each request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from apiserver.metrics.requests import RequestMetrics
from apiserver.registry.stored_object import StoredObject
from storage.watch_cache import WatchCache

_RESOURCE: Final = ("group", "resource")


class MetricsSource(Protocol):
    """What has counted something, or knows something."""

    def families(self) -> Iterable[Metric]: ...


class MetricsCollector(Collector):
    """Yields what has been counted, and reads the watch cache's state."""

    def __init__(
        self,
        requests: RequestMetrics,
        cache: WatchCache[StoredObject],
        resource_of: Callable[[str], tuple[str, str]],
        others: Sequence[MetricsSource],
    ) -> None:
        """resource_of: returns the group and the name of the resource whose keys have a given prefix."""
        self._requests, self._cache, self._resource_of = requests, cache, resource_of
        self._sources = (requests, *others)

    def collect(self) -> Iterable[Metric]:
        in_flight = GaugeMetricFamily(
            "apiserver_current_inflight_requests",
            "Requests that are being answered now, without watches.",
            labels=["request_kind"],
        )
        in_flight.add_metric(["mutating"], self._requests.in_flight.mutating.value)
        in_flight.add_metric(["readOnly"], self._requests.in_flight.read_only.value)
        yield in_flight
        yield GaugeMetricFamily(
            "apiserver_longrunning_requests", "Watches that are open.", value=self._requests.watches
        )
        objects = GaugeMetricFamily(
            "apiserver_storage_objects", "Objects that are stored.", labels=["resource"]
        )
        capacity = GaugeMetricFamily(
            "watch_cache_capacity",
            "Events that the watch cache keeps at most.",
            labels=_RESOURCE,
        )
        history_bytes = GaugeMetricFamily(
            "apiserver_watch_cache_history_bytes",
            "Bytes of the obsolete object versions that the watch cache keeps.",
            labels=_RESOURCE,
        )
        received = CounterMetricFamily(
            "apiserver_watch_cache_events_received",
            "Events that the watch cache received.",
            labels=_RESOURCE,
        )
        initializations = CounterMetricFamily(
            "apiserver_watch_cache_initializations",
            "How often the watch cache listed everything: at the start, and when its watch could not resume.",
            labels=_RESOURCE,
        )
        terminated = CounterMetricFamily(
            "apiserver_terminated_watchers",
            "Watches that were ended because their clients did not keep up.",
            labels=_RESOURCE,
        )
        for prefix, resource in self._cache.resources.items():
            labels = group, name = self._resource_of(prefix)
            objects.add_metric([f"{name}.{group}" if group else name], len(resource.snapshots))
            capacity.add_metric(labels, resource.history.limits.events_max)
            history_bytes.add_metric(labels, resource.history.bytes)
            received.add_metric(labels, resource.events_total)
            initializations.add_metric(labels, self._cache.fills_total)
            terminated.add_metric(labels, resource.fanout.dropped_total)
        yield from (objects, capacity, history_bytes, received, initializations, terminated)
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
            "The most bytes that the obsolete object versions of all resources may take together.",
            value=self._cache.history_bytes_max,
        )
        for source in self._sources:
            yield from source.families()
        yield GaugeMetricFamily(
            "apiserver_watch_cache_resource_version",
            "The revision that the watch cache has reached.",
            value=self._cache.revision,
        )
