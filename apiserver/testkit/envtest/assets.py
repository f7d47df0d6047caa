"""Implements `apiserver envtest-assets`: makes a folder of the programs that envtest starts, without a
server.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from apiserver.cli.argument_parser import HELP_WIDTH_MAX, UsageError, path
from apiserver.cli.flag_values import release
from apiserver.cli.flags import build_parser
from apiserver.cli.intermixed_parser import IntermixedParser, described_parser
from apiserver.cli.printing import print_error
from apiserver.meta.releases.emulation import EmulatedRelease, InvalidEmulation
from apiserver.storage.private_directories import make_directory

_ABOUT: Final = """
Creates a directory that contains the kube-apiserver and etcd programs, and prints its path. If kubectl is
installed, the command adds a link to it. To use the directory in Go tests, set `KUBEBUILDER_ASSETS`:

  KUBEBUILDER_ASSETS="$(apiserver envtest-assets)" go test ./...

The programs in the directory are for controller-runtime's envtest and its ports to other languages. By
default, the etcd program is a stand-in that only responds to health checks, and the server keeps its objects
in memory. To use a real etcd, set --etcd. If the directory exists, the command replaces the programs in it
and keeps all other files. The default directory is in the user's cache directory.
"""
MADE, NOT_MADE = 0, 1
STAND_IN, REAL = "stand-in", "real"
KUBE_APISERVER, HELP, ETCD, KUBECTL = "kube-apiserver", "kube-apiserver.help", "etcd", "kubectl"
# The second line of the programs that are ours.
MARK: Final = "# Made by: apiserver envtest-assets"
_SERVER_MODULE: Final = "apiserver.testkit.envtest.kube_apiserver"
STAND_IN_FILE: Final = Path(__file__).with_name("etcd_stand_in.py")
_SHOWN: Final = "this text shows the flags of the version that created this file"


class AssetsNotMade(Exception):
    """The folder of envtest's assets cannot be made. The message is one line."""


class Assets(NamedTuple):
    """The files in the folder of envtest's assets, by name: texts of programs and files; targets of links.

    texts: first the program by which the folder is recognized.
    """

    texts: Mapping[str, str]
    links: Mapping[str, Path]

    @property
    def digest(self) -> str:
        """The digest of the programs, which differs whenever they do."""
        told = (*self.texts.values(), *map(str, self.links.values()))
        return hashlib.sha256("\0".join(told).encode()).hexdigest()[:12]


class ProgramsOnPath:
    """Finds programs on PATH. other_than: the folder to make, whose programs are ignored."""

    def __init__(self, path: str, other_than: Path | None) -> None:
        folders = filter(None, path.split(os.pathsep))
        self._path = os.pathsep.join(each for each in folders if not _is_same(Path(each), other_than))

    def find(self, program: str) -> Path | None:
        found = shutil.which(program, path=self._path)
        return None if found is None else Path(found).absolute()


def _is_same(one: Path, other: Path | None) -> bool:
    return other is not None and one.exists() and other.exists() and one.samefile(other)


