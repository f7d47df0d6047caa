"""The state of the store, read at intervals: the size of its database, and whether it works."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from apiserver.metrics.series import Family, family
from apiserver.storage.errors import StorageError, StorageFull


class MeasuredStore(Protocol):
    """A store, as far as its state is shown. See `storage.interface.Storage`."""

    async def size_bytes(self) -> int: ...
    async def check_health(self) -> None: ...


class StorageStateMetrics:
    """The state of the store when it was read last.

    cluster: the value of the label `storage_cluster_id`.
    """

    def __init__(self, cluster: str, store: MeasuredStore, interval_s: float) -> None:
        self._cluster, self._store, self._interval_s = cluster, store, interval_s
        # Each is None while it is not known.
        self._bytes: int | None = None
        self._available: int | None = None
        self._full: int | None = None

    async def run(self) -> None:
        """Read the state at intervals until cancelled."""
        while True:
            await self.read()
            await asyncio.sleep(self._interval_s)

    async def read(self) -> None:
        """Read the state now."""
        try:
            self._bytes = await self._store.size_bytes()
        except StorageError:
            self._bytes = None
        try:
            await self._store.check_health()
        except StorageFull:
            self._available, self._full = 1, 1
        except StorageError:
            self._available, self._full = 0, None
        else:
            self._available, self._full = 1, 0

    def families(self) -> Iterable[Family]:
        yield family("apiserver_storage_size_bytes", [((self._cluster,), self._bytes)])
        yield family("apiserver_storage_available", [((self._cluster,), self._available)])
        yield family("apiserver_storage_full", [((self._cluster,), self._full)])
