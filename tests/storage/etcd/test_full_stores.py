"""Stores that have used up their quota."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from apiserver.storage.errors import OutcomeUnknown, StorageError, StorageFull, StorageUnavailable
from apiserver.storage.etcd.watch import SILENCE_MAX_S
from apiserver.storage.interface import Storage
from tests.support.etcd_process import EtcdProcess
from tests.support.etcd_stores import ALL, P, Stores, binary
from tests.support.eventually import WITHIN_S

pytestmark = pytest.mark.etcd


async def use_up_quota(store: Storage) -> dict[str, StorageError | int]:
    """Write concurrently until the quota is used up; returns the result of each write.

    etcd carries them out in any order, so any one of them may be refused.
    """
    keys = [f"{P}{n:04}" for n in range(1_000)]
    results = await asyncio.gather(*(store.create(k, b"x" * 20_000) for k in keys), return_exceptions=True)
    by_key: dict[str, StorageError | int] = {}
    for key, result in zip(keys, results, strict=True):
        assert isinstance(result, int | StorageError), result
        by_key[key] = result
    async with asyncio.timeout(WITHIN_S):
        # The quota may hold all of these, and a few more. etcd may begin to refuse in the middle of a write.
        with contextlib.suppress(StorageFull, OutcomeUnknown):
            for number in itertools.count():
                await store.create(f"{P}more-{number}", b"x" * 20_000)
    return by_key


@pytest.fixture
def small_etcd(tmp_path: Path) -> Iterator[EtcdProcess]:
    etcd = EtcdProcess(binary(), tmp_path, flags=("--quota-backend-bytes=8000000",)).start()
    yield etcd
    etcd.kill()


async def test_an_exhausted_quota_stops_writes_until_space_is_freed(
    small_etcd: EtcdProcess, open_store: Stores
) -> None:
    """Row N01. Reads work; space is freed as etcd says: delete, compact, defragment, disarm."""
    store = open_store(small_etcd.url)

    async def until_alarmed() -> None:
        for n in itertools.count():
            try:
                await store.create(f"{P}{n:05}", b"x" * 100_000)
            except (StorageFull, OutcomeUnknown):  # See the test below.
                break
        while True:  # The alarm is raised while the answer is on its way.
            await store.check_health()

    with pytest.raises(StorageFull, match="has exceeded its space quota"):
        await asyncio.wait_for(until_alarmed(), WITHIN_S)
    with pytest.raises(StorageFull):
        await store.create(P + "more", b"")
    assert (await store.list(ALL)).items
    # etcd 3.5.1 refuses even a transaction that only deletes; a plain deletion passes.
    small_etcd.ctl("del", "--prefix", P)
    revision = await store.current_revision()
    await store.compact(revision)
    small_etcd.ctl("defrag")
    small_etcd.ctl("alarm", "disarm")
    await store.check_health()
    assert await store.create(P + "again", b"") == revision + 1


async def test_a_full_store_ends_no_watch(small_etcd: EtcdProcess, open_store: Stores) -> None:
    """Before etcd 3.5.13, a request for progress is a write: that it is refused says nothing of the watch."""
    store = open_store(small_etcd.url)
    results = await use_up_quota(store)
    key = next(key for key, result in results.items() if isinstance(result, int))
    watch = store.watch(ALL, after=await store.current_revision())
    batches = aiter(watch)
    await anext(batches)
    reading = asyncio.ensure_future(anext(batches))
    ends_at = time.monotonic() + 2 * SILENCE_MAX_S
    while time.monotonic() < ends_at:
        with pytest.raises(StorageFull):
            await watch.request_progress()
        await asyncio.sleep(0.1)
    small_etcd.ctl("del", key)
    batch = await asyncio.wait_for(reading, WITHIN_S)
    assert [event.key for event in batch.events] == [key]
    await watch.close()


async def test_a_write_refused_for_space_has_not_happened(
    small_etcd: EtcdProcess, open_store: Stores
) -> None:
    """`StorageUnavailable`, which `StorageFull` is: what was asked for has not happened.

    Writes that are on their way when the quota is reached may be done *and* answered with an error: what
    becomes of them must not be called StorageFull.
    """
    store = open_store(small_etcd.url)
    results = await use_up_quota(store)
    found = {item.key for item in (await store.list(ALL)).items}
    assert {key for key, result in results.items() if isinstance(result, int)} <= found
    refused = {key for key, result in results.items() if isinstance(result, StorageUnavailable)}
    assert len(refused & found) == 0
