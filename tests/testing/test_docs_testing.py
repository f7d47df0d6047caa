"""What docs/testing shows beside Python works: containers, JavaScript, Go, and files for CI."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from apiserver.cli.command_line import parse
from apiserver.cli.flags import SECTIONS
from tests.support.client_programs import node, packages_of
from tests.support.eventually import WITHIN_S
from tests.support.pages import blocks, pages
from tests.support.required import library

PAGES: Final = {page: text for page, text in pages().items() if page.startswith("docs/testing/")}
CONFIGURATION: Final = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"
# Flags of other programs that the pages name.
OTHERS: Final = {
    "docker": {"detach", "force", "name", "publish", "tag"},
    "kopf": {"all-namespaces", "standalone"},
    "kubectl": {"for", "kubeconfig", "raw"},
    "node": {"test"},
    "apiserver envtest-assets": {"etcd"},
    "apiserver convert": {"strict"},
    "apiserver deprecations": {"fail-in"},
    "k3d, kind, kwokctl, minikube": {"agents", "image", "kubernetes-version", "nodes", "replicas"},
    "pip": {"no-deps", "wheel-dir"},
    "apiserver faults": {"code", "moment", "resource", "times", "user-agent", "verb"},
}


def commands(page: str) -> Iterator[list[str]]:
    """The lines for a shell, as words; `$(…)` is a command of its own."""
    for block in blocks(page):
        if block.language == "sh":
            for line in block.text.splitlines():
                for inner in re.findall(r"\$\(([^)]*)\)", line):
                    yield shlex.split(inner)
                yield [word for word in shlex.split(line) if "=" not in word.partition("/")[0] or "-" in word]


def write_files(page: str, directory: Path, *languages: str) -> None:
    for block in blocks(page):
        if block.language in languages:
            path = directory / block.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)


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
    index = PAGES["docs/testing/index.md"]
    names = {page.removeprefix("docs/testing/") for page in PAGES} - {"index.md"}
    assert {name for name in names if f"]({name}" not in index} == set()


def _run(command: list[str], directory: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_a_container_is_used_or_skipped(tmp_path: Path) -> None:
    library("testcontainers")
    write_files("docs/testing/containers.md", tmp_path, "python")
    (tmp_path / "pytest.ini").write_text(CONFIGURATION)
    end = _run([sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"], tmp_path)
    assert end.returncode == 0, end.stdout
    if "1 skipped" in end.stdout:
        assert "no container engine" in end.stdout
        pytest.skip("no container engine answers: DOCKER_HOST names one, if it is not the local one")


@pytest.mark.slow
def test_the_suite_in_javascript_passes(tmp_path: Path) -> None:
    node()
    write_files("docs/testing/javascript.md", tmp_path, "js", "json")
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
    write_files("docs/testing/go.md", tmp_path, "go")
    for command in (["mod", "init", "example.com/suite"], ["get", "-t", "./..."]):
        end = _run([go, *command], tmp_path)
        if end.returncode:  # A module proxy that cannot be reached says nothing about the server.
            pytest.skip(f"go could not get controller-runtime; it needs a module proxy: {end.stderr[-500:]}")
    end = _run(["sh", "-c", 'KUBEBUILDER_ASSETS="$(apiserver envtest-assets)" go test ./...'], tmp_path)
    assert end.returncode == 0, end.stdout + end.stderr


@pytest.mark.parametrize(
    ("path", "schema"),
    [(".github/workflows/test.yaml", "vendor.github-workflows"), (".gitlab-ci.yml", "vendor.gitlab-ci")],
)
def test_files_for_ci_are_valid(path: str, schema: str, tmp_path: Path) -> None:
    library("check_jsonschema")
    write_files("docs/testing/ci.md", tmp_path, "yaml")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema]
    if "gitlab" in schema:
        command += ["--data-transform", "gitlab-ci"]
    end = _run([*command, path], tmp_path)
    assert end.returncode == 0, end.stdout + end.stderr


def test_java_names_what_the_image_has() -> None:
    """No Java is compiled here: what it says of the server is what the other languages say."""
    (java,) = (block.text for block in blocks("docs/testing/containers.md") if block.language == "java")
    (javascript,) = (block.text for block in blocks("docs/testing/containers.md") if block.language == "js")
    for said in ("6443", "--storage-backend=memory", "ready https://", "/var/lib/apiserver/admin.kubeconfig"):
        assert said in java
        assert said in javascript
