"""The watch cache beyond the contract: its bounds, failures of the store, and which watchers get what."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.embedded import EmbeddedStore
from storage.errors import RevisionCompacted, RevisionTooLarge, StorageUnavailable
from storage.interface import (
    MOST_RECENT,
    Event,
    EventBatch,
    KeyRange,
    ReadAt,
    Storage,
    Stored,
    Watch,
)
from storage.keys import prefix_range
from storage.turns import TURN_S
from storage.watch_cache import (
    CacheEvent,
    EventType,
    HistoryLimits,
    KeyVersion,
    Scope,
    WatchCache,
    WatchCacheOptions,
    Watcher,
)
from storage.watch_cache.cache import BUDGET_CHECKS
from storage.watch_cache.events import ANY_VALUE, Trigger
from storage.watch_cache.fanout import Fanout
from storage.watch_cache.history import ENCODED_BYTES_MAX, ENCODED_MAX, EVICTION_BATCH_MAX, History
from storage.watch_cache.reflector import PAGE_KEYS, PART_BYTES
from storage.watch_cache.resource import ResourceCache
from storage.watch_cache.snapshots import Snapshots
from storage.watch_cache.watcher import CATCH_UP_EVENTS_MAX, CATCH_UP_TURN_S
from tests.support.cache_as_storage import PREFIX, UNCHECKED, CacheAsStorage
from tests.support.eventually import eventually

P = "/registry/core/configmaps/"
ALL = prefix_range(P)


def no_history(resource_prefix: str) -> HistoryLimits:
    return HistoryLimits(events_max=0)


def put(key: str, value: bytes, revision: int, created: int | None = None) -> Event:
    return Event(P + key, value, created or revision, revision)


def delete(key: str, revision: int) -> Event:
    return Event(P + key, None, 0, revision)


@dataclass
class FakeClock:
    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Harness:
    """A resource cache of bytes with some watchers, driven event by event."""

    clock: FakeClock = field(default_factory=FakeClock)
    limits: HistoryLimits = field(default_factory=HistoryLimits)

    def __post_init__(self) -> None:
        self.cache: ResourceCache[bytes] = ResourceCache(
            decode=lambda stored: stored.value, size_of=len, limits=self.limits, clock=self.clock, floor=0
        )

    def watcher(
        self,
        scope: Scope = Scope(),  # noqa: B008  immutable
        *,
        after: int = 0,
        predicate: Callable[[bytes], bool] | None = None,
        trigger: Trigger[bytes] | None = None,
        tests_late: bool = False,
        queued_events_max: int = 100,
    ) -> tuple[Watcher[bytes], list[str]]:
        calls: list[str] = []
        watcher: Watcher[bytes] = Watcher(
            after=after,
            predicate=predicate,
            trigger=trigger,
            tests_late=tests_late,
            on_ready=lambda: calls.append("ready"),
            queued_events_max=queued_events_max,
        )
        self.cache.watch(watcher, scope)
        return watcher, calls


def taken(watcher: Watcher[bytes]) -> list[tuple[str, str, int]]:
    """What one call takes: a part, if a predicate has to look at past events."""
    return [(d.type.name, d.event.version.key.removeprefix(P), d.event.revision) for d in watcher.take()]


def all_taken(watcher: Watcher[bytes]) -> list[tuple[str, str, int]]:
    events = taken(watcher)
    while len(watcher):
        events += taken(watcher)
    return events


# ---- which watchers get which events

SCOPES = {
    "everything": (Scope(), ["a/x", "a/y", "ab/x"]),
    "a namespace": (Scope(key_prefix=P + "a/"), ["a/x", "a/y"]),
    "one object": (Scope(key=P + "a/y"), ["a/y"]),
    "an object that never comes": (Scope(key=P + "a/z"), []),
}


@pytest.mark.parametrize(("scope", "expected"), SCOPES.values(), ids=SCOPES)
def test_a_watcher_gets_the_events_of_its_scope_only(scope: Scope, expected: list[str]) -> None:
    harness = Harness()
    watcher, calls = harness.watcher(scope)
    harness.cache.apply([put("a/x", b"", 1), put("a/y", b"", 2), put("ab/x", b"", 3)])
    assert [key for _, key, _ in taken(watcher)] == expected
    assert calls == ["ready"] * bool(expected), "once for a batch, and only with something to take"


class Prefix:
    """Selects values that begin with a text, and counts how often it is asked."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.calls = 0

    def __call__(self, value: bytes) -> bool:
        self.calls += 1
        return value.startswith(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Prefix) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


