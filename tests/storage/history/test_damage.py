"""What is damaged, or cannot be written, becomes a gap or an error, and never a state that was not."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from apiserver.storage.history.changes import Author, Change, Span
from apiserver.storage.history.past_values import LOST, HistoryGap, Scan, Value
from apiserver.storage.history.rows import position_after
from apiserver.storage.history.segment import Segment
from apiserver.storage.history.undo_log import Limits, UndoLog
from tests.support.histories import ALL, KEYS, ROOMY, SMALL, Model, Purging, damage, rows, text


def whole_of(log: UndoLog, span: Span) -> Scan:
    """Returns all changes in a span."""
    return log.changes(span, position_after(span.until), lambda _: True, found_max=1_000, rows_max=1_000)


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


def test_a_directory_that_could_not_be_opened_is_not_in_use(tmp_path: Path) -> None:
    directory = tmp_path / "history"
    Purging(directory, SMALL).log.close()
    obstacle = max(directory.glob("*.history")).with_suffix(".history-wal")
    obstacle.mkdir()
    with pytest.raises(OSError, match="unable to open"):
        UndoLog(directory, SMALL)
    obstacle.rmdir()
    UndoLog(directory, SMALL).close()


def test_what_was_kept_of_a_damaged_file_is_removed_when_it_is_old(tmp_path: Path) -> None:
    directory, age_ms = tmp_path / "history", 100_000
    log, model = UndoLog(directory, Limits(bytes_max=16 * 64 * 1024, age_s_max=age_ms / 1000)), Model()
    model.record(log)
    kept = directory / "damaged"
    kept.write_bytes(b"old")
    written_ms = int(kept.stat().st_mtime * 1000)
    log.drop_old(written_ms + age_ms - 1_000)
    assert kept.exists()
    for _ in range(2):
        log.drop_old(written_ms + age_ms + 1_000)
        assert not kept.exists()
    log.close()
