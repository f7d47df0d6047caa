"""The guarantees of the embedded store beyond the contract, as `storage.embedded` states them."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import random
import resource
import signal
import sqlite3
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from storage.embedded import EmbeddedStore
from storage.embedded.compaction import BATCH_S
from storage.embedded.database import Database
from storage.embedded.leases import RETRY_S
from storage.embedded.writer import (
    GROUP_OPERATIONS_MAX,
    LOG_BYTES_MAX,
    LOG_RETRY_S,
    QUEUED_OPERATIONS_MAX,
    Transaction,
)
from storage.errors import (
    DataDirectoryError,
    LeaseNotFound,
    OutcomeUnknown,
    RevisionCompacted,
    StorageFull,
    StorageUnavailable,
)
from storage.interface import Delete, Event, Put, ReadAt, Storage
from storage.keys import prefix_range
from tests.support.eventually import WITHIN_S

P: Final = "/registry/core/configmaps/"
ALL: Final = prefix_range(P)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[EmbeddedStore]:
    store = await EmbeddedStore.open(tmp_path / "data", durable=False)
    yield store
    await store.close()


async def all_keys(store: Storage) -> list[str]:
    return [item.key.removeprefix(P) for item in (await store.list(ALL)).items]


async def next_event(store: Storage, *, after: int) -> Event:
    watch = store.watch(ALL, after=after)
    async with asyncio.timeout(WITHIN_S):
        async for batch in watch:
            if batch.events:
                await watch.close()
                return batch.events[0]
    raise AssertionError("the watch ended")


# ---- one process at a time


async def test_a_second_server_is_refused_with_the_process_id_of_the_first(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path)
    with pytest.raises(DataDirectoryError) as refused:
        await EmbeddedStore.open(tmp_path)
    assert str(tmp_path) in str(refused.value)
    assert f"in use by another server (process {os.getpid()})" in str(refused.value)
    await store.create(P + "a", b"1")  # The first one does not notice.
    await store.close()
    again = await EmbeddedStore.open(tmp_path)
    assert await all_keys(again) == ["a"]
    await again.close()


HOLDER: Final = """
import asyncio, sys
from pathlib import Path
from storage.embedded import EmbeddedStore

async def main():
    store = await EmbeddedStore.open(Path(sys.argv[1]))
    print("open", flush=True)
    await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main())
