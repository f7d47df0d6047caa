"""Does what a page says, block by block: writes files, runs commands and compares their output."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final, Self

from tests.support.eventually import WITHIN_S
from tests.support.pages import OUTPUT, ROOT, SHELL, Block

# A suite on a page starts servers, and perhaps processes of pytest-xdist.
_COMMAND_S: Final = 5 * WITHIN_S
_ADDRESS: Final = "127.0.0.1:6443"
_PYTEST_INI: Final = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"
# Each passed test has a line at the end.
_PYTEST_OPTIONS: Final = "-rA -p no:cacheprovider"
# The line of a block that starts a server; what `apiserver` does besides is a command.
_SERVER: Final = re.compile(r"^apiserver(?: serve)?(?: --?\w(?:\\\n|[^\n])*)?$", re.MULTILINE)
# A block that begins so tells the reader to stop the server.
_STOP: Final = "# Stop the server"
_PASSED: Final = re.compile(r"^PASSED \S+?::(?:\w+::)*(\w+)", re.MULTILINE)
_FRACTION: Final = re.compile(r"\d+/\d+")
# pytest adds it to the time of a run that takes longer than a minute.
_MINUTES: Final = re.compile(r" \(\d+:\d\d:\d\d\)$", re.MULTILINE)


def starts_server(block: Block) -> bool:
    return _SERVER.search(block.text) is not None


class PageRunner:
    """Runs blocks in one directory. A server, or a command that watches, runs beside the others.

    kubectl: the program, or None where no block needs one.
    """

    def __init__(self, directory: Path, kubectl: str | None) -> None:
        self._directory, self._address = directory, ""
        self._server: subprocess.Popen[str] | None = None
        self._watch: subprocess.Popen[str] | None = None
        self._watched_first = ""
        self._printed, self._failed = "", ""
        self.passed: set[str] = set()
        bin_directory = directory / "bin"
        bin_directory.mkdir()
        python = shlex.quote(sys.executable)
        for name, command in {
            "apiserver": f"{python} -m apiserver",
            "pytest": f"{python} -m pytest",
            "python": python,
        }.items():
            program = bin_directory / name
            program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            program.chmod(0o700)
        if kubectl is not None:
            (bin_directory / "kubectl").symlink_to(kubectl)
        (directory / "pytest.ini").write_text(_PYTEST_INI)
        shutil.copytree(ROOT / "deploy", directory / "deploy")  # readers are in a checkout, and write to it
        self._environment = {
            **os.environ,
            "HOME": str(directory),
            "KUBECONFIG": str(directory / "apiserver-data" / "admin.kubeconfig"),
            "PATH": f"{bin_directory}:{os.environ['PATH']}",
            "PYTEST_ADDOPTS": _PYTEST_OPTIONS,
            "PYTHONPATH": str(ROOT),
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def run(self, block: Block) -> None:
        if block.language == OUTPUT:
            self._compare(block.text)
            return
        self.finish()
        if block.language == SHELL:
            self._run_commands(block.text)
        else:
            path = self._directory / block.path
            path.parent.mkdir(parents=True, exist_ok=True)
            before = f"{path.read_text()}\n\n" if block.is_continued else ""
            path.write_text(before + block.text)

    def finish(self) -> None:
        """Raises AssertionError if the last command failed: only one whose output is shown may."""
        assert not self._failed, self._failed

    def start_server(self, *flags: str) -> None:
        self._run_commands(shlex.join(["apiserver", *flags]))

    def _run_commands(self, text: str) -> None:
        if text.startswith(_STOP):
            self._stop()
        while found := _SERVER.search(text):
            self._run_in_shell(text[: found.start()])
            self.finish()
            self._restart_server(found[0])
            text = text[found.end() :]
        self._run_in_shell(text)

    def _run_in_shell(self, commands: str) -> None:
        if not commands.strip():
            return
        commands = commands.replace(_ADDRESS, self._address)
        if "--watch" in shlex.split(commands, comments=True):
            self._watch = self._popen(["sh", "-c", f"exec {commands.strip().splitlines()[-1]}"])
            self._watched_first = self._next_lines(1)  # From now on it misses nothing.
            return
        end = subprocess.run(
            ["sh", "-ec", commands],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_COMMAND_S,
            cwd=self._directory,
            env=self._environment,
            check=False,
        )
        self._printed = _MINUTES.sub("", end.stdout)
        self._failed = f"{commands}: {end.stdout}" if end.returncode else ""
        self.passed.update(_PASSED.findall(end.stdout))

    def _restart_server(self, command: str) -> None:
        """Starts a server on a free port, or at the address of the one before it, which is stopped."""
        self._stop()
        port = self._address.rpartition(":")[2] or "0"
        words = shlex.split(command.replace("\\\n", " "), comments=True)
        self._server = self._popen([*words, f"--secure-port={port}"])
        assert self._server.stdout is not None
        self._printed = self._server.stdout.readline()
        assert self._printed.startswith("ready "), f"{command}: {self._printed}"
        self._address = self._printed.split()[1].removeprefix("https://")

    def _compare(self, shown: str) -> None:
        """What is shown is what was printed last, or what a command that watches has printed since."""
        if self._watch is not None:
            self._printed = self._watched(len(shown.splitlines()))
        assert shows(shown, self._printed), f"shown:\n{shown}\nprinted:\n{self._printed}"
        self._failed = ""

    def _watched(self, count: int) -> str:
        """Returns so many lines of the command that watches, and ends it."""
        lines = self._watched_first + self._next_lines(count - 1)
        assert self._watch is not None
        self._watch.terminate()
        self._watch.communicate()
        self._watch = None
        return lines

    def _next_lines(self, count: int) -> str:
        """Returns the next lines of the command that watches; fewer if they do not come in time."""
        assert self._watch is not None
        assert self._watch.stdout is not None
        late = threading.Timer(_COMMAND_S, self._watch.terminate)
        late.start()
        try:
            return "".join(self._watch.stdout.readline() for _ in range(count))
        finally:
            late.cancel()

    def _stop(self) -> None:
        for process in filter(None, (self._watch, self._server)):
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=WITHIN_S)
        self._watch = self._server = None

    def _popen(self, command: list[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=self._directory, env=self._environment
        )


def shows(shown: str, printed: str) -> bool:
    """Returns whether an output ends with what a page shows.

    A line of … stands for any lines, a word of … for any words, and … in a word for any characters. Words
    with digits may differ: ages, ports, versions, names that the server makes.
    """
    lines = [_line(line.split()) for line in shown.splitlines() if line.strip()]
    return re.search("(?:^|\n)" + "".join(lines) + r"\s*\Z", printed) is not None


def _line(words: list[str]) -> str:
    if words == ["…"]:
        return r"(?:.*\n)*?"
    return r"\s*" + r"[ \t]+".join(map(_word, words)) + r"[ \t]*\n"


def _word(word: str) -> str:
    if word == "…":
        return ".*"
    if any(map(str.isdigit, word)) and not _FRACTION.fullmatch(word):
        return r"\S+"
    return re.escape(word).replace("…", r"\S*")
