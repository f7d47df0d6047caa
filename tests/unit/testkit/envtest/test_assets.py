"""`apiserver envtest-assets` makes a folder, makes it again, and leaves what is not its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from apiserver.cli.argument_parser import UsageError
from apiserver.testkit.envtest import assets as envtest_assets
from apiserver.testkit.envtest.assets import MARK
from tests.support.eventually import WITHIN_S

FILES: Final = {"etcd", "kube-apiserver", "kube-apiserver.help"}


class Ended(NamedTuple):
    code: int
    out: str
    err: str


class Command:
    """Runs the command in an environment of its own: PATH has `programs`, and nothing else."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.programs, self.home, self._capsys = directory / "programs", directory / "home", capsys
        self.programs.mkdir()
        self.home.mkdir()
        self.path = str(self.programs)

    def add_program(self, name: str) -> Path:
        path = self.programs / name
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return path

    def run(self, *arguments: object, **variables: str) -> Ended:
        """Raises UsageError."""
        environment = {"PATH": self.path, "HOME": str(self.home), **variables}
        return Ended(envtest_assets.run([*map(str, arguments)], environment), *self._capsys.readouterr())

    def made(self, *arguments: object, **variables: str) -> Path:
        ended = self.run(*arguments, **variables)
        assert ended.code == 0, ended.err
        return Path(ended.out.rstrip("\n"))


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(tmp_path, capsys)


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_a_folder_that_is_named(command: Command, tmp_path: Path) -> None:
    directory = command.made(tmp_path / "a" / "b")
    assert (directory, names(directory)) == (tmp_path / "a" / "b", FILES)
    for program in ("etcd", "kube-apiserver"):
        assert (directory / program).stat().st_mode & 0o777 == 0o755
        assert (directory / program).read_text().split("\n")[:2] == ["#!/bin/sh", MARK]
    # As each test binary of Go asks. It takes the shell some milliseconds, and no PATH.
    for program, flag in (("etcd", "--unsafe-no-fsync"), ("kube-apiserver", "--etcd-servers")):
        end = subprocess.run(
            [directory / program, "--help"], env={"PATH": "/usr/bin:/bin"}, capture_output=True, check=True
        )
        assert f"\n  {flag} " in f"{end.stdout.decode()} ".replace(f"{flag}\n", f"{flag} \n")
        assert b"--insecure-port" not in end.stdout


def test_the_folder_without_a_name_is_in_the_cache(command: Command, tmp_path: Path) -> None:
    first = command.made()
    assert first.parent == (
        command.home
        / ("Library/Caches" if sys.platform == "darwin" else ".cache")
        / "apiserver/envtest-assets"
    )
    assert command.made() == first
    assert command.made("--emulated-version", "1.30") != first
    named = command.made(XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert sys.platform == "darwin" or named.is_relative_to(tmp_path / "cache")


def test_kubectl_is_linked_if_there_is_one(command: Command, tmp_path: Path) -> None:
    kubectl = command.add_program("kubectl")
    directory = command.made(tmp_path / "assets")
    assert (directory / "kubectl").readlink() == kubectl
    # It does not find itself.
    command.path = f"{directory}:{command.programs}"
    assert (command.made(directory) / "kubectl").readlink() == kubectl
    kubectl.unlink()
    assert names(command.made(directory)) == FILES


def test_etcd_may_be_a_real_one(command: Command, tmp_path: Path) -> None:
    etcd = command.add_program("etcd")
    directory = command.made("--etcd", "real", tmp_path / "assets")
    assert (directory / "etcd").readlink() == etcd
    other = command.add_program("etcd-3.6")
    assert (command.made("--etcd", other, directory) / "etcd").readlink() == other
    assert MARK in (command.made(directory) / "etcd").read_text()
    assert other.read_text() == "#!/bin/sh\n"


def test_a_folder_of_ours_is_made_again(command: Command, tmp_path: Path) -> None:
    directory = command.made(tmp_path / "assets")
    (directory / "notes.txt").write_text("mine")
    before = (directory / "etcd").stat()
    (directory / "kube-apiserver").write_text(f"#!/bin/sh\n{MARK}\nexec /gone/python\n")
    command.made(directory)
    assert "/gone/python" not in (directory / "kube-apiserver").read_text()
    assert names(directory) == FILES | {"notes.txt"}
    # What is as it should be stays, as somebody may be running it.
    after = (directory / "etcd").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_processes_may_make_it_at_once(tmp_path: Path) -> None:
    directory = tmp_path / "assets"
    command = [sys.executable, "-m", "apiserver", "envtest-assets", str(directory)]
    starting = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(3)
    ]
    ended = {(process.communicate(timeout=WITHIN_S)[0], process.returncode) for process in starting}
    assert ended == {(f"{directory}\n", 0)}
    assert names(directory) - {"kubectl"} == FILES


