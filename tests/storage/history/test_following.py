"""A history that another process writes: what is read of it, and that nothing of it is changed."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from apiserver.storage.history.changes import Span
from apiserver.storage.history.past_values import HistoryGap
from apiserver.storage.history.undo_log import Limits, UndoLog
from tests.storage.history.test_thinning import thin
from tests.support.eventually import until
from tests.support.histories import ROOMY, SMALL, Model, damage

# A time after all changes.
LATER_MS: Final = 10**15


def test_what_another_log_writes_is_read(tmp_path: Path) -> None:
    directory = tmp_path / "history"
    writing, model, source = UndoLog(directory, SMALL), Model(), random.Random(1)
    reading = UndoLog(directory, SMALL, follows=True)
    with reading.snapshot():
        assert reading.recorded == 0
    model.record(writing)
    for number in range(200):
        model.write(f"/a/{number % 7}", source.randbytes(1_500))
        model.record(writing)
        if number % 10 == 0:
            with reading.snapshot():
                assert reading.recorded == model.revision
                revision = source.randrange(reading.readable_since(), model.revision + 1)
                assert model.read(reading, revision) == model.states[revision]
    assert reading.spans == [writing.spans[0]._replace(until=reading.recorded)]
    # What is purged, and what is dropped, is so for both.
    writing.purge("/a/3".__eq__, "/a/3")
    with reading.snapshot():
        assert reading.purged_since("/a/3", 1) == writing.purged_since("/a/3", 1) != frozenset()
    writing.clear()
    with reading.snapshot():
        assert reading.recorded == 0
    writing.close()
    reading.close()


def purge_all(log: UndoLog, model: Model) -> None:
    log.purge(lambda _: True, "/")


def purge_until_now(log: UndoLog, model: Model) -> None:
    log.purge_until(model.revision)


def thin_all(log: UndoLog, model: Model) -> None:
    assert thin(log, model, LATER_MS) > 0


def drop_old(log: UndoLog, model: Model) -> None:
    log.drop_old(LATER_MS)


def clear(log: UndoLog, model: Model) -> None:
    log.clear()


# What another process may do during a read.
MEANWHILE: Final[dict[str, tuple[Callable[[UndoLog, Model], None], Limits]]] = {
    "keys are purged": (purge_all, ROOMY),
    "keys of several files are purged": (purge_all, SMALL),
    "all before a moment is purged": (purge_until_now, ROOMY),
    "all before a moment is purged from several files": (purge_until_now, SMALL),
    "versions are dropped": (thin_all, ROOMY),
    "files are dropped": (drop_old, SMALL),
    "everything is removed": (clear, SMALL),
}


@pytest.mark.parametrize(("change", "limits"), MEANWHILE.values(), ids=MEANWHILE)
def test_a_read_sees_nothing_of_what_is_done_meanwhile(
    tmp_path: Path, change: Callable[[UndoLog, Model], None], limits: Limits, caplog: pytest.LogCaptureFixture
) -> None:
    """Not even a part of it, which would be a state that never was."""
    directory = tmp_path / "history"
    writing, model, source = UndoLog(directory, limits), Model(), random.Random(1)
    model.record(writing)
    for number in range(150):
        model.write(f"/thin/{number % 5}", b"major|" + source.randbytes(1_500))
        model.record(writing)
    middle = model.revision // 2
    reading, other = (UndoLog(directory, limits, follows=True) for _ in range(2))

    def seen(log: UndoLog) -> object:
        versions = log.versions("/thin/1", model.live["/thin/1"], until=model.revision, limit=100)
        return log.spans, versions, log.purged_since("/thin/", 1)

    def is_changed() -> bool:
        with other.snapshot():
            return seen(other) != before

    with ThreadPoolExecutor(1) as executor:
        with reading.snapshot():
            before = seen(reading)
            changing = executor.submit(change, writing, model)
            until(is_changed, what="another process sees the change")
            assert model.read(reading, middle) == model.states[middle]
            assert seen(reading) == before
        changing.result()
    with reading.snapshot():
        assert seen(reading) != before
    assert not caplog.records
    for each in (reading, other, writing):
        each.close()


def test_a_file_that_is_dropped_before_it_is_opened_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "history"
    writing, model = UndoLog(directory, ROOMY), Model()
    model.record(writing)
    (directory / "00000000.history").symlink_to("none")  # It is listed, but does not exist.
    reading = UndoLog(directory, ROOMY, follows=True)
    with reading.snapshot():
        assert reading.spans == writing.spans
    assert not caplog.records
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
    with reading.snapshot():
        with pytest.raises(HistoryGap):
            model.read(reading, 2)
        assert model.read(reading, model.revision - 3) == model.states[model.revision - 3]
    assert sorted(directory.iterdir()) == before
    reading.close()
    again.close()


def test_a_file_that_takes_the_place_of_another_one_is_read(tmp_path: Path) -> None:
    """As after all files were removed, and the process that writes has ended: numbers begin again."""
    directory = tmp_path / "history"
    writing, model = UndoLog(directory, ROOMY), Model()
    model.record(writing)
    model.write("/a/1", b"1")
    model.record(writing)
    reading = UndoLog(directory, ROOMY, follows=True)
    with reading.snapshot():
        assert reading.recorded == model.revision
    writing.clear()
    writing.close()
    writing = UndoLog(directory, ROOMY)
    begin = model.revision
    model.write("/a/1", b"2")
    writing.append(model.changes, Span(begin, model.revision), at_ms=1)
    with reading.snapshot():
        assert reading.spans == writing.spans == [Span(begin, model.revision)]
        assert model.read(reading, begin) == model.states[begin]
    writing.close()
    reading.close()


def test_a_file_that_takes_the_place_of_a_damaged_one_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "history"
    writing, model = UndoLog(directory, ROOMY), Model()
    model.write("/a/1", b"1")
    model.record(writing)
    writing.close()
    (file,) = directory.glob("*.history")
    damage(file, "no database")
    reading = UndoLog(directory, ROOMY, follows=True)
    for _ in range(2):
        with reading.snapshot():
            assert reading.recorded == 0
    assert [each.message.partition(":")[0] for each in caplog.records] == [
        f"the history in {file} is damaged"
    ]
    UndoLog(directory, ROOMY).close()  # It puts the file aside.
    writing = UndoLog(directory, ROOMY)
    writing.append([], Span(model.revision, model.revision), at_ms=1)
    assert [*directory.glob("*.history")] == [file]
    with reading.snapshot():
        assert reading.recorded == model.revision
    writing.close()
    reading.close()


def test_a_file_that_was_dropped_is_not_reported_as_damaged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever is read of it: nobody can look at it any more."""
    directory = tmp_path / "history"
    writing, model = UndoLog(directory, ROOMY), Model()
    model.record(writing)
    for number in range(100):
        model.write(f"/a/{number}", b"1")
    model.record(writing)
    writing.close()
    (file,) = directory.glob("*.history")
    reading = UndoLog(directory, ROOMY, follows=True)
    with reading.snapshot():
        damage(file, "another root page")
        file.unlink()
        with pytest.raises(HistoryGap):
            model.read(reading, 2)
    assert not caplog.records
    reading.close()


