"""A history of another release, or whose key of digests was lost, has a gap, and does not pass for whole."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from pathlib import Path

import pytest

from apiserver.storage.history.past_values import HistoryGap
from apiserver.storage.history.segment import FORMAT
from apiserver.storage.history.undo_log import UndoLog
from tests.support.histories import SMALL, Purging


@pytest.mark.parametrize("version", [FORMAT - 1, FORMAT + 1], ids=["older", "newer"])
def test_files_of_another_release_are_removed_with_one_warning(
    tmp_path: Path, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "history"
    Purging(directory).log.close()
    *others, last = sorted(directory.glob("*.history"))
    assert len(others) > 2
    for file in others:
        with contextlib.closing(sqlite3.connect(file)) as connection:
            connection.execute(f"PRAGMA user_version = {version}")
    log = UndoLog(directory, SMALL)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert f"{len(others)} files of the history" in record.message
    assert f"their format is {version}; this release reads {FORMAT}" in record.message
    assert [*directory.glob("*.history")] == [last]
    assert not (directory / "damaged").exists()
    assert len(log.spans) == 1
    log.close()


@pytest.mark.parametrize("how", ["lost", "cut", "another one"])
def test_marks_that_cannot_be_found_without_their_key_are_a_gap(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise, what was purged would look as if it had never changed."""
    directory, purged = tmp_path / "history", "/r/things/a/n2"
    purging = Purging(directory)
    log, model = purging.log, purging.model
    log.purge(purged.__eq__, purged)
    log.close()
    key = directory / "digest.key"
    secret = key.read_bytes()
    match how:
        case "lost":
            key.unlink()
        case "cut":
            key.write_bytes(secret[:-1])
        case "another one":
            key.write_bytes(secret[::-1])
    log = UndoLog(directory, SMALL)
    assert (log.recorded, log.spans) == (0, [])
    with pytest.raises(HistoryGap):
        model.read(log, model.revision - 1)
    logged = [each.message for each in caplog.records]
    assert any(each.endswith("were removed: digest.key is another one") for each in logged)
    assert any("what was purged may be recorded again" in each for each in logged)
    assert any("digest.key is damaged" in each for each in logged) is (how == "cut")
    assert len(logged) == (3 if how == "cut" else 2)
    # It begins again, with the key that there is now.
    model.record(log)
    log.close()
    log = UndoLog(directory, SMALL)
    assert log.recorded == model.revision
    log.close()


def test_files_from_before_their_key_was_noted_are_read(tmp_path: Path) -> None:
    directory, purged = tmp_path / "history", "/r/things/a/n2"
    purging = Purging(directory)
    purging.log.purge(purged.__eq__, purged)
    spans, marks = purging.log.spans, purging.log.purged_since(purged, 1)
    purging.log.close()
    for file in directory.glob("*.history"):
        with contextlib.closing(sqlite3.connect(file)) as connection:
            connection.execute("DROP TABLE digests")
    floors = (directory / "floors").read_bytes()
    (directory / "floors").write_bytes(b"floors 1\n" + floors[len(b"floors 2\n") + 16 :])
    for _ in range(2):
        log = UndoLog(directory, SMALL)
        assert log.spans == spans
        assert log.purged_since(purged, 1) == marks != frozenset()
        assert log._floors.highest == purging.model.revision
        log.close()