"""


@contextlib.contextmanager
def child(program: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


async def test_the_kernel_frees_the_directory_of_a_killed_process(tmp_path: Path) -> None:
    with child(HOLDER, tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        with pytest.raises(DataDirectoryError, match=rf"in use by another server \(process {process.pid}\)"):
            await EmbeddedStore.open(tmp_path)
        process.kill()
        process.wait()
    store = await EmbeddedStore.open(tmp_path)
    await store.close()


# ---- files that cannot be used


def garbage(file: Path) -> None:
    file.write_bytes(b"not a database" * 1_000)


def foreign_database(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.executescript("CREATE TABLE songs (title TEXT); INSERT INTO songs VALUES ('a');")


def foreign_database_with_our_table_name(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.executescript("CREATE TABLE numbers (name TEXT, value INTEGER)")


def newer_format(file: Path) -> None:
    valid_store(file)
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.executescript("UPDATE numbers SET value = 2 WHERE name = 'format'")


def valid_store(file: Path) -> None:
    """Makes a valid file with more than a page in every table, and no log beside it."""

    async def fill() -> None:
        store = await EmbeddedStore.open(file.parent)
        for n in range(20):
            await store.transact([], [Put(f"{P}{n}-{m}", b"x" * 500) for m in range(20)])
        await store.close()

    asyncio.run(fill())


def cut_off(file: Path) -> None:
    valid_store(file)
    os.truncate(file, file.stat().st_size // 2)


def overwritten(file: Path) -> None:
    """Overwrites pages in the middle."""
    valid_store(file)
    with file.open("r+b") as opened:
        opened.seek(8 * 4096)
        opened.write(os.urandom(8 * 4096))


def a_directory(file: Path) -> None:
    file.mkdir()


UNUSABLE = {
    "garbage": (garbage, "is damaged or is not a store of this server"),
    "another program's database": (foreign_database, "is damaged or is not a store of this server"),
    "another program's database with a table of our name": (
        foreign_database_with_our_table_name,
        "has format None",
    ),
    "a newer format": (newer_format, "has format 2; this server reads 1"),
    "a file that was cut off": (cut_off, "is damaged"),
    "pages that were overwritten": (overwritten, "is damaged"),
    "a directory in its place": (a_directory, "is damaged or is not a store of this server"),
}


@pytest.mark.parametrize(("spoil", "message"), UNUSABLE.values(), ids=UNUSABLE)
def test_an_unusable_file_is_refused_by_name(
    tmp_path: Path, spoil: Callable[[Path], None], message: str
) -> None:
    file = tmp_path / "store.db"
    spoil(file)
    before = file.read_bytes() if file.is_file() else b""
    for _ in range(2):  # The lock is given back, so that the second try says the same.
        with pytest.raises(DataDirectoryError) as refused:
            asyncio.run(EmbeddedStore.open(tmp_path))
        assert str(file) in str(refused.value)
        assert message in str(refused.value)
        assert "\n" not in str(refused.value), "one clear sentence"
    if file.is_file():
        assert file.read_bytes() == before, "a file that is not ours must stay as it is"


async def test_an_unusable_directory_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for directory in (file, file / "below"):
        with pytest.raises(DataDirectoryError, match=f"cannot use the data directory {directory}"):
            await EmbeddedStore.open(directory)


async def test_other_users_cannot_read_the_files(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path / "new")
    await store.create(P + "a", b"secret")
    modes = {path.name: path.stat().st_mode & 0o077 for path in (tmp_path / "new").iterdir()}
    assert modes == dict.fromkeys(modes, 0)
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0
    await store.close()


# ---- answered writes are durable

WRITER: Final = """
import asyncio, sys
from pathlib import Path
from storage.embedded import EmbeddedStore

async def work(store, worker):
    for n in range(100_000):
        key = f"/registry/core/configmaps/{sys.argv[2]}-{worker}-{n}"
        print(key, await store.create(key, key.encode()), flush=True)

async def main():
    store = await EmbeddedStore.open(Path(sys.argv[1]))
    await asyncio.gather(*(work(store, worker) for worker in range(8)))

asyncio.run(main())
"""


async def test_no_answered_write_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    answered: dict[str, int] = {}
    for life in range(3):
        enough = len(answered) + 300
        with child(WRITER, tmp_path, life) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.endswith("\n"):  # The last one may be cut off.
                    key, revision = line.split()
                    assert int(revision) not in answered.values(), "a revision came twice"
                    answered[key] = int(revision)
                if len(answered) == enough:
                    process.send_signal(signal.SIGKILL)
        store = await EmbeddedStore.open(tmp_path)
        page = await store.list(ALL)
        found = {item.key: item.mod_revision for item in page.items}
        assert answered.items() <= found.items()
        assert all(item.value == item.key.encode() for item in page.items)
        assert page.revision == await store.current_revision() == max(found.values())
        key = f"{P}after-{life}"
        assert await store.create(key, key.encode()) == page.revision + 1
        await store.close()
        answered = found | {key: page.revision + 1}


def test_commits_wait_for_the_disk(tmp_path: Path) -> None:
    """WAL with synchronous=FULL (2): https://www.sqlite.org/pragma.html#pragma_synchronous"""
    database = Database(tmp_path)
    with contextlib.closing(database.connect_writer()) as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    database.close()


def commits_in(log: Path) -> int:
    """How many commits a write-ahead log holds: https://www.sqlite.org/fileformat2.html#the_write_ahead_log"""
    data = log.read_bytes()
    (page_size,) = struct.unpack_from(">I", data, 8)
    sizes = (struct.unpack_from(">I", data, at + 4)[0] for at in range(32, len(data), 24 + page_size))
    return sum(1 for size in sizes if size)


