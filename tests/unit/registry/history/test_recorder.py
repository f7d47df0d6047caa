"""The recorder, which follows a watch cache, and reads from the store what it has missed."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from apiserver.registry.history.authors import AuthorNotes
from apiserver.registry.history.forms import RecordedForms
from apiserver.registry.history.missed_changes import AT_ONCE
from apiserver.registry.history.policy import HistoryPolicy
from apiserver.registry.history.recorder import COLLECTED_BYTES_MAX, Recorder
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.stored_version_decoder import StoredVersionDecoder
from apiserver.registry.transactions import OwnWrites
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.history.changes import Change, Span
from apiserver.storage.history.past_values import HistoryGap, Value
from apiserver.storage.history.purges import NO_DROPS
from apiserver.storage.history.undo_log import Limits, UndoLog
from apiserver.storage.interface import Condition, Put, Storage
from apiserver.storage.keys import prefix_range
from apiserver.storage.watch_cache import WatchCache
from tests.support.eventually import eventually

PREFIX: Final = "/registry"
KEY: Final = "/registry/core/configmaps/default/a"
PODS: Final = "/registry/core/pods/default/a"
ROOMY: Final = Limits(bytes_max=64 * 1024 * 1024, age_s_max=1e9)


def value(text: str) -> bytes:
    head = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}'
    return head + b',"data":{"k":"' + text.encode() + b'"}}'


class Recording:
    """A store with a watch cache and a recorder in front of it."""

    def __init__(self, store: Storage, log: UndoLog, clock: Callable[[], float] = lambda: 1_000.0) -> None:
        self.store, self.log = store, log
        decode = StoredVersionDecoder(OwnWrites(), prefix=PREFIX)
        self.recorder = Recorder(
            log,
            store,
            decode,
            RecordedForms(PREFIX, b"k" * 32, HistoryPolicy((), PREFIX)),
            prefix=PREFIX,
            clock=clock,
        )
        self.cache: WatchCache[StoredObject] = WatchCache(
            store, prefix=PREFIX, decode=decode, size_of=lambda each: len(each.tail)
        )
        self.cache.follow(self.recorder)
        self.notes = AuthorNotes(clock)

    async def write(self, key: str, text: str) -> int:
        stored = (await self.store.get(key)).stored
        condition = Condition(key, 0 if stored is None else stored.mod_revision)
        return await self.store.transact((condition,), (Put(key, value(text)),), note=self.notes.note())

    async def at(self, revision: int) -> str:
        """Returns what the data of the object was."""
        until = await self.cache.revision_at()
        assert await self.cache.has_reached(until)
        await self.recorder.wait_for(until)
        live = self.cache.get_cached(KEY)
        newest = None
        if live is not None and live.value is not None:
            newest = Value(live.value.stored_form(), live.revision)
        read = lambda: self.log.changed_since(prefix_range(KEY), revision, until, lambda _: newest)  # noqa: E731
        found = (await self.recorder.read(read)).get(KEY)
        past = newest if found is None else found.value
        return "" if past is None else past.value.decode().split('"k":"')[1].removesuffix('"}}')


@asynccontextmanager
async def running(recording: Recording) -> AsyncIterator[Recording]:
    tasks = [asyncio.create_task(recording.recorder.run()), asyncio.create_task(recording.cache.run())]
    try:
        await recording.cache.wait_until_filled()
        yield recording
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
async def store() -> AsyncIterator[Storage]:
    store = await EmbeddedStore.in_memory()
    yield store
    await store.close()


async def test_what_is_written_can_be_read_as_it_was(store: Storage) -> None:
    async with running(Recording(store, UndoLog(None, ROOMY))) as recording:
        revisions = [await recording.write(KEY, str(n)) for n in range(50)]
        assert [await recording.at(each) for each in revisions] == [str(n) for n in range(50)]


async def test_a_read_before_the_cache_is_filled_waits_for_nothing_and_loses_nothing(store: Storage) -> None:
    log = UndoLog(None, ROOMY)
    recording = Recording(store, log)
    await recording.write(KEY, "1")
    with pytest.raises(OSError, match="not read the store yet"):
        await recording.recorder.wait_for(10**6)
    async with running(recording):
        revision = await recording.write(KEY, "2")
        await recording.write(KEY, "3")
        assert await recording.at(revision) == "2"


async def test_the_history_begins_when_the_cache_was_filled(store: Storage) -> None:
    """Not when that is noted: what is written in between is not as late."""
    now = 1_000.0
    log = UndoLog(None, ROOMY)
    recording = Recording(store, log, clock=lambda: now)
    before = await recording.write(KEY, "0")
    async with running(recording):
        now = 1_005.0
        revision = await recording.write(KEY, "1")
        assert await recording.cache.has_reached(revision)
        now = 1_010.0
        assert await recording.at(revision) == "1"
        times = (999_999, 1_000_000, 1_004_999, 1_005_000)
        assert [log.revision_at(at_ms) for at_ms in times] == [0, before, before, revision]


async def test_changes_that_were_missed_keep_the_times_at_which_they_were_made(store: Storage) -> None:
    """Also if they are so many that they are read in parts."""
    log, now = Dropping(None, ROOMY), 1_000.0
    async with running(Recording(store, log, clock=lambda: now)) as first:
        assert await first.at(await first.write(KEY, "0")) == "0"
    away, times = Recording(store, log, clock=lambda: now), dict[int, int]()
    for number in range(2 * AT_ONCE + 10):
        now += 1
        times[int(now) * 1_000] = await away.write(KEY, str(number))
    now += 1_000
    async with running(Recording(store, log, clock=lambda: now)) as second:
        assert await second.at(times[1_001_000]) == "0"
        assert {at_ms: log.revision_at(at_ms) for at_ms in times} == times


class Dropping(UndoLog):
    """A history that does not end with its recorder, as that of another process does not."""

    def close(self) -> None:
        pass


async def test_what_was_written_meanwhile_is_read_from_the_store(store: Storage) -> None:
    log = Dropping(None, ROOMY)
    async with running(Recording(store, log)) as first:
        revisions = [await first.write(KEY, "0")]
        assert await first.at(revisions[0]) == "0"
    away = Recording(store, log, clock=lambda: 2_000.0)
    revisions += [await away.write(KEY, str(n)) for n in range(1, 30)]
    # Its clock is behind that of the writes, and then set back: times are not in the future, nor decrease.
    for count, clock_s in enumerate((1_500.0, 500.0), 31):
        async with running(Recording(store, log, clock=lambda: clock_s)) as second:  # noqa: B023
            revisions.append(await second.write(KEY, str(count - 1)))
            assert [await second.at(each) for each in revisions] == [str(n) for n in range(count)]
        versions = log.versions(KEY, None, until=log.recorded, limit=100)
        assert [each.at_ms for each in reversed(versions)] == [1_000_000, *[1_500_000] * (count - 1)]
        assert all(each.author is not None and each.author.user == "system:apiserver" for each in versions)


async def test_more_than_can_be_collected_is_read_from_the_store(store: Storage) -> None:
    """Several resources change in one batch, and their changes are recorded once."""
    async with running(Recording(store, UndoLog(None, ROOMY))) as recording:
        text = "x" * (COLLECTED_BYTES_MAX // 20)
        revisions = []
        for n in range(50):
            revisions.append(await recording.write(KEY, f"{n}-{text}"))
            await recording.write(PODS, f"{n}-{text}")
        found = [(await recording.at(each)).partition("-")[0] for each in revisions]
        assert found == [str(n) for n in range(50)]
        assert recording.recorder.failure is None


async def test_a_batch_of_several_resources_is_recorded_up_to_its_newest_change(store: Storage) -> None:
    """The cache sorts the changes by resource, and the last one is not the newest."""
    recording = Recording(store, UndoLog(None, ROOMY))
    filling = asyncio.create_task(recording.cache.run())
    await recording.cache.wait_until_filled()
    writes = [store.create(key, value("")) for key in (KEY, PODS, f"{KEY}b")]
    last = max(await asyncio.gather(*writes))
    assert await recording.cache.has_reached(last)
    await recording.recorder.flush()
    assert recording.log.recorded == last
    filling.cancel()
    await asyncio.gather(filling, return_exceptions=True)


async def test_another_store_begins_another_history() -> None:
    """Its revisions are used for other changes, whether it is behind or has overtaken the history."""
    for writes in (3, 40):
        log = Dropping(None, ROOMY)
        one, other = await EmbeddedStore.in_memory(), await EmbeddedStore.in_memory()
        async with running(Recording(one, log)) as recording:
            revisions = [await recording.write(KEY, str(n)) for n in range(20)]
            assert await recording.at(revisions[3]) == "3"
        away = Recording(other, log)
        for n in range(writes):
            await away.write(PODS, str(n))
        async with running(Recording(other, log)) as recording:
            now = await recording.write(KEY, "now")
            assert await recording.at(now) == "now"
            with pytest.raises(HistoryGap):
                await recording.at(revisions[15])
        await one.close()
        await other.close()


async def test_a_damaged_newest_segment_is_read_from_the_store_again(store: Storage, tmp_path: Path) -> None:
    limits = Limits(bytes_max=16 * 64 * 1024, age_s_max=1e9)
    async with running(Recording(store, UndoLog(tmp_path / "history", limits))) as first:
        revisions = []
        for n in range(60):
            revisions.append(await first.write(KEY, f"{n}-{random.Random(n).randbytes(2_000).hex()}"))
            await first.at(revisions[-1])
    files = sorted((tmp_path / "history").glob("*.history"))
    assert len(files) >= 2
    connection = sqlite3.connect(files[-1])
    connection.execute("UPDATE changes SET since = since + 1")
    connection.commit()
    connection.close()
    # The recorder, which was away for a change, looks at the newest one that it knows.
    await Recording(store, UndoLog(None, ROOMY)).write(KEY, "60-")
    async with running(Recording(store, UndoLog(tmp_path / "history", limits))) as second:
        found = [(await second.at(each)).partition("-")[0] for each in revisions]
        assert found == [str(n) for n in range(60)]


async def test_nothing_of_another_store_is_read_before_its_history_begins(store: Storage) -> None:
    log, other = Dropping(None, ROOMY), await EmbeddedStore.in_memory()
    async with running(Recording(other, log)) as recording:
        for n in range(40):
            last = await recording.write(PODS, str(n))
        await recording.recorder.wait_for(last)
    away = Recording(store, log)
    revisions = [await away.write(KEY, str(n)) for n in range(20)]
    async with running(Recording(store, log)) as recording:
        now = await recording.cache.revision_at()
        await recording.recorder.wait_for(now)
        assert log.recorded == now < last
        with pytest.raises(HistoryGap):
            await recording.at(revisions[5])
    await other.close()


class Failing(UndoLog):
    """A history that can be written only from when its disk has space."""

    def __init__(self) -> None:
        self.has_space = asyncio.Event()
        super().__init__(None, ROOMY)

    def append(
        self, changes: Sequence[Change], span: Span, at_ms: int, dropped: Mapping[str, int] = NO_DROPS
    ) -> None:
        if changes and not self.has_space.is_set():
            raise OSError("no space left on device")
        super().append(changes, span, at_ms, dropped)


async def test_what_is_not_recorded_yet_has_an_age(store: Storage) -> None:
    log, now_s = Failing(), 1_000.0
    async with running(Recording(store, log, clock=lambda: now_s)) as recording:
        recorder = recording.recorder
        assert (recorder.lag_s(), recorder.changes_total) == (0.0, 0)
        await recording.write(KEY, "1")
        await eventually(lambda: recorder.failure)
        now_s += 5.0
        await recording.write(KEY, "2")
        await recording.cache.revision_at()
        assert (recorder.lag_s(), recorder.changes_total) == (5.0, 0)
        now_s -= 100.0  # A clock that is set back.
        assert recorder.lag_s() == 0.0
        now_s += 100.0
        log.has_space.set()
        revision = await recording.write(KEY, "3")
        await eventually(lambda: recorder.failure is None)
        assert await recording.at(revision) == "3"
        assert (recorder.lag_s(), recorder.changes_total, recorder.gaps) == (0.0, 3, 0)
        assert recorder.size_bytes > 0


async def test_gaps_are_counted(store: Storage) -> None:
    log = Dropping(None, ROOMY)
    async with running(Recording(store, log)) as first:
        assert await first.at(await first.write(KEY, "1")) == "1"
    away = Recording(store, log)
    await store.compact(await away.write(KEY, "2"))
    async with running(Recording(store, log)) as second:
        assert await second.at(await second.write(KEY, "3")) == "3"
        assert second.recorder.gaps == 1


async def test_changes_are_recorded_while_a_long_read_is_under_way(store: Storage) -> None:
    async with running(Recording(store, UndoLog(None, ROOMY))) as recording:
        revisions = [await recording.write(KEY, str(n)) for n in range(3)]
        is_reading, goes_on = threading.Event(), threading.Event()

        def read() -> int:
            is_reading.set()
            assert goes_on.wait(60)
            return recording.log.recorded

        reading = asyncio.create_task(recording.recorder.read(read))
        assert await asyncio.to_thread(is_reading.wait, 60)
        revisions += [await recording.write(KEY, str(n)) for n in range(3, 6)]
        await recording.cache.revision_at()
        await recording.recorder.wait_for(revisions[-1])
        assert not reading.done()
        goes_on.set()
        assert await reading == revisions[-1]
        assert [await recording.at(each) for each in revisions] == [str(n) for n in range(6)]


async def test_a_read_that_ends_after_the_history_was_closed_is_refused(store: Storage) -> None:
    """It may have found only a part of what there is."""
    is_reading, goes_on = threading.Event(), threading.Event()
    async with running(Recording(store, UndoLog(None, ROOMY))) as recording:
        await recording.at(await recording.write(KEY, "1"))

        def read() -> None:
            is_reading.set()
            assert goes_on.wait(60)

        reading = asyncio.create_task(recording.recorder.read(read))
        assert await asyncio.to_thread(is_reading.wait, 60)
    goes_on.set()
    with pytest.raises(OSError, match="shutting down"):
        await reading
