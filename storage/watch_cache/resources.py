"""The caches of all resources, and their common bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from apiserver.storage.interface import Event
from apiserver.storage.keys import resource_of
from apiserver.storage.watch_cache.events import CacheEvent
from apiserver.storage.watch_cache.resource import ResourceCache

T = TypeVar("T")

EVICTION_INTERVAL_S: Final = 5.0
# How often the total is computed while the histories grow by the whole budget.
BUDGET_CHECKS: Final = 16


class CachedResources(Generic[T]):
    """The caches of resources by the prefix of their keys, which exist from the first key until retired.

    new: makes the cache of a resource, from its prefix and its floor.
    history_bytes_max: the maximum size of the obsolete versions of all resources.
    on_drop: called with the prefix of a resource whose cache is dropped.
    """

    def __init__(
        self,
        prefix: str,
        new: Callable[[str, int], ResourceCache[T]],
        *,
        history_bytes_max: int,
        on_drop: Callable[[str], object],
    ) -> None:
        """prefix: all keys begin with it and a slash."""
        self._prefix, self._new, self._on_drop = prefix, new, on_drop
        self.history_bytes_max = history_bytes_max
        self.by_prefix: dict[str, ResourceCache[T]] = {}
        # The floor of a resource that has no cache yet: the revision of the last list, or of a dropped cache.
        self.floor = 0
        self._retired: set[str] = set()
        self._growth_bytes = 0  # of all histories, since the budget was enforced
        # The bytes of obsolete versions that were dropped because of their age, not for newer ones.
        self.expired_bytes = 0

    def of(self, prefix: str) -> ResourceCache[T]:
        resource = self.by_prefix.get(prefix)
        if resource is None:
            resource = self.by_prefix[prefix] = self._new(prefix, self.floor)
        return resource

    def of_key(self, key: str) -> ResourceCache[T]:
        """Returns the cache of the resource of a key, or of the key that a range begins with."""
        prefix = resource_of(self._prefix, key)
        if prefix is None:
            raise ValueError(f"{key!r} is not the key of an object below {self._prefix}")
        resource = self.by_prefix.get(prefix)
        return resource if resource is not None else self.of(prefix)

    @property
    def history_bytes(self) -> int:
        """The size of the obsolete versions of all resources, in bytes."""
        return sum(resource.history.bytes for resource in self.by_prefix.values())

    @property
    def version_count(self) -> int:
        """The number of versions of objects: current ones, and obsolete ones that the histories keep."""
        return sum(len(each.snapshots) + len(each.history) for each in self.by_prefix.values())

    def find(self, key: str) -> ResourceCache[T] | None:
        """Returns the cache of the resource of a key, if there is one."""
        return self.by_prefix.get(resource_of(self._prefix, key) or "")

    def apply(self, prefix: str, events: Sequence[Event]) -> Sequence[CacheEvent[T]]:
        """Apply events of one resource, and keep all histories within the budget. Returns what changed."""
        resource = self.by_prefix.get(prefix) or self.of(prefix)
        before = resource.history.bytes
        changes = resource.apply(events)
        self._growth_bytes += max(0, resource.history.bytes - before)
        # Adding up all resources for every event would cost too much.
        if self._growth_bytes > self.history_bytes_max // BUDGET_CHECKS:
            self._enforce_budget()
        return changes

    def _enforce_budget(self) -> None:
        """Shorten the largest histories until all of them together are within the budget."""
        self._growth_bytes = 0
        while (over := self.history_bytes - self.history_bytes_max) > 0:
            largest = max(self.by_prefix.values(), key=lambda resource: resource.history.bytes)
            largest.evict(bytes_max=max(0, largest.history.bytes - over))

    async def evict_periodically(self) -> None:
        """Evict, until cancelled, from resources without new events, whose old events expire, too."""
        while True:
            await asyncio.sleep(EVICTION_INTERVAL_S)
            for resource in list(self.by_prefix.values()):
                before = resource.history.bytes
                await evict_all(resource)
                self.expired_bytes += max(0, before - resource.history.bytes)
                resource.drop_late_watchers()
            self.drop_retired()

    async def forget_before(self, revision: int) -> None:
        """Forget all history before a revision, which the store has compacted."""
        self.floor = max(self.floor, revision)
        for resource in list(self.by_prefix.values()):
            resource.history.forget(revision)
            await evict_all(resource)

    def retire(self, prefix: str) -> None:
        """Drop all data of a resource that is no longer served, once nothing watches it.

        If it is served again, its watches start from then: earlier events are unknown.
        """
        self._retired.add(prefix)

    def drop_retired(self) -> None:
        """Drop the retired resources without watchers; called at intervals."""
        for prefix in list(self._retired):
            resource = self.by_prefix.get(prefix)
            if resource is not None and len(resource.fanout):
                continue  # They are about to be notified.
            self._retired.discard(prefix)
            if resource is None or len(resource.snapshots):
                continue  # It has come back.
            self.floor = max(self.floor, resource.history.newest)
            del self.by_prefix[prefix]
            self._on_drop(prefix)


async def evict_all(resource: ResourceCache[T]) -> None:
    """Drop the events beyond the bounds of one history, letting other tasks run meanwhile."""
    while resource.evict():  # noqa: ASYNC110  yields, does not poll
        await asyncio.sleep(0)