async def test_many_writers_share_a_commit(store: EmbeddedStore, tmp_path: Path) -> None:
    writes = 4 * GROUP_OPERATIONS_MAX
    log = tmp_path / "data" / "store.db-wal"
    before = commits_in(log) if log.exists() and log.stat().st_size else 0
    revisions = await asyncio.gather(*(store.create(f"{P}{n}", b"") for n in range(writes)))
    assert sorted(revisions) == list(range(min(revisions), min(revisions) + writes)), "a revision each"
    assert commits_in(log) - before <= 8, "some commits for all, not one for each"


async def test_a_refused_write_does_not_touch_the_others_of_its_group(store: EmbeddedStore) -> None:
    await store.create(P + "taken", b"")
    keys = [P + (f"{n}" if n % 2 else "taken") for n in range(100)]
    results = await asyncio.gather(*(store.create(key, b"") for key in keys), return_exceptions=True)
    written = {key for key, result in zip(keys, results, strict=True) if isinstance(result, int)}
    assert written == {key for key in keys if key != P + "taken"}
    assert await store.count(ALL) == 51


async def test_writes_beyond_the_queue_are_refused_and_the_rest_done(store: EmbeddedStore) -> None:
    asked = QUEUED_OPERATIONS_MAX + 100
    nothing = [Delete(P + "absent")]
    results = await asyncio.gather(
        *(store.transact([], nothing) for _ in range(asked)), return_exceptions=True
    )
    assert [type(result) for result in results].count(int) == QUEUED_OPERATIONS_MAX
    assert [type(result) for result in results].count(StorageUnavailable) == 100
    await store.create(P + "a", b"")


# ---- cancellation, closing


async def test_a_cancelled_write_is_atomic_and_does_not_affect_others(store: EmbeddedStore) -> None:
    start = await store.current_revision()
    tasks = [
        asyncio.create_task(store.transact([], [Put(f"{P}{n}-{half}", b"") for half in "ab"]))
        for n in range(200)
    ]
    for task in tasks[:50]:
        task.cancel()  # before it began
    await asyncio.sleep(0)
    for task in tasks[50:100]:
        task.cancel()  # on its way
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results[:100])
    found = await all_keys(store)
    happened = {int(key.partition("-")[0]) for key in found}
    assert len(found) == 2 * len(happened), "half a transaction"
    assert not happened & set(range(50)), "a write happened that had not begun"
    assert happened >= set(range(100, 200))
    assert await store.current_revision() == start + len(happened)


async def test_a_cancelled_read_leaves_nothing_behind(store: EmbeddedStore) -> None:
    await store.create(P + "a", b"1")
    reads = [asyncio.create_task(store.list(ALL)) for _ in range(50)]
    await asyncio.sleep(0)
    for read in reads:
        read.cancel()
    await asyncio.gather(*reads, return_exceptions=True)
    assert await all_keys(store) == ["a"]


async def test_a_cancelled_watch_continues_where_it_was(store: EmbeddedStore) -> None:
    start = await store.current_revision()
    watch = store.watch(ALL, after=start)
    await anext(aiter(watch))
    waiting = asyncio.ensure_future(anext(aiter(watch)))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    revision = await store.create(P + "a", b"1")
    async with asyncio.timeout(WITHIN_S):
        batch = await anext(aiter(watch))
    assert [event.mod_revision for event in batch.events] == [revision]
    await watch.close()


