"""Which watchers get which events, and what those that are behind cost."""

from __future__ import annotations

import itertools

import pytest

from apiserver.storage.errors import RevisionCompacted
from apiserver.storage.watch_cache import (
    CacheEvent,
    EventType,
    HistoryLimits,
    KeyVersion,
    Watcher,
    WatchScope,
)
from apiserver.storage.watch_cache.events import ANY_VALUE, Trigger
from apiserver.storage.watch_cache.fanout import Fanout
from apiserver.storage.watch_cache.snapshots import Snapshots
from apiserver.storage.watch_cache.watcher import CATCH_UP_EVENTS_MAX, CATCH_UP_TURN_S
from tests.support.resource_cache import Harness, P, all_taken, delete, put, taken

SCOPES = {
    "everything": (WatchScope(), ["a/x", "a/y", "ab/x"]),
    "a namespace": (WatchScope(key_prefix=P + "a/"), ["a/x", "a/y"]),
    "one object": (WatchScope(key=P + "a/y"), ["a/y"]),
    "an object that never comes": (WatchScope(key=P + "a/z"), []),
}


@pytest.fixture
def harness() -> Harness:
    return Harness()


@pytest.mark.parametrize(("scope", "expected"), SCOPES.values(), ids=SCOPES)
def test_a_watcher_gets_the_events_of_its_scope_only(
    harness: Harness, scope: WatchScope, expected: list[str]
) -> None:
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
    harness: Harness, before: bytes | None, after: bytes | None, expected: str | None, tests_late: bool
) -> None:
    if before is not None:
        harness.cache.apply([put("x", before, 1)])
    watcher, _ = harness.watcher(after=1, predicate=Prefix(b"yes"), tests_late=tests_late)
    harness.cache.apply([put("x", after, 2) if after is not None else delete("x", 2)])
    assert [kind for kind, _, _ in all_taken(watcher)] == ([expected] if expected else [])


def test_watchers_with_equal_predicates_share_one_test_of_each_event(harness: Harness) -> None:
    predicates = [Prefix(b"yes") for _ in range(50)]
    watchers = [harness.watcher(predicate=each)[0] for each in predicates]
    other, _ = harness.watcher(predicate=Prefix(b"no"))
    harness.cache.apply([put("x", b"yes", 1), put("x", b"no", 2), put("x", b"no 2", 3)])
    assert [all_taken(each) for each in watchers] == [[("ADDED", "x", 1), ("DELETED", "x", 2)]] * 50
    assert all_taken(other) == [("ADDED", "x", 2), ("MODIFIED", "x", 3)]
    # The object before and after each event, of which the first has only one.
    assert sum(each.calls for each in predicates) == 5
    for each in watchers:
        harness.cache.fanout.remove(each, WatchScope())
    assert list(harness.cache.fanout) == [other]


def test_a_predicate_that_takes_long_is_asked_when_events_are_taken(harness: Harness) -> None:
    """Many such watchers would hold up everybody else if each tested an event as it happens."""
    harness.cache.apply([put("a/x", b"yes", 1)])
    predicate = Prefix(b"yes")
    watcher, calls = harness.watcher(
        WatchScope(key_prefix=P + "a/"), after=1, predicate=predicate, tests_late=True
    )
    harness.cache.apply([put("a/x", b"no", 2), put("b/x", b"yes", 3)])
    assert (predicate.calls, calls, len(watcher)) == (0, ["ready"], 1)
    harness.cache.apply([put("a/y", b"yes", 4)])
    assert (predicate.calls, calls, len(watcher)) == (0, ["ready"], 1)
    assert all_taken(watcher) == [("DELETED", "a/x", 2), ("ADDED", "a/y", 4)]
    harness.cache.apply([put("a/y", b"yes 2", 5)])
    assert calls == ["ready", "ready"]
    assert all_taken(watcher) == [("MODIFIED", "a/y", 5)]
    harness.cache.fanout.remove(watcher, WatchScope(key_prefix=P + "a/"))
    assert not list(harness.cache.fanout)


