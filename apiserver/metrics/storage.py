"""Metrics of the store: durations of calls by operation and resource, and the objects that lists read.

Source: k8s.io/apiserver, pkg/storage/etcd3/metrics.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from apiserver.meta.vocabulary import GroupResource
from apiserver.metrics.histograms import Histogram
from apiserver.metrics.requests import RequestCount
from apiserver.metrics.resource_series import OTHER_RESOURCE, ResourceSeries, ServedNames, ServedState
from apiserver.metrics.series import Family, family, single
from apiserver.storage.errors import OutcomeUnknown, StorageUnavailable
from apiserver.storage.interface import (
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
)
from apiserver.storage.keys import CORE_GROUP, resource_of
from apiserver.storage.wrapper import StorageWrapper
from apiserver.tracing import request_trace

_T = TypeVar("_T")

_DURATIONS: Final = "etcd_request_duration_seconds"
_READ_WAITS: Final = "apiserver_watch_cache_read_wait_seconds"
_LEASE_OBJECTS: Final = "etcd_lease_object_counts"
# Prefixes of resources that are cached with their labels. Clients that create definitions can make any
# number.
_PREFIXES_MAX: Final = 4_096


def resources_of_keys(prefix: str) -> Callable[[str], GroupResource]:
    """Returns a function that maps keys to resources: `/registry/apps/deployments/ns/name` ->
    `deployments.apps`.
    """
    by_prefix: dict[str | None, GroupResource] = {}

    def resource(key: str) -> GroupResource:
        key_prefix = resource_of(prefix, key)
        found = by_prefix.get(key_prefix)
        if found is None:
            if len(by_prefix) >= _PREFIXES_MAX:
                by_prefix.clear()
            *_, group, plural, _ = (key_prefix or f"/{CORE_GROUP}//").split("/")
            found = by_prefix[key_prefix] = GroupResource("" if group == CORE_GROUP else group, plural)
        return found

    return resource


@dataclass(slots=True)
class _Calls:
    """The calls of an operation. failures: the number of those that the store did not carry out."""

    durations: Histogram = field(default_factory=partial(Histogram.of, _DURATIONS))
    failures: int = 0


@dataclass(slots=True)
class _Listed:
    """Counts of the lists of a resource, and of the objects that they read and returned."""

    lists: int = 0
    objects: int = 0


class StorageMetrics:
    """Counts and times calls to the store. resource_of: returns the resource that a key belongs to.

    lease_objects: the numbers of objects of leases that were replaced by the next one.
    """

    def __init__(self, resource_of: Callable[[str], GroupResource], names: ServedNames) -> None:
        self.resource_of = resource_of
        self.lease_objects = Histogram.of(_LEASE_OBJECTS)
        # By resource. Objects are read from the store before it is known what definitions there are.
        self._decode_errors: ResourceSeries[GroupResource, RequestCount] = ResourceSeries(
            names,
            lambda resource: (
                ServedState.BUILT_IN
                if names.of_resource(resource) is ServedState.BUILT_IN
                else ServedState.CUSTOM
            ),
            OTHER_RESOURCE,
            lambda _resource: RequestCount(),
        )
        series = partial(ResourceSeries, names, names.of_resource, OTHER_RESOURCE)
        # By resource, and the first one by operation, too.
        self._calls: ResourceSeries[GroupResource, _Calls] = series(lambda *_: _Calls())
        self._listed: ResourceSeries[GroupResource, _Listed] = series(lambda _: _Listed())
        self._waits: ResourceSeries[GroupResource, Histogram] = series(lambda _: Histogram.of(_READ_WAITS))

    def observe(self, operation: str, key: str, began: float) -> None:
        """Count a call that began at `began`, in seconds of perf_counter, and has ended now."""
        resource = self.resource_of(key)
        self._calls[resource, operation].durations.observe(time.perf_counter() - began)
        request_trace.record(f"storage {operation}", began, resource.resource)

    def count_failure(self, operation: str, key: str) -> None:
        """Count a call that the store did not carry out, in addition to `observe`."""
        self._calls[self.resource_of(key), operation].failures += 1

    def count_list(self, key: str, objects: int) -> None:
        """Count a list that read a number of objects. key: any key of its range."""
        listed = self._listed[self.resource_of(key),]
        listed.lists += 1
        listed.objects += objects

    def observe_read_wait(self, key: str, seconds: float) -> None:
        """Count a read that waited for the watch cache to catch up. key: any key that it reads."""
        resource = self.resource_of(key)
        self._waits[resource,].observe(seconds)
        request_trace.record("watch cache", time.perf_counter() - seconds, resource.resource)

    def count_decode_error(self, key: str) -> None:
        """Count a stored value that cannot be decoded."""
        self._decode_errors[self.resource_of(key),].value += 1

    def forget(self, resource: GroupResource) -> None:
        self._decode_errors.forget(resource)
        self._calls.forget(resource)
        self._listed.forget(resource)
        self._waits.forget(resource)

    def families(self) -> Iterable[Family]:
        calls = [((verb, *of), each) for (of, verb), each in list(self._calls.items())]
        yield family("etcd_requests_total", ((of, each.durations.count) for of, each in calls))
        yield family("etcd_request_errors_total", ((of, each.failures) for of, each in calls))
        listed = [(resource, each) for (resource,), each in list(self._listed.items())]
        yield family("apiserver_storage_list_total", [(of, each.lists) for of, each in listed])
        yield family(
            "apiserver_storage_list_fetched_objects_total", [(of, each.objects) for of, each in listed]
        )
        waits = list(self._waits.items())
        yield family(_READ_WAITS, [(resource, each) for (resource,), each in waits])
        errors = list(self._decode_errors.items())
        yield family("apiserver_storage_decode_errors_total", [(of, each.value) for (of,), each in errors])
        yield single(_LEASE_OBJECTS, self.lease_objects)
        yield family(_DURATIONS, ((of, each.durations) for of, each in calls))


class ObservedStorage(StorageWrapper):
    """A Storage in front of another that measures the duration of each read and write of objects."""

    def __init__(self, store: Storage, metrics: StorageMetrics) -> None:
        super().__init__(store)
        self._metrics = metrics

    def get(self, key: str, at: ReadAt = MOST_RECENT) -> Coroutine[Any, Any, Read]:
        return self._observed("get", key, partial(self._store.get, key, at))

    async def list(self, keys: KeyRange, at: ReadAt = MOST_RECENT, *, limit: int = 0) -> Page:
        page = await self._observed("list", keys.start, partial(self._store.list, keys, at, limit=limit))
        self._metrics.count_list(keys.start, len(page.items))
        return page

    def create(self, key: str, value: bytes, *, lease: int = NO_LEASE) -> Coroutine[Any, Any, int]:
        return self._observed("create", key, partial(self._store.create, key, value, lease=lease))

    def compare_and_put(
        self, key: str, value: bytes, *, expected: int, lease: int = NO_LEASE
    ) -> Coroutine[Any, Any, int]:
        call = partial(self._store.compare_and_put, key, value, expected=expected, lease=lease)
        return self._observed("update", key, call)

    def compare_and_delete(self, key: str, *, expected: int) -> Coroutine[Any, Any, int]:
        return self._observed("delete", key, partial(self._store.compare_and_delete, key, expected=expected))

    def transact(
        self, conditions: Sequence[Condition], writes: Sequence[Put | Delete], *, note: bytes = b""
    ) -> Coroutine[Any, Any, int]:
        if not writes:
            return self._store.transact(conditions, writes, note=note)
        call = partial(self._store.transact, conditions, writes, note=note)
        return self._observed(_operation(conditions, writes[0]), writes[0].key, call)

    async def _observed(self, operation: str, key: str, call: Callable[[], Awaitable[_T]]) -> _T:
        """Make a call, and count it. key: one of those that it is about.

        call: makes the coroutine. A task that is cancelled before its first step would never await one that
        exists already.
        """
        began = time.perf_counter()
        try:
            return await call()
        except (StorageUnavailable, OutcomeUnknown):
            # Conflicts and compacted revisions are answers; these are not.
            self._metrics.count_failure(operation, key)
            raise
        finally:
            self._metrics.observe(operation, key, began)


def _operation(conditions: Sequence[Condition], write: Put | Delete) -> str:
    """Returns the metric label of a transaction, which is named after the operation on its first key."""
    if isinstance(write, Delete):
        return "delete"
    return "create" if (write.key, 0) in conditions else "update"
