"""Compaction, and the log that it keeps short."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import sqlite3
import statistics
import time
from pathlib import Path

import pytest

from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.embedded.compaction import BATCH_S
from apiserver.storage.embedded.database import Database
from apiserver.storage.embedded.writer import FOREIGN_READS_WAIT_MS, LOG_BYTES_MAX, LOG_RETRY_S, Transaction
from apiserver.storage.errors import RevisionCompacted
from apiserver.storage.interface import Delete, Put, ReadAt
from tests.support.embedded_stores import ALL, Clock, P, file_size_limit, next_event, with_clocks


async def test_compaction_frees_space_and_does_not_block_writes(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path, durable=False)
    for n in range(100):
        await store.transact([], [Put(f"{P}{m}", b"%d" % n + b"x" * 2_000) for m in range(50)])
    await store.close()  # moves the log into the file
    full = (tmp_path / "store.db").stat().st_size
    assert full > 10_000_000

    store = await EmbeddedStore.open(tmp_path, durable=False)
    compacting = asyncio.create_task(store.compact(await store.current_revision()))
    written_meanwhile = 0
    while not compacting.done() and written_meanwhile < 100:
        await store.create(f"{P}new-{written_meanwhile}", b"")
        written_meanwhile += 1
    await compacting
    assert written_meanwhile >= 5, "writers pass between the batches"
    assert await store.count(ALL) == 50 + written_meanwhile
    stored = (await store.get(P + "7")).stored
    assert stored is not None
    assert stored.value.startswith(b"99x")
    await store.close()
    assert (tmp_path / "store.db").stat().st_size < full / 10


class TimedDatabase(Database):
    """Records the CPU time of each write transaction until it is committed."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, durable=False)
        self.took_s: list[float] = []
        self._began_at = 0.0

    def connect_writer(self) -> sqlite3.Connection:
        connection = super().connect_writer()
        connection.set_trace_callback(self._note)
        return connection

    def _note(self, statement: str) -> None:
        if statement.startswith("BEGIN"):
            self._began_at = time.thread_time()
        elif statement == "COMMIT":
            self.took_s.append(time.thread_time() - self._began_at)


