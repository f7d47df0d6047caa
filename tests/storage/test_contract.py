"""The contract of `storage.interface.Storage`, tested on every store and on the watch cache in front of each.

One function is one promise. The `store` fixture gives a fresh, empty store of each kind in turn.
"""

from __future__ import annotations

import asyncio
import itertools
import weakref
from typing import Any

import pytest

from apiserver.storage.errors import (
    KeyExists,
    LeaseNotFound,
    RevisionCompacted,
    RevisionMismatch,
    RevisionTooLarge,
    StorageUnavailable,
    ValueTooLarge,
)
from apiserver.storage.interface import (
    ANY,
    MOST_RECENT,
    NOTE_BYTES_MAX,
    TRANSACTION_WRITES_MAX,
    VALUE_BYTES_MAX,
    Condition,
    Delete,
    Event,
    EventBatch,
    KeyRange,
    Put,
    ReadAt,
    Storage,
)
from apiserver.storage.keys import after, prefix_range
from tests.support.cache_as_storage import CacheAsStorage
from tests.support.eventually import WITHIN_S, eventually
from tests.support.garbage import no_collections

P = "/registry/core/configmaps/"
ALL = prefix_range(P)


async def put_many(store: Storage, *names: str) -> list[int]:
    return [await store.create(P + name, name.encode()) for name in names]


def names(items: object) -> list[str]:
    return [item.key.removeprefix(P) for item in items]  # type: ignore[attr-defined]


class Events:
    """Reads a watch event by event, whatever the batches are."""

    def __init__(self, store: Storage, keys: KeyRange, *, after: int) -> None:
        self.watch = store.watch(keys, after=after)
        self._batches = aiter(self.watch)
        self._events: list[Event] = []
        self.revision = 0

    async def __aenter__(self) -> Events:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.watch.close()

    async def batch(self) -> EventBatch:
        async with asyncio.timeout(WITHIN_S):
            batch = await anext(self._batches)
        assert batch.revision >= self.revision, "progress went back"
        self.revision = batch.revision
        return batch

    async def next(self) -> Event:
        while not self._events:
            self._events.extend((await self.batch()).events)
        return self._events.pop(0)

    async def take(self, count: int) -> list[Event]:
        return [await self.next() for _ in range(count)]


# ---- reading and writing one key


async def test_a_key_without_value_reads_as_none(store: Storage) -> None:
    read = await store.get(P + "a")
    assert read.stored is None
    assert read.revision == await store.current_revision()


async def test_create_returns_the_revision_that_reads_show(store: Storage) -> None:
    revision = await store.create(P + "a", b"1")
    stored = (await store.get(P + "a")).stored
    assert stored is not None
    assert (stored.key, stored.value, stored.create_revision, stored.mod_revision) == (
        P + "a",
        b"1",
        revision,
        revision,
    )
    assert await store.current_revision() == revision


async def test_each_write_has_the_next_revision(store: Storage) -> None:
    first = await store.create(P + "a", b"1")
    second = await store.compare_and_put(P + "a", b"2", expected=first)
    third = await store.compare_and_delete(P + "a", expected=second)
    assert (second, third) == (first + 1, first + 2)


async def test_create_refuses_a_key_with_a_value(store: Storage) -> None:
    revision = await store.create(P + "a", b"1")
    with pytest.raises(KeyExists):
        await store.create(P + "a", b"2")
    assert await store.current_revision() == revision, "a refused write must not use up a revision"
    stored = (await store.get(P + "a")).stored
    assert stored is not None
    assert stored.value == b"1"


@pytest.mark.parametrize("expected", [0, 1])
async def test_what_the_caller_of_a_refused_write_holds_is_not_kept(store: Storage, expected: int) -> None:
    """It may be an object of megabytes, which would wait for a full garbage collection."""
    await store.create(P + "a", b"1")

    class Held:
        pass

    async def refused() -> weakref.ref[Held]:
        held = Held()
        try:
            await store.transact([Condition(P + "a", expected)], [Put(P + "a", b"2")])
        except (KeyExists, RevisionMismatch):
            return weakref.ref(held)
        raise AssertionError("the write must be refused")

    with no_collections():
        kept = await refused()
        await eventually(lambda: kept() is None)


