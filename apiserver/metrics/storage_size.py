"""The size of the store's database, read at intervals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from apiserver.metrics.series import Family, family
from apiserver.storage.errors import StorageError


class StorageSizeMetric:
    """The size of the store's database when it was read last.

    cluster: the value of the label `storage_cluster_id`.
    size: reads the size from the store.
    """

    def __init__(self, cluster: str, size: Callable[[], Awaitable[int]], interval_s: float) -> None:
        self._cluster, self._size, self._interval_s = cluster, size, interval_s
        self._bytes: int | None = None  # while it is not known

    async def run(self) -> None:
        """Read the size at intervals until cancelled."""
        while True:
            try:
                self._bytes = await self._size()
            except StorageError:
                self._bytes = None
            await asyncio.sleep(self._interval_s)

    def families(self) -> Iterable[Family]:
        yield family("apiserver_storage_size_bytes", [((self._cluster,), self._bytes)])
