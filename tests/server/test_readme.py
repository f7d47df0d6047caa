"""The kubectl commands of README.md and of the pages of docs/ work, in their order, on one server."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.kubectl import MISSING, program, usable_versions
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.kubectl

ROOT: Final = Path(__file__).parents[2]
README: Final = (ROOT / "README.md").read_text()
PAGES: Final = (
    *("tutorials/first-definition", "operating/access", "operating/fairness"),
    *("developing/api-upgrades", "developing/proxies", "developing/aggregation"),
)
TUTORIAL: Final = ROOT / "docs" / "tutorials" / "first-server.md"
ALL: Final = "\n\n".join([README, *((ROOT / "docs" / f"{page}.md").read_text() for page in PAGES)])
WITHIN_S: Final = 60
# A command with its here-document, or a line. What follows two spaces and a # is said about it.
_COMMAND_LINE: Final = re.compile(
    r"^(?:    )?(kubectl [^\n]+<<EOF\n.*?\nEOF|kubectl [^\n]+)$", re.MULTILINE | re.DOTALL
)


def commands() -> Iterator[tuple[str, str]]:
    """The commands, each with the comment behind it."""
    for found in _COMMAND_LINE.findall(ALL):
        command, _, remark = found.partition("  # ") if "<<EOF" not in found else (found, "", "")
        if "--watch" not in command:  # does not end
            yield command.strip(), remark.strip()


def test_kubectl_commands_succeed(tmp_path: Path) -> None:
    binary = program((usable_versions() or [MISSING])[-1])
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").symlink_to(binary)
    with ServerProcess(tmp_path / "server") as server:
        environment = {
            "HOME": str(tmp_path),
            "KUBECONFIG": str(server.kubeconfig),
            "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        }
        run = list(commands())
        assert len(run) > 10
        for command, remark in run:
            end = subprocess.run(
                ["sh", "-c", command],
                capture_output=True,
                text=True,
                timeout=WITHIN_S,
                env=environment,
                check=False,
            )
            assert end.returncode == 0, f"{command}: {end.stderr}"
            if "can-i list" in command:
                assert end.stdout.strip() == remark


class Tutorial:
    """Runs the commands of a page in one directory. Servers and watches run beside the others."""

    def __init__(self, directory: Path, kubectl: str) -> None:
        self._directory, self._address = directory, "127.0.0.1:0"
        self._server: subprocess.Popen[str] | None = None
        self._watch: subprocess.Popen[str] | None = None
        bin_directory = directory / "bin"
        bin_directory.mkdir()
        (bin_directory / "kubectl").symlink_to(kubectl)
        program_file = bin_directory / "apiserver"
        program_file.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m apiserver "$@"\n')
        program_file.chmod(0o700)
        self._environment = {
            **os.environ,
            "HOME": str(directory),
            "KUBECONFIG": str(directory / "apiserver-data" / "admin.kubeconfig"),
            "PATH": f"{bin_directory}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
        }

    def run(self, commands: str) -> str:
        """Returns what is printed. Of a server that is started, that is its first line."""
        words = shlex.split(commands)
        if words[0] == "apiserver" and words[1:2] != ["auth"]:
            self.stop()
            port = self._address.partition(":")[2]
            self._server = self._popen([*words, f"--secure-port={port}"])
            assert self._server.stdout is not None
            line = self._server.stdout.readline()
            self._address = line.split()[1].removeprefix("https://")
            return line
        commands = commands.replace("127.0.0.1:6443", self._address)
        if "--watch" in words:
            self._watch = self._popen(["sh", "-c", f"exec {commands.splitlines()[-1]}"])
            return ""
        end = subprocess.run(
            ["sh", "-c", commands],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=WITHIN_S,
            cwd=self._directory,
            env=self._environment,
            check=False,
        )
        assert not end.returncode or end.stdout.startswith("Error from server"), f"{commands}: {end.stdout}"
        return end.stdout

    def watched(self, count: int) -> str:
        """Returns the lines that a watch has printed, when there are so many; empty without a watch."""
        if self._watch is None or self._watch.stdout is None:
            return ""
        lines = [self._watch.stdout.readline() for _ in range(count)]
        self._watch.terminate()
        self._watch.communicate()
        self._watch = None
        return "".join(lines)

    def stop(self) -> None:
        for process in filter(None, (self._watch, self._server)):
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=WITHIN_S)
        self._watch = self._server = None

    def _popen(self, command: list[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=self._directory, env=self._environment
        )


def first_words(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines() if line.strip()]


def test_the_tutorial_of_the_first_server_works(tmp_path: Path) -> None:
    """Its commands print what it shows, as far as the first word of each line."""
    tutorial = Tutorial(tmp_path, program((usable_versions() or [MISSING])[-1]))
    printed, compared = "", 0
    try:
        for language, block in re.findall(
            r"^```(sh|text)\n(.*?)^```$", TUTORIAL.read_text(), re.MULTILINE | re.DOTALL
        ):
            if language == "sh":
                printed = tutorial.run(block)
            else:
                shown = first_words(block)
                found = tutorial.watched(len(shown)) or printed
                assert first_words(found)[-len(shown) :] == shown, found
                compared += 1
    finally:
        tutorial.stop()
    assert compared > 5


def test_the_fixture_for_tests_works(tmp_path_factory: pytest.TempPathFactory) -> None:
    """As it is written, but for the program, which is not on PATH in a source tree."""
    page = (ROOT / "docs" / "testing" / "other-languages.md").read_text()
    _, _, rest = page.partition("    import subprocess, pytest\n")
    lines = itertools.takewhile(lambda line: not line or line.startswith("    "), rest.splitlines())
    block = "\n".join(line.removeprefix("    ") for line in lines)
    source = block.replace('["apiserver",', f'[*{shlex.split(sys.executable)!r}, "-m", "apiserver",')
    assert source != block
    scope = {"subprocess": subprocess, "pytest": pytest}
    exec(source, scope)
    fixture = scope["kubeconfig"].__wrapped__
    made = fixture(tmp_path_factory)
    kubeconfig = next(made)
    assert kubeconfig.exists()
    assert next(made, None) is None


def test_the_example_for_pytest_passes(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    (tmp_path / "test_hello.py").write_text(block)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    end = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=WITHIN_S)
    assert end.returncode == 0, end.stdout
    assert re.search(r"^1 passed", end.stdout, re.MULTILINE)