async def test_a_put_keeps_the_create_revision(store: Storage) -> None:
    first = await store.create(P + "a", b"1")
    second = await store.compare_and_put(P + "a", b"2", expected=first)
    stored = (await store.get(P + "a")).stored
    assert stored is not None
    assert (stored.value, stored.create_revision, stored.mod_revision) == (b"2", first, second)


async def test_a_key_created_again_has_a_new_create_revision(store: Storage) -> None:
    first = await store.create(P + "a", b"1")
    await store.compare_and_delete(P + "a", expected=first)
    again = await store.create(P + "a", b"2")
    stored = (await store.get(P + "a")).stored
    assert stored is not None
    assert stored.create_revision == stored.mod_revision == again


@pytest.mark.parametrize("expected", [1_000_000, 1])
async def test_compare_and_put_refuses_another_revision(store: Storage, expected: int) -> None:
    revision = await store.create(P + "a", b"1")
    with pytest.raises(RevisionMismatch):
        await store.compare_and_put(P + "a", b"2", expected=expected)
    assert await store.current_revision() == revision


async def test_compare_and_put_refuses_an_absent_key(store: Storage) -> None:
    with pytest.raises(RevisionMismatch):
        await store.compare_and_put(P + "a", b"2", expected=5)


async def test_compare_and_delete_refuses_another_revision(store: Storage) -> None:
    revision = await store.create(P + "a", b"1")
    with pytest.raises(RevisionMismatch):
        await store.compare_and_delete(P + "a", expected=revision + 1)
    assert (await store.get(P + "a")).stored is not None


async def test_one_of_many_racing_writers_wins(store: Storage) -> None:
    revision = await store.create(P + "a", b"0")
    attempts = [store.compare_and_put(P + "a", b"%d" % n, expected=revision) for n in range(20)]
    results = await asyncio.gather(*attempts, return_exceptions=True)
    assert [type(r) for r in results].count(int) == 1
    assert [type(r) for r in results].count(RevisionMismatch) == 19


async def test_values_up_to_the_limit_are_kept_and_larger_ones_refused(store: Storage) -> None:
    # The request's framing counts for etcd's limit, so what fits is a little less than VALUE_BYTES_MAX.
    large = b"x" * (VALUE_BYTES_MAX - 1024)
    await store.create(P + "a", large)
    stored = (await store.get(P + "a")).stored
    assert stored is not None
    assert stored.value == large
    with pytest.raises(ValueTooLarge):
        await store.create(P + "b", b"x" * (VALUE_BYTES_MAX + 1))


# ---- lists


async def test_a_list_is_in_byte_order_and_within_its_range(store: Storage) -> None:
    await put_many(store, "b/x", "a/x", "a-b/x", "a.b/x", "é/x")
    await store.create("/registry/core/configmapsx/no", b"")
    await store.create("/registry/core/configmap/no", b"")
    page = await store.list(ALL)
    assert names(page.items) == ["a-b/x", "a.b/x", "a/x", "b/x", "é/x"]
    assert not page.more
    assert page.revision == await store.current_revision()


async def test_deleted_keys_are_not_listed(store: Storage) -> None:
    revisions = await put_many(store, "a", "b")
    await store.compare_and_delete(P + "a", expected=revisions[0])
    page = await store.list(ALL)
    assert names(page.items) == ["b"]
    assert await store.count(ALL) == 1


