"""Files that are read again when they change, and never half."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from apiserver.app.serving.watched_files import FILE_BYTES_MAX, REREAD_S, WatchedFiles, read_file

# Looks until what is in the files is read even if they seem unchanged.
ROUNDS: Final = 5
REFUSED: Final = "the pair: cannot use the changed files; keeping the previous configuration: "
BEFORE: Final = (b"certificate 1", b"key 1")


class User:
    """Uses what is in two files, unless it is refused."""

    def __init__(self, directory: Path) -> None:
        self.paths = directory / "tls.crt", directory / "tls.key"
        for path, content in zip(self.paths, BEFORE, strict=True):
            path.write_bytes(content)
        self.given: list[Sequence[bytes]] = []
        self.outcomes: list[bool] = []
        self.refusal: Exception | None = None
        self.files = WatchedFiles(
            "the pair",
            self.paths,
            BEFORE,
            self._apply,
            observe=self.outcomes.append,
            interval_s=REREAD_S / ROUNDS,
        )

    async def _apply(self, contents: Sequence[bytes]) -> None:
        self.given.append(tuple(contents))
        if self.refusal is not None:
            raise self.refusal

    async def settle(self) -> None:
        """Look often enough for a change to be applied, but not so often that all is read again."""
        await self.files.look()
        await self.files.look()


@pytest.fixture
async def user(tmp_path: Path) -> User:
    user = User(tmp_path)
    await user.settle()
    assert not user.given, "what has been read before is nothing new"
    return user


def replace(path: Path, content: bytes) -> None:
    other = path.with_name("other")
    other.write_bytes(content)
    other.rename(path)


def write_in_place(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def write_with_same_size_and_time(path: Path, content: bytes) -> None:
    found = path.stat()
    other = path.with_name("other")
    other.write_bytes(content)
    os.utime(other, ns=(found.st_atime_ns, found.st_mtime_ns))
    other.rename(path)


@pytest.mark.parametrize(
    ("change", "content"),
    [
        (replace, b"certificate 2"),
        (write_in_place, b"certificate 02"),
        (write_with_same_size_and_time, b"certificate 2"),
    ],
)
async def test_a_change_of_one_file_gives_all(user: User, change: object, content: bytes) -> None:
    assert callable(change)
    change(user.paths[0], content)
    await user.settle()
    await user.files.look()
    assert user.given == [(content, b"key 1")]
    assert user.outcomes == [True]


async def test_a_mounted_secret_changes_by_one_link(tmp_path: Path) -> None:
    for version in ("1", "2"):
        data = tmp_path / f"..{version}"
        data.mkdir()
        (data / "tls.crt").write_text(f"certificate {version}")
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "tls.crt").symlink_to("..data/tls.crt")
    given: list[Sequence[bytes]] = []

    async def apply(contents: Sequence[bytes]) -> None:
        given.append(contents)

    path = tmp_path / "tls.crt"
    files = WatchedFiles("the certificate", [path], [read_file(path)], apply)
    await files.look()
    await files.look()
    (tmp_path / "..next").symlink_to("..2")
    (tmp_path / "..next").rename(tmp_path / "..data")
    await files.look()
    await files.look()
    assert given == [[b"certificate 2"]]


async def test_what_is_still_being_written_is_not_read(user: User) -> None:
    for length in range(1, len(BEFORE[0])):
        user.paths[0].write_bytes(BEFORE[0][:length])
        await user.files.look()
    assert not user.given
    user.paths[0].write_bytes(b"certificate 2, whole")
    await user.settle()
    assert user.given == [(b"certificate 2, whole", b"key 1")]


async def test_a_change_between_reading_and_the_first_look_is_seen(tmp_path: Path) -> None:
    user = User(tmp_path)
    replace(user.paths[1], b"key 2")
    await user.settle()
    assert user.given == [(b"certificate 1", b"key 2")]


async def test_what_is_unchanged_is_not_given_again(user: User) -> None:
    os.utime(user.paths[0], ns=(1, 1))
    replace(user.paths[1], BEFORE[1])
    for _ in range(2 * ROUNDS):
        await user.files.look()
    assert not user.given
    assert not user.outcomes


def remove(path: Path) -> None:
    path.unlink()


def make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def make_long(path: Path) -> None:
    path.write_bytes(b"-" * (FILE_BYTES_MAX + 1))


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (remove, "No such file or directory"),
        (make_directory, "Is a directory"),
        (make_pipe, "is not a regular file"),
        (make_long, f"is longer than {FILE_BYTES_MAX} bytes"),
    ],
)
async def test_a_file_that_cannot_be_read_changes_nothing(
    user: User, caplog: pytest.LogCaptureFixture, spoil: object, reason: str
) -> None:
    assert callable(spoil)
    spoil(user.paths[1])
    for _ in range(3 * ROUNDS):
        await user.files.look()
    assert not user.given
    assert user.outcomes == [False]
    assert [record.message for record in caplog.records] == [f"{REFUSED}{user.paths[1]}: {reason}"]
    if user.paths[1].is_dir():
        user.paths[1].rmdir()
    replace(user.paths[1], b"key 2")
    await user.settle()
    assert user.given == [(b"certificate 1", b"key 2")]
    assert user.outcomes == [False, True]


async def test_a_file_that_was_away_for_a_moment_is_no_change(
    user: User, caplog: pytest.LogCaptureFixture
) -> None:
    user.paths[0].unlink()
    await user.files.look()
    user.paths[0].write_bytes(BEFORE[0])
    await user.settle()
    assert not user.given
    assert not caplog.records


async def test_what_is_refused_is_logged_once_and_tried_again_now_and_then(
    user: User, caplog: pytest.LogCaptureFixture
) -> None:
    user.refusal = ValueError("the key is not that of the certificate")
    replace(user.paths[0], b"certificate 2")
    await user.settle()
    assert len(user.given) == 1
    for _ in range(ROUNDS):
        await user.files.look()
    assert len(user.given) == 2, "the reason may lie elsewhere"
    assert user.outcomes == [False]
    assert [record.message for record in caplog.records] == [
        f"{REFUSED}the key is not that of the certificate"
    ]
    user.refusal = None
    for _ in range(ROUNDS):
        await user.files.look()
    assert len(user.given) == 3
    assert user.outcomes == [False, True]


async def test_another_content_that_is_refused_for_the_same_reason_is_another_change(user: User) -> None:
    user.refusal = ValueError("it expired")
    for content in (b"certificate 2", b"certificate 3"):
        replace(user.paths[0], content)
        await user.settle()
    assert user.outcomes == [False, False]


async def test_going_back_to_what_is_in_use_is_applied_too(user: User) -> None:
    user.refusal = ValueError("it expired")
    replace(user.paths[0], b"certificate 2")
    await user.settle()
    user.refusal = None
    replace(user.paths[0], BEFORE[0])
    await user.settle()
    assert user.given[-1] == BEFORE
    assert user.outcomes == [False, True]


async def test_a_failure_that_nobody_expects_is_logged_without_its_text(
    user: User, caplog: pytest.LogCaptureFixture
) -> None:
    user.refusal = LookupError("-----BEGIN PRIVATE KEY-----")
    replace(user.paths[0], b"certificate 2")
    with caplog.at_level(logging.INFO):
        await user.settle()
    text = "\n".join(record.getMessage() for record in caplog.records)
    assert "LookupError" in text
    assert "in _apply" in text
    assert "PRIVATE KEY" not in text
    assert user.outcomes == [False]