def run(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> int:
    """Make the folder, and print its path. Returns the exit code. Raises UsageError; exits for --help.

    environment: the variables PATH, HOME and XDG_CACHE_HOME.
    """
    given = parser().parse_args(arguments)
    try:
        directory = None if given.directory is None else given.directory.absolute()
        programs = ProgramsOnPath(environment.get("PATH", os.defpath), other_than=directory)
        assets = _assets(given.etcd, _checked_release(given.emulated_version), programs)
        directory = directory or _cache(environment) / "apiserver" / "envtest-assets" / assets.digest
        make(directory, assets)
    except AssetsNotMade as error:
        print_error(f"envtest-assets: {error}")
        return NOT_MADE
    except OSError as error:
        print_error(f"envtest-assets: {error.filename}: {error.strerror or error}")
        return NOT_MADE
    print(directory)
    return MADE


def make(directory: Path, assets: Assets) -> None:
    """Make the folder, or update it; several processes may do so at once. Raises AssetsNotMade, OSError."""
    _check_nothing_in_the_way(directory)
    # Anyone who can write there could make the tests run other programs.
    make_directory(directory, 0o755)
    for name, text in assets.texts.items():
        _write(directory / name, text)
    for name, target in assets.links.items():
        _link(directory / name, target)
    for name in {ETCD, KUBECTL} - assets.texts.keys() - assets.links.keys():
        (directory / name).unlink(missing_ok=True)


def _check_nothing_in_the_way(directory: Path) -> None:
    """Check that no other files are in the way."""
    if directory.exists() and not directory.is_dir():
        raise AssetsNotMade(f"{directory} exists, but is not a directory")
    names = (KUBE_APISERVER, HELP, ETCD, KUBECTL)
    found = [directory / name for name in names if os.path.lexists(directory / name)]
    # In this order: another process may be making the folder.
    if found and not _is_ours(directory / KUBE_APISERVER):
        raise AssetsNotMade(f"{found[0]} exists, but apiserver envtest-assets did not create it")


def _is_ours(program: Path) -> bool:
    if program.is_symlink() or not program.is_file():
        return False
    with program.open("rb") as file:
        return MARK.encode() in file.read(1024)


def _write(path: Path, text: str) -> None:
    """Write an executable file atomically. Raises OSError."""
    if not path.is_symlink() and path.is_file() and path.read_bytes() == text.encode():
        return
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        os.chmod(temporary, 0o755)  # noqa: S103  a program, without secrets
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _link(path: Path, target: Path) -> None:
    """Make a symbolic link."""
    if path.is_symlink() and path.readlink() == target:
        return
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as temporary:
        link = Path(temporary) / path.name
        link.symlink_to(target)
        os.replace(link, path)


def _assets(etcd: str, emulated_version: str, programs: ProgramsOnPath) -> Assets:
    """Returns the content of the folder. Raises AssetsNotMade."""
    python = shlex.quote(str(Path(sys.executable).absolute()))
    flags = f" --emulated-version={emulated_version}" if emulated_version else ""
    texts = {
        # envtest asks for --help before each start, to see which flags there are. The shell is quicker.
        KUBE_APISERVER: _program(
            'if [ "$*" = --help ] && [ -r "$0.help" ]; then exec cat "$0.help"; fi\n'
            # Without -P the interpreter would import what lies in the directory of the tests.
            f'exec {python} -P -m {_SERVER_MODULE}{flags} "$@"\n'
        ),
        HELP: f"{build_parser(HELP_WIDTH_MAX).format_help()}\n({_SHOWN})\n",
    }
    links = {}
    if etcd == STAND_IN:
        texts[ETCD] = _program(f'exec {python} -IS {shlex.quote(str(STAND_IN_FILE))} "$@"\n')
    else:
        links[ETCD] = _real_etcd(etcd, programs)
    if (kubectl := programs.find(KUBECTL)) is not None:
        links[KUBECTL] = kubectl
    return Assets(texts, links)


def _program(text: str) -> str:
    return f"#!/bin/sh\n{MARK}\n{text}"


def _real_etcd(given: str, programs: ProgramsOnPath) -> Path:
    """Returns the path of a real etcd."""
    if given == REAL:
        found = programs.find(ETCD)
        if found is None:
            raise AssetsNotMade("etcd is not on the PATH; use --etcd PATH")
        return found
    path = Path(given).absolute()
    if not (path.is_file() and os.access(path, os.X_OK)):
        raise AssetsNotMade(f"--etcd: {path} is not a program")
    return path


def _cache(environment: Mapping[str, str]) -> Path:
    """Returns the directory of the user's caches, as Go's os.UserCacheDir does. Raises AssetsNotMade."""
    if sys.platform != "darwin" and (named := environment.get("XDG_CACHE_HOME", "")):
        if Path(named).is_absolute():
            return Path(named)
        raise AssetsNotMade(f"$XDG_CACHE_HOME: {named} is not an absolute path")
    if not (home := environment.get("HOME", "")):
        raise AssetsNotMade("$HOME is not set; pass a DIR")
    return (
        Path(home).absolute().joinpath(*(("Library", "Caches") if sys.platform == "darwin" else (".cache",)))
    )


def _checked_release(given: int | None) -> str:
    """Returns the release for the server's flag; empty if none is given. Raises UsageError."""
    if given is None:
        return ""
    try:
        return str(EmulatedRelease.of(given))
    except InvalidEmulation as error:
        raise UsageError(f"envtest-assets: {error}") from None


def parser() -> IntermixedParser:
    parser = described_parser("envtest-assets", _ABOUT)
    parser.add_argument("directory", type=path, nargs="?", metavar="DIR", help="The directory to create.")
    parser.add_argument(
        "--etcd",
        default=STAND_IN,
        metavar="|".join((STAND_IN, REAL, "PATH")),
        help=f"The etcd program to use. '{REAL}' means the etcd program on the PATH. (default {STAND_IN})",
    )
    parser.add_argument(
        "--emulated-version",
        type=release,
        metavar="1.NN",
        help="The Kubernetes release whose APIs the server serves.",
    )
    return parser
