"""What docs/testing shows works: each page is a suite that passes."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from apiserver.cli.command_line import parse
from apiserver.cli.flags import SECTIONS
from tests.support.client_programs import node, packages_of
from tests.support.eventually import WITHIN_S
from tests.support.required import library

DOCS: Final = Path(__file__).parents[2] / "docs"
# It makes the files that the pages about a subject go on with.
TUTORIAL: Final = (DOCS / "tutorials" / "test-an-operator.md").read_text()
PAGES: Final = {
    path.relative_to(DOCS).as_posix(): path.read_text() for path in sorted((DOCS / "testing").glob("*.md"))
}
CONFIGURATION: Final = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"
_BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A block begins with its path, in a comment. JSON has none.
_PATH: Final = re.compile(r"(?:#|//) (\S+)\n")
_WITHOUT_PATH: Final = {"json": "package.json"}
# Commands are for a shell; a Makefile is somebody's.
_NO_FILES: Final = {"sh", "make"}
# Flags of other programs that the pages name.
OTHERS: Final = {
    "docker": {"detach", "force", "name", "publish", "tag"},
    "kopf": {"all-namespaces", "standalone"},
    "kubectl": {"for", "kubeconfig", "raw"},
    "node": {"test"},
    "apiserver envtest-assets": {"etcd"},
    "apiserver faults": {"code", "moment", "resource", "times", "user-agent", "verb"},
}


class Block(NamedTuple):
    language: str
    text: str

    @property
    def path(self) -> str:
        """Where the block is a file; empty if it says nothing of that."""
        found = _PATH.match(self.text)
        return _WITHOUT_PATH.get(self.language, "") if found is None else found[1]


def blocks(page: str) -> list[Block]:
    return blocks_of(PAGES[page])


def blocks_of(text: str) -> list[Block]:
    return [Block(*found) for found in _BLOCK.findall(text)]


def commands(page: str) -> Iterator[list[str]]:
    """The lines for a shell, as words; `$(…)` is a command of its own."""
    for block in blocks(page):
        if block.language == "sh":
            for line in block.text.splitlines():
                for inner in re.findall(r"\$\(([^)]*)\)", line):
                    yield shlex.split(inner)
                yield [word for word in shlex.split(line) if "=" not in word.partition("/")[0] or "-" in word]


def write_files(page: str, directory: Path, *languages: str) -> None:
    _write(blocks(page), directory, languages)


def _write(found: list[Block], directory: Path, languages: tuple[str, ...]) -> None:
    for block in found:
        if block.language in languages:
            path = directory / block.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_code_is_a_file(page: str) -> None:
    found = blocks(page)
    assert len(found) == PAGES[page].count("```") / 2
    assert {block.text for block in found if block.language not in _NO_FILES and not block.path} == set()


@pytest.mark.parametrize("page", PAGES)
def test_flags_exist(page: str) -> None:
    ours = {flag.name.removeprefix("--") for flags in SECTIONS.values() for flag in flags} | {"config"}
    named = set(re.findall(r"(?<![\w-])--([a-z][a-z-]*[a-z])", PAGES[page]))
    assert named - ours - set().union(*OTHERS.values()) == set()


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_ours_are_taken(page: str, tmp_path: Path) -> None:
    """A server is not started: its flags are parsed."""
    for words in commands(page):
        if words[:2] == ["apiserver", "envtest-assets"]:
            end = _run([sys.executable, "-m", *words], tmp_path, HOME=str(tmp_path))
            assert end.returncode == 0, end.stderr
        if words[:2] == ["docker", "run"]:
            image = next(index for index, word in enumerate(words) if word.startswith("apiserver:"))
            parse(words[image + 1 :])


def test_the_pages_name_the_version() -> None:
    from apiserver import __version__

    named = {
        version for text in PAGES.values() for version in re.findall(r"\bapiserver:(\d+\.\d+\.\d+)", text)
    }
    assert named == {__version__}


def test_every_page_is_linked() -> None:
    index = PAGES["testing/index.md"]
    pages = {page.removeprefix("testing/") for page in PAGES if page.startswith("testing/")} - {"index.md"}
    assert {page for page in pages if f"]({page}" not in index} == set()


def _run(command: list[str], directory: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **variables},
        capture_output=True,
        text=True,
        check=False,
    )


class Suite(NamedTuple):
    """The suite of a page. passed: how many of its tests. goes_on: whether with the files of the tutorial."""

    passed: int
    needs: tuple[str, ...] = ()
    processes: int = 0
    goes_on: bool = False


SUITES: Final = {
    "testing/index.md": Suite(
        10, needs=("kubernetes", "kubernetes_asyncio", "kr8s", "lightkube", "pykube", "kopf"), goes_on=True
    ),
    "testing/waiting.md": Suite(4, goes_on=True),
    "testing/forks.md": Suite(2, goes_on=True),
    "testing/simulated-pods.md": Suite(6, needs=("kubernetes",), goes_on=True),
    "testing/faults.md": Suite(4, needs=("kubernetes",), goes_on=True),
    "testing/clock.md": Suite(2, goes_on=True),
    "testing/kopf.md": Suite(6, needs=("kopf",), processes=4),
    "testing/kubernetes.md": Suite(5, needs=("kubernetes", "kubernetes_asyncio")),
    "testing/kr8s.md": Suite(3, needs=("kr8s",)),
    "testing/lightkube.md": Suite(4, needs=("lightkube",)),
}


def test_every_page_with_a_suite_is_run() -> None:
    with_tests = {page for page in PAGES if re.search(r"^```python\n# test_", PAGES[page], re.MULTILINE)}
    assert with_tests == SUITES.keys() | {"testing/containers.md"}


@pytest.mark.slow
@pytest.mark.parametrize(("page", "suite"), SUITES.items(), ids=SUITES)
def test_a_suite_passes(page: str, suite: Suite, tmp_path: Path) -> None:
    for name in suite.needs:
        library(name)
    if suite.goes_on:
        _write(blocks_of(TUTORIAL), tmp_path, ("yaml",))
    write_files(page, tmp_path, "python", "yaml")
    (tmp_path / "pytest.ini").write_text(CONFIGURATION)
    end = _run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", str(suite.processes)], tmp_path
    )
    assert end.returncode == 0, end.stdout
    assert re.search(rf"^{suite.passed} passed", end.stdout, re.MULTILINE), end.stdout


@pytest.mark.slow
def test_a_container_is_used_or_skipped(tmp_path: Path) -> None:
    library("testcontainers")
    write_files("testing/containers.md", tmp_path, "python")
    (tmp_path / "pytest.ini").write_text(CONFIGURATION)
    end = _run([sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"], tmp_path)
    assert end.returncode == 0, end.stdout
    if "1 skipped" in end.stdout:
        assert "no container engine answers" in end.stdout
        pytest.skip("no container engine answers: DOCKER_HOST names one, if it is not the local one")


@pytest.mark.slow
def test_the_suite_in_javascript_passes(tmp_path: Path) -> None:
    node()
    write_files("testing/javascript.md", tmp_path, "js", "json")
    (tmp_path / "node_modules").symlink_to(packages_of(tmp_path / "package.json"))
    end = _run(["npm", "test"], tmp_path)
    assert end.returncode == 0, end.stdout + end.stderr
    assert "pass 2" in end.stdout


@pytest.mark.parametrize("page", PAGES)
def test_javascript_is_well_formed(page: str, tmp_path: Path) -> None:
    write_files(page, tmp_path, "js")
    for path in tmp_path.glob("*.mjs"):
        end = subprocess.run(
            [node(), "--check", path], capture_output=True, text=True, check=False, timeout=WITHIN_S
        )
        assert end.returncode == 0, end.stderr


@pytest.mark.slow
def test_the_suite_in_go_passes(tmp_path: Path) -> None:
    go = shutil.which("go")
    if go is None:
        pytest.skip("go is missing: https://go.dev/doc/install says how to install it; it has to be on PATH")
    write_files("testing/go.md", tmp_path, "go")
    for command in (["mod", "init", "example.com/suite"], ["get", "-t", "./..."]):
        end = _run([go, *command], tmp_path)
        if end.returncode:  # A module proxy that cannot be reached says nothing about the server.
            pytest.skip(f"go could not get controller-runtime; it needs a module proxy: {end.stderr[-500:]}")
    end = _run(["sh", "-c", 'KUBEBUILDER_ASSETS="$(apiserver envtest-assets)" go test ./...'], tmp_path)
    assert end.returncode == 0, end.stdout + end.stderr


def test_java_names_what_the_image_has() -> None:
    """No Java is compiled here: what it says of the server is what the other languages say."""
    (java,) = (block.text for block in blocks("testing/containers.md") if block.language == "java")
    (javascript,) = (block.text for block in blocks("testing/containers.md") if block.language == "js")
    for said in ("6443", "--storage-backend=memory", "ready https://", "/var/lib/apiserver/admin.kubeconfig"):
        assert said in java
        assert said in javascript
