"""`Storage` over SQLite: puts the parts of this package together."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from storage.embedded import compaction
from storage.embedded.database import Database
from storage.embedded.leases import Leases
from storage.embedded.reader import Reader
from storage.embedded.watch import EmbeddedWatch
from storage.embedded.writer import Committed, Transaction, Writer
from storage.errors import StorageUnavailable, ValueTooLarge
from storage.interface import (
    MOST_RECENT,
    NO_LEASE,
    TRANSACTION_WRITES_MAX,
    VALUE_BYTES_MAX,
    Condition,
    Delete,
    KeyRange,
    Page,
    Put,
    Read,
    ReadAt,
)


class EmbeddedStore:
    """See `storage.interface.Storage` for what each method promises."""

    def __init__(
        self,
        database: Database,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._watches: set[EmbeddedWatch] = set()
        reads_may_begin = threading.Event()
        reads_may_begin.set()
        self._writer = Writer(
            database.connect_writer,
            log_path=database.log_path,
            reads_may_begin=reads_may_begin,
            on_commit=self._committed,
            on_failure=self._started_over,
        )
        self._revision = self._writer.revision
        self._reader = Reader(database.connect_reader, reads_may_begin)
        self._leases = Leases(self._writer, monotonic=monotonic, wall=wall)
        self._leases.load(database)
        self._lease_task = asyncio.create_task(self._leases.run(), name="embedded-store-leases")
        self._is_closed = False

    @classmethod
    async def open(cls, directory: Path, *, durable: bool = True) -> Self:
        """Open the store in `directory`, making it if need be.

        Raises DataDirectoryError when it is in use, damaged or not accessible.
        """
        return cls(await asyncio.to_thread(Database, directory, durable=durable))

    async def current_revision(self) -> int:
        self._require_open()
        return self._revision

    async def get(self, key: str, at: ReadAt = MOST_RECENT) -> Read:
        return await self._reader.get(key, at)

    async def list(self, keys: KeyRange, at: ReadAt = MOST_RECENT, *, limit: int = 0) -> Page:
        return await self._reader.list(keys, at, limit)

    async def count(self, keys: KeyRange, at: ReadAt = MOST_RECENT) -> int:
        return await self._reader.count(keys, at)

    async def create(self, key: str, value: bytes, *, lease: int = NO_LEASE) -> int:
        return await self.transact((Condition(key, 0),), (Put(key, value, lease),))

    async def compare_and_put(self, key: str, value: bytes, *, expected: int, lease: int = NO_LEASE) -> int:
        return await self.transact((Condition(key, expected),), (Put(key, value, lease),))

    async def compare_and_delete(self, key: str, *, expected: int) -> int:
        return await self.transact((Condition(key, expected),), (Delete(key),))

    async def transact(self, conditions: Sequence[Condition], writes: Sequence[Put | Delete]) -> int:
        if len(writes) > TRANSACTION_WRITES_MAX:
            raise ValueError(f"{len(writes)} writes in a transaction; {TRANSACTION_WRITES_MAX} are possible")
        for write in writes:
            if isinstance(write, Put) and len(write.value) > VALUE_BYTES_MAX:
                raise ValueTooLarge(write.key, size_bytes=len(write.value), limit_bytes=VALUE_BYTES_MAX)

        def run(transaction: Transaction) -> int:
            transaction.check(conditions)
            return transaction.write(writes)

        return await self._writer.do(run)

    def watch(self, keys: KeyRange, *, after: int) -> EmbeddedWatch:
        self._require_open()
        watch = EmbeddedWatch(keys, after, read_history=self._reader.history, forget=self._watches.discard)
        self._watches.add(watch)
        return watch

    async def compact(self, revision: int) -> None:
        await compaction.compact(self._writer, revision)

    async def grant_lease(self, ttl_s: int) -> int:
        return await self._leases.grant(ttl_s)

    async def renew_lease(self, lease: int) -> None:
        await self._leases.renew(lease)

    async def revoke_lease(self, lease: int) -> None:
        await self._leases.revoke(lease)

    async def check_health(self) -> None:
        self._require_open()
        if self._writer.failure is not None:
            # Space may have come free since.
            await self._writer.do(Transaction.probe)
            await self._writer.do(Transaction.forget_probes)
        await self._reader.get("", MOST_RECENT)

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._lease_task.cancel()
        await asyncio.gather(self._lease_task, return_exceptions=True)
        for watch in list(self._watches):
            await watch.close()
        await self._writer.close()
        await asyncio.to_thread(self._reader.close)
        self._database.close()

    def _committed(self, committed: Committed) -> None:
        self._revision = committed.revision
        for watch in self._watches:
            watch.offer(committed.events, committed.revision)

    def _started_over(self, revision: int) -> None:
        self._revision = revision
        for watch in self._watches:
            watch.fall_behind()

    def _require_open(self) -> None:
        if self._is_closed:
            raise StorageUnavailable("the store is closed")
