"""The state of the watch cache, read when /metrics is requested, and its lag, measured at intervals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final, Protocol, TypeAlias

from apiserver.meta.vocabulary import GroupResource
from apiserver.metrics.resource_series import CUSTOM_SERIES_MAX, OTHER_RESOURCE
from apiserver.metrics.series import Family, family, single
from apiserver.registry.stored_object import StoredObject
from apiserver.storage.errors import StorageError
from apiserver.storage.watch_cache import WatchCache
from apiserver.storage.watch_cache.resource import ResourceCache

# Each measurement costs a read of the store's revision: nothing beside those of clients. If the cache does
# not reach it within 0.1 s, as after a write of other keys in the same etcd, it also costs a request for
# progress, which is a write on an etcd whose reports have no order (`EtcdVersion.has_ordered_progress`).
# Without the request, the lag would grow until the next event.
LAG_INTERVAL_S: Final = 5.0
_ValueOf: TypeAlias = Callable[[ResourceCache[StoredObject]], int]
# The metrics of which each resource has one value.
_BY_RESOURCE: Final[Mapping[str, _ValueOf]] = {
    "watch_cache_capacity": lambda each: each.history.limits.events_max,
    "apiserver_watch_cache_object_bytes": lambda each: each.history.live_bytes,
    "apiserver_watch_cache_history_bytes": lambda each: each.history.bytes,
    "apiserver_watch_cache_events_received_total": lambda each: each.events_total,
    "apiserver_watch_cache_events_dispatched_total": lambda each: each.events_total,
    "apiserver_storage_events_received_total": lambda each: each.events_total,
    "apiserver_init_events_total": lambda each: each.initial_events_total,
    "apiserver_storage_list_evaluated_objects_total": lambda each: each.store_tested_total,
    "apiserver_storage_list_returned_objects_total": lambda each: each.store_listed_total,
    "apiserver_terminated_watchers_total": lambda each: each.fanout.dropped_total,
}
# The same of lists, whose label `index` is empty: there is one index, by key.
_LISTS: Final[Mapping[str, _ValueOf]] = {
    "apiserver_cache_list_total": lambda each: each.lists_total,
    "apiserver_cache_list_fetched_objects_total": lambda each: each.scanned_total,
}
# Lists of the newest state, by `success` and `fallback`.
_CONSISTENT_LISTS: Final[tuple[tuple[str, str, _ValueOf], ...]] = (
    ("true", "false", lambda each: each.consistent_lists_total),
    ("true", "true", lambda each: each.late_lists_total),
    ("false", "false", lambda each: each.failed_lists_total),
    ("false", "true", lambda each: each.failed_late_lists_total),
)


class FollowedStore(Protocol):
    """A store, as far as the lag of a cache depends on it."""

    async def current_revision(self) -> int: ...


class FollowingCache(Protocol):
    """A watch cache, as far as its lag depends on it. See `WatchCache.has_reached`."""

    async def has_reached(self, revision: int) -> bool: ...


class CacheLag:
    """Measures the time from when the store has a revision until the cache has it, too.

    clock: seconds since any fixed time.
    """

    def __init__(self, store: FollowedStore, cache: FollowingCache, clock: Callable[[], float]) -> None:
        self._store, self._cache, self._clock = store, cache, clock
        self._lag_s = 0.0  # when it was last measured
        # When the measurement under way began; it lasts until the cache has the revision.
        self._began_at: float | None = None
        self._revision: int | None = None  # which the measurement waits for, once it is known

    async def run(self) -> None:
        """Measure at intervals until cancelled."""
        while True:
            with suppress(StorageError):
                await self.measure()
            await asyncio.sleep(LAG_INTERVAL_S)

    async def measure(self) -> None:
        """Begin a measurement, or go on with one that has not ended. Raises StorageError."""
        if self._began_at is None:
            self._began_at, self._revision = self._clock(), None
        current = await self._store.current_revision()
        # The revisions of a store that was restored from a snapshot are lower.
        self._revision = current if self._revision is None else min(self._revision, current)
        if await self._cache.has_reached(self._revision):
            self._lag_s, self._began_at = self._clock() - self._began_at, None

    def families(self) -> Iterable[Family]:
        began_at = self._began_at
        lag_s = self._lag_s if began_at is None else self._clock() - began_at
        yield single("apiserver_watch_cache_lag_seconds", lag_s)


class CacheMetrics:
    """Shows the state of a watch cache.

    resource_of: returns the resource whose keys have a given prefix.
    overhead_bytes: the bytes that the cache adds to each object, in the metric of its memory.
    """

    def __init__(
        self,
        cache: WatchCache[StoredObject],
        resource_of: Callable[[str], GroupResource],
        overhead_bytes: int,
    ) -> None:
        self._cache, self._resource_of, self._overhead_bytes = cache, resource_of, overhead_bytes

    def families(self) -> Iterable[Family]:
        cache = self._cache
        objects = self._by_resource(lambda each: len(each.snapshots))
        yield family("apiserver_storage_objects", (((str(resource),), count) for resource, count in objects))
        yield family("apiserver_resource_objects", self._by_resource(lambda each: len(each.snapshots)))
        yield family(
            "apiserver_resource_size_estimate_bytes",
            self._by_resource(
                lambda each: max(0, each.history.live_bytes - self._overhead_bytes * len(each.snapshots))
            ),
        )
        for name, value_of in _BY_RESOURCE.items():
            yield family(name, self._by_resource(value_of))
        yield family(
            "apiserver_watch_cache_initializations_total", self._by_resource(lambda _: cache.fills_total)
        )
        yield single("apiserver_watch_cache_refills_total", max(0, cache.fills_total - 1))
        checks = list(cache.checks.totals.items())
        yield family(
            "apiserver_storage_consistency_checks_total",
            (((*self._resource_of(prefix), outcome), count) for (prefix, outcome), count in checks),
        )
        # Few resources have lists that were late, or failed.
        yield family(
            "apiserver_watch_cache_consistent_read_total",
            (
                ((*resource, success, fallback), count or None)
                for success, fallback, value_of in _CONSISTENT_LISTS
                for resource, count in self._by_resource(value_of)
            ),
        )
        yield single("apiserver_watch_cache_history_bytes_max", cache.history_bytes_max)
        yield family("apiserver_watch_cache_resource_version", self._of_all(cache.revision))
        for name, value_of in _LISTS.items():
            yield family(name, (((*each, ""), count) for each, count in self._by_resource(value_of)))
        yield family(
            "apiserver_cache_list_returned_objects_total", self._by_resource(lambda each: each.listed_total)
        )

    def _of_all(self, value: int) -> Iterator[tuple[GroupResource, int]]:
        """Yields the same value for each resource; resources beyond the limit share one."""
        resources = list(self._cache.resources)
        yield from ((self._resource_of(prefix), value) for prefix in resources[:CUSTOM_SERIES_MAX])
        if len(resources) > CUSTOM_SERIES_MAX:
            yield OTHER_RESOURCE, value

    def _by_resource(self, value_of: _ValueOf) -> Iterator[tuple[GroupResource, int]]:
        """Yields a value for each resource; those beyond the limit are added up."""
        resources = list(self._cache.resources.items())
        for prefix, each in resources[:CUSTOM_SERIES_MAX]:
            yield self._resource_of(prefix), value_of(each)
        if more := resources[CUSTOM_SERIES_MAX:]:
            yield OTHER_RESOURCE, sum(value_of(each) for _, each in more)
