"""Subcommands whose output gets lost, or that are interrupted, end with one line and a code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from apiserver.cli.argument_parser import UsageError
from apiserver.cli.subcommand import run_subcommand

FAILED: Final = 3
NEEDS_FULL: Final = pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="only Linux has a disk that is always full"
)
CONVERT: Final = ["convert", "-f", "-"]
OBJECT: Final = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
# Commands, and what they read.
COMMANDS: Final[dict[str, tuple[list[str], bytes]]] = {
    "what is written at the end": (["envtest-assets", "{dir}/assets"], b""),
    "what is written at once": (CONVERT, OBJECT),
    "more than fits": ([*CONVERT, "-o", "json"], b"---\n".join([OBJECT] * 3_000)),
    "help": (["convert", "--help"], b""),
    "the page of help": (["--help"], b""),
    "all flags": (["--help-all"], b""),
    "a completion script": (["completion", "bash"], b""),
    "the version": (["version"], b""),
}


def ended(directory: Path, command: tuple[list[str], bytes], output: int | None) -> tuple[int, str]:
    """Returns the exit code of a command, and what it has told. output: None: it has no standard output."""
    arguments, text = command
    given = [each.format(dir=directory) for each in arguments]
    # The shell closes it: what Python opens first would take its place.
    program = [sys.executable, "-m", "apiserver", *given]
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", *program]
    end = subprocess.run(
        closed if output is None else program, input=text, stdout=output, stderr=subprocess.PIPE, check=False
    )
    return end.returncode, end.stderr.decode()


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_pipe_that_nobody_reads(tmp_path: Path, command: tuple[list[str], bytes]) -> None:
    """As before `head`, which has enough."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        end = ended(tmp_path, command, writing)
    finally:
        os.close(writing)
    assert end == (1, "apiserver: the output cannot be written: Broken pipe\n")


@NEEDS_FULL
def test_a_full_disk(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        end = ended(tmp_path, (CONVERT, OBJECT), full.fileno())
    assert end == (1, "apiserver: the output cannot be written: No space left on device\n")


def test_no_standard_output(tmp_path: Path) -> None:
    assert ended(tmp_path, (CONVERT, OBJECT), None) == (1, "apiserver: there is no standard output\n")


def test_no_standard_input() -> None:
    command = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", "apiserver", *CONVERT]
    end = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (end.returncode, end.stderr) == (2, "apiserver: convert: there is no standard input\n")


def test_what_it_returns_is_its_exit_code() -> None:
    assert run_subcommand(lambda: 0, FAILED) == 0
    assert run_subcommand(lambda: 1, FAILED) == 1


ERRORS: Final = {
    "a file": (FileNotFoundError(2, "No such file or directory", "/a"), "/a: No such file or directory"),
    "a directory that is gone": (
        FileNotFoundError(2, "No such file or directory"),
        "No such file or directory",
    ),
}


@pytest.mark.parametrize(("error", "line"), ERRORS.values(), ids=ERRORS)
def test_what_it_raises_is_told_in_one_line(
    error: BaseException, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def run() -> int:
        raise error

    assert run_subcommand(run, FAILED) == FAILED
    assert capsys.readouterr().err == f"apiserver: {line}\n"


def test_what_is_for_others_is_left_to_them() -> None:
    def misused() -> int:
        raise UsageError("so not")

    with pytest.raises(UsageError):
        run_subcommand(misused, FAILED)


@pytest.mark.parametrize("stderr", ["2>&-", pytest.param("2>/dev/full", marks=NEEDS_FULL)])
def test_errors_that_nobody_reads(stderr: str) -> None:
    """They do not go to stdout, and the exit code is the same."""
    program = [sys.executable, "-m", "apiserver", "nope"]
    end = subprocess.run(
        ["sh", "-c", f'exec "$@" {stderr}', "sh", *program], stdout=subprocess.PIPE, check=False
    )
    assert (end.returncode, end.stdout) == (2, b"")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_interrupts_it(number: signal.Signals, capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(number)
    cleaned_up = []

    def run() -> int:
        try:
            signal.raise_signal(number)
        finally:
            cleaned_up.append(True)
        return 0

    assert run_subcommand(run, FAILED) == 128 + number
    assert (capsys.readouterr().err, cleaned_up) == ("apiserver: interrupted\n", [True])
    assert signal.getsignal(number) is before