TRANSITIONS = {
    # M06: objects entering and leaving a selection
    "enters": (b"no", b"yes", "ADDED"),
    "stays": (b"yes 1", b"yes 2", "MODIFIED"),
    "leaves": (b"yes", b"no", "DELETED"),
    "is elsewhere": (b"no 1", b"no 2", None),
    "is created inside": (None, b"yes", "ADDED"),
    "is created outside": (None, b"no", None),
    "is deleted inside": (b"yes", None, "DELETED"),
    "is deleted outside": (b"no", None, None),
}


@pytest.mark.parametrize("tests_late", [False, True])
@pytest.mark.parametrize(("before", "after", "expected"), TRANSITIONS.values(), ids=TRANSITIONS)
def test_the_type_of_an_event_for_a_selector(
    before: bytes | None, after: bytes | None, expected: str | None, tests_late: bool
) -> None:
    harness = Harness()
    if before is not None:
        harness.cache.apply([put("x", before, 1)])
    watcher, _ = harness.watcher(after=1, predicate=Prefix(b"yes"), tests_late=tests_late)
    harness.cache.apply([put("x", after, 2) if after is not None else delete("x", 2)])
    assert [kind for kind, _, _ in all_taken(watcher)] == ([expected] if expected else [])


def test_watchers_with_equal_predicates_share_one_test_of_each_event() -> None:
    harness = Harness()
    predicates = [Prefix(b"yes") for _ in range(50)]
    watchers = [harness.watcher(predicate=each)[0] for each in predicates]
    other, _ = harness.watcher(predicate=Prefix(b"no"))
    harness.cache.apply([put("x", b"yes", 1), put("x", b"no", 2), put("x", b"no 2", 3)])
    assert [all_taken(each) for each in watchers] == [[("ADDED", "x", 1), ("DELETED", "x", 2)]] * 50
    assert all_taken(other) == [("ADDED", "x", 2), ("MODIFIED", "x", 3)]
    # The object before and after each event, of which the first has only one.
    assert sum(each.calls for each in predicates) == 5
    for each in watchers:
        harness.cache.fanout.remove(each, Scope())
    assert list(harness.cache.fanout) == [other]


def test_a_predicate_that_takes_long_is_asked_when_events_are_taken() -> None:
    """Many such watchers would hold up everybody else if each tested an event as it happens."""
    harness = Harness()
    harness.cache.apply([put("a/x", b"yes", 1)])
    predicate = Prefix(b"yes")
    watcher, calls = harness.watcher(
        Scope(key_prefix=P + "a/"), after=1, predicate=predicate, tests_late=True
    )
    harness.cache.apply([put("a/x", b"no", 2), put("b/x", b"yes", 3)])
    assert (predicate.calls, calls, len(watcher)) == (0, ["ready"], 1)
    harness.cache.apply([put("a/y", b"yes", 4)])
    assert (predicate.calls, calls, len(watcher)) == (0, ["ready"], 1)
    assert all_taken(watcher) == [("DELETED", "a/x", 2), ("ADDED", "a/y", 4)]
    harness.cache.apply([put("a/y", b"yes 2", 5)])
    assert calls == ["ready", "ready"]
    assert all_taken(watcher) == [("MODIFIED", "a/y", 5)]
    harness.cache.fanout.remove(watcher, Scope(key_prefix=P + "a/"))
    assert not list(harness.cache.fanout)


def test_a_watcher_that_tests_late_may_be_idle_for_longer_than_the_history_reaches_back() -> None:
    harness = Harness(limits=HistoryLimits(events_max=3))
    watcher, _ = harness.watcher(Scope(key_prefix=P + "a/"), predicate=Prefix(b"yes"), tests_late=True)
    harness.cache.apply([put("b/x", b"yes", revision) for revision in range(1, 20)])
    harness.cache.apply([put("a/x", b"yes", 20)])
    assert all_taken(watcher) == [("ADDED", "a/x", 20)]
    # One that does not take what waits for it is dropped, as any other.
    harness.cache.apply([put("a/x", b"yes 2", 21)])
    harness.cache.apply([put("b/x", b"yes", revision) for revision in range(22, 40)])
    assert all_taken(watcher) == []
    assert watcher.is_overrun


def test_a_watcher_that_tests_late_begins_at_a_revision_that_is_still_to_come() -> None:
    harness = Harness()
    watcher, _ = harness.watcher(after=2, predicate=Prefix(b"yes"), tests_late=True)
    harness.cache.apply([put("x", b"yes", 1), put("y", b"yes", 2), put("z", b"yes", 3)])
    assert all_taken(watcher) == [("ADDED", "z", 3)]


def test_catching_up_by_a_predicate_that_takes_long_leaves_room_for_others() -> None:
    harness = Harness()
    harness.cache.apply([put("x", b"yes", revision) for revision in range(1, 20)])

    def predicate(value: bytes) -> bool:
        harness.clock.now += CATCH_UP_TURN_S
        return True

    watcher, _ = harness.watcher(predicate=predicate)
    revisions: list[int] = []
    while len(watcher):
        part = [delivery.event.revision for delivery in watcher.take()]
        assert len(part) <= 2
        revisions += part
    assert revisions == list(range(1, 20))


