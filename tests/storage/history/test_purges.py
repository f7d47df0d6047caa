"""What is purged is in no file, and reads say that it is missing."""

from __future__ import annotations

import contextlib
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from apiserver.storage.history.changes import Change, Span
from apiserver.storage.history.past_values import HistoryGap
from apiserver.storage.history.undo_log import UndoLog
from apiserver.storage.interface import KeyRange
from tests.support import eventually
from tests.support.histories import ALL, ROOMY, SMALL, Model, Purging, damage, everything_in


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


def test_what_was_purged_from_another_store_is_forgotten_first(tmp_path: Path) -> None:
    """Removing everything may end in between; then nothing shows any more that there was another store."""
    directory, purged = tmp_path / "history", "/r/things/a/n2"
    log = Purging(directory).log
    log.purge(purged.__eq__, purged)
    first, *others = sorted(directory.glob("*.history"))
    first.unlink()
    first.mkdir()  # which no `unlink` removes
    with pytest.raises(OSError, match="directory"):
        log.clear()
    log.close()
    first.rmdir()
    for each in others:
        each.unlink()
    log = UndoLog(directory, SMALL)
    log.append([Change(purged, 2, 0, None, b"1", 1)], Span(1, 2), 1)
    assert log.last_creation(purged) == 2
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
