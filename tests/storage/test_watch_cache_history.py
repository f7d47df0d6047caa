"""The history of one resource: its bounds, and the state at every revision that it keeps."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.errors import RevisionCompacted
from apiserver.storage.interface import KeyRange
from apiserver.storage.watch_cache import CacheEvent, HistoryLimits, KeyVersion
from apiserver.storage.watch_cache.history import ENCODED_BYTES_MAX, ENCODED_MAX, EVICTION_BATCH_MAX, History
from apiserver.storage.watch_cache.resources import BUDGET_CHECKS
from apiserver.storage.watch_cache.snapshots import Snapshots
from tests.support.cache_as_storage import UNCHECKED, CacheAsStorage
from tests.support.resource_cache import ALL, FakeClock, Harness, P, delete, put, taken


def revisions_kept(harness: Harness) -> list[int]:
    return [event.revision for event in harness.cache.history.after(harness.cache.history.floor)]


def test_history_is_bounded_by_age() -> None:
    harness = Harness(limits=HistoryLimits(window_s=75))
    harness.cache.apply([put("x", b"1", 1)])
    harness.clock.now += 70
    harness.cache.apply([put("x", b"2", 2, 1)])
    harness.clock.now += 10
    harness.cache.evict()
    assert revisions_kept(harness) == [2]
    with pytest.raises(RevisionCompacted) as refusal:
        harness.watcher(after=0)
    assert refusal.value.oldest == 1


def test_history_is_bounded_by_count() -> None:
    harness = Harness(limits=HistoryLimits(events_max=3))
    harness.cache.apply([put("x", b"", revision, 1) for revision in range(1, 11)])
    assert revisions_kept(harness) == [8, 9, 10]


def test_history_is_bounded_by_the_bytes_it_keeps_alive() -> None:
    harness = Harness(limits=HistoryLimits(bytes_max=1000))
    for revision in range(1, 20):
        harness.cache.apply([put("x", b"v" * 300, revision, 1)])
        assert harness.cache.history.bytes <= 1000
    assert revisions_kept(harness) == [17, 18, 19]


# Old events are kept up to `old_bytes_max`, or as many bytes as the objects have.
OLD_EVENTS = {
    "as many as fit": (0, 1_000, [8, 9, 10]),
    "as many bytes as the objects have": (1_700, 1_000, [6, 7, 8, 9, 10]),
    "all, if they are few": (0, 10_000, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
}


@pytest.mark.parametrize(("live_bytes", "old_bytes_max", "kept"), OLD_EVENTS.values(), ids=OLD_EVENTS)
def test_of_old_events_fewer_are_kept(live_bytes: int, old_bytes_max: int, kept: list[int]) -> None:
    """What is fresh is kept all the same: row Q01."""
    limits = HistoryLimits(fresh_s=75, old_bytes_max=old_bytes_max)
    harness = Harness(limits=limits)
    if live_bytes:
        snapshots: Snapshots[bytes] = Snapshots()
        snapshots.add_all([KeyVersion(P + "y", bytes(live_bytes - 300), revision=0, create_revision=0)])
        harness.cache.fill(snapshots, 0, live_bytes - 300)
    for revision in range(1, 11):
        harness.cache.apply([put("x", b"v" * 300, revision, 1)])
    harness.clock.now += 75
    harness.cache.evict()
    assert revisions_kept(harness) == [*range(1, 11)]
    harness.clock.now += 1
    harness.cache.evict()
    assert revisions_kept(harness) == kept


def test_history_knows_how_large_the_objects_are() -> None:
    harness = Harness()
    harness.cache.fill(Snapshots(), 0, 1_000)
    history = harness.cache.history
    sizes = []
    for event in (put("a", bytes(50), 1), put("a", bytes(20), 2, 1), put("b", b"", 3), delete("a", 4)):
        harness.cache.apply([event])
        sizes.append(history.live_bytes)
    assert sizes == [1_050, 1_020, 1_020, 1_000]


def test_history_evicts_whole_revisions() -> None:
    harness = Harness(limits=HistoryLimits(events_max=3))
    harness.cache.apply([put("a", b"", 1), put("b", b"", 1), put("c", b"", 1), put("d", b"", 2)])
    assert revisions_kept(harness) == [2]


def test_evicted_versions_are_freed() -> None:
    harness = Harness(limits=HistoryLimits(window_s=10))
    harness.cache.apply([put("x", b"1", 1), put("x", b"2", 2, 1), put("y", b"1", 3), delete("y", 4)])
    harness.clock.now += 60
    harness.cache.evict()
    newest = harness.cache.snapshots.newest(P + "x")
    assert newest is not None
    assert newest.previous is None
    assert harness.cache.snapshots.get(P + "y", 3) is None
    assert repr(harness.cache.snapshots.get(P + "x", 9)) == f"<{P}x value @2>"


# ---- state at every kept revision, against a model that copies everything

KEYS = [f"{namespace}/{name}" for namespace in "ab" for name in "xyz"]
OPERATIONS = st.lists(
    st.tuples(st.sampled_from(KEYS), st.booleans(), st.integers(0, 3)), min_size=1, max_size=60
)


@given(OPERATIONS, st.integers(0, 30))
@settings(max_examples=200, deadline=None)
def test_snapshots_equal_a_model_that_copies_everything(
    operations: list[tuple[str, bool, int]], kept: int
) -> None:
    harness = Harness(limits=HistoryLimits(events_max=kept))
    state: dict[str, bytes] = {}
    states = {0: dict(state)}
    log: list[tuple[int, str]] = []
    revision = 0
    for key, deletes, pause in operations:
        if deletes and key not in state:
            continue
        revision += 1
        if deletes:
            del state[key]
            harness.cache.apply([delete(key, revision)])
        else:
            state[key] = b"%d" % revision
            harness.cache.apply([put(key, state[key], revision)])
        states[revision] = dict(state)
        log.append((revision, key))
        harness.clock.now += pause
    floor = harness.cache.history.floor
    for at in range(floor, revision + 1):
        for start, end in ((P, ALL.end), (P + "a/", P + "a0"), (P + "a/y", ALL.end)):
            keys = KeyRange(start, end)
            found = {v.key: v.value for v in everything(harness, keys, at)}
            expected = {P + k: v for k, v in states[at].items() if P + k in keys}
            assert found == expected
            assert list(found) == sorted(found)
            assert harness.cache.count(keys, at) == len(expected)
        watched, _ = harness.watcher(after=at)
        assert [(r, k) for _, k, r in taken(watched)] == [(r, k) for r, k in log if r > at]
    newest = {v.key.removeprefix(P): v.value for v in harness.cache.snapshots.newest_in(ALL, 1000)}
    assert newest == state
    if floor:
        with pytest.raises(RevisionCompacted):
            harness.watcher(after=floor - 1)


def everything(harness: Harness, keys: KeyRange, at: int) -> list[KeyVersion[bytes]]:
    """The versions that a list finds in batches of two keys."""
    found: list[KeyVersion[bytes]] = []
    while True:
        versions, last_key = harness.cache.scan(keys, at, count=2)
        found += versions
        if last_key is None:
            return found
        keys = KeyRange(last_key + "\0", keys.end)


# ---- eviction


def test_evicted_events_leave_memory() -> None:
    """The history's bytes are those of the events that it holds."""

    gone: list[bytes] = []

    class Value(bytes):
        def __del__(self) -> None:
            gone.append(b"")

    harness = Harness(limits=HistoryLimits(events_max=100))
    for revision in range(1, 1_001):
        harness.cache.apply([put("x", Value(b"%d" % revision), revision, 1)])
    assert len(gone) >= 1_000 - 100 * 1.1 - 1