async def test_a_batch_takes_no_longer_when_values_are_large(tmp_path: Path) -> None:
    """As `compaction` says. The median batch counts, as other processes slow some of them down."""
    keys = [f"{P}{n * 37 % 300:03}" for n in range(300)]  # Their pages come free in no order.
    store = await EmbeddedStore.open(tmp_path, durable=False)
    for n in range(0, 300, 10):
        await store.transact([], [Put(key, b"x" * 200_000) for key in sorted(keys)[n : n + 10]])
    for key in keys:
        await store.transact([], [Delete(key)])
    await store.close()
    database = TimedDatabase(tmp_path)
    store = EmbeddedStore(database)
    await store.compact(await store.current_revision())
    took_s = sorted(database.took_s)
    assert took_s[len(took_s) // 2] < 1.5 * BATCH_S
    await store.close()
    assert (tmp_path / "store.db").stat().st_size < 1_000_000, "all the same, everything goes"


async def test_batches_that_end_within_a_revision_delete_only_what_is_obsolete(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path, durable=False)
    keys = [f"{P}{n:03}" for n in range(128)]
    for value in b"abc":  # Together more than one batch may have, in rows and in time.
        await store.transact([], [Put(key, bytes([value]) * 50_000) for key in keys])
    await store.transact([], [Delete(key) if n % 2 else Put(key, b"d") for n, key in enumerate(keys)])
    revision = await store.current_revision()
    compacting = asyncio.create_task(store.compact(revision))
    while not compacting.done():  # What was deleted must not come back meanwhile.
        page = await store.list(ALL)
        assert [(item.key, item.value) for item in page.items] == [(key, b"d") for key in keys[::2]]
    await compacting
    await store.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        left = connection.execute("SELECT key, revision FROM versions ORDER BY key").fetchall()
    assert left == [(key, revision) for key in keys[::2]]


async def test_compaction_survives_a_restart(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path, durable=False)
    first = await store.create(P + "a", b"1")
    second = await store.compare_and_put(P + "a", b"2", expected=first)
    third = await store.compare_and_delete(P + "a", expected=second)
    await store.compact(second)
    await store.close()
    store = await EmbeddedStore.open(tmp_path, durable=False)
    with pytest.raises(RevisionCompacted) as gone:
        await store.get(P + "a", ReadAt.exactly(first))
    assert (gone.value.requested, gone.value.oldest) == (first, second)
    read = await store.get(P + "a", ReadAt.exactly(second))
    assert read.stored is not None
    assert read.stored.value == b"2"
    assert (await next_event(store, after=second)).mod_revision == third
    await store.close()


async def test_the_log_is_bounded(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path, durable=False)
    for n in range(60):
        await store.transact([], [Put(f"{P}{m}", b"%d" % n + b"x" * 20_000) for m in range(50)])
    assert (tmp_path / "store.db-wal").stat().st_size < 40_000_000 < 60 * 50 * 20_000
    await store.close()


async def test_the_log_is_bounded_while_lists_overlap(tmp_path: Path) -> None:
    """SQLite's own checkpoints cannot finish, because there is always a reader."""
    store = await EmbeddedStore.open(tmp_path, durable=False)
    await store.transact([], [Put(f"{P}{m:03}", b"x" * 50_000) for m in range(100)])

    async def read() -> None:
        while True:
            await store.list(ALL)

    readers = [asyncio.create_task(read()) for _ in range(4)]
    largest = 0
    for n in range(60):
        await store.transact([], [Put(f"{P}{m}", b"%d" % n + b"x" * 100_000) for m in range(30)])
        largest = max(largest, (tmp_path / "store.db-wal").stat().st_size)
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    assert largest < 1.3 * LOG_BYTES_MAX < 60 * 30 * 100_000
    await store.close()


def test_no_group_adds_more_to_the_log_than_estimated(tmp_path: Path) -> None:
    """The size of the log is read only when the estimates of the groups since add up to its bound."""
    database, chance = Database(tmp_path, durable=False), random.Random(1)
    log, revision = tmp_path / "store.db-wal", 1
    with contextlib.closing(database.connect_writer()) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")  # so that it only grows
        for size in (1, 1, 1, 2, 50, 500) * 20:
            transaction, before = Transaction(connection, revision), log.stat().st_size
            connection.execute("BEGIN IMMEDIATE")
            for _ in range(size):
                key = P + chance.randbytes(chance.choice((4, 30, 450))).hex()
                transaction.write([Put(key, bytes(chance.choice((0, 100, 3_000, 30_000))))])
            transaction.flush()
            connection.execute("COMMIT")
            assert 0 < log.stat().st_size - before <= transaction.log_bytes_max()
            revision = transaction.revision
        own = Transaction(connection, revision)
        own.connection.execute("SELECT 1")
        assert own.log_bytes_max() == math.inf, "nobody knows what is done there"
    database.close()


def warnings_about_the_log(caplog: pytest.LogCaptureFixture) -> int:
    return sum("cannot checkpoint the write-ahead log" in record.message for record in caplog.records)


async def test_a_reader_in_another_process_does_not_block_writes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As when it saves a snapshot. The log grows meanwhile, and is emptied afterwards."""
    monotonic = Clock(0)
    store = with_clocks(tmp_path, monotonic=monotonic, wall=Clock(0))
    log = tmp_path / "store.db-wal"
    await store.create(P + "a", b"")
    with contextlib.closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM numbers").fetchall()
        while log.stat().st_size < 2 * LOG_BYTES_MAX:
            await store.transact([], [Put(f"{P}{m}", b"x" * 100_000) for m in range(30)])
        took_s = []
        for n in range(5):
            monotonic.now += LOG_RETRY_S
            began = time.perf_counter()
            await store.create(f"{P}waited-{n}", b"")
            await store.create(f"{P}behind-{n}", b"")  # The log is looked after behind each group.
            await store.get(P + "a")
            took_s.append(time.perf_counter() - began)
    # Each of them waited. On a busy machine some take longer, but not all.
    assert FOREIGN_READS_WAIT_MS / 1_000 <= min(took_s) < 0.9, "none of a second or more"
    assert warnings_about_the_log(caplog) == 1
    monotonic.now += LOG_RETRY_S
    await store.create(P + "b", b"")
    await store.create(P + "c", b"")  # The log is looked after behind each group.
    assert log.stat().st_size < 1_000_000
    await store.close()


async def test_emptying_the_log_is_retried_after_a_while(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log cannot be moved because the file may not get larger; the log grows in one transaction."""
    monotonic = Clock(0)
    log = tmp_path / "store.db-wal"
    some_more = [Put(f"{P}{n}", b"x" * 1_400_000) for n in range(50)]
    store = with_clocks(tmp_path, monotonic=monotonic, wall=Clock(0))
    await store.transact([], some_more)
    await store.close()  # moves the log into the file
    store = with_clocks(tmp_path, monotonic=monotonic, wall=Clock(0))
    with file_size_limit(LOG_BYTES_MAX + 16 * 1024 * 1024):
        await store.transact([], some_more)
        assert log.stat().st_size > LOG_BYTES_MAX
        for n in range(5):
            await store.create(f"{P}at-once-{n}", b"")
        assert warnings_about_the_log(caplog) == 1
        monotonic.now += LOG_RETRY_S
        for n in range(5):
            await store.create(f"{P}later-{n}", b"")
        assert warnings_about_the_log(caplog) == 1, "once for each time that it lasts"
    await store.create(f"{P}early", b"")
    assert log.stat().st_size > LOG_BYTES_MAX
    monotonic.now += LOG_RETRY_S
    await store.create(f"{P}then", b"")
    await store.create(f"{P}after", b"")  # The log is looked after behind each group.
    assert log.stat().st_size < 1_000_000
    await store.close()


async def test_a_key_that_is_not_text_fails_alone(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path, durable=False)
    answers = await asyncio.gather(
        store.create(P + "a", b""),
        store.create(P + "\udcff", b""),
        store.create(P + "b", b""),
        return_exceptions=True,
    )
    assert [type(answer) for answer in answers] == [int, UnicodeEncodeError, int]
    await store.check_health()
    await store.close()


@pytest.mark.slow
async def test_an_hour_of_updates_does_not_fill_the_disk(tmp_path: Path) -> None:
    """An hour of 15 updates a second with a compaction every 5 minutes, in less time."""
    store = await EmbeddedStore.open(tmp_path, durable=False)
    revisions = [await store.create(f"{P}{n:03}", b"") for n in range(100)]
    cycles, updates = 12, 4_500
    largest, written_meanwhile = 0, []
    for cycle in range(cycles):
        oldest_kept = await store.current_revision()
        compacting: asyncio.Task[None] | None = None
        written_meanwhile.append(0)
        for n in range(updates):
            key = n % len(revisions)
            value = b"%d-%d" % (cycle, n) + b"x" * 1_000
            revisions[key] = await store.compare_and_put(f"{P}{key:03}", value, expected=revisions[key])
            written_meanwhile[-1] += compacting is not None and not compacting.done()
            if n == updates // 2:
                compacting = asyncio.create_task(store.compact(oldest_kept))
        assert compacting is not None
        await compacting
        largest = max(largest, sum(path.stat().st_size for path in tmp_path.iterdir()))
    # At most two intervals of versions, in the file and once more in the log; all twelve are 120 MB.
    assert largest < 2 * 2 * updates * 1_200 + 20_000_000 < cycles * updates * 1_000
    # There are at least 9 batches, but for the first cycle, which has nothing to forget. Counted, as a
    # machine with much else to do may hold up any of the updates.
    assert statistics.median(written_meanwhile) >= 8, "writers pass between the batches"
    await store.close()