async def test_pages_at_the_first_ones_revision_add_up_to_one_state(store: Storage) -> None:
    revisions = await put_many(store, "a", "b", "c", "d", "e")
    first = await store.list(ALL, limit=2)
    assert (names(first.items), first.more) == (["a", "b"], True)
    await store.compare_and_delete(P + "d", expected=revisions[3])
    await store.create(P + "cc", b"")
    second = await store.list(
        KeyRange(after(first.items[-1].key), ALL.end), ReadAt.exactly(first.revision), limit=2
    )
    assert (names(second.items), second.more, second.revision) == (["c", "d"], True, first.revision)
    third = await store.list(
        KeyRange(after(second.items[-1].key), ALL.end), ReadAt.exactly(first.revision), limit=2
    )
    assert (names(third.items), third.more) == (["e"], False)
    assert await store.count(ALL, ReadAt.exactly(first.revision)) == 5


async def test_an_exact_read_shows_the_state_at_that_revision(store: Storage) -> None:
    created = await store.create(P + "a", b"1")
    changed = await store.compare_and_put(P + "a", b"2", expected=created)
    deleted = await store.compare_and_delete(P + "a", expected=changed)
    again = await store.create(P + "a", b"3")
    seen = {}
    for revision in (created, changed, deleted, again):
        page = await store.list(ALL, ReadAt.exactly(revision))
        read = await store.get(P + "a", ReadAt.exactly(revision))
        assert page.revision == read.revision == revision
        assert (read.stored and read.stored.value) == (page.items[0].value if page.items else None)
        seen[revision] = read.stored and read.stored.value
    assert seen == {created: b"1", changed: b"2", deleted: None, again: b"3"}


async def test_a_read_at_a_future_revision_is_refused(store: Storage) -> None:
    revision = await store.create(P + "a", b"1")
    with pytest.raises(RevisionTooLarge):
        await store.list(ALL, ReadAt.exactly(revision + 1_000_000))
    with pytest.raises(RevisionTooLarge):
        await store.get(P + "a", ReadAt.not_older_than(revision + 1_000_000))


async def test_a_read_not_older_than_a_past_revision_is_answered(store: Storage) -> None:
    first, second = await put_many(store, "a", "b")
    page = await store.list(ALL, ReadAt.not_older_than(second))
    assert page.revision >= second
    assert "b" in names(page.items)
    read = await store.get(P + "a", ReadAt.not_older_than(first))
    assert read.stored is not None


async def test_a_read_of_any_revision_is_answered(store: Storage) -> None:
    await put_many(store, "a")
    page = await store.list(ALL, ANY)
    assert set(names(page.items)) <= {"a"}


# ---- transactions


async def test_a_transaction_writes_all_at_one_revision(store: Storage) -> None:
    revision = await store.create(P + "a", b"1")
    done = await store.transact(
        [Condition(P + "a", revision), Condition(P + "b", 0)],
        [Put(P + "a", b"2"), Put(P + "b", b"2"), Put(P + "c", b"2")],
    )
    page = await store.list(ALL)
    assert [(item.value, item.mod_revision) for item in page.items] == [(b"2", done)] * 3


async def test_a_transaction_whose_condition_fails_writes_nothing(store: Storage) -> None:
    revision = await store.create(P + "a", b"1")
    with pytest.raises((RevisionMismatch, KeyExists)):
        await store.transact([Condition(P + "a", 0)], [Put(P + "b", b"2")])
    assert names((await store.list(ALL)).items) == ["a"]
    assert await store.current_revision() == revision


async def test_deleting_an_absent_key_changes_nothing(store: Storage) -> None:
    revision = await store.create(P + "a", b"1")
    assert await store.transact([], [Delete(P + "zz")]) == revision
    assert await store.current_revision() == revision


async def test_the_largest_transaction_is_one_event_batch(store: Storage) -> None:
    start = await store.current_revision()
    writes = [Put(f"{P}{n:03}", b"") for n in range(TRANSACTION_WRITES_MAX)]
    async with Events(store, ALL, after=start) as events:
        revision = await store.transact([], writes)
        while not (batch := await events.batch()).events:
            pass
        assert len(batch.events) == TRANSACTION_WRITES_MAX
        assert {event.mod_revision for event in batch.events} == {revision}


