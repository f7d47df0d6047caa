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
from hypothesis import given
from hypothesis import strategies as st

from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.embedded.checkpoint_lock import CheckpointLock
from apiserver.storage.embedded.memory_database import MemoryDatabase
from apiserver.storage.errors import RevisionCompacted
from apiserver.storage.interface import NO_LEASE, Delete, EventBatch, Put, ReadAt, Stored
from tests.support.embedded_stores import ALL, P, all_keys
from tests.support.eventually import WITHIN_S, until


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
    until(lambda: lock.waiting == READS)
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
    one, other = EmbeddedStore(MemoryDatabase(copied)), EmbeddedStore(MemoryDatabase(copied))
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


KEYS: Final = tuple(P + name for name in "abcd")
# What is done to a store: a key is written or deleted, or all history is forgotten.
steps = st.lists(
    st.one_of(
        st.builds(Put, st.sampled_from(KEYS), st.binary(max_size=4), st.just(NO_LEASE)),
        st.builds(Delete, st.sampled_from(KEYS)),
        st.just("compact"),
    ),
    max_size=12,
)


async def do(store: EmbeddedStore, step: Put | Delete | str) -> None:
    if isinstance(step, str):
        await store.compact(await store.current_revision())
    else:
        await store.transact([], [step], note=step.key.encode() if isinstance(step, Put) else b"")


async def what_it_shows(store: EmbeddedStore) -> tuple[object, ...]:
    """All that clients can read: each revision, as it was, and the events between them."""
    last = await store.current_revision()
    shown: list[object] = [last]
    for revision in range(1, last + 1):
        try:
            page = await store.list(ALL, ReadAt.exactly(revision))
            some = await store.list(ALL, ReadAt.exactly(revision), limit=2)
            each = [await store.get(key, ReadAt.exactly(revision)) for key in KEYS]
            shown.append((page, some, each, await store.count(ALL, ReadAt.exactly(revision))))
            shown.append(await events_after(store, revision))
        except RevisionCompacted as error:
            shown.append(str(error))
    return tuple(shown)


async def events_after(store: EmbeddedStore, revision: int) -> EventBatch:
    watch = store.watch(ALL, after=revision)
    try:
        return await anext(aiter(watch))
    finally:
        await watch.close()


@given(before=steps, after=steps)
def test_one_that_shares_what_it_begins_with_is_as_a_copy(
    before: list[Put | Delete | str], after: list[Put | Delete | str]
) -> None:
    async def compare() -> None:
        first = await EmbeddedStore.in_memory()
        for step in before:
            await do(first, step)
        copied = await first.copy()
        copy, sharing = EmbeddedStore(await first.copy()), EmbeddedStore(MemoryDatabase(copied))
        copied.close()
        for step in after:
            await do(copy, step)
            await do(sharing, step)
        shown = await what_it_shows(copy)
        assert await what_it_shows(sharing) == shown
        # A copy of one that shares has everything itself.
        again = EmbeddedStore(await sharing.copy())
        await sharing.close()
        assert await what_it_shows(again) == shown
        for store in (first, copy, again):
            await store.close()

    asyncio.run(compare())


async def test_what_is_deleted_is_gone_although_what_is_shared_has_it() -> None:
    first = await EmbeddedStore.in_memory()
    await first.create(P + "a", b"1")
    database = await first.copy()
    one, other = EmbeddedStore(MemoryDatabase(database)), EmbeddedStore(MemoryDatabase(database))
    database.close()
    revision = (await one.get(P + "a")).revision
    await one.compare_and_delete(P + "a", expected=revision)
    await one.compact(await one.current_revision())
    assert (await all_keys(one), await all_keys(other)) == ([], ["a"])
    # Nor does it come back once it was written again, and that is forgotten.
    written = await one.create(P + "a", b"2")
    await one.compare_and_delete(P + "a", expected=written)
    await one.compact(await one.current_revision())
    assert (await one.get(P + "a")).stored is None
    for store in (first, one, other):
        await store.close()


async def test_what_is_shared_takes_no_memory_of_its_own() -> None:
    first = await EmbeddedStore.in_memory()
    for number in range(100):
        await first.create(f"{P}{number}", bytes(10_000))
    database = await first.copy()
    sharing = EmbeddedStore(MemoryDatabase(database))
    assert len(await all_keys(sharing)) == 100
    assert await sharing.size_bytes() < await first.size_bytes() / 10
    database.close()
    for store in (first, sharing):
        await store.close()