def first_byte(value: bytes) -> object:
    return value[:1] if value != b"damaged" else ANY_VALUE


TRIGGERED = {
    "of another value": ([b"b1", b"b2"], [], 0),
    "of its value": ([b"a1"], ["ADDED"], 1),
    "that comes to have its value": ([b"b1", b"a1"], ["ADDED"], 2),
    "that had its value": ([b"a1", b"b1"], ["ADDED", "DELETED"], 3),
    "of its value, but not selected": ([b"a2"], [], 1),
    "that cannot be looked up": ([b"damaged"], ["ADDED"], 1),
}


@pytest.mark.parametrize(("values", "expected", "tests"), TRIGGERED.values(), ids=TRIGGERED)
def test_a_predicate_with_a_trigger_is_asked_only_about_objects_with_its_value(
    values: list[bytes], expected: list[str], tests: int
) -> None:
    harness = Harness()
    asked: list[bytes] = []

    def predicate(value: bytes) -> bool:
        asked.append(value)
        return value in (b"a1", b"damaged")

    watcher, _ = harness.watcher(predicate=predicate, trigger=Trigger(first_byte, b"a"))
    for revision, value in enumerate(values, 1):
        harness.cache.apply([put("x", value, revision)])
    assert [kind for kind, _, _ in all_taken(watcher)] == expected
    assert len(asked) == tests
    harness.cache.fanout.remove(watcher, Scope())
    harness.cache.fanout.remove(watcher, Scope())
    assert not list(harness.cache.fanout)


def test_a_watcher_that_catches_up_gets_each_event_once_whatever_its_trigger() -> None:
    harness = Harness()
    harness.cache.apply([put("x", b"a1", 1), put("y", b"b", 2)])
    watcher, _ = harness.watcher(predicate=Prefix(b"a"), trigger=Trigger(first_byte, b"a"))
    harness.cache.apply([put("z", b"a2", 3)])
    assert all_taken(watcher) == [("ADDED", "x", 1), ("ADDED", "z", 3)]
    harness.cache.apply([put("z", b"a3", 4)])
    assert all_taken(watcher) == [("MODIFIED", "z", 4)]


def test_a_deletion_shows_the_last_state() -> None:
    harness = Harness()
    harness.cache.apply([put("x", b"1", 1), put("x", b"2", 2)])
    watcher, _ = harness.watcher(after=2)
    harness.cache.apply([delete("x", 3)])
    (delivery,) = watcher.take()
    assert delivery.type is EventType.DELETED
    assert delivery.event.previous is not None
    assert delivery.event.previous.value == b"2"
    assert delivery.event.revision == 3


def test_a_watcher_that_starts_in_the_past_gets_the_events_since() -> None:
    harness = Harness()
    harness.cache.apply([put("x", b"1", 1), put("y", b"1", 2), delete("x", 3)])
    watcher, calls = harness.watcher(after=1)
    assert taken(watcher) == [("ADDED", "y", 2), ("DELETED", "x", 3)]
    assert calls == []


def test_a_watcher_that_starts_in_the_future_waits() -> None:
    harness = Harness()
    watcher, calls = harness.watcher(after=5)
    harness.cache.apply([put("x", b"1", 4), put("x", b"2", 5, 4)])
    assert calls == []
    harness.cache.apply([put("x", b"3", 6, 4)])
    assert taken(watcher) == [("MODIFIED", "x", 6)]


def test_a_watcher_that_does_not_keep_up_is_ended_and_others_are_not() -> None:
    harness = Harness()
    slow, slow_calls = harness.watcher(queued_events_max=2)
    quick, _ = harness.watcher(queued_events_max=100)
    for revision in range(1, 5):
        harness.cache.apply([put("x", b"", revision, 1)])
    assert (slow.is_overrun, slow.is_ended, slow_calls[-1]) == (True, True, "ready")
    assert [revision for _, _, revision in taken(quick)] == [1, 2, 3, 4]
    assert len(harness.cache.fanout) == 1


def test_past_events_do_not_overrun_a_watcher() -> None:
    harness = Harness()
    harness.cache.apply([put("x", b"", revision, 1) for revision in range(1, 50)])
    watcher, _ = harness.watcher(after=1, queued_events_max=2)
    harness.cache.apply([put("x", b"", 50, 1)])
    assert [revision for _, _, revision in taken(watcher)] == list(range(2, 51))


