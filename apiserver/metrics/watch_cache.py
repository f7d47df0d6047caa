"""The state of the watch cache, read when /metrics is requested."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from apiserver.metrics.resource_series import CUSTOM_SERIES_MAX, OTHER_RESOURCE
from apiserver.metrics.series import Family, counts, values
from apiserver.registry.stored_object import StoredObject
from apiserver.vocabulary import GroupResource
from storage.watch_cache import WatchCache
from storage.watch_cache.resource import ResourceCache

_RESOURCE: Final = ("group", "resource")
_ValueOf: TypeAlias = Callable[[ResourceCache[StoredObject]], int]
# Name, kind, text, and the value of one resource.
_BY_RESOURCE: Final[tuple[tuple[str, str, str, _ValueOf], ...]] = (
    (
        "watch_cache_capacity",
        "gauge",
        "Events that the watch cache keeps at most.",
        lambda each: each.history.limits.events_max,
    ),
    (
        "apiserver_watch_cache_object_bytes",
        "gauge",
        "Bytes of the objects that the watch cache keeps, as they are now.",
        lambda each: each.history.live_bytes,
    ),
    (
        "apiserver_watch_cache_history_bytes",
        "gauge",
        "Bytes of the obsolete object versions that the watch cache keeps.",
        lambda each: each.history.bytes,
    ),
    (
        "apiserver_watch_cache_events_received_total",
        "counter",
        "Events that the watch cache received.",
        lambda each: each.events_total,
    ),
    (
        "apiserver_watch_cache_events_dispatched_total",
        "counter",
        "Events that the watch cache passed on to the watches that they concern.",
        lambda each: each.events_total,
    ),
    (
        "apiserver_storage_events_received_total",
        "counter",
        "Events that the store sent.",
        lambda each: each.events_total,
    ),
    (
        "apiserver_init_events_total",
        "counter",
        "Events that watches began with: those that they had missed, or the state at their start.",
        lambda each: each.initial_events_total,
    ),
    (
        "apiserver_storage_list_evaluated_objects_total",
        "counter",
        "Objects from the store that were tested for lists.",
        lambda each: each.store_tested_total,
    ),
    (
        "apiserver_storage_list_returned_objects_total",
        "counter",
        "Objects that lists from the store have returned.",
        lambda each: each.store_listed_total,
    ),
    (
        "apiserver_terminated_watchers_total",
        "counter",
        "Watches that were ended because their clients did not keep up.",
        lambda each: each.fanout.dropped_total,
    ),
)
# The same of lists, whose label `index` is empty: there is one index, by key.
_LISTS: Final[tuple[tuple[str, str, _ValueOf], ...]] = (
    (
        "apiserver_cache_list_total",
        "Lists that were answered from the watch cache, page by page.",
        lambda each: each.lists_total,
    ),
    (
        "apiserver_cache_list_fetched_objects_total",
        "Objects that lists from the watch cache have looked at.",
        lambda each: each.scanned_total,
    ),
)
# Lists of the newest state, by `success` and `fallback`.
_CONSISTENT_LISTS: Final[tuple[tuple[str, str, _ValueOf], ...]] = (
    ("true", "false", lambda each: each.consistent_lists_total),
    ("true", "true", lambda each: each.late_lists_total),
    ("false", "false", lambda each: each.failed_lists_total),
    ("false", "true", lambda each: each.failed_late_lists_total),
)


class CacheMetrics:
    """Shows the state of a watch cache.

    resource_of: returns the resource whose keys have a given prefix.
    overhead_bytes: what the cache adds to the size of each object, for the memory that it takes.
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
        yield values(
            "apiserver_storage_objects",
            "gauge",
            "Objects that are stored; use apiserver_resource_objects.",
            ("resource",),
            (
                ((str(resource),), count)
                for resource, count in self._by_resource(lambda each: len(each.snapshots))
            ),
        )
        yield values(
            "apiserver_resource_objects",
            "gauge",
            "Objects that are stored.",
            _RESOURCE,
            self._by_resource(lambda each: len(each.snapshots)),
        )
        yield values(
            "apiserver_resource_size_estimate_bytes",
            "gauge",
            "Bytes of the objects that are stored, by what the watch cache has read of them.",
            _RESOURCE,
            self._by_resource(
                lambda each: max(0, each.history.live_bytes - self._overhead_bytes * len(each.snapshots))
            ),
        )
        for name, kind, text, value_of in _BY_RESOURCE:
            yield values(name, kind, text, _RESOURCE, self._by_resource(value_of))
        yield values(
            "apiserver_watch_cache_initializations_total",
            "counter",
            "How often the watch cache listed everything: at the start, and when its watch could not resume.",
            _RESOURCE,
            self._by_resource(lambda _: cache.fills_total),
        )
        yield values(
            "apiserver_storage_consistency_checks_total",
            "counter",
            "How often a resource's cache was compared with the store: success, failure, or error.",
            (*_RESOURCE, "status"),
            (
                ((*self._resource_of(prefix), outcome), count)
                for (prefix, outcome), count in list(cache.checks.totals.items())
            ),
        )
        yield counts(
            "apiserver_watch_cache_consistent_read_total",
            "Lists of the newest state, by whether they succeeded, and whether the store had to answer.",
            (*_RESOURCE, "success", "fallback"),
            (
                ((*resource, success, fallback), count)
                for success, fallback, value_of in _CONSISTENT_LISTS
                for resource, count in self._by_resource(value_of)
            ),
        )
        yield values(
            "apiserver_watch_cache_history_bytes_max",
            "gauge",
            "The most bytes that the obsolete object versions of all resources may take together.",
            (),
            [((), cache.history_bytes_max)],
        )
        yield values(
            "apiserver_watch_cache_resource_version",
            "gauge",
            "The revision that the watch cache has reached, which is that of all resources.",
            _RESOURCE,
            self._of_all(cache.revision),
        )

        for name, text, value_of in _LISTS:
            listed = self._by_resource(value_of)
            yield values(
                name, "counter", text, (*_RESOURCE, "index"), (((*each, ""), n) for each, n in listed)
            )
        yield values(
            "apiserver_cache_list_returned_objects_total",
            "counter",
            "Objects that lists from the watch cache have returned.",
            _RESOURCE,
            self._by_resource(lambda each: each.listed_total),
        )

    def _of_all(self, value: int) -> Iterator[tuple[GroupResource, int]]:
        """Yields the same value for each resource, once for those beyond the bound."""
        resources = list(self._cache.resources)
        yield from ((self._resource_of(prefix), value) for prefix in resources[:CUSTOM_SERIES_MAX])
        if len(resources) > CUSTOM_SERIES_MAX:
            yield OTHER_RESOURCE, value

    def _by_resource(self, value_of: _ValueOf) -> Iterator[tuple[GroupResource, int]]:
        """Yields a value for each resource, those beyond the bound added up."""
        resources = list(self._cache.resources.items())
        for prefix, each in resources[:CUSTOM_SERIES_MAX]:
            yield self._resource_of(prefix), value_of(each)
        if more := resources[CUSTOM_SERIES_MAX:]:
            yield OTHER_RESOURCE, sum(value_of(each) for _, each in more)
