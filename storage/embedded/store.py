"""`Storage` over SQLite, made of the parts of this package."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from apiserver.storage.embedded import compaction
from apiserver.storage.embedded.checkpoint_lock import CheckpointLock
from apiserver.storage.embedded.database import CHECKPOINT_PAGES, Database
from apiserver.storage.embedded.leases import Leases
from apiserver.storage.embedded.memory_database import MemoryDatabase
from apiserver.storage.embedded.reader import ReaderThreads
from apiserver.storage.embedded.watch import EmbeddedWatch
from apiserver.storage.embedded.writer import CommittedGroup, Transaction, WriterListener, WriterThread
from apiserver.storage.errors import StorageError, StorageUnavailable, ValueTooLarge
from apiserver.storage.interface import (
    MOST_RECENT,
    NO_LEASE,
    NOTE_BYTES_MAX,
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

log = logging.getLogger(__name__)

# How long to wait, when compaction has not freed space on a full disk, before it is tried once more.
FREE_SPACE_RETRY_S: Final = 5.0


class EmbeddedStore:
    """The store in this process, over SQLite. See `storage.interface.Storage` for what each method promises.

    monotonic, wall: clocks in seconds, of leases: one that never goes back, and since 1970.
    """

    def __init__(
        self,
        database: Database | MemoryDatabase,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._watches: set[EmbeddedWatch] = set()
        checkpoint_lock = CheckpointLock()
        self._writer = WriterThread(
            database.connect_writer,
            log_path=database.log_path,
            checkpoint_lock=checkpoint_lock,
            commits_exclude_reads=database.commits_exclude_reads,
            listener=WriterListener(self._on_commit, self._on_reopen, self._start_freeing_space),
            monotonic=monotonic,
        )
        self._revision = self._writer.revision
        self._reader = ReaderThreads(database.connect_reader, checkpoint_lock)
        self._leases = Leases(self._writer, monotonic=monotonic, wall=wall)
        self._leases.load(database)
        self._free_space_task: asyncio.Task[None] | None = None
        self._space_failed_at = -FREE_SPACE_RETRY_S
        self._monotonic = monotonic
        database.keep_reserve()
        self._lease_task = asyncio.create_task(self._leases.run(), name="embedded-store-leases")
        self._release_task: asyncio.Task[None] | None = None
        self._is_closed = False

    @classmethod
    async def open(
        cls,
        directory: Path,
        *,
        durable: bool = True,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> Self:
        """Open the store in `directory`, which is made if it does not exist.

        Raises DataDirectoryError when it is in use, damaged or not accessible.
        """
        database = await asyncio.to_thread(Database, directory, durable=durable)
        return cls(database, monotonic=monotonic, wall=wall)

    @classmethod
    async def in_memory(
        cls, *, monotonic: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ) -> Self:
        """Open a new store that has no files, and is gone when it is closed.

        Raises StorageUnavailable if SQLite is too old for it.
        """
        return cls(MemoryDatabase(), monotonic=monotonic, wall=wall)

    async def copy(self) -> MemoryDatabase:
        """Returns a copy of everything that was answered before, in memory, as the database of another
        store.
        """
        self._require_open()
        return await self._reader.copy()

    async def current_revision(self) -> int:
        self._require_open()
        return self._revision

    # ---- These return awaitables: separate coroutines would be one more to run.

    def get(self, key: str, at: ReadAt = MOST_RECENT) -> Coroutine[Any, Any, Read]:
        return self._reader.get(key, at)

    def list(self, keys: KeyRange, at: ReadAt = MOST_RECENT, *, limit: int = 0) -> Coroutine[Any, Any, Page]:
        return self._reader.list(keys, at, limit)

    def count(self, keys: KeyRange, at: ReadAt = MOST_RECENT) -> Coroutine[Any, Any, int]:
        return self._reader.count(keys, at)

    def create(self, key: str, value: bytes, *, lease: int = NO_LEASE) -> Coroutine[Any, Any, int]:
        return self.transact((Condition(key, 0),), (Put(key, value, lease),))

    def compare_and_put(
        self, key: str, value: bytes, *, expected: int, lease: int = NO_LEASE
    ) -> Coroutine[Any, Any, int]:
        return self.transact((Condition(key, expected),), (Put(key, value, lease),))

    def compare_and_delete(self, key: str, *, expected: int) -> Coroutine[Any, Any, int]:
        return self.transact((Condition(key, expected),), (Delete(key),))

    def transact(
        self, conditions: Sequence[Condition], writes: Sequence[Put | Delete], *, note: bytes = b""
    ) -> Coroutine[Any, Any, int]:
        if len(writes) + bool(note) > TRANSACTION_WRITES_MAX:
            raise ValueError(f"{len(writes)} writes in a transaction; the limit is {TRANSACTION_WRITES_MAX}")
        if len(note) > NOTE_BYTES_MAX:
            raise ValueError(f"a note of {len(note)} bytes; the limit is {NOTE_BYTES_MAX}")
        for write in writes:
            if isinstance(write, Put) and len(write.value) > VALUE_BYTES_MAX:
                raise ValueTooLarge(write.key, size_bytes=len(write.value), limit_bytes=VALUE_BYTES_MAX)

        return self._writer.do(partial(Transaction.run, conditions=conditions, writes=writes, note=note))

    def watch(self, keys: KeyRange, *, after: int) -> EmbeddedWatch:
        self._require_open()
        watch = EmbeddedWatch(
            keys,
            after,
            is_behind=after < self._revision,
            read_history=self._reader.history,
            on_close=self._watches.discard,
        )
        self._watches.add(watch)
        return watch

    async def compact(self, revision: int) -> None:
        await compaction.compact(self._writer, revision)

    async def raise_revision(self, minimum: int, report: Callable[[int], None] = lambda _: None) -> int:
        """Raise the store's revision to at least `minimum`, without another change; returns it.

        report: called with the revision that is reached.
        """
        revision = await self._writer.do(partial(Transaction.raise_revision, minimum=minimum))
        report(revision)
        return revision

    async def grant_lease(self, ttl_s: int) -> int:
        return await self._leases.grant(ttl_s)

    async def renew_lease(self, lease: int) -> None:
        await self._leases.renew(lease)

    async def revoke_lease(self, lease: int) -> None:
        await self._leases.revoke(lease)

    async def size_bytes(self) -> int:
        return await self._reader.size_bytes()

    async def check_health(self) -> None:
        self._require_open()
        if self._writer.failure is not None:
            await self._probe_space()  # Space may have been freed since.
        else:
            self._database.keep_reserve()  # It was used, and there was too little space for it until now.
        await self._reader.get("", MOST_RECENT)

    def release_memory(self) -> None:
        """Release, soon, the memory that only makes writes faster, and can be read again."""
        if not self._is_closed and (self._release_task is None or self._release_task.done()):
            self._release_task = asyncio.create_task(self._release_memory(), name="embedded-store-memory")

    async def _release_memory(self) -> None:
        with contextlib.suppress(StorageError):  # Writers get an error.
            await self._writer.release_memory()

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        tasks = (self._lease_task, self._free_space_task, self._release_task)
        ending = [task for task in tasks if task is not None]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        for watch in list(self._watches):
            await watch.close()
        await self._writer.close()
        await self._reader.close()
        self._database.close()

    def _on_commit(self, committed: CommittedGroup) -> None:
        self._revision = committed.revision
        for watch in self._watches:
            watch.offer(committed.events, committed.revision)

    def _on_reopen(self, revision: int) -> None:
        self._revision = revision
        for watch in self._watches:
            watch.fall_behind()

    def _start_freeing_space(self) -> None:
        """Compact all old revisions because the disk is full, since nothing else can be deleted."""
        is_busy = self._free_space_task is not None and not self._free_space_task.done()
        if not (is_busy or self._is_closed or self._monotonic() < self._space_failed_at + FREE_SPACE_RETRY_S):
            self._free_space_task = asyncio.create_task(self._free_space(), name="embedded-store-room")

    async def _free_space(self) -> None:
        writer = self._writer
        writer.pause()
        try:
            self._database.release_reserve()
            # No checkpoints until the end: an earlier one would need space for all that is being deleted.
            await writer.do(partial(_checkpoint_after, pages=0), frees_space=True)
            await compaction.compact(writer, self._revision, frees_space=True)
            await writer.do(partial(_checkpoint_after, pages=CHECKPOINT_PAGES), frees_space=True)
            await self._probe_space(frees_space=True)
            log.warning("the disk was full; compacting all old revisions has freed space")
        except StorageError as error:
            self._space_failed_at = self._monotonic()
            log.warning("the disk is full, and compacting all old revisions did not free space: %s", error)
        finally:
            writer.resume()

    async def _probe_space(self, *, frees_space: bool = False) -> None:
        """Try a write as large as others may be; clear the failure if it fits, otherwise raise
        StorageFull.
        """
        await self._writer.do(Transaction.probe, frees_space=frees_space)
        await self._writer.do(Transaction.forget_probes, frees_space=frees_space)
        self._database.keep_reserve()
        self._writer.clear_full()

    def _require_open(self) -> None:
        if self._is_closed:
            raise StorageUnavailable("the store is closed")


def _checkpoint_after(transaction: Transaction, *, pages: int) -> None:
    """Set the number of log pages after which SQLite itself makes a checkpoint; 0 for never."""
    transaction.connection.execute(f"PRAGMA wal_autocheckpoint = {pages}")
