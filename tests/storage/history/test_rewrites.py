"""Recorded values get another key."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from apiserver.storage.history.undo_log import UndoLog
from tests.support.histories import ROOMY, SMALL, Keyed, Purging, everything_in


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
