"""What the server measures of itself, under the names that Kubernetes' dashboards know.

What changes with each request is counted as it happens, in cells that are bound once for each set of
labels; what is a state is read when somebody asks for /metrics.
"""

from __future__ import annotations

import itertools
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from apiserver.endpoints.call import Call
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject
from storage.interface import (
    MOST_RECENT,
    NO_LEASE,
    Condition,
    Delete,
    KeyRange,
    Page,
    Put,
    Read,
    ReadAt,
    Storage,
    Watch,
)
from storage.watch_cache import WatchCache

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

# kube-apiserver's, so that rules written for it fit.
_REQUEST_BUCKETS: Final = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60),
)
_STORAGE_BUCKETS: Final = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60),
)
_BUCKET_LABELS: Final = (*map(str, map(float, _REQUEST_BUCKETS)), "+Inf")
_REQUEST_LABELS: Final = (
    *("verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"),
)
_VERBS: Final = {
    "get": "GET",
    "list": "LIST",
    "watch": "WATCH",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETECOLLECTION",
}
READ_ONLY: Final = "readOnly"
MUTATING: Final = "mutating"


@dataclass(slots=True)
class InFlight:
    """Requests that are being answered now. Watches do not count."""

    read_only: int = 0
    mutating: int = 0


class Metrics:
    """All metrics of one server."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self.in_flight = InFlight()
        self.watches = 0
        self._watch_events = Counter(
            "apiserver_watch_events_total",
            "Events sent to watches.",
            ("group", "version", "resource"),
            registry=self.registry,
        )
        self.storage_durations = Histogram(
            "etcd_request_duration_seconds",
            "How long calls to the store took, whichever store it is.",
            ("operation", "type"),
            buckets=_STORAGE_BUCKETS,
            registry=self.registry,
        )
        self._requests: dict[tuple[object, ...], _Requests] = {}
        self._bound_events: dict[ServedResource, Counter] = {}

    def observe(self, call: Call, seconds: float) -> None:
        """Count a request that has been answered."""
        info, resource = call.info, call.resource
        is_dry_run = "All" if "dryRun" in call.query else ""
        key = (
            info.verb,
            is_dry_run,
            resource,
            info.subresource,
            bool(info.name),
            bool(info.namespace),
            call.status,
        )
        requests = self._requests.get(key)
        if requests is None:
            requests = self._requests[key] = _Requests(_labels(call, is_dry_run), str(call.status))
        requests.count += 1
        if info.verb != "watch":
            requests.seconds += seconds
            requests.buckets[bisect_left(_REQUEST_BUCKETS, seconds)] += 1

    def count_watch_events(self, resource: ServedResource, count: int) -> None:
        counter = self._bound_events.get(resource)
        if counter is None:
            group, version = resource.group_version
            counter = self._watch_events.labels(group, version, resource.resource)
            self._bound_events[resource] = counter
        counter.inc(count)

    def text(self) -> bytes:
        """The exposition format, version 0.0.4."""
        return generate_latest(self.registry)

    def request_families(self) -> Iterable[Metric]:
        """What was observed of requests."""
        total = CounterMetricFamily(
            "apiserver_request_total",
            "Requests by verb, resource and code.",
            labels=(*_REQUEST_LABELS, "code"),
        )
        durations = HistogramMetricFamily(
            "apiserver_request_duration_seconds",
            "How long requests took, watches left out.",
            labels=_REQUEST_LABELS,
        )
        by_labels: dict[tuple[str, ...], list[_Requests]] = {}
        for requests in self._requests.values():
            total.add_metric((*requests.labels, requests.code), requests.count)
            by_labels.setdefault(requests.labels, []).append(requests)
        for labels, group in by_labels.items():
            counts = itertools.accumulate(map(sum, zip(*(each.buckets for each in group), strict=True)))
            seconds = sum(each.seconds for each in group)
            durations.add_metric(labels, list(zip(_BUCKET_LABELS, counts, strict=True)), seconds)
        yield from (total, durations)


@dataclass(slots=True)
class _Requests:
    """Requests of the same labels and code, in plain numbers: prometheus-client's own take 3 µs for each.

    buckets: how many took no longer than each of _REQUEST_BUCKETS, but longer than the one before it, and at
    last how many took longer than any.
    """

    labels: tuple[str, ...]
    code: str
    count: int = 0
    seconds: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(_REQUEST_BUCKETS) + 1))


def _labels(call: Call, dry_run: str) -> tuple[str, ...]:
    info, resource = call.info, call.resource
    # What is not served has no labels: strangers could make up any number of them.
    if resource is None:
        verb = _VERBS.get(info.verb, info.verb.upper()) if info.method in _METHODS else "OTHER"
        return (verb, dry_run, "", "", "", "", "", "apiserver")
    scope = "resource" if info.name else "namespace" if info.namespace else "cluster"
    group, version = resource.group_version
    return (
        *(_VERBS.get(info.verb, info.verb.upper()), dry_run, group, version, resource.resource),
        *(info.subresource if info.subresource in resource.subresources else "", scope, "apiserver"),
    )


_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class StateCollector(Collector):
    """States, read when /metrics is asked for."""

    def __init__(
        self,
        metrics: Metrics,
        cache: WatchCache[StoredObject],
        name_of: Callable[[str], str],
        history_max: int,
    ) -> None:
        """name_of: a resource's name from its key prefix."""
        self._metrics, self._cache, self._name_of = metrics, cache, name_of
        self._history_max = history_max

    def collect(self) -> Iterable[Metric]:
        in_flight = GaugeMetricFamily(
            "apiserver_current_inflight_requests",
            "Requests that are being answered now, watches left out.",
            labels=["request_kind"],
        )
        in_flight.add_metric([MUTATING], self._metrics.in_flight.mutating)
        in_flight.add_metric([READ_ONLY], self._metrics.in_flight.read_only)
        yield in_flight
        yield GaugeMetricFamily(
            "apiserver_longrunning_requests", "Watches that are open.", value=self._metrics.watches
        )
        objects = GaugeMetricFamily(
            "apiserver_storage_objects", "Objects that are stored.", labels=["resource"]
        )
        capacity = GaugeMetricFamily(
            "apiserver_watch_cache_capacity",
            "Changes that the watch cache keeps at the most.",
            labels=["resource"],
        )
        kept = GaugeMetricFamily(
            "apiserver_watch_cache_history_bytes",
            "Obsolete object versions that the watch cache keeps.",
            labels=["resource"],
        )
        received = CounterMetricFamily(
            "apiserver_watch_cache_events_received",
            "Changes that the watch cache was told of.",
            labels=["resource"],
        )
        for prefix, resource in self._cache.resources.items():
            name = [self._name_of(prefix)]
            objects.add_metric(name, len(resource.snapshots))
            capacity.add_metric(name, self._history_max)
            kept.add_metric(name, resource.history.bytes)
            received.add_metric(name, resource.changes_total)
        yield from (objects, capacity, kept, received)
        yield from self._metrics.request_families()
        yield CounterMetricFamily(
            "apiserver_watch_cache_initializations",
            "How often the watch cache listed everything: at the start, and when it lost its place.",
            value=self._cache.fills_total,
        )
        yield GaugeMetricFamily(
            "apiserver_watch_cache_resource_version",
            "The revision that the watch cache has reached.",
            value=self._cache.revision,
        )


