"""What is installed harms nobody: a wheel of ours beside a project that has a `storage` of its own."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from apiserver.cli.conformance.conversations import Recordings

pytestmark = pytest.mark.slow

ROOT: Final = Path(__file__).parents[2]
WHEEL_BYTES_MAX: Final = 8_000_000
BUILD_WITHIN_S: Final = 120
SDIST: Final = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
GENERATED: Final = {
    "apiserver/cli/conformance/conversations.tar.xz",
    "apiserver/schema/definitions.zip",
    "apiserver/schema/definitions.LICENSE",
}
CONVERSATIONS: Final = """
from apiserver.cli.conformance.conversations import Recordings
recordings = Recordings()
print(*recordings.names, recordings.replayer().Run.__name__)
"""
# A module, or a package, of the user, which has nothing that ours has.
FOREIGN: Final = {"a module": Path("storage.py"), "a package": Path("storage", "__init__.py")}
TEST_OF_USER: Final = """
import storage

def test_a_server_beside_the_users_storage(kube):
    assert storage.IS_MINE
    code, _ = kube.request("GET", "/api/v1/namespaces/default")
    assert code == 200
"""


def run(command: list[str], directory: Path, variables: Mapping[str, str]) -> str:
    end = subprocess.run(
        [sys.executable, *command],
        cwd=directory,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_WITHIN_S,
    )
    assert end.returncode == 0, end.stdout + end.stderr
    return end.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a source distribution, with what is installed here in place of an environment of its own."""
    directory = tmp_path_factory.mktemp("wheel")
    source = directory / "source"
    (source / "tests").mkdir(parents=True)
    for name in (
        *("apiserver", "storage", "tests/conformance"),
        *("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"),
    ):
        (source / name).symlink_to(ROOT / name)
    run(["-c", SDIST, str(directory)], source, {})
    (sdist,) = directory.glob("*.tar.gz")
    pip = [
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(directory),
    ]
    run([*pip, str(sdist)], directory, {})
    (built,) = directory.glob("*.whl")
    return built


def test_it_has_one_package_and_all_that_it_reads(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    version = importlib.metadata.version("apiserver")
    assert {name.partition("/")[0] for name in names} == {"apiserver", f"apiserver-{version}.dist-info"}
    tracked = subprocess.run(
        ["git", "ls-files", "apiserver", "storage"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    expected = {
        name if name.startswith("apiserver/") else f"apiserver/{name}"
        for name in tracked.stdout.split()
        if name != "apiserver/storage"
    }
    assert expected | GENERATED <= names
    assert wheel.stat().st_size <= WHEEL_BYTES_MAX


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("installed")
    pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--target", str(directory), str(wheel)]
    run(pip, directory, {})
    return directory


def test_it_has_the_recorded_conversations(installed: Path, tmp_path: Path) -> None:
    printed = run(["-c", CONVERSATIONS], tmp_path, {"PYTHONPATH": str(installed)}).split()
    assert printed == [*Recordings().names, "Run"]


@pytest.mark.parametrize("foreign", FOREIGN.values(), ids=FOREIGN)
def test_a_project_with_a_storage_of_its_own(installed: Path, foreign: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / foreign).parent.mkdir(parents=True)
    (project / foreign).write_text("IS_MINE = True\n")
    (project / "test_mine.py").write_text(TEST_OF_USER)
    path = {"PYTHONPATH": os.pathsep.join(map(str, (project, installed)))}
    where = run(["-c", "import apiserver; print(apiserver.__file__)"], project, path)
    assert Path(where.strip()).is_relative_to(installed)
    ended = run(["-m", "pytest", "-q", "-p", "no:cacheprovider"], project, path)
    assert "1 passed" in ended
