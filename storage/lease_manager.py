"""Leases shared by keys that expire at about the same time.

A separate lease for every Event would take a call to the store and an entry in it for each. Keys that are
written within a minute or less share one lease instead, and live at most that much longer. Source of the
idea: k8s.io/apiserver, pkg/storage/etcd3/lease_manager.go.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from apiserver.storage.interface import Storage

# A key may outlive its TTL by this fraction of it, or by this many seconds, whichever is less.
REUSE_FRACTION: Final = 0.05
REUSE_S_MAX: Final = 60
# Keys on one lease are deleted together; with more, that would be a long transaction.
KEYS_PER_LEASE_MAX: Final = 1_000


class LeaseManager:
    """Grants leases for the requested TTLs, and reuses them for a while.

    replaced: called for each lease that is replaced by the next one, with how often it was used.
    """

    def __init__(
        self,
        store: Storage,
        *,
        clock: Callable[[], float] = time.monotonic,
        replaced: Callable[[int], None] | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._replaced = replaced
        self._current: dict[int, _SharedLease] = {}
        self._lock = asyncio.Lock()

    async def lease_for(self, ttl_s: int) -> int:
        """Returns a lease that expires in `ttl_s` or a little later. Raises as grant_lease does."""
        async with self._lock:
            shared = self._current.get(ttl_s)
            if shared is None or self._clock() > shared.usable_until or shared.keys >= KEYS_PER_LEASE_MAX:
                extra_s = min(REUSE_S_MAX, max(1, int(ttl_s * REUSE_FRACTION)))
                granted_after = self._clock()
                lease = await self._store.grant_lease(ttl_s + extra_s)
                if shared is not None and self._replaced is not None:
                    self._replaced(shared.keys)
                shared = self._current[ttl_s] = _SharedLease(lease, granted_after + extra_s)
            shared.keys += 1
            return shared.lease

    def forget(self, lease: int) -> None:
        """Stop handing out a lease that the store no longer has."""
        self._current = {ttl_s: each for ttl_s, each in self._current.items() if each.lease != lease}


class _SharedLease:
    def __init__(self, lease: int, usable_until: float) -> None:
        self.lease, self.usable_until, self.keys = lease, usable_until, 0
