"""Leases shared by keys that expire at about the same time.

A lease for every event would be a call to the store and an entry in it for each; keys written within the
same part of a minute share one instead, and live at most that much longer. Source of the idea:
k8s.io/apiserver, pkg/storage/etcd3/lease_manager.go.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from storage.interface import Storage

# A key may outlive its time by this part of it, or by this many seconds, whichever is less.
REUSE_FRACTION: Final = 0.05
REUSE_S_MAX: Final = 60
# Keys on one lease are deleted together; more would make that a long transaction.
KEYS_MAX: Final = 1_000


class LeaseManager:
    """Hands out leases of the ages that are asked for."""

    def __init__(self, store: Storage, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._current: dict[int, _SharedLease] = {}
        self._lock = asyncio.Lock()

    async def lease_for(self, ttl_s: int) -> int:
        """A lease that ends not before `ttl_s` from now, and soon after. Raises as grant_lease does."""
        async with self._lock:
            shared = self._current.get(ttl_s)
            if shared is None or self._clock() > shared.usable_until or shared.keys >= KEYS_MAX:
                extra_s = min(REUSE_S_MAX, max(1, int(ttl_s * REUSE_FRACTION)))
                granted_after = self._clock()
                lease = await self._store.grant_lease(ttl_s + extra_s)
                shared = self._current[ttl_s] = _SharedLease(lease, granted_after + extra_s)
            shared.keys += 1
            return shared.lease

    def forget(self, lease: int) -> None:
        """The store knows the lease no more: the next key gets another."""
        self._current = {ttl_s: each for ttl_s, each in self._current.items() if each.lease != lease}


class _SharedLease:
    def __init__(self, lease: int, usable_until: float) -> None:
        self.lease, self.usable_until, self.keys = lease, usable_until, 0