def test_a_watcher_that_tests_late_may_be_idle_for_longer_than_the_history_reaches_back() -> None:
    harness = Harness(limits=HistoryLimits(events_max=3))
    watcher, _ = harness.watcher(WatchScope(key_prefix=P + "a/"), predicate=Prefix(b"yes"), tests_late=True)
    harness.cache.apply([put("b/x", b"yes", revision) for revision in range(1, 20)])
    harness.cache.apply([put("a/x", b"yes", 20)])
    assert all_taken(watcher) == [("ADDED", "a/x", 20)]
    # One that does not take what waits for it is dropped, as any other.
    harness.cache.apply([put("a/x", b"yes 2", 21)])
    harness.cache.apply([put("b/x", b"yes", revision) for revision in range(22, 40)])
    assert all_taken(watcher) == []
    assert watcher.is_overrun


def test_a_watcher_that_tests_late_begins_at_a_revision_that_is_still_to_come(harness: Harness) -> None:
    watcher, _ = harness.watcher(after=2, predicate=Prefix(b"yes"), tests_late=True)
    harness.cache.apply([put("x", b"yes", 1), put("y", b"yes", 2), put("z", b"yes", 3)])
    assert all_taken(watcher) == [("ADDED", "z", 3)]


def test_catching_up_by_a_predicate_that_takes_long_leaves_room_for_others(harness: Harness) -> None:
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
    harness: Harness, values: list[bytes], expected: list[str], tests: int
) -> None:
    asked: list[bytes] = []

    def predicate(value: bytes) -> bool:
        asked.append(value)
        return value in (b"a1", b"damaged")

    watcher, _ = harness.watcher(predicate=predicate, trigger=Trigger(first_byte, b"a"))
    for revision, value in enumerate(values, 1):
        harness.cache.apply([put("x", value, revision)])
    assert [kind for kind, _, _ in all_taken(watcher)] == expected
    assert len(asked) == tests
    harness.cache.fanout.remove(watcher, WatchScope())
    harness.cache.fanout.remove(watcher, WatchScope())
    assert not list(harness.cache.fanout)


def test_a_watcher_that_catches_up_gets_each_event_once_whatever_its_trigger(harness: Harness) -> None:
    harness.cache.apply([put("x", b"a1", 1), put("y", b"b", 2)])
    watcher, _ = harness.watcher(predicate=Prefix(b"a"), trigger=Trigger(first_byte, b"a"))
    harness.cache.apply([put("z", b"a2", 3)])
    assert all_taken(watcher) == [("ADDED", "x", 1), ("ADDED", "z", 3)]
    harness.cache.apply([put("z", b"a3", 4)])
    assert all_taken(watcher) == [("MODIFIED", "z", 4)]


def test_a_deletion_shows_the_last_state(harness: Harness) -> None:
    harness.cache.apply([put("x", b"1", 1), put("x", b"2", 2)])
    watcher, _ = harness.watcher(after=2)
    harness.cache.apply([delete("x", 3)])
    (delivery,) = watcher.take()
    assert delivery.type is EventType.DELETED
    assert delivery.event.previous is not None
    assert delivery.event.previous.value == b"2"
    assert delivery.event.revision == 3


def test_a_watcher_that_starts_in_the_past_gets_the_events_since(harness: Harness) -> None:
    harness.cache.apply([put("x", b"1", 1), put("y", b"1", 2), delete("x", 3)])
    watcher, calls = harness.watcher(after=1)
    assert taken(watcher) == [("ADDED", "y", 2), ("DELETED", "x", 3)]
    assert calls == []


def test_a_watcher_that_starts_in_the_future_waits(harness: Harness) -> None:
    watcher, calls = harness.watcher(after=5)
    harness.cache.apply([put("x", b"1", 4), put("x", b"2", 5, 4)])
    assert calls == []
    harness.cache.apply([put("x", b"3", 6, 4)])
    assert taken(watcher) == [("MODIFIED", "x", 6)]