CALLS: dict[str, Callable[[Storage], Awaitable[object]]] = {
    "current_revision": lambda store: store.current_revision(),
    "get": lambda store: store.get(P + "a"),
    "list": lambda store: store.list(ALL),
    "count": lambda store: store.count(ALL),
    "create": lambda store: store.create(P + "b", b""),
    "compare_and_put": lambda store: store.compare_and_put(P + "a", b"", expected=2),
    "compare_and_delete": lambda store: store.compare_and_delete(P + "a", expected=2),
    "compact": lambda store: store.compact(1),
    "grant_lease": lambda store: store.grant_lease(60),
    "renew_lease": lambda store: store.renew_lease(1),
    "revoke_lease": lambda store: store.revoke_lease(1),
    "check_health": lambda store: store.check_health(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_closed_store_is_unavailable(
    tmp_path: Path, call: Callable[[Storage], Awaitable[object]]
) -> None:
    store = await EmbeddedStore.open(tmp_path, durable=False)
    await store.create(P + "a", b"1")
    await store.close()
    await store.close()  # once more does no harm
    with pytest.raises(StorageUnavailable):
        await call(store)


async def test_writes_in_flight_at_the_close_are_finished(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path, durable=False)
    writes = [asyncio.create_task(store.create(f"{P}{n:03}", b"")) for n in range(100)]
    await asyncio.sleep(0)
    await store.close()
    await asyncio.gather(*writes)
    again = await EmbeddedStore.open(tmp_path, durable=False)
    assert len(await all_keys(again)) == 100
    await again.close()


# ---- compaction


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
    return sum("could not be moved into the file" in record.message for record in caplog.records)


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
        took_s = []
        while log.stat().st_size < 2 * LOG_BYTES_MAX:
            began = time.perf_counter()
            await store.transact([], [Put(f"{P}{m}", b"x" * 100_000) for m in range(30)])
            await store.get(P + "a")
            took_s.append(time.perf_counter() - began)
    # One of them waited; the others tell how long they take on this machine.
    *_, second, slowest = sorted(took_s)
    assert slowest - second < 0.9, "a wait of 0.05 s, and none of a second or more"
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
    """An hour of 30 updates a second with a compaction every 5 minutes, in less time."""
    store = await EmbeddedStore.open(tmp_path, durable=False)
    revisions = [await store.create(f"{P}{n:03}", b"") for n in range(100)]
    cycles, updates = 12, 9_000
    largest, slowest_s = 0, []
    for cycle in range(cycles):
        oldest_kept = await store.current_revision()
        compacting: asyncio.Task[None] | None = None
        slowest_s.append(0.0)
        for n in range(updates):
            began = time.perf_counter()
            key = n % len(revisions)
            value = b"%d-%d" % (cycle, n) + b"x" * 1_000
            revisions[key] = await store.compare_and_put(f"{P}{key:03}", value, expected=revisions[key])
            if compacting is not None and not compacting.done():
                slowest_s[-1] = max(slowest_s[-1], time.perf_counter() - began)
            if n == updates // 2:
                compacting = asyncio.create_task(store.compact(oldest_kept))
        assert compacting is not None
        await compacting
        largest = max(largest, sum(path.stat().st_size for path in tmp_path.iterdir()))
    # At most two intervals of versions, in the file and once more in the log; all twelve are 120 MB.
    assert largest < 2 * 2 * updates * 1_200 + 20_000_000 < cycles * updates * 1_000
    assert statistics.median(slowest_s) < 0.25, "writers pass between the batches"
    await store.close()


# ---- leases


class Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def with_clocks(directory: Path, *, monotonic: Clock, wall: Clock) -> EmbeddedStore:
    return EmbeddedStore(Database(directory, durable=False), monotonic=monotonic, wall=wall)


async def lease_restarted(directory: Path, *, ttl_s: int, away_s: float) -> tuple[EmbeddedStore, int]:
    """A store that was closed with a key on a lease, and opened again `away_s` later."""
    store = with_clocks(directory, monotonic=Clock(0), wall=Clock(1_000))
    lease = await store.grant_lease(ttl_s)
    await store.create(P + "a", b"", lease=lease)
    await store.close()
    return with_clocks(directory, monotonic=Clock(50), wall=Clock(1_000 + away_s)), lease


async def test_a_lease_outlives_a_restart(tmp_path: Path) -> None:
    store, lease = await lease_restarted(tmp_path, ttl_s=60, away_s=30)
    await store.renew_lease(lease)
    await store.create(P + "b", b"", lease=lease)
    assert await all_keys(store) == ["a", "b"]
    await store.close()


async def test_a_lease_that_ran_out_while_the_server_was_down_expires_at_the_start(tmp_path: Path) -> None:
    store, lease = await lease_restarted(tmp_path, ttl_s=60, away_s=61)
    event = await next_event(store, after=await store.current_revision() - 1)
    while event.value is not None:
        event = await next_event(store, after=event.mod_revision)
    assert event.key == P + "a"
    with pytest.raises(LeaseNotFound):
        await store.renew_lease(lease)
    await store.close()


async def test_a_clock_set_back_over_a_restart_lengthens_no_lease(tmp_path: Path) -> None:
    store, _ = await lease_restarted(tmp_path, ttl_s=0, away_s=-100_000)
    event = await next_event(store, after=2)
    assert (event.key, event.value) == (P + "a", None)
    await store.close()


async def expire_due_leases(store: EmbeddedStore) -> None:
    """Have the store read its clock, by a lease that expires at once, after all others that are due."""
    lease = await store.grant_lease(0)
    with contextlib.suppress(LeaseNotFound):
        revision = await store.create(P + "due", b"", lease=lease)
        await next_event(store, after=revision)


async def test_leases_expire_with_time_and_not_with_the_clock(tmp_path: Path) -> None:
    monotonic, wall = Clock(0), Clock(1_000)
    store = with_clocks(tmp_path, monotonic=monotonic, wall=wall)
    lease = await store.grant_lease(60)
    await store.create(P + "a", b"", lease=lease)
    wall.now += 100_000
    await expire_due_leases(store)
    assert await all_keys(store) == ["a"]

    monotonic.now = 50
    await store.renew_lease(lease)
    monotonic.now = 109
    await expire_due_leases(store)
    assert await all_keys(store) == ["a"], "a renewal begins the time again"

    monotonic.now = 111
    revision = await store.current_revision()
    await expire_due_leases(store)
    event = await next_event(store, after=revision)
    while event.key != P + "a":
        event = await next_event(store, after=event.mod_revision)
    assert event.value is None
    await store.close()


class RefusingDatabase(Database):
    """Delays the next statement that does `refused` to the leases until the test goes on, and refuses it."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, durable=False)
        self.refused: int | None = None  # an action code: https://www.sqlite.org/c3ref/c_alter_table.html
        self.is_held, self.go_on = threading.Event(), threading.Event()

    def connect_writer(self) -> sqlite3.Connection:
        connection = super().connect_writer()
        connection.set_authorizer(self._authorize)
        return connection

    def _authorize(self, action: int, table: str | None, *_: str | None) -> int:
        if action != self.refused or table != "leases":
            return sqlite3.SQLITE_OK
        self.refused = None
        self.is_held.set()
        self.go_on.wait(WITHIN_S)
        return sqlite3.SQLITE_DENY


async def test_a_failed_renewal_does_not_undo_another(tmp_path: Path) -> None:
    database, monotonic = RefusingDatabase(tmp_path), Clock(0)
    store = EmbeddedStore(database, monotonic=monotonic)
    lease = await store.grant_lease(60)
    await store.create(P + "a", b"", lease=lease)
    database.refused = sqlite3.SQLITE_UPDATE
    monotonic.now = 10
    failing = asyncio.create_task(store.renew_lease(lease))
    await asyncio.to_thread(database.is_held.wait, 10)
    monotonic.now = 50
    renewal = asyncio.create_task(store.renew_lease(lease))
    await asyncio.sleep(0)  # It has begun.
    database.go_on.set()
    with pytest.raises(StorageUnavailable):
        await failing
    await renewal
    monotonic.now = 109
    await expire_due_leases(store)
    assert await all_keys(store) == ["a"], "60 seconds from the one that succeeded"
    await store.close()


async def test_a_lease_renewed_after_a_failed_expiry_has_its_full_ttl(tmp_path: Path) -> None:
    database, monotonic = RefusingDatabase(tmp_path), Clock(0)
    store = EmbeddedStore(database, monotonic=monotonic)
    lease = await store.grant_lease(60)
    await store.create(P + "a", b"", lease=lease)
    database.refused = sqlite3.SQLITE_DELETE
    monotonic.now = 61
    wakes = asyncio.create_task(store.grant_lease(1_000))
    await asyncio.to_thread(database.is_held.wait, 10)
    renewal = asyncio.create_task(store.renew_lease(lease))
    await asyncio.sleep(0)  # It has begun.
    database.go_on.set()
    await renewal
    await wakes
    monotonic.now += RETRY_S + 50
    await expire_due_leases(store)
    assert await all_keys(store) == ["a"]
    await store.close()


async def test_a_lease_with_more_keys_than_a_transaction_expires_completely(store: EmbeddedStore) -> None:
    lease = await store.grant_lease(60)
    for n in range(3):
        await store.transact([], [Put(f"{P}{n}-{m}", b"", lease) for m in range(128)])
    await store.revoke_lease(lease)
    assert await all_keys(store) == []
    with pytest.raises(LeaseNotFound):
        await store.create(P + "a", b"", lease=lease)


# ---- full and broken disks


class SmallDatabase(Database):
    """A file that may have 64 pages (256 KiB): to SQLite the same as a full disk."""

    def connect_writer(self) -> sqlite3.Connection:
        connection = super().connect_writer()
        connection.execute("PRAGMA max_page_count = 64")
        return connection


async def write_until_full(write: Callable[[int], Awaitable[None]]) -> None:
    for n in range(1_000):
        try:
            await write(n)
        except StorageFull:
            return
    pytest.fail("there was room for everything")


async def test_a_full_store_still_reads(tmp_path: Path) -> None:
    """As `StorageFull` says: reads work, writes and the health check fail until space is freed."""
    store = EmbeddedStore(SmallDatabase(tmp_path, durable=False))
    revisions: list[int] = []

    async def create(n: int) -> None:
        revisions.append(await store.create(f"{P}{n:03}", b"x" * 1_000))

    await write_until_full(create)
    assert [item.mod_revision for item in (await store.list(ALL)).items] == revisions
    assert await store.current_revision() == revisions[-1], "a write that failed uses up no revision"
    with pytest.raises(StorageFull):
        await store.create(P + "again", b"x" * 100_000)
    with pytest.raises(StorageFull):
        await store.check_health()
    assert await store.current_revision() == revisions[-1]

    async def delete(n: int) -> None:
        await store.compare_and_delete(f"{P}{n:03}", expected=revisions[n])

    await write_until_full(delete)  # Deletions, too, take room before they make any.
    await store.close()


async def test_a_full_store_has_space_again_after_compaction(tmp_path: Path) -> None:
    store = EmbeddedStore(SmallDatabase(tmp_path, durable=False))
    revision = await store.create(P + "a", b"0")

    async def change(n: int) -> None:
        nonlocal revision
        revision = await store.compare_and_put(P + "a", b"%d" % n + b"x" * 1_000, expected=revision)

    await write_until_full(change)
    watch = asyncio.create_task(next_event(store, after=revision))
    await store.compact(revision)
    await store.check_health()
    again = await store.compare_and_put(P + "a", b"after", expected=revision)
    assert again == revision + 1
    assert (await watch).value == b"after"
    await store.close()


async def test_a_full_file_system(tmp_path: Path) -> None:
    """The same on a real file system of 2 MiB, in a mount namespace of its own."""
    program = f"""
import asyncio
from pathlib import Path
from storage.embedded import EmbeddedStore
from storage.errors import StorageFull
from storage.keys import prefix_range

async def main():
    store = await EmbeddedStore.open(Path({str(tmp_path)!r}) / "data")
    ballast = Path({str(tmp_path)!r}) / "ballast"
    ballast.write_bytes(b"x" * 500_000)
    written = []
    try:
        while True:
            written.append(await store.create(f"{P}{{len(written):05}}", b"x" * 1_000))
    except StorageFull:
        pass
    page = await store.list(prefix_range("{P}"))
    assert [item.mod_revision for item in page.items] == written
    try:
        await store.check_health()
        print("it says that it is healthy")
    except StorageFull:
        pass
    ballast.unlink()
    await store.check_health()
    assert await store.create("{P}after", b"") == written[-1] + 1
    await store.close()
    print("recovered")

asyncio.run(main())
"""
    mount = f'mount -t tmpfs -o size=2m none {tmp_path} && exec "$@"'
    isolated = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh"]
    try:
        subprocess.run([*isolated, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no mounts in a user namespace here")
    done = subprocess.run([*isolated, sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "recovered\n", done.stderr


async def test_a_disk_filled_by_the_store_itself(tmp_path: Path) -> None:
    """Old versions are compacted, with the help of the reserve; no write is lost, and nobody has to act."""
    program = f"""
import asyncio, logging
from pathlib import Path
from storage.embedded import EmbeddedStore
from storage.errors import StorageFull

async def main():
    store = await EmbeddedStore.open(Path({str(tmp_path)!r}) / "data")
    revision, last, refused = await store.create("{P}a", b""), b"", 0
    for n in range(1_000):
        value = b"%d-" % n + b"x" * 100_000
        for _ in range(200):
            try:
                revision = await store.compare_and_put("{P}a", value, expected=revision)
                last = value
                break
            except StorageFull:
                refused += 1
                await asyncio.sleep(0.02)
        else:
            raise SystemExit(f"still full after {{n}} writes")
    read = await store.get("{P}a")
    assert (read.stored.mod_revision, read.stored.value) == (revision, last)
    await store.check_health()
    await store.close()
    print("refused" if refused else "never full")

asyncio.run(main())
"""
    mount = f'mount -t tmpfs -o size=24m none {tmp_path} && exec "$@"'
    isolated = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh"]
    try:
        subprocess.run([*isolated, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no mounts in a user namespace here")
    done = subprocess.run([*isolated, sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "refused\n", done.stderr
    assert done.stderr.count("writes failed") <= done.stderr.count("were compacted") + 1, (
        "it is logged once each time"
    )


@contextlib.contextmanager
def file_size_limit(limit_bytes: int) -> Iterator[None]:
    """Writes beyond the limit fail with EFBIG, which SQLite, unlike ENOSPC, treats as a broken disk."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


async def test_a_commit_that_fails_half_way_has_an_unknown_outcome_that_is_resolved(tmp_path: Path) -> None:
    """Whether it happened or not, store, revision and watches agree afterwards, and no event comes twice."""
    store = await EmbeddedStore.open(tmp_path, durable=False)
    first = await store.create(P + "a", b"1")
    watch = store.watch(ALL, after=first)
    await anext(aiter(watch))
    size = (tmp_path / "store.db-wal").stat().st_size
    with file_size_limit(size + 5_000), pytest.raises((OutcomeUnknown, StorageUnavailable)) as failed:
        await store.create(P + "b", b"x" * 100_000)
    assert not isinstance(failed.value, StorageFull)
    happened = (await store.get(P + "b")).stored is not None
    assert not (happened and isinstance(failed.value, StorageUnavailable)), "it says nothing was written"
    revision = await store.create(P + "c", b"")
    assert revision == first + 1 + happened == await store.current_revision()
    seen: list[int] = []
    async with asyncio.timeout(WITHIN_S):
        while revision not in seen:
            seen += [event.mod_revision for event in (await anext(aiter(watch))).events]
    assert seen == list(range(first + 1, revision + 1))
    await store.check_health()
    await store.close()
    again = await EmbeddedStore.open(tmp_path, durable=False)
    assert await again.current_revision() == revision
    await again.close()