def a_file(directory: Path) -> None:
    directory.write_text("")


def with_etcd_of_others(directory: Path) -> None:
    directory.mkdir()
    (directory / "etcd").write_text("#!/bin/sh\n")


def with_a_link_to_kube_apiserver(directory: Path) -> None:
    directory.mkdir()
    (directory / "kube-apiserver").symlink_to("/nowhere")


def with_a_directory_called_kubectl(directory: Path) -> None:
    (directory / "kubectl").mkdir(parents=True)


NOT_OURS: Final = "but apiserver envtest-assets did not create it"
IN_THE_WAY: Final[dict[str, tuple[Callable[[Path], None], str, str]]] = {
    "a file": (a_file, "", "but is not a directory"),
    "an etcd of others": (with_etcd_of_others, "/etcd", NOT_OURS),
    "a link that leads nowhere": (with_a_link_to_kube_apiserver, "/kube-apiserver", NOT_OURS),
    "a directory": (with_a_directory_called_kubectl, "/kubectl", NOT_OURS),
}


@pytest.mark.parametrize(("prepare", "name", "why"), IN_THE_WAY.values(), ids=IN_THE_WAY)
def test_what_is_in_the_way(
    command: Command, tmp_path: Path, prepare: Callable[[Path], None], name: str, why: str
) -> None:
    directory = tmp_path / "assets"
    prepare(directory)
    message = f"apiserver: envtest-assets: {directory}{name} exists, {why}\n"
    assert command.run(directory) == (1, "", message)


REFUSED: Final[dict[str, tuple[list[str], dict[str, str], str]]] = {
    "no etcd on PATH": (["--etcd", "real"], {}, "etcd is not on the PATH; use --etcd PATH"),
    "an etcd that is none": (["--etcd", "/nowhere/etcd"], {}, "--etcd: /nowhere/etcd is not a program"),
    "no home": ([], {"HOME": ""}, "$HOME is not set; pass a DIR"),
    "a folder in a file": ([f"{__file__}/assets"], {}, f"{__file__}/assets: Not a directory"),
}


@pytest.mark.parametrize(("arguments", "variables", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_made(
    command: Command, arguments: list[str], variables: dict[str, str], message: str
) -> None:
    assert command.run(*arguments, **variables) == (1, "", f"apiserver: envtest-assets: {message}\n")


USAGE: Final = {
    "a release that cannot be emulated": (
        ["--emulated-version", "1.99"],
        "envtest-assets: emulation version 1.99 is not between 1.15 and 1.37",
    ),
    "two folders": (["a", "b"], "envtest-assets: unexpected argument 'b'"),
    "an unknown option": (["--etc=real"], "envtest-assets: unknown flag: --etc"),
}


@pytest.mark.parametrize(("arguments", "message"), USAGE.values(), ids=USAGE)
def test_what_is_no_usage(command: Command, arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        command.run(*arguments)
    assert str(refused.value) == message