# ---- notes


def keeping(store: Storage) -> Storage:
    """The store itself: watches of a cache deliver no notes."""
    return store.store if isinstance(store, CacheAsStorage) else store


async def test_watches_deliver_a_note_with_each_event_of_its_transaction(store: Storage) -> None:
    everything = prefix_range("/registry/")
    before = await store.current_revision()
    async with Events(keeping(store), everything, after=before) as live:
        await live.batch()
        first = await store.transact([Condition(P + "a", 0)], [Put(P + "a", b"1")], note=b"one")
        await store.transact([], [Put(P + "b", b"2"), Put(P + "c", b"3")], note=b"two")
        await store.compare_and_put(P + "a", b"4", expected=first)
        writes: list[Put | Delete] = [Delete(P + "a"), Delete(P + "zz"), Put(P + "d", b"")]
        last = await store.transact([], writes, note=b"\0\xff")
        expected = [
            ("a", b"one"),
            ("b", b"two"),
            ("c", b"two"),
            ("a", b""),
            ("a", b"\0\xff"),
            ("d", b"\0\xff"),
        ]
        # What was there before a watch comes from elsewhere.
        async with Events(keeping(store), everything, after=before) as late:
            for events in (live, late):
                found: list[tuple[str, bytes]] = []
                while events.revision < last:
                    batch = await events.batch()
                    found += [(e.key.removeprefix(P), e.note) for e in batch.events if e.key.startswith(P)]
                assert found == expected


async def test_a_note_changes_no_object_and_few_other_keys(store: Storage) -> None:
    for n in range(200):
        key = f"{P}{n % 3}"
        read = (await store.get(key)).stored
        condition = Condition(key, 0 if read is None else read.mod_revision)
        revision = await store.transact([condition], [Put(key, b"%d" % n)], note=b"note %d" % n)
        assert revision == await store.current_revision()
    assert [each.value for each in (await store.list(ALL)).items] == [b"198", b"199", b"197"]
    assert await keeping(store).count(prefix_range("/registry/")) <= 3 + 64


TOO_MUCH = {
    "a note and as many writes as there may be": (TRANSACTION_WRITES_MAX, b"note"),
    "a note that is too long": (1, bytes(NOTE_BYTES_MAX + 1)),
}


@pytest.mark.parametrize(("writes", "note"), TOO_MUCH.values(), ids=TOO_MUCH)
async def test_larger_notes_and_transactions_are_refused(store: Storage, writes: int, note: bytes) -> None:
    most = [Put(f"{P}{n}", b"") for n in range(writes)]
    with pytest.raises(ValueError, match="the limit is"):
        await store.transact([], most, note=note)
    assert not (await store.list(ALL)).items
    await store.transact([], most[1:] or most, note=note[:NOTE_BYTES_MAX])


# ---- watches


async def test_a_watch_sees_creations_changes_and_deletions_in_order(store: Storage) -> None:
    start = await store.current_revision()
    async with Events(store, ALL, after=start) as events:
        created = await store.create(P + "a", b"1")
        changed = await store.compare_and_put(P + "a", b"2", expected=created)
        deleted = await store.compare_and_delete(P + "a", expected=changed)
        seen = await events.take(3)
    assert [(e.key, e.value, e.mod_revision, e.is_create) for e in seen] == [
        (P + "a", b"1", created, True),
        (P + "a", b"2", changed, False),
        (P + "a", None, deleted, False),
    ]


async def test_a_watch_from_a_past_revision_replays_the_events_since(store: Storage) -> None:
    revisions = await put_many(store, "a", "b", "c")
    async with Events(store, ALL, after=revisions[0]) as events:
        assert names(await events.take(2)) == ["b", "c"]
        await store.create(P + "d", b"")
        assert names(await events.take(1)) == ["d"]


