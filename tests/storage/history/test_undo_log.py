"""The history of a store: what every key was at any revision, until it is dropped."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.storage.history.changes import Author, Change, KeyChange, Span
from apiserver.storage.history.past_values import HistoryGap, PastValue, Value
from apiserver.storage.history.rows import position_after
from apiserver.storage.history.segment_reader import DELTAS_MAX
from apiserver.storage.history.undo_log import Limits, UndoLog
from apiserver.storage.interface import KeyRange
from tests.support.histories import ALL, KEYS, ROOMY, SMALL, Keyed, Model, text

WRITES = st.lists(
    st.tuples(st.sampled_from(KEYS), st.none() | st.integers(0, 99).map(text), st.booleans()), max_size=60
)


@settings(max_examples=60, deadline=None)
@given(WRITES)
def test_every_state_can_be_read(writes: list[tuple[str, bytes | None, bool]]) -> None:
    log, model = UndoLog(None, ROOMY), Model()
    model.record(log)
    for key, value, is_recorded in writes:
        model.write(key, value)
        if is_recorded:
            model.record(log)
    model.record(log)
    for revision, state in model.states.items():
        assert model.read(log, revision) == state
        some = KeyRange("/a/", "/a0")
        assert model.read(log, revision, some) == {key: value for key, value in state.items() if key in some}
    for key in KEYS:
        versions = log.versions(key, model.live.get(key), until=model.revision, limit=1_000)
        assert [(each.revision, each.value) for each in reversed(versions)] == model.versions.get(key, [])


def test_many_versions_of_one_key_are_paged(log: UndoLog) -> None:
    model = Model()
    model.record(log)
    for number in range(200):
        model.write("/a/x", text(number), author=f"user-{number % 3}")
        model.record(log)
    found, before = [], 0
    while page := log.versions("/a/x", model.live["/a/x"], until=model.revision, before=before, limit=7):
        found += page
        before = page[-1].revision
    assert [each.value for each in found] == [text(number) for number in reversed(range(200))]
    assert [each.author for each in found[:3]] == [Author("user-1"), Author("user-0"), Author("user-2")]
    assert (found[0].at_ms, found[0].audit_id) == (201_000, "audit-201")


def scanned(log: UndoLog, after: int, until: int, found_max: int, rows_max: int) -> list[KeyChange]:
    """Returns all changes in a span, read in parts."""
    found: list[KeyChange] = []
    position, is_complete = position_after(until), False
    while not is_complete:
        part = log.changes(
            Span(after, until),
            position,
            lambda each: each.author.user != "user-1",
            found_max=found_max,
            rows_max=rows_max,
        )
        assert len(part.found) <= found_max
        assert part.rows <= rows_max
        found += part.found
        position, is_complete = part.position, part.is_complete
    return found


@pytest.mark.parametrize(("found_max", "rows_max"), [(1, 1), (3, 7), (1_000, 1_000)])
def test_changes_of_all_keys_are_read_in_parts(tmp_path: Path, found_max: int, rows_max: int) -> None:
    """Over several files, the newest first, without those that are not wanted."""
    limits = Limits(bytes_max=32 * 64 * 1024, age_s_max=1e9)
    log, model, source = UndoLog(tmp_path / "history", limits), Model(), random.Random(1)
    model.record(log)
    for number in range(100):
        value = None if number % 7 == 6 else source.randbytes(2_000)
        model.write(f"/a/{number % 5}", value, author=f"user-{number % 3}")
        if number % 10 == 9:
            model.record(log)
    assert len(list((tmp_path / "history").glob("*.history"))) > 2
    made = sorted((revision, key) for key, versions in model.versions.items() for revision, _ in versions)
    for after, until in ((1, model.revision), (30, 60), (30, 30)):
        found = [(each.revision, each.key) for each in scanned(log, after, until, found_max, rows_max)]
        expected = [each for each in made if after < each[0] <= until and (each[0] - 2) % 3 != 1]
        assert found == expected[::-1]
    with pytest.raises(HistoryGap):
        log.changes(Span(0, 9), position_after(9), lambda _: True, found_max=1, rows_max=1)
    log.close()


def test_all_changes_of_a_transaction_can_be_read_in_parts(log: UndoLog) -> None:
    changes = [Change(f"/a/{number}", 2, 0, None, b"1", 1_000, Author("ann")) for number in range(20)]
    log.append(changes, Span(1, 2), at_ms=1_000)
    found = scanned(log, 1, 2, 3, 100)
    assert [each.key for each in found] == [f"/a/{number}" for number in range(20)][::-1]


def test_the_history_goes_on_after_it_was_closed(tmp_path: Path) -> None:
    model = Model()
    for _ in range(3):
        log = UndoLog(tmp_path / "history", ROOMY)
        assert log.recorded in (0, model.revision)
        for number in range(40):
            model.write(KEYS[number % 3], text(number))
        model.record(log)
        for revision, state in model.states.items():
            assert model.read(log, revision) == state
        log.close()


def test_the_files_are_private(tmp_path: Path, log: UndoLog) -> None:
    model = Model()
    model.write("/a/x", b"1")
    model.record(log)
    files = list((tmp_path / "history").iterdir())
    assert files
    assert {each.stat().st_mode & 0o077 for each in files} == {0}


def test_a_time_is_a_revision(log: UndoLog) -> None:
    model = Model()
    for at_ms in (1_000, 2_000, 2_000, 5_000):
        model.write("/a/x", str(len(model.changes)).encode(), at_ms=at_ms)
    model.record(log)
    assert [log.revision_at(at_ms) for at_ms in (999, 1_000, 1_999, 2_000, 4_999, 5_000, 9_000)] == [
        *(0, 2, 2, 4, 4, 5, 5)
    ]


# ---- gaps


def test_a_state_before_a_gap_cannot_be_read_but_versions_can(log: UndoLog) -> None:
    model = Model()
    model.record(log)
    for number in range(50):
        model.write("/a/x", text(number))
    model.record(log)
    model.write("/a/x", text(100))  # nobody records it
    model.changes.clear()
    log.append([], Span(model.revision, model.revision), at_ms=0)
    model.write("/a/x", text(101))
    model.record(log)
    assert log.spans == [Span(1, 51), Span(52, 53)]
    assert model.read(log, 52) == model.states[52]
    with pytest.raises(HistoryGap, match="begins at revision 52"):
        model.read(log, 51)
    versions = log.versions("/a/x", model.live["/a/x"], until=53, limit=100)
    # What replaced the 50 recorded versions is unknown, and the last whole value is some versions before.
    assert [each.revision for each in versions] == [53, 52, *range(51, 1, -1)]
    assert (versions[1].value, versions[1].author) == (text(100), None)
    assert all(
        each.value == model.states[each.revision]["/a/x"].value for each in versions if not each.is_lost
    )
    assert 0 < sum(each.is_lost for each in versions) <= 32


def test_what_is_not_recorded_yet_cannot_be_read(log: UndoLog) -> None:
    model = Model()
    model.record(log)
    model.write("/a/x", b"1")
    with pytest.raises(HistoryGap):
        model.read(log, 1)


# ---- limits


def test_the_oldest_segments_are_dropped_when_the_history_is_too_large(tmp_path: Path) -> None:
    limits = Limits(bytes_max=2 * 1024 * 1024, age_s_max=1e9)
    log, model, source = UndoLog(tmp_path / "history", limits), Model(), random.Random(1)
    largest = 0
    for number in range(400):
        model.write(f"/a/{number % 7}", source.randbytes(10_000))
        model.record(log)
        log.drop_old(0)
        largest = max(largest, sum(each.stat().st_size for each in (tmp_path / "history").glob("*.history")))
    assert log.dropped_total > 5
    assert limits.bytes_max // 2 < log.size_bytes <= limits.bytes_max
    assert largest <= limits.bytes_max + 2 * limits.bytes_max // 16
    oldest = log.readable_since()
    assert 1 < oldest < model.revision
    for revision in (oldest, (oldest + model.revision) // 2, model.revision):
        assert model.read(log, revision) == model.states[revision]
    with pytest.raises(HistoryGap):
        model.read(log, oldest - 1)
    log.close()


def test_old_segments_are_dropped(tmp_path: Path) -> None:
    # They are not larger together than they may be, which would drop them, too.
    log, model = UndoLog(tmp_path / "history", Limits(bytes_max=64 * 64 * 1024, age_s_max=100)), Model()
    source = random.Random(1)
    for second in range(300):
        model.write("/a/x", source.randbytes(2_000), at_ms=second * 1_000)
        model.record(log)
        log.drop_old(second * 1_000)
    # A segment goes once its newest change is too old.
    assert log.dropped_total > 1
    assert log.revision_at(130_000) == 0 < log.revision_at(200_000)
    log.close()


# ---- reads in another thread


class PausedRead:
    """A read of all values at a revision that pauses when it needs the first of the newest values."""

    def __init__(self, log: UndoLog, model: Model, revision: int) -> None:
        self._live, self._revision = dict(model.live), revision
        self._log, self._until = log, model.revision
        self.is_paused, self.goes_on = Event(), Event()
        self._executor = ThreadPoolExecutor(1)
        self._result = self._executor.submit(self._read)

    def _read(self) -> dict[str, PastValue]:
        return self._log.changed_since(ALL, self._revision, self._until, self._newest)

    def _newest(self, key: str) -> Value | None:
        self.is_paused.set()
        assert self.goes_on.wait(60)
        return self._live.get(key)

    def result(self) -> dict[str, PastValue]:
        self.goes_on.set()
        self._executor.shutdown()
        return self._result.result()


@pytest.mark.parametrize("place", ["in a directory", "in memory"])
def test_changes_are_recorded_while_a_read_is_under_way(tmp_path: Path, place: str) -> None:
    log = UndoLog(tmp_path / "history" if place == "in a directory" else None, SMALL)
    model, source = Model(), random.Random(1)
    for number in range(100):
        model.write(f"/a/{number % 10}", source.randbytes(2_000))
        model.record(log)
    revision = (log.readable_since() + model.revision) // 2
    reading = PausedRead(log, model, revision)
    assert reading.is_paused.wait(60)
    for number in range(40):
        model.write(f"/a/{number % 10}", source.randbytes(2_000))
        model.record(log)
    found = reading.result()
    assert found
    assert {key: each.value for key, each in found.items()} == {
        key: model.states[revision].get(key) for key in found
    }
    log.close()


def test_a_read_whose_segments_are_dropped_meanwhile_is_a_gap(tmp_path: Path) -> None:
    log, model, source = UndoLog(tmp_path / "history", SMALL), Model(), random.Random(1)
    for number in range(30):
        model.write(f"/a/{number % 10}", source.randbytes(2_000))
        model.record(log)
    reading = PausedRead(log, model, 5)
    assert reading.is_paused.wait(60)
    for number in range(100):
        model.write(f"/a/{number % 10}", source.randbytes(20_000))
        model.record(log)
        log.drop_old(0)
    assert log.readable_since() > 5
    with pytest.raises(HistoryGap):
        reading.result()
    log.close()


@pytest.mark.parametrize("place", ["in a directory", "in memory"])
def test_no_value_takes_more_decodings_though_there_are_several_files(tmp_path: Path, place: str) -> None:
    cipher = Keyed(b"k")
    log = UndoLog(tmp_path / "history" if place == "in a directory" else None, SMALL, cipher)
    model, source = Model(), random.Random(1)
    model.record(log)
    for number in range(150):
        # Some files have no change of one of them.
        for key in ("/a/x", "/a/y")[: 1 + (number // 25) % 2]:
            model.write(key, source.randbytes(1_500))
        model.record(log)
    assert len(log._segments) > 5
    for revision in range(log.readable_since(), model.revision + 1):
        for key in ("/a/x", "/a/y"):
            before = cipher.decrypted
            keys = KeyRange(key, key + "0")
            assert model.read(log, revision, keys).get(key) == model.states[revision].get(key)
            assert cipher.decrypted - before <= DELTAS_MAX + 1
    log.close()


# The time of a file is a sixteenth of it.
SLOW = Limits(bytes_max=64 * 1024 * 1024, age_s_max=160)


def test_few_changes_are_dropped_when_they_are_old(tmp_path: Path) -> None:
    """Though they would be in one file for long."""
    log, model, source = UndoLog(tmp_path / "history", SLOW), Model(), random.Random(1)
    for second in range(1, 1_001, 3):
        now_ms = second * 1_000
        model.write(f"/a/{second % 7}", source.randbytes(100), at_ms=now_ms)
        log.append(model.changes, Span(log.recorded or 1, model.revision), now_ms)
        model.changes.clear()
        log.drop_old(now_ms)
        begin_ms = now_ms - int(SLOW.age_s_max) * 1_000
        if begin_ms > 0:
            begin = log.revision_at(begin_ms)
            assert model.read(log, begin) == model.states[begin]
            assert log.revision_at(begin_ms - 20_000) == 0
    assert len(log._segments) <= 18
    log.close()


def test_what_has_not_changed_for_long_can_be_read(tmp_path: Path) -> None:
    """At any time that is not too old, without the changes from before."""
    log, model = UndoLog(tmp_path / "history", SLOW), Model()
    model.write("/a/x", b"1", at_ms=1_000)
    model.write("/a/x", b"2", at_ms=1_000)
    for second in range(1, 1_001, 3):
        now_ms = second * 1_000
        log.append(model.changes, Span(log.recorded or 1, model.revision + second), now_ms)
        model.changes.clear()
        log.drop_old(now_ms)
        oldest_ms = max(1_000, now_ms - int(SLOW.age_s_max) * 1_000)
        assert log.readable_since() <= log.revision_at(oldest_ms) <= log.recorded
        assert log.revision_at(oldest_ms) > 0
    assert log.last_change() is None
    assert len(log._segments) == 1
    log.close()


@pytest.mark.parametrize("place", ["the newest", "between others"])
def test_a_file_without_states_dates_no_other(tmp_path: Path, place: str) -> None:
    """Such as one to which nothing could be added, as the disk was full."""
    log, model = UndoLog(tmp_path / "history", SLOW), Model()
    model.write("/a/x", b"1", at_ms=1_000)
    model.record(log)
    empty = log._list.writable(bytes_max=0, before_ms=0)
    if place == "between others":
        log._list.writable(bytes_max=0, before_ms=0)
        model.write("/a/x", b"2", at_ms=50_000)
        log.append(model.changes, Span(log.recorded, model.revision), 50_000)
    log.drop_old(100_000)
    assert len(log._segments) == (2 if place == "the newest" else 3)
    assert log.readable_since() == 1
    log.drop_old(50_001 + int(SLOW.age_s_max) * 1_000)
    # The states after the first file began when it was written, or have not begun.
    assert log.readable_since() == (1 if place == "the newest" else 2)
    assert (empty in log._segments) == (place == "the newest")
    log.close()
