"""Leases of the embedded store: stored in the file, timed by the monotonic clock.

The file has each lease's end in wall-clock time, for the next start only. While the process runs, setting
the clock neither lengthens nor shortens a lease; after a start no lease has more than its TTL left.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import secrets
import time
from collections.abc import Callable
from typing import Final

from apiserver.storage.embedded.database import Database
from apiserver.storage.embedded.memory_database import MemoryDatabase
from apiserver.storage.embedded.writer import Transaction, WriterThread
from apiserver.storage.errors import LeaseNotFound, StorageError
from apiserver.storage.interface import TRANSACTION_WRITES_MAX, Delete

log = logging.getLogger(__name__)

# How long to wait before another attempt to expire a lease after the store failed.
RETRY_S: Final = 1.0

_KEYS: Final = """
    SELECT key FROM versions AS written WHERE lease = ? AND lease != 0  -- so that the index serves it
    AND revision = (SELECT max(revision) FROM versions WHERE key = written.key) ORDER BY id LIMIT ?
"""


class Leases:
    """Grants, renews, revokes and expires leases.

    monotonic, wall: clocks in seconds; tests pass their own.
    """

    def __init__(
        self,
        writer: WriterThread,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._writer = writer
        self._monotonic, self._wall = monotonic, wall
        self._ttl_s: dict[int, int] = {}
        self._ends_at: dict[int, float] = {}  # monotonic
        # A heap of ends; an entry that differs from `_ends_at` is stale.
        self._queue: list[tuple[float, int]] = []
        self._changed = asyncio.Event()

    def load(self, database: Database | MemoryDatabase) -> None:
        """Load the leases from the file."""
        connection = database.connect_reader()
        try:
            for lease, ttl_s, expires_at in connection.execute("SELECT id, ttl_s, expires_at FROM leases"):
                left_s = min(max(expires_at - self._wall(), 0), ttl_s)
                self._ttl_s[lease] = ttl_s
                self._schedule(lease, left_s)
        finally:
            connection.close()

    async def grant(self, ttl_s: int) -> int:
        lease = secrets.randbits(62) + 1
        expires_at = self._wall() + ttl_s

        def insert(transaction: Transaction) -> None:
            transaction.connection.execute("INSERT INTO leases VALUES (?, ?, ?)", (lease, ttl_s, expires_at))

        await self._writer.do(insert)
        self._ttl_s[lease] = ttl_s
        self._schedule(lease, ttl_s)
        return lease

    async def renew(self, lease: int) -> None:
        ttl_s = self._ttl_s.get(lease)
        if ttl_s is None:
            self._writer.require_open()
            raise LeaseNotFound(lease)
        expires_at = self._wall() + ttl_s
        # Before it is written: no expiry may begin while the renewal is on its way.
        before = self._ends_at[lease]
        ends_at = self._monotonic() + ttl_s
        self._schedule_at(lease, ends_at)

        def update(transaction: Transaction) -> None:
            transaction.require_lease(lease)
            transaction.connection.execute(
                "UPDATE leases SET expires_at = ? WHERE id = ?", (expires_at, lease)
            )

        try:
            await self._writer.do(update)
        except StorageError:
            if self._ends_at.get(lease) == ends_at:  # else another renewal counts
                self._schedule_at(lease, before)
            raise

    async def revoke(self, lease: int) -> None:
        """Delete the lease's keys, at most TRANSACTION_WRITES_MAX at a revision, and then the lease."""
        while not await self._writer.do(lambda transaction: _delete_keys(transaction, lease)):
            pass
        self._forget(lease)

    async def _expire(self, lease: int, ends_at: float) -> None:
        """Do what `revoke` does, but stop once the lease has been renewed."""

        def delete_keys(transaction: Transaction) -> bool:
            # A renewal that comes later finds no lease, or has the keys written again.
            return self._ends_at.get(lease) != ends_at or _delete_keys(transaction, lease)

        while not await self._writer.do(delete_keys):
            pass
        if self._ends_at.get(lease) == ends_at:
            self._forget(lease)

    def _forget(self, lease: int) -> None:
        self._ttl_s.pop(lease, None)
        self._ends_at.pop(lease, None)

    async def run(self) -> None:
        """Expire leases when their time is up, until cancelled."""
        while True:
            self._changed.clear()
            wait_s = self._queue[0][0] - self._monotonic() if self._queue else None
            if wait_s is None or wait_s > 0:
                try:
                    async with asyncio.timeout(wait_s):
                        await self._changed.wait()
                except TimeoutError:
                    pass
                continue
            ends_at, lease = heapq.heappop(self._queue)
            if self._ends_at.get(lease) != ends_at:
                continue  # renewed or revoked meanwhile
            try:
                await self._expire(lease, ends_at)
            except LeaseNotFound:
                self._forget(lease)
            except StorageError as error:
                log.warning("cannot expire lease %x, retrying: %s", lease, error)
                if self._ends_at.get(lease) == ends_at:  # else it was renewed meanwhile
                    self._schedule(lease, RETRY_S)

    def _schedule(self, lease: int, left_s: float) -> None:
        self._schedule_at(lease, self._monotonic() + left_s)

    def _schedule_at(self, lease: int, ends_at: float) -> None:
        if lease not in self._ttl_s:
            return  # It was revoked or has expired meanwhile.
        self._ends_at[lease] = ends_at
        heapq.heappush(self._queue, (ends_at, lease))
        self._changed.set()


def _delete_keys(transaction: Transaction, lease: int) -> bool:
    """Delete some keys of a lease; if none are left, delete the lease, too, and return True."""
    transaction.require_lease(lease)
    keys = transaction.connection.execute(_KEYS, (lease, TRANSACTION_WRITES_MAX)).fetchall()
    transaction.write([Delete(key) for (key,) in keys])
    if len(keys) == TRANSACTION_WRITES_MAX:
        return False
    transaction.connection.execute("DELETE FROM leases WHERE id = ?", (lease,))
    return True