async def test_a_watch_replays_more_than_one_page_of_history(store: Storage) -> None:
    start = await store.current_revision()
    expected = []
    for n in range(25):
        writes = [Put(f"{P}{n}-{m}", b"") for m in range(100)]
        expected += names(writes)
        await store.transact([], writes)
    async with Events(store, ALL, after=start) as events:
        seen = await events.take(len(expected))
    assert sorted(names(seen)) == sorted(expected)
    assert [e.mod_revision for e in seen] == sorted(e.mod_revision for e in seen)


async def test_a_watch_sees_only_its_range(store: Storage) -> None:
    start = await store.current_revision()
    async with Events(store, prefix_range(P + "ns1/"), after=start) as events:
        await put_many(store, "ns2/a", "ns1/a", "ns10/a", "ns1/b")
        assert names(await events.take(2)) == ["ns1/a", "ns1/b"]


async def test_a_watch_from_a_future_revision_waits_for_it(store: Storage) -> None:
    start = await store.current_revision()
    async with Events(store, ALL, after=start + 2) as events:
        await put_many(store, "a", "b", "c")
        assert names(await events.take(1)) == ["c"]


async def test_a_watch_misses_and_repeats_nothing_under_writes(store: Storage) -> None:
    start = await store.current_revision()

    async def write(worker: int) -> list[int]:
        return [await store.create(f"{P}{worker}/{n}", b"x") for n in range(25)]

    async with Events(store, ALL, after=start) as early:
        writers = asyncio.gather(*(write(worker) for worker in range(8)))
        await early.take(50)
        async with Events(store, ALL, after=start) as late:
            revisions = sorted(itertools.chain.from_iterable(await writers))
            assert [e.mod_revision for e in await late.take(200)] == revisions
        assert [e.mod_revision for e in await early.take(150)] == revisions[50:]


async def test_progress_reaches_the_revision_of_writes_outside_the_range(store: Storage) -> None:
    start = await store.current_revision()
    async with Events(store, prefix_range("/registry/"), after=start) as events:
        await events.watch.request_progress()
        revision = await store.create("/registry/core/secrets/a", b"")
        while events.revision < revision:
            await events.watch.request_progress()
            await events.batch()


async def test_a_closed_watch_ends(store: Storage) -> None:
    events = Events(store, ALL, after=await store.current_revision())
    waiting = asyncio.ensure_future(events.next())
    await asyncio.sleep(0)
    await events.watch.close()
    with pytest.raises(StorageUnavailable):
        await waiting


# ---- compaction


async def test_compaction_keeps_its_revision_and_drops_earlier_ones(store: Storage) -> None:
    first = await store.create(P + "a", b"1")
    second = await store.compare_and_put(P + "a", b"2", expected=first)
    third = await store.compare_and_put(P + "a", b"3", expected=second)
    await store.get(P + "a")  # A cache must have seen it all, or it begins again at the compaction.
    await store.compact(second)
    if isinstance(store, CacheAsStorage):  # may remember longer than the store; then it must be right
        page = await store.list(ALL, ReadAt.exactly(first))
        assert [item.value for item in page.items] == [b"1"]
    else:
        with pytest.raises(RevisionCompacted):
            await store.list(ALL, ReadAt.exactly(first))
    page = await store.list(ALL, ReadAt.exactly(second))
    assert [item.value for item in page.items] == [b"2"]
    page = await store.list(ALL)
    assert [(item.value, item.mod_revision) for item in page.items] == [(b"3", third)]