class ObservedStorage:
    """A store whose calls are timed."""

    def __init__(self, store: Storage, metrics: Metrics, name_of: Callable[[str], str]) -> None:
        self._store = store
        self._durations = metrics.storage_durations
        self._name_of = name_of
        self._bound: dict[tuple[str, str], Histogram] = {}

    async def current_revision(self) -> int:
        return await self._store.current_revision()

    async def get(self, key: str, at: ReadAt = MOST_RECENT) -> Read:
        began = time.perf_counter()
        try:
            return await self._store.get(key, at)
        finally:
            self._observe("get", key, began)

    async def list(self, keys: KeyRange, at: ReadAt = MOST_RECENT, *, limit: int = 0) -> Page:
        began = time.perf_counter()
        try:
            return await self._store.list(keys, at, limit=limit)
        finally:
            self._observe("list", keys.start, began)

    async def count(self, keys: KeyRange, at: ReadAt = MOST_RECENT) -> int:
        return await self._store.count(keys, at)

    async def create(self, key: str, value: bytes, *, lease: int = NO_LEASE) -> int:
        began = time.perf_counter()
        try:
            return await self._store.create(key, value, lease=lease)
        finally:
            self._observe("create", key, began)

    async def compare_and_put(self, key: str, value: bytes, *, expected: int, lease: int = NO_LEASE) -> int:
        began = time.perf_counter()
        try:
            return await self._store.compare_and_put(key, value, expected=expected, lease=lease)
        finally:
            self._observe("update", key, began)

    async def compare_and_delete(self, key: str, *, expected: int) -> int:
        began = time.perf_counter()
        try:
            return await self._store.compare_and_delete(key, expected=expected)
        finally:
            self._observe("delete", key, began)

    async def transact(self, conditions: Sequence[Condition], writes: Sequence[Put | Delete]) -> int:
        return await self._store.transact(conditions, writes)

    def watch(self, keys: KeyRange, *, after: int) -> Watch:
        return self._store.watch(keys, after=after)

    async def compact(self, revision: int) -> None:
        await self._store.compact(revision)

    async def grant_lease(self, ttl_s: int) -> int:
        return await self._store.grant_lease(ttl_s)

    async def renew_lease(self, lease: int) -> None:
        await self._store.renew_lease(lease)

    async def revoke_lease(self, lease: int) -> None:
        await self._store.revoke_lease(lease)

    async def check_health(self) -> None:
        await self._store.check_health()

    async def close(self) -> None:
        await self._store.close()

    def _observe(self, operation: str, key: str, began: float) -> None:
        name = self._name_of(key)
        child = self._bound.get((operation, name))
        if child is None:
            child = self._bound[operation, name] = self._durations.labels(operation, name)
        child.observe(time.perf_counter() - began)