def test_a_watcher_that_does_not_keep_up_is_ended_and_others_are_not(harness: Harness) -> None:
    slow, slow_calls = harness.watcher(queued_events_max=2)
    quick, _ = harness.watcher(queued_events_max=100)
    for revision in range(1, 5):
        harness.cache.apply([put("x", b"", revision, 1)])
    assert (slow.is_overrun, slow.is_ended, slow_calls[-1]) == (True, True, "ready")
    assert [revision for _, _, revision in taken(quick)] == [1, 2, 3, 4]
    assert len(harness.cache.fanout) == 1


def test_past_events_do_not_overrun_a_watcher(harness: Harness) -> None:
    harness.cache.apply([put("x", b"", revision, 1) for revision in range(1, 50)])
    watcher, _ = harness.watcher(after=1, queued_events_max=2)
    harness.cache.apply([put("x", b"", 50, 1)])
    assert [revision for _, _, revision in taken(watcher)] == list(range(2, 51))


def test_a_refill_ends_watchers_that_may_have_missed_events(harness: Harness) -> None:
    watcher, _ = harness.watcher()
    snapshots: Snapshots[bytes] = Snapshots()
    snapshots.add_all([KeyVersion(P + "x", b"1", revision=7, create_revision=7)])
    harness.cache.fill(snapshots, 9)
    assert watcher.is_ended
    with pytest.raises(RevisionCompacted):
        harness.watcher(after=8)
    again, _ = harness.watcher(after=9)
    assert not again.is_ended


def test_watchers_share_the_encodings_of_an_event(harness: Harness) -> None:
    first, _ = harness.watcher()
    second, _ = harness.watcher(WatchScope(key=P + "x"))
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


def test_past_events_are_taken_a_part_at_a_time(harness: Harness) -> None:
    """No call looks at all past events, however many there are, and no part splits a revision."""
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
    assert not idle.is_ended, "what it has not taken was evicted only now"
    busy, _ = harness.watcher(after=9)
    for revision in range(10, 14):
        harness.cache.apply([put("x", b"v" * 300, revision, 1)])
    assert harness.cache.fanout.dropped_total == 1
    assert (idle.is_overrun, idle.is_ended, len(idle), calls[-1]) == (True, True, 0, "ready")
    assert not busy.is_ended


def test_a_short_history_ends_no_watcher_that_keeps_up() -> None:
    harness = Harness(limits=HistoryLimits(events_max=3))
    watcher, _ = harness.watcher()
    for last in range(10, 100, 10):
        harness.cache.apply([put("x", b"", revision, 1) for revision in range(last - 9, last + 1)])
        harness.cache.drop_late_watchers()  # before the loop has come to its turn
        assert [revision for _, _, revision in taken(watcher)] == list(range(last - 9, last + 1))


def test_a_watcher_takes_as_many_events_as_asked_for(harness: Harness) -> None:
    harness.cache.apply([put("x", b"", revision, 1) for revision in range(1, 5)])
    watcher, _ = harness.watcher()
    parts = [[delivery.event.revision for delivery in watcher.take(3)]]
    harness.cache.apply([put("x", b"", revision, 1) for revision in range(5, 8)])
    while len(watcher):
        parts.append([delivery.event.revision for delivery in watcher.take(3)])
    assert parts == [[1, 2, 3], [4, 5, 6], [7]]


def test_a_watcher_with_no_scope_in_common_costs_nothing() -> None:
    fanout: Fanout[bytes] = Fanout()
    watcher: Watcher[bytes] = Watcher(after=0, predicate=None, on_ready=lambda: pytest.fail("ready"))
    fanout.add(watcher, WatchScope(key=P + "other"))
    fanout.deliver([CacheEvent(KeyVersion(P + "x", b"", revision=1, create_revision=1))])
    assert watcher.take() == []
    fanout.remove(watcher, WatchScope(key=P + "other"))
    assert len(fanout) == 0
