"""What is special about a store in memory. The tests of the contract run on it as well."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from pathlib import Path
from typing import Final

import pytest

from storage.embedded import EmbeddedStore
from storage.embedded.checkpoint_lock import CheckpointLock
from storage.errors import RevisionCompacted
from storage.interface import Put, ReadAt, Stored
from tests.support.embedded_stores import ALL, P, all_keys
from tests.support.eventually import WITHIN_S


def open_files() -> set[str]:
    return {os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}


@pytest.mark.skipif(sys.platform != "linux", reason="Linux is missing: open files are read from its /proc")
async def test_it_has_no_files() -> None:
    before = open_files()
    store = await EmbeddedStore.in_memory()
    for number in range(10):
        await store.create(f"{P}{number}", bytes(100_000))
    assert {name for name in open_files() - before if name.startswith("/")} == set()
    await store.close()


async def test_each_is_a_store_of_its_own() -> None:
    one, other = await EmbeddedStore.in_memory(), await EmbeddedStore.in_memory()
    await one.create(P + "a", b"")
    assert (await all_keys(one), await all_keys(other)) == (["a"], [])
    await one.close()
    await other.create(P + "b", b"")
    assert await all_keys(other) == ["b"]
    await other.close()


async def test_long_reads_and_writes_get_along() -> None:
    """SQLite refuses a read while another connection writes: they take turns, and none fails."""
    store = await EmbeddedStore.in_memory()
    for number in range(2_000):
        await store.create(f"{P}old-{number:04}", bytes(1_000))
    deadline = time.monotonic() + 1

    async def write(worker: int) -> int:
        written = 0
        while time.monotonic() < deadline:
            await store.create(f"{P}new-{worker}-{written}", b"")
            written += 1
        return written

    async def read() -> int:
        count = 0
        while time.monotonic() < deadline:
            assert len((await store.list(ALL, limit=2_000)).items) == 2_000
            count += 1
        return count

    results = await asyncio.gather(*(write(worker) for worker in range(4)), read(), read())
    assert all(results), results
    await store.close()


async def test_memory_is_given_back_by_compaction() -> None:
    store = await EmbeddedStore.in_memory()
    for _ in range(200):
        revision = (await store.get(P + "a")).stored
        expected = 0 if revision is None else revision.mod_revision
        await store.compare_and_put(P + "a", bytes(10_000), expected=expected)
    before = await store.size_bytes()
    await store.compact(await store.current_revision())
    assert await store.size_bytes() < before / 10
    await store.close()


READS: Final = 3


def test_reads_that_have_waited_for_the_writer_come_before_its_next_turn() -> None:
    lock, begun = CheckpointLock(), threading.Barrier(READS + 1)
    assert lock.block_reads(wait_s=0)

    def read() -> None:
        lock.begin_read()
        begun.wait(WITHIN_S)

    threads = [threading.Thread(target=read) for _ in range(READS)]
    for thread in threads:
        thread.start()
    while lock.waiting < READS:
        time.sleep(0.001)
    lock.allow_reads()
    # The writer has the lock again before any of them has run.
    assert not lock.block_reads(wait_s=0)
    begun.wait(WITHIN_S)
    for _ in range(READS):
        lock.end_read()
    assert lock.block_reads(wait_s=0)
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_a_copy_is_another_store(kind: str, tmp_path: Path) -> None:
    store = await (EmbeddedStore.in_memory() if kind == "memory" else EmbeddedStore.open(tmp_path / "data"))
    await store.create(P + "a", b"1")
    lease = await store.grant_lease(600)
    revision = await store.create(P + "b", b"2", lease=lease)
    copied = await store.copy()
    await store.create(P + "c", b"3")
    one, other = EmbeddedStore(copied.copy()), EmbeddedStore(copied.copy())
    await other.create(P + "d", b"4")
    assert (await all_keys(one), await all_keys(other)) == (["a", "b"], ["a", "b", "d"])
    assert (await one.get(P + "b")).stored == Stored(P + "b", b"2", revision, revision, lease)
    await one.renew_lease(lease)
    assert await one.create(P + "e", b"5") == revision + 1
    for each in (store, one, other):
        await each.close()
    copied.close()


async def test_a_copy_that_goes_on_above_a_revision_forgets_what_was_before() -> None:
    store = await EmbeddedStore.in_memory()
    await store.create(P + "a", b"1")
    database = await store.copy()
    database.continue_at(100)
    restored = EmbeddedStore(database)
    assert await all_keys(restored) == ["a"]
    with pytest.raises(RevisionCompacted):
        await restored.list(ALL, ReadAt.exactly(99))
    assert await restored.create(P + "b", b"2") == 101
    await store.close()
    await restored.close()


async def test_a_copy_is_of_one_revision_while_others_write() -> None:
    store = await EmbeddedStore.in_memory()
    is_done = False

    async def write() -> None:
        number = 0
        while not is_done:
            await store.transact((), [Put(f"{P}{number}-{part}", b"") for part in "ab"])
            number += 1

    writing = asyncio.create_task(write())
    for _ in range(20):
        copied = EmbeddedStore(await store.copy())
        assert len(await all_keys(copied)) % 2 == 0
        await copied.close()
    is_done = True
    await writing
    await store.close()
