"""Estimates how many objects a resource has, and how large they are, from a sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.meta.vocabulary import RequestInfo
from apiserver.registry.object_keys import ObjectKeys
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.stored_object import StoredObject
from apiserver.storage.watch_cache import WatchCache

# Objects that are looked at, and for how long their average is believed.
SAMPLE: Final = 32
BELIEVED_S: Final = 10.0
# Resources whose average is remembered. If there are more, all are forgotten.
RESOURCES_MAX: Final = 2_000


class ObjectSizes:
    """Counts the objects of each resource, and estimates their size. clock: seconds that never go back."""

    def __init__(
        self,
        cache: WatchCache[StoredObject],
        served: ServedTable,
        keys: ObjectKeys,
        clock: Callable[[], float],
    ) -> None:
        self._resources, self._clock = cache.resources, clock
        self._served, self._keys = served, keys
        self._averages: dict[str, tuple[float, float]] = {}  # by prefix: until when it is believed, and bytes

    def of(self, target: RequestInfo) -> tuple[int, float] | None:
        """Returns the number of objects of the resource that a request is about, and their average size in
        bytes; None if it is not stored here.
        """
        served = self._served.current.find(target.group, target.version, target.resource)
        if served is None:
            return None
        prefix = self._keys.of_all(served)
        resource = self._resources.get(prefix)
        if resource is None:
            return 0, 0.0
        now = self._clock()
        known = self._averages.get(prefix)
        if known is None or known[0] < now:
            sizes = [
                len(version.value.head) + len(version.value.tail)
                for version in resource.snapshots.sample(SAMPLE)
                if version.value is not None
            ]
            if len(self._averages) >= RESOURCES_MAX:
                self._averages.clear()
            known = self._averages[prefix] = now + BELIEVED_S, sum(sizes) / len(sizes) if sizes else 0.0
        return len(resource.snapshots.live), known[1]