def test_a_file_is_rewritten_once_though_another_process_reads_it(tmp_path: Path) -> None:
    """Each time its log would grow by as much as the file has."""
    writing, model, source = UndoLog(tmp_path / "history", SMALL), Model(), random.Random(1)
    model.record(writing)
    for number in range(100):
        model.write(f"/thin/{number % 5}", b"major|" + source.randbytes(1_500))
        model.record(writing)
    first, *_, last = writing._segments
    assert first is not last
    rewritten: list[str] = []
    first._connection.set_trace_callback(
        lambda statement: rewritten.append(statement) if statement == "VACUUM" else None
    )
    reading = UndoLog(tmp_path / "history", SMALL, follows=True)
    with reading.snapshot():
        assert thin(writing, model, LATER_MS) > 0
        for _ in range(3):
            first.shrink()
    assert rewritten == []

    # It comes in between, when the file has been rewritten but its log has not been emptied.
    snapshot = reading.snapshot()

    def begin_to_read(statement: str) -> None:
        rewritten.append(statement)
        if statement.startswith("UPDATE purged SET until"):
            snapshot.__enter__()

    first._connection.set_trace_callback(begin_to_read)
    for _ in range(3):
        first.shrink()
    assert rewritten.count("VACUUM") == 1
    snapshot.__exit__(None, None, None)
    first.shrink()
    assert rewritten.count("VACUUM") == 1
    rewritten.clear()
    first.shrink()  # Nothing is left to do.
    assert not [each for each in rewritten if "VACUUM" in each or "checkpoint" in each]
    writing.close()
    reading.close()


def test_if_the_snapshot_of_one_file_cannot_end_those_of_the_others_do(tmp_path: Path) -> None:
    writing, model, source = UndoLog(tmp_path / "history", SMALL), Model(), random.Random(1)
    model.record(writing)
    for number in range(100):
        model.write(f"/a/{number % 7}", source.randbytes(1_500))
        model.record(writing)
    reading = UndoLog(tmp_path / "history", SMALL, follows=True)

    def refuse(action: int, name: str | None, *_: str | None) -> int:
        is_end = action == sqlite3.SQLITE_TRANSACTION and name == "ROLLBACK"
        return sqlite3.SQLITE_DENY if is_end else sqlite3.SQLITE_OK

    snapshot = reading.snapshot()
    snapshot.__enter__()
    first, *others = reading._segments
    middle = others[len(others) // 2]
    middle._connection.set_authorizer(refuse)
    with pytest.raises(OSError, match="not authorized"):
        snapshot.__exit__(None, None, None)
    assert [each for each in reading._segments if each._connection.in_transaction] == [middle]
    middle._connection.set_authorizer(None)
    model.write("/a/1", None)
    model.record(writing)
    with reading.snapshot():  # What was left open is of an earlier read.
        assert reading.recorded == model.revision
        assert model.read(reading, model.revision) == model.states[model.revision]
    assert not any(each._connection.in_transaction for each in [first, *others])
    writing.close()
    reading.close()
