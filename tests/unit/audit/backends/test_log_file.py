"""Whole lines in a file, whatever happens to it: rotation, other processes, a full disk."""

from __future__ import annotations

import fcntl
import gzip
import os
import resource
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import orjson
import pytest

from apiserver.audit.backends.log_file import HOLD_PAUSE_S, HOLD_S, LogFile, write_all
from apiserver.audit.backends.options import RotationOptions
from apiserver.audit.backends.rotated import ABANDONED_AFTER_S, clean, new_name, rotated_files

NOW: Final = 1_700_000_000.125
DAY_S: Final = 86_400


def opened(path: Path, **rotation: int) -> LogFile:
    return LogFile(path, RotationOptions(**rotation), lambda: None, lambda: NOW)  # type: ignore[arg-type]


class HeldFile(LogFile):
    """Stays locked while more is written, by a clock of its own."""

    def __init__(self, path: Path, max_size: int = 0) -> None:
        self.now = 1.0
        rotation = RotationOptions(max_size=max_size)
        super().__init__(path, rotation, lambda: None, lambda: NOW, hold_s=HOLD_S, monotonic=lambda: self.now)


def is_locked(path: Path) -> bool:
    with path.open() as other:
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_lines_are_appended_to_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    path = tmp_path / "new" / "logs" / "audit.log"
    log = opened(path)
    log.write([b"one\n", b"", b"two\n"])
    log.close()
    log = opened(path)
    log.write([b"three\n"] * 2000)
    log.close()
    assert lines(path) == ["one", "two", *["three"] * 2000]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


def test_a_file_that_would_be_too_long_is_rotated_and_keeps_its_mode(path: Path, tmp_path: Path) -> None:
    log = opened(path, max_size=10)
    log.write([b"12345678\n"])
    path.chmod(0o640)
    log.write([b"abcdefgh\n"])
    log.write([b"a line that is longer than a file\n"])
    log.write([b"x\n"])
    log.close()
    assert lines(path) == ["x"]
    newest = [each.path.name for each in rotated_files(path)]
    assert newest == [f"audit-2023-11-14T22-13-20.{ms}.log" for ms in (127, 126, 125)]
    assert lines(tmp_path / newest[-1]) == ["12345678"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_file_that_was_moved_or_deleted_is_made_anew(path: Path, tmp_path: Path) -> None:
    log = opened(path)
    log.write([b"one\n"])
    path.rename(tmp_path / "moved")
    log.write([b"two\n"])
    path.unlink()
    log.write([b"three\n"])
    os.truncate(path, 0)
    log.write([b"four\n"])
    log.close()
    assert lines(tmp_path / "moved") == ["one"]
    assert lines(path) == ["four"]


def test_a_directory_that_is_gone_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "audit.log"
    log = opened(path)
    path.unlink()
    path.parent.rmdir()
    log.write([b"one\n"])
    log.close()
    assert lines(path) == ["one"]


@pytest.mark.parametrize("kind", ["a directory", "a pipe that nobody reads", "below a file"])
def test_what_is_no_file(path: Path, kind: str) -> None:
    match kind:
        case "a directory":
            path.mkdir()
        case "a pipe that nobody reads":
            os.mkfifo(path)
        case _:
            path.write_text("")
            path = path / "audit.log"
    with pytest.raises(OSError, match=r"directory|device|exists"):
        opened(path)


@contextmanager
def a_disk_with(bytes_left: int) -> Iterator[None]:
    """Files cannot become longer than this, as on a disk that is full then."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_left, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_pipe_that_does_not_block_gets_whole_lines() -> None:
    """As standard output may be: more is written than it takes at once."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    line = b"x" * 100_000 + b"\n"
    with open(readable, "rb") as reader, ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write_all, writable, [line] * 5)
        writing.add_done_callback(lambda _: os.close(writable))
        assert reader.read() == line * 5
    assert writing.exception() is None


def test_what_does_not_fit_on_the_disk_leaves_no_half_line(path: Path) -> None:
    log = opened(path)
    log.write([b"one\n"])
    with a_disk_with(10), pytest.raises(OSError, match="File too large"):
        log.write([b"two\n", b"three\n"])
    assert lines(path) == ["one"]
    log.write([b"four\n"])
    log.close()
    assert lines(path) == ["one", "four"]


def test_a_file_that_somebody_else_keeps_locked_is_written_after_a_while(path: Path) -> None:
    log = opened(path, max_size=1)
    log.write([b"one\n"])
    with path.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        log.write([b"two\n"])
    log.close()
    # It is not rotated without the lock.
    assert lines(path) == ["one", "two"]


def test_a_file_stays_locked_while_more_is_written_to_it_and_is_rotated_meanwhile(path: Path) -> None:
    log = HeldFile(path, max_size=10)
    for line in (b"one\n", b"two\n"):
        log.write([line])
        assert is_locked(path)
    log.write([b"three\n"])
    (rotated,) = rotated_files(path)
    assert (lines(rotated.path), lines(path)) == (["one", "two"], ["three"])
    log.close()


