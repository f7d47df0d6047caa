"""Answered writes are durable; cancellation, and closing."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import struct
from collections import Counter
from pathlib import Path

import pytest

from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.embedded.database import Database
from apiserver.storage.embedded.writer import ANSWERED_PER_ROUND, GROUP_OPERATIONS_MAX, QUEUED_OPERATIONS_MAX
from apiserver.storage.errors import StorageUnavailable
from apiserver.storage.interface import Delete, Put
from tests.support.embedded_stores import ALL, WRITER, P, all_keys, child
from tests.support.etcd_stores import CALLS
from tests.support.eventually import WITHIN_S
from tests.support.rounds import Rounds


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


async def test_few_writers_are_answered_in_one_round_of_the_loop(store: EmbeddedStore) -> None:
    """What each of hundreds does with its answer is not all one turn. Their events are there before."""
    rounds, answered = Rounds(), Counter[int]()
    writes = 3 * ANSWERED_PER_ROUND

    async def write(number: int) -> None:
        await store.create(f"{P}{number}", b"")
        answered[rounds.number] += 1

    await asyncio.gather(*(write(number) for number in range(writes)))
    rounds.close()
    assert sum(answered.values()) == writes
    assert max(answered.values()) <= ANSWERED_PER_ROUND


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


@pytest.mark.parametrize("call", sorted(CALLS.keys() - {"watch"}))
async def test_a_closed_store_is_unavailable(tmp_path: Path, call: str) -> None:
    store = await EmbeddedStore.open(tmp_path, durable=False)
    await store.create(P + "a", b"1")
    await store.close()
    await store.close()  # once more does no harm
    with pytest.raises(StorageUnavailable):
        await CALLS[call](store)


async def test_writes_in_flight_at_the_close_are_finished(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path, durable=False)
    writes = [asyncio.create_task(store.create(f"{P}{n:03}", b"")) for n in range(100)]
    await asyncio.sleep(0)
    await store.close()
    await asyncio.gather(*writes)
    again = await EmbeddedStore.open(tmp_path, durable=False)
    assert len(await all_keys(again)) == 100
    await again.close()