def test_a_refill_ends_watchers_that_may_have_missed_events() -> None:
    harness = Harness()
    watcher, _ = harness.watcher()
    snapshots: Snapshots[bytes] = Snapshots()
    snapshots.add(KeyVersion(P + "x", b"1", revision=7, create_revision=7))
    harness.cache.fill(snapshots, 9)
    assert watcher.is_ended
    with pytest.raises(RevisionCompacted):
        harness.watcher(after=8)
    again, _ = harness.watcher(after=9)
    assert not again.is_ended


def test_watchers_share_the_encodings_of_an_event() -> None:
    harness = Harness()
    first, _ = harness.watcher()
    second, _ = harness.watcher(Scope(key=P + "x"))
    harness.cache.apply([put("x", b"1", 1)])
    assert first.take()[0].event.encodings is second.take()[0].event.encodings


def test_an_event_outlives_its_eviction_from_the_history() -> None:
    harness = Harness(limits=HistoryLimits(window_s=10))
    harness.cache.apply([put("x", b"1", 1)])
    watcher, _ = harness.watcher(after=1)
    harness.cache.apply([delete("x", 2)])
    harness.clock.now += 60
    harness.cache.evict()
    (delivery,) = watcher.take()
    assert delivery.event.previous is not None
    assert delivery.event.previous.value == b"1"


# ---- bounds of the history


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


# ---- watchers that are behind


def test_past_events_are_taken_a_part_at_a_time() -> None:
    """No call looks at all past events, however many there are, and no part splits a revision."""
    harness = Harness()
    harness.cache.apply([put("x", b"", 1)])
    last = 2 * CATCH_UP_EVENTS_MAX
    for revision in range(2, last, 2):
        # Two keys to a revision: a part that ended between them would split it.
        harness.cache.apply([put("x", b"", revision, 1), put("y", b"", revision, revision)])
    watcher, _ = harness.watcher(after=1)
    parts = []
    while watcher.is_behind:
        parts.append([revision for _, _, revision in taken(watcher)])
        last += 1  # What comes meanwhile is found in the history, too, or in the queue after the last part.
        harness.cache.apply([put("x", b"", last, 1)])
    parts.append([revision for _, _, revision in taken(watcher)])
    assert len(parts) > 2
    assert all(len(part) <= CATCH_UP_EVENTS_MAX for part in parts)
    assert all(before[-1] < after[0] for before, after in itertools.pairwise(parts))
    pairs = [revision for revision in range(2, 2 * CATCH_UP_EVENTS_MAX, 2) for _ in "xy"]
    assert [*itertools.chain(*parts)] == [*pairs, *range(2 * CATCH_UP_EVENTS_MAX + 1, last + 1)]


def test_a_watcher_whose_past_events_are_evicted_is_ended() -> None:
    harness = Harness(limits=HistoryLimits(events_max=CATCH_UP_EVENTS_MAX + 10))
    harness.cache.apply([put("x", b"", revision, 1) for revision in range(1, CATCH_UP_EVENTS_MAX + 10)])
    watcher, _ = harness.watcher(after=1)
    harness.cache.apply([put("x", b"", CATCH_UP_EVENTS_MAX + n, 1) for n in range(10, 100)])
    assert taken(watcher) == []
    assert (watcher.is_overrun, watcher.is_ended) == (True, True)


@pytest.mark.parametrize("is_behind", [True, False])
def test_a_watcher_that_takes_nothing_keeps_nothing_alive(is_behind: bool) -> None:
    """Its queue is bounded by number, but a few events may hold large objects."""
    harness = Harness(limits=HistoryLimits(bytes_max=1_000))
    harness.cache.apply([put("x", b"v" * 300, 1)])
    idle, calls = harness.watcher(after=0 if is_behind else 1)
    for revision in range(2, 10):
        harness.cache.apply([put("x", b"v" * 300, revision, 1)])
    assert harness.cache.has_released_much()
    busy, _ = harness.watcher(after=9)
    harness.cache.drop_late_watchers()
    harness.cache.drop_late_watchers()
    assert harness.cache.fanout.dropped_total == 1
    assert (idle.is_overrun, idle.is_ended, len(idle), calls[-1]) == (True, True, 0, "ready")
    assert not busy.is_ended
    assert not harness.cache.has_released_much()


def test_a_short_history_ends_no_watcher_that_keeps_up() -> None:
    harness = Harness(limits=HistoryLimits(events_max=3))
    watcher, _ = harness.watcher()
    for last in range(10, 100, 10):
        harness.cache.apply([put("x", b"", revision, 1) for revision in range(last - 9, last + 1)])
        harness.cache.drop_late_watchers()  # before the loop has come to its turn
        assert [revision for _, _, revision in taken(watcher)] == list(range(last - 9, last + 1))


