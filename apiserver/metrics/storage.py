"""How long calls to the store take, by operation and resource."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from prometheus_client.core import Metric

from apiserver.metrics.histograms import Histogram, histogram_family
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
from storage.keys import CORE_GROUP, resource_of


def resources_of_keys(prefix: str) -> Callable[[str], tuple[str, str]]:
    """Returns what maps keys to labels: `/registry/apps/deployments/ns/name` -> `("apps", "deployments")`."""
    labels_by_prefix: dict[str | None, tuple[str, str]] = {None: ("", "")}

    def labels_of(key: str) -> tuple[str, str]:
        key_prefix = resource_of(prefix, key)
        labels = labels_by_prefix.get(key_prefix)
        if labels is None:
            assert key_prefix is not None
            *_, group, plural, _ = key_prefix.split("/")
            labels = labels_by_prefix[key_prefix] = ("" if group == CORE_GROUP else group, plural)
        return labels

    return labels_of


class StorageMetrics:
    """Counts calls. resource_of: returns the group and the name of the resource that a key belongs to."""

    def __init__(self, resource_of: Callable[[str], tuple[str, str]]) -> None:
        self._resource_of = resource_of
        self._durations: dict[tuple[str, ...], Histogram] = {}

    def observe(self, operation: str, key: str, began: float) -> None:
        """Count a call that began at `began`, in seconds of perf_counter, and has ended now."""
        labels = (operation, *self._resource_of(key))
        durations = self._durations.get(labels)
        if durations is None:
            durations = self._durations[labels] = Histogram()
        durations.observe(time.perf_counter() - began)

    def families(self) -> Iterable[Metric]:
        yield histogram_family(
            "etcd_request_duration_seconds",
            "How long calls to the store took, whichever store it is.",
            ("operation", "group", "resource"),
            {labels: [durations] for labels, durations in self._durations.items()},
        )


class ObservedStorage:
    """A Storage in front of another that measures how long each read and write of objects takes."""

    def __init__(self, store: Storage, metrics: StorageMetrics) -> None:
        self._store = store
        self._observe = metrics.observe

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
        if not writes:
            return await self._store.transact(conditions, writes)
        began, key = time.perf_counter(), writes[0].key
        try:
            return await self._store.transact(conditions, writes)
        finally:
            self._observe(_operation(conditions, writes[0]), key, began)

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

    async def size_bytes(self) -> int:
        return await self._store.size_bytes()

    async def check_health(self) -> None:
        await self._store.check_health()

    async def close(self) -> None:
        await self._store.close()


def _operation(conditions: Sequence[Condition], write: Put | Delete) -> str:
    """Returns the metric label of a transaction, which is named after what it does to its first key."""
    if isinstance(write, Delete):
        return "delete"
    return "create" if Condition(write.key, 0) in conditions else "update"
