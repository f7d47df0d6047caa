"""The history of a store: what every key was at any revision, until it is dropped."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from threading import Event

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.storage.history.changes import PLAIN, Author, Change, Cipher, KeyChange, Span
from apiserver.storage.history.deltas import InvalidDelta
from apiserver.storage.history.past_values import LOST, HistoryGap, PastValue, Scan, Value
from apiserver.storage.history.rows import position_after
from apiserver.storage.history.segment import Segment
from apiserver.storage.history.undo_log import Limits, UndoLog
from apiserver.storage.interface import KeyRange
from tests.support import eventually

ALL = KeyRange("/", "0")
ROOMY = Limits(bytes_max=64 * 1024 * 1024, age_s_max=7 * 86_400)
SMALL = Limits(bytes_max=16 * 64 * 1024, age_s_max=1e9)


class Model:
    """A store whose states are all remembered, and that records its changes."""

    def __init__(self) -> None:
        self.revision = 1
        self.live: dict[str, Value] = {}
        self.states: dict[int, dict[str, Value]] = {1: {}}
        self.versions: dict[str, list[tuple[int, bytes | None]]] = {}
        self.changes: list[Change] = []

    def write(self, key: str, value: bytes | None, author: str = "ann", at_ms: int | None = None) -> None:
        before = self.live.get(key)
        if value is None and before is None:
            return
        self.revision += 1
        self.changes.append(
            Change(
                key,
                self.revision,
                before.revision if before else 0,
                before.value if before else None,
                value,
                self.revision * 1_000 if at_ms is None else at_ms,
                Author(author),
                f"audit-{self.revision}",
            )
        )
        self.versions.setdefault(key, []).append((self.revision, value))
        if value is None:
            del self.live[key]
        else:
            self.live[key] = Value(value, self.revision)
        self.states[self.revision] = dict(self.live)

    def record(self, log: UndoLog) -> None:
        """Record what has not been recorded yet."""
        log.append(self.changes, Span(log.recorded or 1, self.revision), at_ms=self.revision * 1_000)
        self.changes.clear()

    def read(self, log: UndoLog, revision: int, keys: KeyRange = ALL) -> dict[str, Value]:
        """Returns a state as the history has it, of which no version was dropped."""
        found = {key: value for key, value in self.live.items() if key in keys}
        changed = log.changed_since(keys, revision, self.revision, self.live.get)
        for key, (value, _, is_thinned) in changed.items():
            assert not is_thinned
            found.pop(key, None)
            if value is not None:
                found[key] = value
        return found


@pytest.fixture
def log(tmp_path: Path) -> Iterator[UndoLog]:
    log = UndoLog(tmp_path / "history", ROOMY)
    yield log
    log.close()


def text(number: int) -> bytes:
    return b'{"metadata":{"name":"one"},"status":{"count":%d}}' % number


KEYS = ["/a/x", "/a/y", "/b/x"]
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


# ---- damage


def whole_of(log: UndoLog, span: Span) -> Scan:
    """Returns all changes in a span."""
    return log.changes(span, position_after(span.until), lambda _: True, found_max=1_000, rows_max=1_000)


def damage(path: Path, how: str) -> None:
    match how:
        case "cut":
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        case "no database":
            path.write_bytes(b"nonsense" * 10_000)
        case "empty":
            path.write_bytes(b"")
        case "deleted":
            path.unlink()
        case "another root page":
            connection = sqlite3.connect(path)
            query = "SELECT rootpage FROM sqlite_schema WHERE name = 'changes'"
            (root,) = connection.execute(query).fetchone()
            (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
            connection.close()
            with path.open("r+b") as file:
                file.seek((root - 1) * page_bytes)
                file.write(b"\xff" * 8)
        case "altered":
            connection = sqlite3.connect(path)
            connection.execute("UPDATE changes SET author = (SELECT max(id) FROM authors), since = since + 1")
            connection.commit()
            connection.close()


@pytest.mark.parametrize("how", ["cut", "no database", "empty", "deleted", "another root page", "altered"])
def test_a_damaged_segment_becomes_a_gap(tmp_path: Path, how: str) -> None:
    limits = Limits(bytes_max=32 * 64 * 1024, age_s_max=1e9)
    log, model, source = UndoLog(tmp_path / "history", limits), Model(), random.Random(1)
    for number in range(150):
        model.write(f"/a/{number % 5}", source.randbytes(2_000), author=f"user-{number}")
        model.record(log)
    log.close()
    files = sorted((tmp_path / "history").glob("*.history"))
    assert len(files) >= 4
    damage(files[1], how)
    log = UndoLog(tmp_path / "history", limits)
    # The first read that meets the damage finds the gap.
    whole = whole_of(log, Span(1, model.revision))
    (gap,) = whole.gaps
    revisions = [each.revision for each in whole.found]
    assert revisions == [n for n in range(model.revision, 1, -1) if not gap.after < n <= gap.until]
    # Nobody gets an altered version.
    for key in model.live:
        for each in log.versions(key, model.live[key], until=model.revision, limit=1_000):
            if each.value is not None:
                assert each.value == model.states[each.revision][key].value
            if each.author is not None:
                assert each.author == Author(f"user-{each.revision - 2}")
    oldest = log.readable_since()
    assert 10 < oldest < 100
    assert model.read(log, oldest) == model.states[oldest]
    with pytest.raises(HistoryGap):
        model.read(log, oldest - 1)
    model.write("/a/1", b"more")
    model.record(log)
    log.drop_old(0)
    assert model.read(log, oldest) == model.states[oldest]
    log.close()


class Recovering(UndoLog):
    """Another thread records again what a scan finds damaged, before that has ended."""

    again: list[Change] | None = None

    @contextlib.contextmanager
    def _damage_of(self, segment: Segment) -> Iterator[None]:
        with super()._damage_of(segment):
            yield
        if self.again and segment not in self._segments:
            last = self.again[-1]
            self.append(self.again, Span(self.recorded, last.revision), last.at_ms)


@pytest.mark.parametrize("is_recorded_again", [False, True])
@pytest.mark.parametrize("is_in_parts", [False, True])
def test_a_newest_segment_that_a_scan_finds_damaged_is_a_gap(
    tmp_path: Path, is_recorded_again: bool, is_in_parts: bool
) -> None:
    """Also if its changes are there again when the scan ends, as the scan has not seen them."""
    limits = Limits(bytes_max=0, age_s_max=1e9)
    log, model = Recovering(tmp_path / "history", limits), Model()
    for number in range(5):
        model.write(f"/a/{number}", b"1")
        model.record(log)
    model.write("/a/5", b"1")
    log.again = [*model.changes] if is_recorded_again else None
    model.record(log)
    assert len(list((tmp_path / "history").glob("*.history"))) == 6
    rows(tmp_path / "history", "UPDATE changes SET since = since + 1")
    first = log.changes(
        *(Span(1, 7), position_after(7), lambda _: True), found_max=2 if is_in_parts else 100, rows_max=100
    )
    assert [each.revision for each in first.found] == [6, 5, 4, 3, 2][: 2 if is_in_parts else None]
    assert first.gaps == [Span(6, 7)]
    later = whole_of(log, Span(1, 7))
    assert later.gaps == ([] if is_recorded_again else [Span(6, 7)])
    assert [each.revision for each in later.found] == [*([7] if is_recorded_again else []), 6, 5, 4, 3, 2]
    log.close()


def test_a_segment_that_cannot_be_written_is_an_error_and_adds_nothing(tmp_path: Path) -> None:
    log, model = UndoLog(tmp_path / "history", ROOMY), Model()
    model.record(log)
    file = next((tmp_path / "history").glob("*.history"))
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    model.write("/a/x", b"1")
    with pytest.raises(OSError, match="locked"):
        model.record(log)
    other.execute("ROLLBACK")
    other.close()
    model.record(log)
    assert model.read(log, 1) == {}
    log.close()


def test_a_full_disk_loses_nothing_that_was_recorded(tmp_path: Path) -> None:
    log, model, source = UndoLog(tmp_path / "history", ROOMY), Model(), random.Random(1)
    model.record(log)
    connection = log._segments[-1]._connection
    connection.execute("PRAGMA max_page_count = 40")
    errors: list[str] = []
    for number in range(100):
        model.write(f"/a/{number}", source.randbytes(3_000), author=f"user-{number}")
        model.write(f"/a/{number}", source.randbytes(3_000), author=f"user-{number}")
        try:
            model.record(log)
        except OSError as error:
            errors.append(str(error))
            if len(errors) == 3:
                connection.execute("PRAGMA max_page_count = 100000")
    assert errors == ["database or disk is full"] * 3
    for revision, state in model.states.items():
        assert model.read(log, revision) == state
    for key, expected in model.versions.items():
        found = log.versions(key, model.live[key], until=model.revision, limit=10)
        assert [(each.revision, each.value) for each in reversed(found)] == expected
        assert all(each.author == Author(f"user-{key[3:]}") for each in found)
    log.close()


def test_a_segment_whose_file_cannot_be_removed_is_read_no_more(tmp_path: Path) -> None:
    """Its place may be a directory that is read-only, or not there."""
    limits = Limits(bytes_max=16 * 64 * 1024, age_s_max=100)
    log, model, source = UndoLog(tmp_path / "history", limits), Model(), random.Random(1)
    for number in range(60):
        model.write(f"/a/{number % 3}", source.randbytes(2_000), at_ms=number * 1_000)
        model.record(log)
    first = min((tmp_path / "history").glob("*.history"))
    first.unlink()
    first.mkdir()  # which no `unlink` removes
    with pytest.raises(OSError, match="directory"):
        log.drop_old(200_000)
    oldest = log.readable_since()
    assert oldest > 1
    assert model.read(log, oldest) == model.states[oldest]
    with pytest.raises(HistoryGap):
        model.read(log, oldest - 1)
    log.close()


def rows(directory: Path, statement: str) -> None:
    """Change the newest segment behind the back of the history."""
    with contextlib.closing(sqlite3.connect(max(directory.glob("*.history")))) as connection:
        connection.execute(statement)
        connection.commit()


@pytest.mark.parametrize("removed", ["the first since", "a later one"])
def test_a_missing_row_loses_only_the_values_that_need_it(tmp_path: Path, log: UndoLog, removed: str) -> None:
    model = Model()
    model.record(log)
    source = random.Random(1)
    parts = [source.randbytes(200) for _ in range(7)]
    for one, other in pairwise(parts):  # Each value needs the next one, which has a half of it.
        for key in KEYS:
            model.write(key, one + other)
    model.record(log)
    missing = model.versions["/a/x"][2 if removed == "the first since" else 4][0]
    rows(tmp_path / "history", f"DELETE FROM changes WHERE id >> 16 = {missing}")
    revision = model.versions["/a/x"][1][0]
    found = log.changed_since(ALL, revision, model.revision, model.live.get)
    expected = {key: model.states[revision].get(key) for key in KEYS} | {"/a/x": LOST}
    assert {key: past.value for key, past in found.items()} == expected
    versions = log.versions("/a/x", model.live["/a/x"], until=model.revision, limit=100)
    for each in versions:
        assert each.is_lost or each.value == model.states[each.revision]["/a/x"].value
    assert any(each.is_lost for each in versions)
    assert len(log.spans) == 1


def test_a_value_that_could_not_be_read_when_it_was_recorded_is_lost(log: UndoLog) -> None:
    model = Model()
    model.record(log)
    for value in (text(1), b"", text(2)):
        model.write("/a/x", value)
    model.record(log)
    assert [log.changed_since(ALL, revision, 4, model.live.get)["/a/x"].value for revision in (1, 2, 3)] == [
        None,
        Value(text(1), 2),
        LOST,
    ]
    versions = log.versions("/a/x", model.live["/a/x"], until=4, limit=100)
    assert [(each.value, each.is_lost) for each in versions] == [
        *((text(2), False), (None, True), (text(1), False))
    ]


def test_a_segment_whose_file_is_deleted_before_it_is_read_becomes_a_gap(tmp_path: Path) -> None:
    log, model, source = UndoLog(tmp_path / "history", SMALL), Model(), random.Random(1)
    for _ in range(60):
        model.write("/a/x", source.randbytes(2_000))
        model.record(log)
    min((tmp_path / "history").glob("*.history")).unlink()
    with pytest.raises(HistoryGap) as gap:
        model.read(log, 1)
    assert model.read(log, gap.value.oldest) == model.states[gap.value.oldest]
    log.close()


# ---- purges


def everything_in(directory: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(directory.iterdir()))


class Purging:
    """A history of several files in which each key, value and author has a text that nothing else has."""

    def __init__(self, directory: Path | None, limits: Limits = SMALL, cipher: Cipher = PLAIN) -> None:
        self.model, source = Model(), random.Random(1)
        self.log = UndoLog(directory, limits, cipher)
        self.changes: list[Change] = []
        for number in range(120):
            key = f"/r/things/{'ab'[number % 2]}/n{number % 6}"
            value = b"<value of %b>" % key.encode() + source.randbytes(1_500) + b"%d" % number
            is_deleted = number % 17 == 11
            self.model.write(key, None if is_deleted else value, author=f"author of {key}")
            self.changes += self.model.changes
            self.model.record(self.log)

    def state(self, revision: int) -> dict[str, Value]:
        return self.model.read(self.log, revision)


@pytest.mark.parametrize("place", ["while it runs", "after a restart"])
def test_what_is_purged_is_in_no_file_and_its_states_are_marked(tmp_path: Path, place: str) -> None:
    directory = tmp_path / "history"
    purging = Purging(directory)
    log, model, purged = purging.log, purging.model, "/r/things/a/n2"
    assert len(list(directory.glob("*.history"))) > 2
    (directory / "damaged").write_bytes(b"<value of /r/things/a/n2>")
    changes = len(model.versions[purged])
    assert log.purge(lambda key: key == purged, purged) == (changes, 1)
    assert log.purge(lambda key: key == purged, purged) == (0, 0)
    kept = everything_in(directory)
    assert purged.encode() not in kept
    assert b"author of /r/things/a/n4" in kept
    if place == "after a restart":
        log.close()
        log = UndoLog(directory, SMALL)
        assert purged.encode() not in everything_in(directory)
    last = model.versions[purged][-1][0]
    for revision in range(log.readable_since(), model.revision + 1):
        expected = {key: value for key, value in model.states[revision].items() if key != purged}
        assert {key: value for key, value in model.read(log, revision).items() if key != purged} == expected
        marks = {log.digest(purged)} if revision < last else frozenset()
        for scope in (purged, "/r/things/a/", "/r/things/"):
            assert log.purged_since(scope, revision) == marks
        for scope in ("/r/things/a/n4", "/r/things/b/"):
            assert log.purged_since(scope, revision) == frozenset()
    for key, expected_versions in model.versions.items():
        found = log.versions(key, model.live.get(key), until=model.revision, limit=1_000)
        if key != purged:
            assert [(each.revision, each.value) for each in reversed(found)] == expected_versions
            assert not any(each.is_purged for each in found)
        else:
            assert found[0].revision == last
            assert all(each.is_purged and each.author is None for each in found)
    # It is recorded again from now on.
    model.write(purged, b"new")
    model.record(log)
    assert model.read(log, model.revision - 1) == model.states[model.revision - 1]
    log.close()


def test_what_was_before_a_revision_is_purged(tmp_path: Path) -> None:
    directory = tmp_path / "history"
    purging = Purging(directory)
    log, model = purging.log, purging.model
    for revision in (60, 61, model.revision):
        assert log.purge_until(revision).changes > 0
        assert log.readable_since() == revision
        assert log.recorded == model.revision
        for readable in range(revision, model.revision + 1):
            assert model.read(log, readable) == model.states[readable]
        with pytest.raises(HistoryGap):
            model.read(log, revision - 1)
        assert log.revision_at(revision * 1_000) == revision
    assert b"<value" not in everything_in(directory)
    assert b"author of" not in everything_in(directory)
    model.write("/r/things/a/n2", b"new")
    model.record(log)
    assert log.spans == [Span(model.revision - 1, model.revision)]
    assert model.read(log, model.revision - 1) == model.states[model.revision - 1]
    log.close()


@pytest.mark.parametrize("when", ["while it runs", "after it has failed"])
def test_what_a_purge_has_removed_from_the_first_file_is_a_gap(tmp_path: Path, when: str) -> None:
    """Even if it is not done with the others. What has changed only there would look unchanged."""
    directory = tmp_path / "history"
    purging = Purging(directory)
    log, model = purging.log, purging.model
    first, second, *_ = sorted(directory.glob("*.history"))
    if when == "after it has failed":
        log._segments[1]._connection.execute("PRAGMA busy_timeout = 1")

    def is_emptied() -> bool:
        with contextlib.closing(sqlite3.connect(first)) as connection:
            (count,) = connection.execute("SELECT count(*) FROM changes").fetchone()
        return not count

    with contextlib.closing(sqlite3.connect(second, isolation_level=None)) as writing:
        writing.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor(1) as executor:
            purge = executor.submit(log.purge_until, model.revision)
            if when == "after it has failed":
                with pytest.raises(OSError, match="locked"):
                    purge.result()
            else:
                eventually.until(is_emptied, what="the first file is purged")
            with pytest.raises(HistoryGap) as gap:
                model.read(log, 3)
            assert gap.value.oldest > 3
            # Before a read of other revisions, which waits for a purge that runs.
            writing.execute("ROLLBACK")
            if when == "while it runs":
                assert purge.result().changes > 0
            assert model.read(log, gap.value.oldest) == model.states[gap.value.oldest]
    assert (log.readable_since() == model.revision) is (when == "while it runs")
    log.close()


def test_a_purge_that_was_interrupted_is_completed_at_the_start(tmp_path: Path) -> None:
    directory = tmp_path / "history"
    purging = Purging(directory, ROOMY)
    with contextlib.closing(sqlite3.connect(directory / "00000001.history", timeout=0)) as reading:
        reading.execute("BEGIN")
        reading.execute("SELECT count(*) FROM changes").fetchone()
        with pytest.raises(OSError, match=r"another process reads the history|locked"):
            purging.log.purge(lambda key: key == "/r/things/a/n2", "/r/things/a/n2")
        assert purging.log.purged_since("/r/things/a/n2", 1)
    purging.log.close()
    log = UndoLog(directory, ROOMY)
    assert b"/r/things/a/n2" not in everything_in(directory)
    log.close()


@pytest.mark.parametrize("how", ["by key", "by revision"])
def test_a_purge_that_cannot_be_completed_at_the_start_is_completed_by_the_next_one(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "history"
    purging = Purging(directory, ROOMY)
    with contextlib.closing(sqlite3.connect(directory / "00000001.history", timeout=0)) as reading:
        reading.execute("BEGIN")
        reading.execute("SELECT count(*) FROM changes").fetchone()
        with pytest.raises(OSError, match=r"another process reads the history|locked"):
            purging.log.purge(lambda key: key == "/r/things/a/n2", "/r/things/a/n2")
        purging.log.close()
        log = UndoLog(directory, ROOMY)
        assert "may still contain what was purged" in caplog.text
        model = purging.model
        assert log.recorded == model.revision
        for key in ("/r/things/b/n1", "/r/things/a/n4"):
            expected = model.states[50].get(key)
            assert model.read(log, 50, KeyRange(key, key + "0")).get(key) == expected
        model.write("/r/things/b/n1", b"written while the other process reads")
        model.record(log)
    assert b"/r/things/a/n2" in everything_in(directory)
    if how == "by key":
        assert log.purge(lambda _: False, "/none") == (0, 0)
    else:
        assert log.purge_until(0) == (0, 0)
    assert b"/r/things/a/n2" not in everything_in(directory)
    log.close()


@pytest.mark.parametrize("how", ["by key", "by revision"])
def test_a_purge_that_finds_damage_has_to_be_done_again(tmp_path: Path, how: str) -> None:
    """What was in the damaged file may be recorded again, from the store."""
    directory = tmp_path / "history"
    Purging(directory).log.close()
    damage(max(directory.glob("*.history")), "another root page")
    log = UndoLog(directory, SMALL)
    (until,) = [each.until for each in log.spans]

    def purge() -> None:
        if how == "by key":
            log.purge(lambda key: key == "/r/things/a/n2", "/r/things/a/n2")
        else:
            log.purge_until(until)

    with pytest.raises(OSError, match="damaged"):
        purge()
    assert log.recorded < until
    assert not (directory / "damaged").exists()
    purge()
    assert b"/r/things/a/n2" not in everything_in(directory)
    log.close()


# ---- another key


class Keyed:
    """Encrypts nothing, but notes with each value the key that it would have been encrypted with.

    decrypted: how many values were.
    """

    def __init__(self, key: bytes) -> None:
        self.key, self.known = key, {key}
        self.decrypted = 0

    def use(self, key: bytes, *others: bytes) -> None:
        self.key, self.known = key, {key, *others}

    def encrypt(self, key: str, data: bytes) -> bytes:
        return b"<%b>" % self.key + data

    def decrypt(self, key: str, data: bytes) -> bytes:
        self.decrypted += 1
        name, _, value = data[1:].partition(b">")
        if name not in self.known:
            raise InvalidDelta("its key is gone")
        return value

    def renewed(self, key: str, data: bytes) -> bytes | None:
        value = self.decrypt(key, data)
        return None if data.startswith(b"<%b>" % self.key) else self.encrypt(key, value)


def rewritten(log: UndoLog, prefix: str = "/") -> tuple[int, int, int]:
    """Have all values rewritten. Returns how many were, were not, and are lost."""
    position, counts = 0, (0, 0, 0)
    while True:
        *now, position = log.rewrite(position, lambda key: key.startswith(prefix))
        counts = (counts[0] + now[0], counts[1] + now[1], counts[2] + now[2])
        if not position:
            return counts


@pytest.mark.parametrize("place", ["a directory", "memory"])
def test_recorded_values_get_another_key(tmp_path: Path, place: str) -> None:
    directory = tmp_path / "history"
    cipher = Keyed(b"first-key")
    purging = Purging(directory if place == "a directory" else None, cipher=cipher)
    log, model = purging.log, purging.model
    # Each key was created once, and again after it had been deleted.
    count = sum(before is not None for versions in model.versions.values() for _, before in versions[:-1])
    cipher.use(b"second-key", b"first-key")
    part = sum(
        before is not None
        for key in ("/r/things/a/n0", "/r/things/a/n2", "/r/things/a/n4")
        for _, before in model.versions[key][:-1]
    )
    assert rewritten(log, "/r/things/a/") == (part, 0, 0)
    assert rewritten(log) == (count - part, part, 0)
    cipher.use(b"second-key")
    assert rewritten(log) == (0, count, 0)
    for revision in range(log.readable_since(), model.revision + 1):
        assert model.read(log, revision) == model.states[revision]
    if place == "a directory":
        kept = everything_in(directory)
        assert b"<second-key>" in kept
        assert b"<first-key>" not in kept
    cipher.use(b"third-key")
    assert rewritten(log) == (0, 0, count)
    log.close()


def test_a_value_that_was_altered_is_not_written_again_as_if_it_were_good(tmp_path: Path) -> None:
    directory, cipher = tmp_path / "history", Keyed(b"first-key")
    purging = Purging(directory, cipher=cipher)
    purging.log.close()
    first, *others = sorted(directory.glob("*.history"))
    with contextlib.closing(sqlite3.connect(first, isolation_level=None)) as history:
        history.execute("UPDATE changes SET since = since + 1 WHERE id = (SELECT max(id) FROM changes)")
    log = UndoLog(directory, SMALL, cipher)
    cipher.use(b"second-key", b"first-key")
    assert rewritten(log) > (0, 0, 0)
    assert sorted(directory.glob("*.history")) == others
    assert not (directory / "damaged").exists()
    assert b"<first-key>" not in everything_in(directory)
    log.close()


def test_a_rewrite_that_another_process_has_hindered_is_completed(tmp_path: Path) -> None:
    directory, cipher = tmp_path / "history", Keyed(b"first-key")
    log = Purging(directory, ROOMY, cipher).log
    cipher.use(b"second-key", b"first-key")
    with contextlib.closing(sqlite3.connect(directory / "00000001.history", timeout=0)) as reading:
        reading.execute("BEGIN")
        reading.execute("SELECT count(*) FROM changes").fetchone()
        with pytest.raises(OSError, match=r"another process reads the history|locked"):
            rewritten(log)
    rewritten(log)
    assert b"<first-key>" not in everything_in(directory)
    log.close()


@pytest.mark.parametrize("damaged", ["the newest file", "also the file of floors"])
def test_what_was_purged_is_not_recorded_again(
    tmp_path: Path, damaged: str, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "history"
    purging = Purging(directory)
    model, purged = purging.model, "/r/things/a/n2"
    last = model.versions[purged][-1][0]
    purging.log.purge(lambda key: key == purged, purged)
    purging.log.close()
    damage(max(directory.glob("*.history")), "another root page")
    if damaged == "also the file of floors":
        content = bytearray((directory / "floors").read_bytes())
        content[-10] ^= 1
        (directory / "floors").write_bytes(content)
    log = UndoLog(directory, SMALL)
    # A read finds the damage.
    with contextlib.suppress(HistoryGap):
        log.changed_since(ALL, log.readable_since(), log.recorded, model.live.get)
    recorded = log.recorded
    assert recorded < model.revision
    missing = [each for each in purging.changes if each.revision > recorded]
    assert purged in {each.key for each in missing}
    log.append(missing, Span(recorded, model.revision), at_ms=model.revision * 1_000)
    (directory / "damaged").unlink(missing_ok=True)
    is_back = purged.encode() in everything_in(directory)
    if damaged == "also the file of floors":
        assert is_back
        assert "what was purged may be recorded again" in caplog.text
        log.close()
        return
    assert not is_back
    # Reads still say that it is missing, up to its last change.
    assert log.purged_since(purged, last - 1) == log.purged_since("/r/things/a/", last - 1)
    assert log.purged_since(purged, last - 1) == {log.digest(purged)}
    assert log.purged_since(purged, last) == frozenset()
    for revision in range(log.readable_since(), model.revision + 1):
        expected = {key: value for key, value in model.states[revision].items() if key != purged}
        assert {key: value for key, value in model.read(log, revision).items() if key != purged} == expected
    # What changes later is recorded.
    model.write(purged, b"new")
    model.record(log)
    assert model.read(log, model.revision - 1) == model.states[model.revision - 1]
    log.close()


def test_what_was_purged_is_forgotten_once_it_cannot_come_back(tmp_path: Path) -> None:
    directory = tmp_path / "history"
    log, model = UndoLog(directory, ROOMY), Model()
    model.record(log)
    for key in ("/a/x", "/a/y"):
        model.write(key, b"1")
        model.record(log)
        log.purge(key.__eq__, key)
    both = (directory / "floors").stat().st_size
    model.write("/a/z", b"1")
    model.record(log)
    log.purge_until(model.revision)
    model.write("/a/z", b"2")
    model.record(log)
    log.purge("/a/z".__eq__, "/a/z")
    assert (directory / "floors").stat().st_size < both
    # Another store has other changes at these revisions.
    log.clear()
    log.append([Change("/a/z", 2, 0, None, b"1", 1)], Span(1, 2), 1)
    assert log.last_creation("/a/z") == 2
    log.close()


def test_a_directory_that_could_not_be_opened_is_not_in_use(tmp_path: Path) -> None:
    directory = tmp_path / "history"
    Purging(directory, SMALL).log.close()
    obstacle = max(directory.glob("*.history")).with_suffix(".history-wal")
    obstacle.mkdir()
    with pytest.raises(OSError, match="unable to open"):
        UndoLog(directory, SMALL)
    obstacle.rmdir()
    UndoLog(directory, SMALL).close()


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