def test_a_watcher_takes_as_many_events_as_asked_for() -> None:
    harness = Harness()
    harness.cache.apply([put("x", b"", revision, 1) for revision in range(1, 5)])
    watcher, _ = harness.watcher()
    parts = [[delivery.event.revision for delivery in watcher.take(3)]]
    harness.cache.apply([put("x", b"", revision, 1) for revision in range(5, 8)])
    while len(watcher):
        parts.append([delivery.event.revision for delivery in watcher.take(3)])
    assert parts == [[1, 2, 3], [4, 5, 6], [7]]


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
    cached = CacheAsStorage(store, replace(UNCHECKED, history_bytes_max=1_000_000))
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


# ---- the whole cache, over a store that fails


class FlakyStore:
    """A store whose watches can be broken and whose history can be compacted."""

    def __init__(self, store: Storage) -> None:
        self.store = store
        self.watches: list[FlakyWatch] = []
        self.is_down = False
        self.lists = 0
        self.fails_at_list = 0  # the number of the list that breaks off

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def list(self, *args: object, **options: object) -> object:
        self.lists += 1
        self._check()
        if self.lists == self.fails_at_list:
            raise StorageUnavailable("broken off")
        return await self.store.list(*args, **options)  # type: ignore[arg-type]

    async def current_revision(self) -> int:
        self._check()
        return await self.store.current_revision()

    def watch(self, keys: KeyRange, *, after: int) -> Watch:
        self._check()
        watch = FlakyWatch(self.store.watch(keys, after=after))
        self.watches.append(watch)
        return watch

    def _check(self) -> None:
        if self.is_down:
            raise StorageUnavailable("down")


class FlakyWatch:
    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.progress_requests = 0

    def __aiter__(self) -> AsyncIterator[EventBatch]:
        return aiter(self.watch)

    async def request_progress(self) -> None:
        self.progress_requests += 1

    async def close(self) -> None:
        await self.watch.close()


@pytest.fixture
async def flaky(tmp_path: Path) -> AsyncIterator[tuple[FlakyStore, CacheAsStorage]]:
    store = FlakyStore(await EmbeddedStore.open(tmp_path / "data", durable=False))
    cached = CacheAsStorage(store)  # type: ignore[arg-type]
    await cached.start()
    yield store, cached
    store.is_down = False
    await cached.close()


async def test_a_broken_watch_is_resumed_without_missing_events(
    flaky: tuple[FlakyStore, CacheAsStorage],
) -> None:
    store, cached = flaky
    seen: list[int] = []
    watcher = cached.cache.watch(
        P,
        after=cached.cache.revision,
        scope=Scope(),
        on_ready=lambda: seen.extend(d.event.revision for d in watcher.take()),
    )
    written = []
    for round_ in range(5):
        await eventually(lambda: len(store.watches) == round_ + 1)  # noqa: B023
        written += [await store.create(f"{P}{round_}-{n}", b"") for n in range(5)]
        await store.watches[-1].close()
        written += [await store.create(f"{P}{round_}-{n}", b"") for n in range(5, 10)]
    await eventually(lambda: len(seen) >= len(written))
    assert seen == written
    assert (store.lists, len(store.watches)) == (1, 6), "resumed, not listed again"
    assert not watcher.is_ended


async def test_when_a_watch_cannot_resume_everything_is_listed_and_watchers_end(
    flaky: tuple[FlakyStore, CacheAsStorage],
) -> None:
    store, cached = flaky
    watcher = cached.cache.watch(P, after=cached.cache.revision, scope=Scope(), on_ready=lambda: None)
    await store.create(P + "a", b"")
    await eventually(lambda: len(watcher) == 1)
    store.is_down = True
    await store.watches[-1].close()
    revision = await store.store.create(P + "b", b"")
    last = await store.store.compare_and_delete(P + "b", expected=revision)
    await store.store.compact(last)
    store.is_down = False
    await eventually(lambda: watcher.is_ended)
    assert [v.key for v in (await cached.cache.list(ALL)).versions] == [P + "a"]
    assert cached.cache.fills_total == 2
    with pytest.raises(RevisionCompacted):
        cached.cache.watch(P, after=revision - 1, scope=Scope(), on_ready=lambda: None)


async def test_a_list_that_fails_half_way_leaves_nothing_behind(tmp_path: Path) -> None:
    """What is deleted between the failed list and the next must not stay in the cache."""
    store = FlakyStore(await EmbeddedStore.open(tmp_path / "data", durable=False))
    for n in range(PAGE_KEYS + 10):
        await store.create(f"{P}{n:05}", b"")
    store.fails_at_list = 2
    cached = CacheAsStorage(store)  # type: ignore[arg-type]
    starting = asyncio.create_task(cached.start())
    await eventually(lambda: store.lists == 2)
    first = (await store.store.get(f"{P}00000")).stored
    assert first is not None
    await store.compare_and_delete(first.key, expected=first.mod_revision)
    await starting
    assert cached.cache.get_cached(first.key) is None
    assert len((await cached.cache.list(ALL)).versions) == PAGE_KEYS + 9
    await cached.close()


