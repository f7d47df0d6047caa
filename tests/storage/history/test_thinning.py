"""Versions of little interest are dropped: all others stay as they were, and nothing pretends to be one."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from apiserver.storage.history.past_values import HistoryGap, PastValue
from apiserver.storage.history.segment_reader import DELTAS_MAX
from apiserver.storage.history.thinning import KEYS_MAX, ROWS_MAX
from apiserver.storage.history.undo_log import Limits, UndoLog
from tests.support.histories import ALL, ROOMY, SMALL, Keyed, Model

# Values are a text that matters, and one that does not, with a line between them.
KEYS: Final = [f"/thin/{number}" for number in range(4)] + ["/kept/1"]


def is_minor(before: bytes, after: bytes) -> bool:
    return before != after and before.partition(b"|")[0] == after.partition(b"|")[0]


def is_thin(key: str) -> bool:
    return key.startswith("/thin/")


def thin(log: UndoLog, model: Model, before_ms: int) -> int:
    count = 0
    while (old := log.old_rows(before_ms, is_thin)) is not None:
        count += log.thin(old, model.live.get, model.revision, is_minor)
    return count


def write(model: Model, source: random.Random, count: int) -> None:
    for _ in range(count):
        key, choice = source.choice(KEYS), source.random()
        live = model.live.get(key)
        major = b"major %d" % source.randrange(10**6)
        minor = b"|minor %d " % source.randrange(10**9) + b"x" * source.randrange(300)
        if live is None or choice < 0.1:
            model.write(key, major + minor)
        elif choice < 0.13:
            model.write(key, None)
        else:
            model.write(key, live.value.partition(b"|")[0] + minor, author=f"user-{source.randrange(3)}")


def dropped_versions(model: Model, log: UndoLog) -> dict[str, set[int]]:
    """Returns the revisions of versions that the log does not have any more, by key. Checks the others."""
    found: dict[str, set[int]] = {}
    for key, expected in model.versions.items():
        versions = log.versions(key, model.live.get(key), until=model.revision, limit=10_000)[::-1]
        known = {each.revision: each for each in versions}
        dropped: list[int] = []
        for (_, before), (revision, value) in pairwise([(0, None), *expected]):
            if (version := known.get(revision)) is None:
                assert before is not None
                assert value is not None
                assert is_minor(before, value)
                dropped.append(revision)
                found.setdefault(key, set()).add(revision)
            else:
                assert (version.value, version.is_lost) == (value, False)
                assert version.thinned == len(dropped)
                dropped.clear()
        assert dropped == []
    return found


def check_states(model: Model, log: UndoLog, dropped: dict[str, set[int]], since: int) -> None:
    """Check each state: the value is the right one, or says that it is that of an earlier version."""
    for revision in range(since, model.revision + 1):
        changed = log.changed_since(ALL, revision, model.revision, model.live.get)
        for key, expected in model.states[revision].items():
            past = changed.get(key, PastValue(model.live.get(key), was_created_since=False))
            assert past.value is not None
            assert past.is_thinned == (expected.revision in dropped.get(key, ()))
            if past.is_thinned:
                assert past.value.revision < expected.revision
                assert past.value.value.partition(b"|")[0] == expected.value.partition(b"|")[0]
            else:
                assert past.value == expected
        for key, past in changed.items():
            if key not in model.states[revision]:
                assert (past.value, past.is_thinned) == (None, False)


@pytest.mark.parametrize("place", ["a directory", "memory", "after a restart", "encrypted"])
@pytest.mark.parametrize("limits", [ROOMY, SMALL], ids=["one file", "several files"])
def test_versions_are_dropped_again_and_again(tmp_path: Path, place: str, limits: Limits) -> None:
    directory = None if place == "memory" else tmp_path / "history"
    cipher = Keyed(b"k")
    log = UndoLog(directory, limits, cipher)
    model, source = Model(), random.Random(7)
    model.record(log)
    total = 0
    for _ in range(5):
        for _ in range(30):
            write(model, source, 5)
            model.record(log)
        begin = model.revision - 40
        total += thin(log, model, begin * 1_000)
        if place == "after a restart":
            log.close()
            log = UndoLog(directory, limits, cipher)
        dropped = dropped_versions(model, log)
        assert sum(map(len, dropped.values())) == total
        assert all(revision < begin for each in dropped.values() for revision in each)
        assert "/kept/1" not in dropped
        check_states(model, log, dropped, log.readable_since())
    assert total > 300
    log.close()


def test_what_was_looked_at_is_not_looked_at_again(tmp_path: Path) -> None:
    log, model, source = UndoLog(tmp_path / "history", ROOMY), Model(), random.Random(1)
    write(model, source, 700)
    model.record(log)
    assert thin(log, model, 10**12) > 100
    log.close()
    log = UndoLog(tmp_path / "history", ROOMY)
    assert log.old_rows(10**12, is_thin) is None
    log.close()


def test_a_moment_between_dropped_versions_is_one_of_them(tmp_path: Path) -> None:
    log, model = UndoLog(tmp_path / "history", ROOMY), Model()
    model.record(log)
    for number in range(10):
        model.write("/thin/1", b"major|%d" % number)
    model.record(log)
    assert thin(log, model, 10**12) == 8
    # It was created at revision 2, and changed until revision 11.
    expected = {2: 2, 11: 11} | dict.fromkeys(range(3, 11), 3)
    assert {each: log.revision_at(each * 1_000) for each in expected} == expected
    log.close()


def test_a_purge_forgets_what_was_dropped(tmp_path: Path) -> None:
    log, model, source = UndoLog(tmp_path / "history", SMALL), Model(), random.Random(3)
    write(model, source, 400)
    model.record(log)
    thin(log, model, 10**12)
    log.purge(is_thin, "/thin/")
    for key in KEYS:
        versions = log.versions(key, model.live.get(key), until=model.revision, limit=10_000)
        assert not any(each.thinned for each in versions)
    write(model, source, 100)
    model.record(log)
    log.purge_until(model.revision - 50)
    with pytest.raises(HistoryGap):
        log.changed_since(ALL, model.revision - 60, model.revision, model.live.get)
    log.close()


def test_a_file_that_is_complete_gets_smaller(tmp_path: Path) -> None:
    limits = Limits(bytes_max=16 * 256 * 1024, age_s_max=1e9)
    log, model, source = UndoLog(tmp_path / "history", limits), Model(), random.Random(1)
    for _ in range(60):
        for _ in range(40):
            live = model.live.get("/thin/1")
            major = live.value.partition(b"|")[0] if live else b"major"
            model.write("/thin/1", major + b"|" + source.randbytes(200))
        model.record(log)
    before = log.size_bytes
    assert len(list((tmp_path / "history").glob("*.history"))) > 1
    assert thin(log, model, 10**12) > 2_000
    assert log.size_bytes < before / 2
    log.close()


def whole_chain(cipher: Keyed, log: UndoLog, model: Model, revision: int) -> int:
    """Returns how many values are decoded to read a state of one key."""
    before = cipher.decrypted
    log.changed_since(ALL, revision, model.revision, model.live.get)
    return cipher.decrypted - before


def test_old_values_can_be_decoded_as_fast_as_before(tmp_path: Path) -> None:
    """Though all the rows are dropped whose values can be decoded without newer ones."""
    cipher = Keyed(b"k")
    log, model = UndoLog(tmp_path / "history", ROOMY, cipher), Model()
    model.record(log)
    major = 0
    for number in range(10 * (DELTAS_MAX + 1)):
        major += number % (DELTAS_MAX + 1) != 0
        model.write("/thin/1", b"major %d|%d" % (major, number))
        model.record(log)
    since = log.readable_since()
    before = max(whole_chain(cipher, log, model, revision) for revision in range(since + 1, model.revision))
    assert thin(log, model, 10**12) == 9
    after = max(whole_chain(cipher, log, model, revision) for revision in range(since + 1, model.revision))
    assert after <= before == DELTAS_MAX + 1
    check_states(model, log, dropped_versions(model, log), since)
    log.close()


def test_much_is_dropped_in_small_parts(tmp_path: Path) -> None:
    """In between, the thread that drops versions records changes."""
    log, model = UndoLog(tmp_path / "history", ROOMY), Model()
    model.record(log)
    for number in range(2_500):
        model.write("/thin/1", b"major|%d" % number)
        if number % 2:
            model.write("/thin/2", b"major|%d" % number)
    model.record(log)
    counts: list[int] = []
    while (old := log.old_rows(10**12, is_thin)) is not None:
        counts.append(log.thin(old, model.live.get, model.revision, is_minor))
    assert max(counts) <= ROWS_MAX
    assert len(counts) == 4
    assert sum(counts) == 2_498 + 1_248
    check_states(model, log, dropped_versions(model, log), model.revision - 100)
    log.close()


@pytest.mark.parametrize("when", ["before it has begun", "before it has ended"])
def test_what_was_interrupted_is_done_again(tmp_path: Path, when: str) -> None:
    log, model, source = UndoLog(tmp_path / "history", SMALL), Model(), random.Random(1)
    for number in range(3 * KEYS_MAX):
        for _ in range(3):
            model.write(f"/thin/{number}", b"major|" + source.randbytes(300))
        model.record(log)
    first = log.old_rows(10**12, is_thin)
    assert first is not None
    if when == "before it has ended":

        def fail(before: bytes, after: bytes) -> bool:
            raise OSError("the disk")

        with pytest.raises(OSError, match="the disk"):
            log.thin(first, model.live.get, model.revision, fail)
    assert log.old_rows(10**12, is_thin) == first
    assert thin(log, model, 10**12) == 3 * KEYS_MAX
    log.close()


def test_files_that_are_read_meanwhile_get_smaller_later(tmp_path: Path) -> None:
    """Neither does the thread that records wait, nor is the rest kept."""
    directory = tmp_path / "history"
    log, model, source = UndoLog(directory, SMALL), Model(), random.Random(1)
    for number in range(150):
        model.write(f"/thin/{number % 3}", b"major|" + source.randbytes(1_500))
        model.record(log)
    first, *_ = files = sorted(directory.glob("*.history"))
    assert len(files) > 2
    with contextlib.closing(sqlite3.connect(first)) as reading:
        reading.execute("BEGIN")
        reading.execute("SELECT count(*) FROM changes").fetchone()
        # Of each key, a file keeps the first version and the last one.
        assert thin(log, model, 10**12) == 147 - 3 * len(files)
        before = first.stat().st_size
    assert log.old_rows(10**12, is_thin) is None
    assert first.stat().st_size < before
    check_states(model, log, dropped_versions(model, log), model.revision - 60)
    log.close()