async def test_a_watch_from_before_the_compaction_is_refused(store: Storage) -> None:
    first = await store.create(P + "a", b"1")
    second = await store.compare_and_put(P + "a", b"2", expected=first)
    third = await store.compare_and_put(P + "a", b"3", expected=second)
    await store.get(P + "a")  # A cache must have seen it all, or it begins again at the compaction.
    await store.compact(third)
    async with Events(store, ALL, after=first - 1) as events:
        if isinstance(store, CacheAsStorage):
            assert [e.mod_revision for e in await events.take(3)] == [first, second, third]
        else:
            with pytest.raises(RevisionCompacted):
                await events.next()


async def test_a_watch_from_the_compacted_revision_misses_nothing(store: Storage) -> None:
    first = await store.create(P + "a", b"1")
    second = await store.compare_and_put(P + "a", b"2", expected=first)
    third = await store.compare_and_delete(P + "a", expected=second)
    await store.get(P + "a")  # A cache must have seen it all, or it begins again at the compaction.
    await store.compact(second)
    async with Events(store, ALL, after=second) as events:
        assert (await events.next()).mod_revision == third


async def test_revisions_rise_after_everything_was_deleted_and_compacted(store: Storage) -> None:
    revision = await store.create(P + "a", b"1")
    deleted = await store.compare_and_delete(P + "a", expected=revision)
    await store.compact(deleted)
    assert await store.create(P + "a", b"1") == deleted + 1


async def test_compacting_a_future_revision_is_refused(store: Storage) -> None:
    with pytest.raises(RevisionTooLarge):
        await store.compact(await store.current_revision() + 1_000)


async def test_compacting_twice_does_no_harm(store: Storage) -> None:
    revisions = await put_many(store, "a", "b")
    await store.compact(revisions[1])
    await store.compact(revisions[1])
    await store.compact(revisions[0])
    assert names((await store.list(ALL, MOST_RECENT)).items) == ["a", "b"]


# ---- leases


async def test_revoking_a_lease_deletes_its_keys(store: Storage) -> None:
    lease = await store.grant_lease(60)
    revision = await store.create(P + "a", b"1", lease=lease)
    await store.create(P + "b", b"1")
    stored = (await store.get(P + "a")).stored
    assert stored is not None
    assert stored.lease == lease
    async with Events(store, ALL, after=revision + 1) as events:
        await store.revoke_lease(lease)
        event = await events.next()
    assert (event.key, event.value) == (P + "a", None)
    assert names((await store.list(ALL)).items) == ["b"]


async def test_a_put_without_the_lease_frees_the_key_from_it(store: Storage) -> None:
    lease = await store.grant_lease(60)
    revision = await store.create(P + "a", b"1", lease=lease)
    await store.compare_and_put(P + "a", b"2", expected=revision)
    await store.revoke_lease(lease)
    assert names((await store.list(ALL)).items) == ["a"]


async def test_a_lease_that_expires_deletes_its_keys(store: Storage) -> None:
    lease = await store.grant_lease(1)
    revision = await store.create(P + "a", b"1", lease=lease)
    async with Events(store, ALL, after=revision) as events:
        event = await events.next()
    assert (event.key, event.value) == (P + "a", None)


async def test_a_renewed_lease_can_still_be_used(store: Storage) -> None:
    lease = await store.grant_lease(60)
    await store.renew_lease(lease)
    await store.create(P + "a", b"1", lease=lease)


async def test_an_unknown_lease_is_refused(store: Storage) -> None:
    with pytest.raises(LeaseNotFound):
        await store.create(P + "a", b"1", lease=12345)
    with pytest.raises(LeaseNotFound):
        await store.renew_lease(12345)
    with pytest.raises(LeaseNotFound):
        await store.revoke_lease(12345)
    assert await store.count(ALL) == 0


async def test_a_healthy_store_passes_the_health_check(store: Storage) -> None:
    await store.check_health()


async def test_the_size_of_the_database_is_known(store: Storage) -> None:
    value = bytes(100_000)
    await store.create(P + "a", value)

    async def has_grown() -> Any:
        return await store.size_bytes() > len(value)

    await eventually(has_grown)  # etcd gathers writes for a tenth of a second.