def test_when_a_file_is_not_locked_any_more_others_come_first_for_a_moment(path: Path) -> None:
    log = HeldFile(path)
    log.write([b"one\n"])
    log.release()
    assert not is_locked(path)
    log.write([b"two\n"])
    assert not is_locked(path)
    log.now += HOLD_PAUSE_S
    log.write([b"three\n"])
    assert is_locked(path)
    log.close()
    assert not is_locked(path)
    assert lines(path) == ["one", "two", "three"]


def test_a_file_does_not_stay_locked_for_long(path: Path) -> None:
    log = HeldFile(path)
    log.write([b"one\n"])
    assert is_locked(path)
    log.now += HOLD_S + 0.001
    log.write([b"two\n"])
    assert not is_locked(path)
    log.close()
    assert lines(path) == ["one", "two"]


def test_what_does_not_fit_on_the_disk_is_no_half_line_in_a_file_that_stays_locked_either(path: Path) -> None:
    log = HeldFile(path)
    log.write([b"one\n"])
    with a_disk_with(10), pytest.raises(OSError, match="File too large"):
        log.write([b"two\n", b"three\n"])
    assert not is_locked(path)
    log.write([b"four\n"])
    log.close()
    assert not is_locked(path)
    assert lines(path) == ["one", "four"]


_WRITER: Final = """
import sys
from pathlib import Path
from apiserver.audit.backends.log_file import LogFile
from apiserver.audit.backends.options import RotationOptions
path, name = Path(sys.argv[1]), sys.argv[2].encode()
log = LogFile(path, RotationOptions(max_size=50_000), lambda: None, hold_s=float(sys.argv[3]))
for number in range(400):
    log.write([b'{"by":"%b","number":%d,"x":"%b"}\\n' % (name, number, b"x" * (number % 7) * 100)])
"""


@pytest.mark.parametrize("hold_s", [0.0, HOLD_S], ids=["lock each write", "stay locked"])
def test_several_processes_share_a_file_which_one_of_them_rotates(path: Path, hold_s: float) -> None:
    command = [sys.executable, "-c", _WRITER, str(path)]
    writers = [subprocess.Popen([*command, name, str(hold_s)]) for name in ("a", "b", "c")]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    files = [*(each.path for each in reversed(rotated_files(path))), path]
    assert len(files) > 3
    assert all(each.stat().st_size <= 50_000 for each in files)
    found = [orjson.loads(line) for each in files for line in each.read_bytes().splitlines()]
    for name in ("a", "b", "c"):
        assert [each["number"] for each in found if each["by"] == name] == list(range(400))


# ---- what becomes of rotated files


def made(path: Path, ages_days: Sequence[float], suffix: str = "") -> list[Path]:
    files = []
    for age in ages_days:
        file = new_name(path, NOW - age * DAY_S)
        file = file.with_name(file.name + suffix)
        content = b"%d\n" % int(age)
        file.write_bytes(gzip.compress(content) if suffix else content)
        files.append(file)
    return files


def test_the_newest_files_are_kept_and_what_has_other_names(path: Path, tmp_path: Path) -> None:
    files = made(path, [1, 2, 3, 4])
    others = [tmp_path / name for name in ("audit-x.log", "audit-2023-11-14.log", "other.log", "audit.log")]
    for other in others:
        other.write_text("")
    clean(path, RotationOptions(max_backups=2), NOW)
    assert sorted(tmp_path.iterdir()) == sorted([*files[:2], *others])


def test_old_files_are_deleted(path: Path, tmp_path: Path) -> None:
    files = [*made(path, [0.5, 6]), *made(path, [6.5], ".gz")]
    made(path, [7.5])
    made(path, [8], ".gz")
    other = tmp_path / "audit-2023-11-14T10-11-12.9999999999999999999.log"
    other.write_text("")
    for days in (10**10, 7):  # More than dates go back, too.
        clean(path, RotationOptions(max_age_days=days), NOW)
    assert sorted(tmp_path.iterdir()) == sorted([*files, other])


def test_files_are_compressed_once_and_count_once(path: Path, tmp_path: Path) -> None:
    made(path, [1, 2])
    compressed = made(path, [3], ".gz")
    for _ in range(2):
        clean(path, RotationOptions(max_backups=3, compresses=True), NOW)
    found = sorted(tmp_path.iterdir(), reverse=True)
    assert [each.suffix for each in found] == [".gz"] * 3
    assert [gzip.decompress(each.read_bytes()) for each in found] == [b"1\n", b"2\n", b"3\n"]
    assert found[-1] == compressed[0]


def test_what_is_left_of_a_compression_that_was_interrupted_is_deleted(path: Path, tmp_path: Path) -> None:
    """But not what another process may still be at, nor what others have."""
    (rotated,) = made(path, [1])
    left = tmp_path / f".{rotated.name}.4711.tmp"
    begun = tmp_path / f".{rotated.name}.4712.tmp"
    others = [tmp_path / f".audit-more-{rotated.name}.4711.tmp", tmp_path / ".audit-x.tmp"]
    ages = (
        (left, ABANDONED_AFTER_S + 1),
        (begun, ABANDONED_AFTER_S - 1),
        *((each, DAY_S) for each in others),
    )
    for file, age_s in ages:
        file.write_bytes(b"x")
        os.utime(file, (NOW - age_s, NOW - age_s))
    clean(path, RotationOptions(), NOW)
    assert sorted(tmp_path.iterdir()) == sorted([begun, *others, rotated])
