"""What is installed works in every Python, also beside a project that has a `storage` of its own."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

import pytest

from apiserver.cli.conformance.conversations import Recordings
from tests.support.eventually import WITHIN_S
from tests.support.required import missing

pytestmark = pytest.mark.slow

ROOT: Final = Path(__file__).parents[2]
WHEEL_BYTES_MAX: Final = 8_000_000
BUILD_WITHIN_S: Final = 300
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
# Prints where the package is, and the checksums of the console's page and of what it loads at once.
CONSOLE: Final = """
import apiserver, pathlib, re, ssl, urllib.request, zlib
from apiserver.testing import ApiServer
with ApiServer(flags=["--console"]) as server:
    trusted = ssl.create_default_context(cafile=server.ca)
    def get(name):
        return urllib.request.urlopen(f"{server.url}/console/{name}", context=trusted).read()
    page = get("")
    print(pathlib.Path(apiserver.__file__).parents[1])
    for name in ["", *re.findall(rb'(?:href|src)="([^"/]+)"', page)]:
        print(zlib.crc32(get(name if isinstance(name, str) else name.decode())))
"""
# What pip says where no registry answers, which says nothing about the package.
NO_REGISTRY: Final = re.compile("Could not find a version|No matching distribution|Could not fetch")
# A module, or a package, of the user, which has nothing that ours has.
FOREIGN: Final = {"a module": Path("storage.py"), "a package": Path("storage", "__init__.py")}
TEST_OF_USER: Final = """
import storage

def test_a_server_beside_the_users_storage(kube):
    assert storage.IS_MINE
    code, _ = kube.request("GET", "/api/v1/namespaces/default")
    assert code == 200
"""


def run(command: list[str], directory: Path, *, python: str = sys.executable) -> str:
    """Run an interpreter to its end, and return what it printed. A registry that is needed may be missing."""
    end = subprocess.run(
        [python, *command],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_WITHIN_S,
    )
    if end.returncode and NO_REGISTRY.search(end.stderr):
        missing("a package registry", f"pip ended with {end.stderr[-500:]}")
    assert end.returncode == 0, end.stdout + end.stderr
    return end.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the package is built of, and nothing else that is in this folder."""
    directory = tmp_path_factory.mktemp("source")
    for folder in ("deploy", "tests"):
        (directory / folder).mkdir()
    for name in (
        *("apiserver", "storage", "deploy/package_build.py", "tests/conformance"),
        *("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"),
    ):
        (directory / name).symlink_to(ROOT / name)
    return directory


def build_wheel(source: Path, directory: Path, *options: str) -> Path:
    """Build a wheel as `pip wheel` does, in an environment of its own unless an option says otherwise."""
    directory.mkdir(exist_ok=True)
    pip = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(directory)]
    run([*pip, *options, str(source)], directory)
    (built,) = directory.glob("*.whl")
    return built


def contents(wheel: Path) -> dict[str, int]:
    """The checksums of the files."""
    with zipfile.ZipFile(wheel) as archive:
        return {file.filename: file.CRC for file in archive.infolist()}


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built with what is installed here, which needs no registry."""
    return build_wheel(source, tmp_path_factory.mktemp("wheel"), "--no-build-isolation")


def test_the_build_requirements_are_all_that_the_build_needs(
    source: Path, wheel: Path, tmp_path: Path
) -> None:
    assert contents(build_wheel(source, tmp_path / "wheel")).keys() == contents(wheel).keys()


def test_a_source_distribution_builds_the_same_wheel(source: Path, wheel: Path, tmp_path: Path) -> None:
    run(["-c", SDIST, str(tmp_path)], source)
    (archive,) = tmp_path.glob("*.tar.gz")
    built = build_wheel(archive, tmp_path / "wheel", "--no-build-isolation")
    assert contents(built) == contents(wheel)


def test_it_has_one_package_and_all_that_it_reads(wheel: Path) -> None:
    names = set(contents(wheel))
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
    run(["-m", "pip", "install", "--quiet", "--no-deps", "--target", str(directory), str(wheel)], directory)
    return directory


def test_it_has_the_recorded_conversations(installed: Path, tmp_path: Path) -> None:
    at_installed = f"import sys; sys.path.insert(0, {str(installed)!r})\n"
    assert run(["-c", at_installed + CONVERSATIONS], tmp_path).split() == [*Recordings().names, "Run"]


def test_it_serves_the_console(installed: Path, tmp_path: Path) -> None:
    """The page, its style and its modules are as this folder has them: there is no build step."""
    shown = []
    for folder in (installed, ROOT):
        at_folder = f"import sys; sys.path.insert(0, {str(folder)!r})\n"
        where, *checksums = run(["-P", "-c", at_folder + CONSOLE], tmp_path).splitlines()
        assert where == str(folder)
        shown.append(checksums)
    assert len(shown[0]) == 4, "the page, its icon, its style and its modules"
    assert shown[0] == shown[1]


# ---- in each Python


def interpreter(version: str) -> str:
    """A program of this version; the test is skipped where there is none."""
    installed = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    found = (
        shutil.which(f"python{version}"),
        *map(str, sorted(installed.glob(f"{version}.*/bin/python{version}"))),
    )
    for program in filter(None, found):
        # What pyenv puts on PATH ends with an error if the version is not chosen.
        if subprocess.run([program, "--version"], capture_output=True, check=False).returncode == 0:
            return program
    pytest.skip(f"Python {version} is missing: https://www.python.org/downloads/ or pyenv has it")


def environment(version: str, directory: Path) -> Path:
    """A virtual environment with that version. Returns its folder of programs."""
    run(["-m", "venv", str(directory)], directory.parent, python=interpreter(version))
    return directory / "bin"


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_a_new_environment_has_a_server_and_a_plugin(wheel: Path, version: str, tmp_path: Path) -> None:
    programs = environment(version, tmp_path / "venv")
    pip = ["-m", "pip", "install", "--quiet", str(wheel), "pytest"]
    run(pip, tmp_path, python=str(programs / "python"))
    command = [str(programs / "apiserver"), "--secure-port=0", f"--data-dir={tmp_path / 'data'}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("ready https://")
        server.terminate()
        assert server.wait(WITHIN_S) == 0
    for kind, foreign in FOREIGN.items():
        project = tmp_path / kind
        (project / foreign).parent.mkdir(parents=True)
        (project / foreign).write_text("IS_MINE = True\n")
        (project / "test_mine.py").write_text(TEST_OF_USER)
        pytest_run = ["-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        assert "1 passed" in run(pytest_run, project, python=str(programs / "python"))


def test_pip_refuses_an_older_python_with_the_one_that_it_needs(wheel: Path, tmp_path: Path) -> None:
    programs = environment("3.10", tmp_path / "venv")
    end = subprocess.run(
        [programs / "python", "-m", "pip", "install", "--no-deps", wheel],
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_WITHIN_S,
    )
    assert end.returncode == 1
    assert re.search(r"requires a different Python: 3\.10\.\d+ not in '>=3\.11'", end.stderr), end.stderr


@pytest.mark.parametrize("python", ["false", ""], ids=["an older one", "none"])
def test_make_refuses_an_older_python_with_the_one_that_it_needs(python: str, tmp_path: Path) -> None:
    """`false` ends as an older Python does that is asked whether it is new enough."""
    command = ["make", f"PYTHON={python}", f"VENV={tmp_path / 'venv'}", "run"]
    end = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert end.returncode == 2
    assert end.stderr.startswith("Python 3.11 or later is required: ")
    assert not (tmp_path / "venv" / "bin").exists()