async def test_no_progress_is_requested_for_a_revision_that_does_not_exist(
    tmp_path: Path,
) -> None:
    """Row K37. With older etcd a request for progress writes, and would itself make the revision exist."""
    store = FlakyStore(await EmbeddedStore.open(tmp_path / "data", durable=False))
    cached = CacheAsStorage(store, replace(UNCHECKED, future_revision_wait_s=0.5))  # type: ignore[arg-type]
    await cached.start()
    revision = await store.current_revision()
    with pytest.raises(RevisionTooLarge) as refused:
        await cached.cache.get(P + "a", ReadAt.not_older_than(revision + 1))
    assert (refused.value.requested, refused.value.current) == (revision + 1, revision)
    assert [watch.progress_requests for watch in store.watches] == [0]
    waiting = asyncio.create_task(cached.cache.get(P + "a", ReadAt.not_older_than(revision + 1)))
    await asyncio.sleep(0)
    await store.create(P + "a", b"")
    assert await waiting is not None
    await cached.close()


async def test_while_the_store_is_down_stale_reads_work_and_consistent_reads_fail(
    flaky: tuple[FlakyStore, CacheAsStorage],
) -> None:
    store, cached = flaky
    await store.create(P + "a", b"1")
    await cached.get(P + "a")
    store.is_down = True
    await store.watches[-1].close()
    assert cached.cache.get_cached(P + "a") is not None
    with pytest.raises(StorageUnavailable):
        await cached.get(P + "a", MOST_RECENT)
    await eventually(lambda: cached.cache.failure is not None)
    store.is_down = False
    await eventually(lambda: cached.cache.failure is None)
    assert (await cached.get(P + "a", MOST_RECENT)).stored is not None


# ---- comparing the cache with the store


async def test_a_correct_cache_is_not_refilled(
    flaky: tuple[FlakyStore, CacheAsStorage],
) -> None:
    store, cached = flaky
    revision = 0
    for n in range(20):
        revision = await store.create(f"{P}{n}", b"")
    await store.compare_and_delete(f"{P}19", expected=revision)
    await cached.get(P + "0")
    assert await cached.cache.check(P)
    assert dict(cached.cache.checks_total) == {(P, "success"): 1}
    assert (cached.cache.fills_total, store.lists) == (1, 2)


async def damage_lost(snapshots: Snapshots[Stored], store: FlakyStore) -> None:
    snapshots.delete(P + "a", revision=2)


async def damage_ghost(snapshots: Snapshots[Stored], store: FlakyStore) -> None:
    snapshots.put(P + "ghost", Stored(P + "ghost", b"", 2, 2), revision=2, create_revision=2)


async def damage_stale(snapshots: Snapshots[Stored], store: FlakyStore) -> None:
    newest = snapshots.newest(P + "a")
    assert newest is not None
    newest.revision -= 1


