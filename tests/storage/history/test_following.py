"""A history that another process writes: what is read of it, and that nothing of it is changed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from apiserver.storage.history.past_values import HistoryGap
from apiserver.storage.history.undo_log import UndoLog
from tests.storage.history.test_undo_log import SMALL, Model, damage


def test_what_another_log_writes_is_read(tmp_path: Path) -> None:
    directory = tmp_path / "history"
    writing, model, source = UndoLog(directory, SMALL), Model(), random.Random(1)
    reading = UndoLog(directory, SMALL, follows=True)
    reading.refresh()
    assert reading.recorded == 0
    model.record(writing)
    for number in range(200):
        model.write(f"/a/{number % 7}", source.randbytes(1_500))
        model.record(writing)
        if number % 10 == 0:
            reading.refresh()
            assert reading.recorded == model.revision
            revision = source.randrange(reading.readable_since(), model.revision + 1)
            assert model.read(reading, revision) == model.states[revision]
    assert reading.spans == [writing.spans[0]._replace(until=reading.recorded)]
    # What is purged, and what is dropped, is so for both.
    writing.purge("/a/3".__eq__, "/a/3")
    reading.refresh()
    assert reading.purged_since("/a/3", 1) == writing.purged_since("/a/3", 1) != frozenset()
    writing.clear()
    reading.refresh()
    assert reading.recorded == 0
    writing.close()
    reading.close()


def test_one_that_follows_leaves_damaged_files_where_they_are(tmp_path: Path) -> None:
    directory = tmp_path / "history"
    writing, model, source = UndoLog(directory, SMALL), Model(), random.Random(1)
    model.record(writing)
    for number in range(100):
        model.write(f"/a/{number % 7}", source.randbytes(1_500))
        model.record(writing)
    writing.close()
    files = sorted(directory.glob("*.history"))
    damage(files[0], "another root page")
    again = UndoLog(directory, SMALL)  # It opens all files.
    before = sorted(directory.iterdir())
    reading = UndoLog(directory, SMALL, follows=True)
    reading.refresh()
    with pytest.raises(HistoryGap):
        model.read(reading, 2)
    assert model.read(reading, model.revision - 3) == model.states[model.revision - 3]
    assert sorted(directory.iterdir()) == before
    reading.close()
    again.close()
