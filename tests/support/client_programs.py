"""Programs with clients that this environment cannot hold: of another language, or of a large family.

Their packages are installed once, into a directory of the Python environment whose name changes with what is
to be installed, from the registries that npm and pip are configured for.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.required import missing

PROGRAMS: Final = Path(__file__).parents[1] / "server" / "client_programs"
# What kubernetes-fluent-client asks for; Debian 12 has an older one.
OLDEST_NODE: Final = 20
NODE: Final = f"https://nodejs.org/en/download has it ({OLDEST_NODE} or later); it has to be on PATH"
INSTALLED_WITHIN_S: Final = 600.0
# A program takes up to 20 s on an idle machine; most of that is the first import of its packages.
ENDED_WITHIN_S: Final = 180.0


def _installed(what: Sequence[Path], command: Sequence[str]) -> Path:
    """Run `command` where copies of the files `what` lie, if nobody has, and return that directory."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in what)).hexdigest()[:12]
    directory = Path(sys.prefix) / "client-programs" / digest
    directory.mkdir(parents=True, exist_ok=True)
    done = directory / "installed"
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test process may be at it
        if not done.exists():
            for path in what:
                shutil.copy(path, directory)
            end = subprocess.run(
                command,
                cwd=directory,
                capture_output=True,
                text=True,
                timeout=INSTALLED_WITHIN_S,
                check=False,
            )
            if end.returncode:  # A registry that cannot be reached says nothing about the server.
                pytest.skip(
                    f"{command[0]} could not install the clients; it needs a registry: {end.stderr[-500:]}"
                )
            done.touch()
    return directory


def node() -> str:
    """The program `node`; the test is skipped where it is missing or too old."""
    program = shutil.which("node") or missing("node", NODE)
    version = subprocess.run(
        [program, "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if int(version.removeprefix("v").split(".")[0]) < OLDEST_NODE:
        pytest.skip(f"node {OLDEST_NODE} or later is missing, this is {version}: {NODE}")
    return program


def node_packages() -> Path:
    """The `node_modules` with all of package-lock.json."""
    files = [PROGRAMS / "package.json", PROGRAMS / "package-lock.json"]
    return _installed(files, [*_npm("ci"), "--omit=optional"]) / "node_modules"


def packages_of(package: Path) -> Path:
    """The `node_modules` with what another package.json names."""
    return _installed([package], _npm("install")) / "node_modules"


def _npm(command: str) -> list[str]:
    """No scripts of packages are run: none of ours needs them."""
    node()
    npm = shutil.which("npm") or missing("npm", NODE)
    return [npm, command, "--ignore-scripts", "--no-audit", "--no-fund"]


def python_packages() -> Path:
    """A directory for PYTHONPATH with all of requirements.txt."""
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check")
    where = "packages"
    command = [*pip, f"--target={where}", "--upgrade", "--requirement=requirements.txt"]
    return _installed([PROGRAMS / "requirements.txt"], command) / where


def run_with_node(name: str, packages: Path, directory: Path, kubeconfig: Path, namespace: str) -> Any:
    """Run a program; returns the document that it prints. directory: an empty one."""
    (directory / "node_modules").symlink_to(packages)  # where its imports are looked for
    program = shutil.copy(PROGRAMS / name, directory)
    return _printed(["node", "--no-deprecation", str(program), namespace], {"KUBECONFIG": str(kubeconfig)})


def run_with_python(name: str, packages: Path, kubeconfig: Path, namespace: str) -> Any:
    """Run a program; returns the document that it prints."""
    variables = {"KUBECONFIG": str(kubeconfig), "PYTHONPATH": str(packages)}
    return _printed([sys.executable, str(PROGRAMS / name), namespace], variables)


def ruby_with(library: str) -> str:
    """The program `ruby`, if it has the library; else the test is skipped: not all systems have it."""
    ruby = shutil.which("ruby")
    if ruby is None:
        pytest.skip("ruby is missing: https://www.ruby-lang.org/en/downloads/; it has to be on PATH")
    if subprocess.run([ruby, f"-r{library}", "-e", ""], capture_output=True, check=False).returncode:
        pytest.skip(f"ruby has no {library}: gem install {library} installs it")
    return ruby


def run_with_ruby(name: str, ruby: str, kubeconfig: Path, namespace: str) -> Any:
    """Run a program; returns the document that it prints."""
    return _printed([ruby, str(PROGRAMS / name), namespace], {"KUBECONFIG": str(kubeconfig)})


def _printed(command: Sequence[str], variables: dict[str, str]) -> Any:
    end = subprocess.run(
        command,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=ENDED_WITHIN_S,
        check=False,
    )
    assert end.returncode == 0, end.stderr
    return json.loads(end.stdout)