@pytest.mark.parametrize("damage", [damage_lost, damage_ghost, damage_stale])
async def test_a_wrong_cache_is_detected_and_refilled(
    flaky: tuple[FlakyStore, CacheAsStorage],
    damage: Callable[[Snapshots[Stored], FlakyStore], Awaitable[None]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A missing, surplus or stale object is logged and counted; the cache is refilled and watchers end."""
    store, cached = flaky
    for name in "abc":
        await store.create(P + name, name.encode())
    await cached.get(P + "a")
    watcher = cached.cache.watch(P, after=cached.cache.revision, scope=Scope(), on_ready=lambda: None)
    await damage(cached.cache.resources[P].snapshots, store)
    assert not await cached.cache.check(P)
    assert dict(cached.cache.checks_total) == {(P, "failure"): 1}
    assert "differs from the store" in caplog.text
    await eventually(lambda: cached.cache.fills_total == 2)
    assert watcher.is_ended
    assert [v.key for v in (await cached.cache.list(ALL)).versions] == [P + "a", P + "b", P + "c"]
    assert await cached.cache.check(P)


async def test_a_failed_comparison_does_not_refill_the_cache(
    flaky: tuple[FlakyStore, CacheAsStorage],
) -> None:
    store, cached = flaky
    revision = await store.create(P + "a", b"")
    await cached.get(P + "a")
    store.is_down = True
    assert await cached.cache.check(P)
    store.is_down = False
    await store.compact(await store.compare_and_put(P + "a", b"", expected=revision))
    assert dict(cached.cache.checks_total) == {(P, "error"): 1}
    assert cached.cache.fills_total == 1


async def test_the_cache_is_compared_periodically(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path / "data", durable=False)
    await store.create(P + "a", b"")
    cached = CacheAsStorage(store, WatchCacheOptions(check_interval_s=0.02))
    await cached.start()
    await eventually(lambda: cached.cache.checks_total[P, "success"] >= 2)
    await cached.close()


async def test_a_store_restored_to_an_earlier_state_is_detected(
    flaky: tuple[FlakyStore, CacheAsStorage], tmp_path: Path
) -> None:
    """Its watch would wait silently until the old revisions are used again, for other events."""
    store, cached = flaky
    for n in range(20):
        await store.create(f"{P}{n}", b"")
    await cached.get(P + "0")
    other = await EmbeddedStore.open(tmp_path / "restored", durable=False)
    await other.create(P + "only", b"")
    before, store.store = store.store, other
    await store.watches[-1].close()
    await eventually(lambda: cached.cache.fills_total == 2)
    assert [v.key for v in (await cached.cache.list(ALL)).versions] == [P + "only"]
    await before.close()


async def test_a_consistent_read_sees_every_write_answered_before(
    flaky: tuple[FlakyStore, CacheAsStorage],
) -> None:
    store, cached = flaky

    async def write_and_read(worker: int) -> None:
        for n in range(20):
            revision = await store.create(f"{P}{worker}-{n}", b"")
            version = await cached.cache.get(f"{P}{worker}-{n}")
            assert version is not None
            assert version.revision == revision
            listing = await cached.cache.list(ALL)
            assert listing.revision >= revision

    await asyncio.gather(*(write_and_read(worker) for worker in range(10)))


async def test_exact_reads_of_evicted_revisions_go_to_the_store(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path / "data", durable=False)
    cached = CacheAsStorage(store, replace(UNCHECKED, limits_of=no_history))
    await cached.start()
    revisions = [await store.create(P + name, name.encode()) for name in "abcdef"]
    await store.compare_and_delete(P + "a", expected=revisions[0])
    listing = await cached.cache.list(ALL, ReadAt.exactly(revisions[3]), limit=2)
    assert [v.key[-1] for v in listing.versions] == ["a", "b"]
    assert (listing.remaining, listing.revision) == (2, revisions[3])
    assert listing.next_key is not None
    rest = await cached.cache.list(KeyRange(listing.next_key, ALL.end), ReadAt.exactly(revisions[3]))
    assert [v.key[-1] for v in rest.versions] == ["c", "d"]
    selected = await cached.cache.list(
        ALL, ReadAt.exactly(revisions[5]), limit=1, predicate=lambda stored: stored.value in (b"b", b"f")
    )
    assert [v.key[-1] for v in selected.versions] == ["b"]
    assert (selected.next_key is not None, selected.remaining) == (True, None)
    await cached.close()


async def test_values_that_take_long_to_decode_leave_room_for_others(tmp_path: Path) -> None:
    """When the cache fills, and when an old state is read from the store."""
    turn = 0
    decoded_in: list[int] = []

    def decode(stored: Stored) -> Stored:
        decoded_in.append(turn)
        ends = monotonic() + TURN_S
        while monotonic() <= ends:
            pass
        return stored

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    store = await EmbeddedStore.open(tmp_path / "data", durable=False)
    values = 10
    revisions = [await store.create(f"{P}{n}", b"x" * PART_BYTES) for n in range(values)]
    cache: WatchCache[Stored] = WatchCache(
        store,
        prefix=PREFIX,
        decode=decode,
        size_of=lambda stored: len(stored.value),
        options=WatchCacheOptions(limits_of=no_history),
    )
    counting, running = asyncio.create_task(count_turns()), asyncio.create_task(cache.run())
    await cache.wait_until_filled()
    assert len(set(decoded_in)) == values
    decoded_in.clear()
    await store.create(f"{P}later", b"")
    await eventually(lambda: len(decoded_in) == 1)
    decoded_in.clear()
    listing = await cache.list(ALL, ReadAt.exactly(revisions[-1]))
    assert len(listing.versions) == len(set(decoded_in)) == values
    for task in (counting, running):
        task.cancel()
    await asyncio.gather(counting, running, return_exceptions=True)
    await store.close()


async def test_keys_that_are_not_of_objects_are_ignored(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path / "data", durable=False)
    await store.create("/registry/stray", b"")
    cached = CacheAsStorage(store)
    await cached.start()
    await store.create("/registry/core/also-stray", b"")
    await store.create("/registry/-/etcd/fence", b"")
    await store.create(P + "a", b"")
    assert (await cached.get(P + "a")).stored is not None
    assert list(cached.cache.resources) == [P]
    await cached.close()


async def test_an_empty_resource_is_known_without_a_list(tmp_path: Path) -> None:
    """Of a resource and of a namespace in it; deleted objects do not count, though older reads see them."""
    store = await EmbeddedStore.open(tmp_path / "data", durable=False)
    revision = await store.create(P + "here/a", b"")
    cached = CacheAsStorage(store)
    assert not cached.cache.is_empty("/registry/core/secrets/")  # not filled: nobody knows
    await cached.start()
    cache = cached.cache
    assert cache.is_empty("/registry/core/secrets/")
    assert cache.is_empty("/registry/core/secrets/", "here")
    assert not cache.is_empty(P)
    assert [cache.is_empty(P, namespace) for namespace in ("here", "her", "here-too", "there")] == [
        *(False, True, True, True)
    ]
    deleted = await store.compare_and_delete(P + "here/a", expected=revision)
    assert (await cached.list(ALL)).items == []
    assert len((await cache.list(ALL, ReadAt.exactly(deleted - 1))).versions) == 1
    assert cache.is_empty(P)
    assert cache.is_empty(P, "here")
    await cached.close()


async def test_the_version_stamp_changes_with_every_event(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path / "data", durable=False)
    cached = CacheAsStorage(store)
    await cached.start()
    cache = cached.cache
    states: list[tuple[int, int]] = []

    async def look() -> None:
        await cached.list(ALL)
        states.append(cache.version_stamp(P))

    await look()
    revision = await store.create(P + "a", b"1")
    await look()
    revision = await store.compare_and_put(P + "a", b"2", expected=revision)
    await look()
    await store.compare_and_delete(P + "a", expected=revision)
    await look()
    assert len(set(states)) == 4
    await store.create("/registry/core/secrets/a", b"")
    await look()
    assert states[4] == states[3]  # of another resource
    await cached.close()


async def test_a_change_is_told_when_reads_see_it(flaky: tuple[FlakyStore, CacheAsStorage]) -> None:
    """A cache that is filled anew may have missed one."""
    store, cached = flaky
    seen: list[int] = []
    cached.cache.on_change(P, lambda: seen.append(0 if cached.cache.is_empty(P) else 1))
    revision = await store.create(P + "a", b"1")
    await store.create("/registry/core/secrets/a", b"")
    await store.store.compare_and_delete(P + "a", expected=revision)
    await cached.list(ALL)
    assert seen == [1, 0]
    store.is_down = True
    await store.watches[-1].close()
    await store.store.compact(await store.store.create(P + "b", b""))
    store.is_down = False
    await eventually(lambda: cached.cache.fills_total == 2)
    assert seen == [1, 0, 1]


async def test_what_is_kept_of_a_retired_resource_goes_with_its_last_watcher(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path / "data", durable=False)
    cached = CacheAsStorage(store)
    await cached.start()
    cache = cached.cache
    watcher = cache.watch(P, after=cache.revision, scope=Scope(), on_ready=lambda: None)
    revision = await store.create(P + "a", b"")
    await cached.list(ALL)
    await cache.check(P)
    cache.retire(P)
    cache.drop_retired()
    assert P in cache.resources  # It has a watcher,
    cache.unwatch(P, watcher, Scope())
    cache.drop_retired()
    assert P in cache.resources  # and then an object: somebody made it again.
    deleted = await store.compare_and_delete(P + "a", expected=revision)
    await cached.list(ALL)
    cache.drop_retired()
    assert P in cache.resources  # It is not retired any more.
    cache.retire(P)
    cache.drop_retired()
    assert P not in cache.resources
    assert not cache.checks_total
    cache.unwatch(P, watcher, Scope())
    assert P not in cache.resources
    # If it comes back, nobody misses the events that have been dropped.
    with pytest.raises(RevisionCompacted):
        cache.watch(P, after=deleted - 1, scope=Scope(), on_ready=lambda: None)
    assert (await cached.list(ALL)).items == []
    watcher = cache.watch(P, after=deleted, scope=Scope(), on_ready=lambda: None)
    await store.create(P + "b", b"")
    await cached.list(ALL)
    assert [each.event.version.key for each in watcher.take()] == [P + "b"]
    await cached.close()


# ---- single parts


def test_a_watcher_with_no_scope_in_common_costs_nothing() -> None:
    fanout: Fanout[bytes] = Fanout()
    watcher: Watcher[bytes] = Watcher(after=0, predicate=None, on_ready=lambda: pytest.fail("ready"))
    fanout.add(watcher, Scope(key=P + "other"))
    fanout.deliver([CacheEvent(KeyVersion(P + "x", b"", revision=1, create_revision=1))])
    assert watcher.take() == []
    fanout.remove(watcher, Scope(key=P + "other"))
    assert len(fanout) == 0


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


async def test_closing_the_cache_ends_its_watchers(tmp_path: Path) -> None:
    cached = CacheAsStorage(await EmbeddedStore.open(tmp_path / "data", durable=False))
    await cached.start()
    watcher: Watcher[Stored] = cached.cache.watch(P, after=1, scope=Scope(), on_ready=lambda: None)
    with contextlib.suppress(StorageUnavailable):
        await cached.close()
    assert watcher.is_ended