def test_encodings_of_large_events_are_kept_for_fewer() -> None:
    harness = Harness()
    watcher, _ = harness.watcher()
    value = bytes(ENCODED_BYTES_MAX // 10)
    harness.cache.apply([put("x", value, revision, 1) for revision in range(1, 30)])
    events = [delivery.event for delivery in watcher.take()]
    for event in events:
        event.encodings["form"] = b"bytes"
    assert [bool(event.encodings) for event in events] == [False] * 19 + [True] * 10


def test_encodings_are_kept_for_the_latest_events_only() -> None:
    harness = Harness()
    watcher, _ = harness.watcher(queued_events_max=2 * ENCODED_MAX)
    harness.cache.apply([put("x", b"", revision, 1) for revision in range(1, ENCODED_MAX + 3)])
    events = [delivery.event for delivery in watcher.take()]
    for event in events:
        event.encodings["form"] = b"bytes"
    assert [bool(event.encodings) for event in events] == [False, False] + [True] * ENCODED_MAX


def test_encodings_are_kept_while_events_are_fresh() -> None:
    harness = Harness(limits=HistoryLimits(fresh_s=75))
    watcher, _ = harness.watcher()
    for revision in range(1, 4):
        harness.cache.apply([put("x", b"", revision, 1)])
        harness.clock.now += 30
    events = [delivery.event for delivery in watcher.take()]
    for event in events:
        event.encodings["form"] = b"bytes"
    harness.cache.evict()
    assert [bool(event.encodings) for event in events] == [False, True, True]


def test_history_evicts_in_batches() -> None:
    harness = Harness(limits=HistoryLimits(window_s=10))
    count = EVICTION_BATCH_MAX * 2 + 5
    harness.cache.apply([put("x", b"", revision, 1) for revision in range(1, count + 1)])
    harness.clock.now += 60
    turns = 0
    while harness.cache.evict():
        turns += 1
        assert harness.cache.history.floor < count
    assert (turns, len(harness.cache.history), harness.cache.history.floor) == (2, 0, count)


async def test_all_histories_share_a_budget(tmp_path: Path) -> None:
    """The largest history gets shorter, the small ones do not."""
    store = await EmbeddedStore.open(tmp_path / "data", durable=False)
    cached = CacheAsStorage(store, UNCHECKED._replace(history_bytes_max=1_000_000))
    await cached.start()
    small = await store.create("/registry/core/secrets/a", b"1")
    await store.compare_and_put("/registry/core/secrets/a", b"2", expected=small)
    revision = await store.create(P + "a", b"")
    for _ in range(40):
        revision = await store.compare_and_put(P + "a", b"x" * 100_000, expected=revision)
    await cached.get(P + "a")
    cache = cached.cache
    assert cache.history_bytes <= 1_000_000 * (1 + 1 / BUDGET_CHECKS) + 100_000
    assert len(cache.resources["/registry/core/secrets/"].history) == 2
    assert 0 < len(cache.resources[P].history) < 12
    await cached.close()


def test_history_is_correct_after_many_evictions() -> None:
    clock = FakeClock()
    history: History[bytes] = History(0, limits=HistoryLimits(events_max=10), size_of=len, clock=clock)
    snapshots: Snapshots[bytes] = Snapshots()
    for revision in range(1, 500):
        history.append(CacheEvent(snapshots.put("k", b"v", revision=revision, create_revision=1)))
        for event in history.evict():
            snapshots.forget_before(event.version)
        expected = list(range(max(1, revision - 9), revision + 1))
        assert [v.revision for v in history.after(history.floor)] == expected
        assert len(history) == len(expected)


def test_what_is_to_be_forgotten_is_evicted_first() -> None:
    harness = Harness()
    harness.cache.apply([put("x", b"", revision, 1) for revision in (1, 2, 5)])
    history = harness.cache.history
    history.forget(3)
    harness.cache.evict()
    assert (revisions_kept(harness), history.floor) == ([5], 3)
    history.forget(9)  # after the last event
    harness.cache.evict()
    assert (revisions_kept(harness), history.floor, history.newest) == ([], 9, 9)


def test_many_events_are_forgotten_in_batches() -> None:
    harness = Harness()
    count = EVICTION_BATCH_MAX + 10
    harness.cache.apply([put("x", b"", revision, 1) for revision in range(1, count + 1)])
    harness.cache.history.forget(count + 5)
    assert harness.cache.evict()
    assert harness.cache.history.floor == EVICTION_BATCH_MAX
    assert not harness.cache.evict()
    assert harness.cache.history.floor == count + 5
