"""How large the store's database is, asked at intervals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from apiserver.metrics.client_library import gauge_family
from storage.errors import StorageError

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class StorageSizeMetric:
    """The size of the database that the store had when it was asked last.

    cluster: what the store is called in the label `storage_cluster_id`.
    size: asks the store.
    """

    def __init__(self, cluster: str, size: Callable[[], Awaitable[int]], interval_s: float) -> None:
        self._cluster, self._size, self._interval_s = cluster, size, interval_s
        self._bytes: int | None = None  # while it is not known

    async def run(self) -> None:
        """Ask at intervals, until cancelled."""
        while True:
            try:
                self._bytes = await self._size()
            except StorageError:
                self._bytes = None
            await asyncio.sleep(self._interval_s)

    def families(self) -> Iterable[Metric]:
        metric = gauge_family(
            "apiserver_storage_size_bytes",
            "Bytes that the files of the store's database take.",
            labels=["storage_cluster_id"],
        )
        if self._bytes is not None:
            metric.add_metric([self._cluster], self._bytes)
        yield metric
