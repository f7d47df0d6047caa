"""Findings about files that others can read or replace."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from apiserver.app.doctor.secret_files import SecretFile, examine, gather
from apiserver.cli.command_line import parse
from tests.unit.app.doctor.findings import told

KEY: Final = Path("/etc/a.key")
MODES: Final = {
    0o600: ("OK", "only the owner or the group can read 1 file with secrets"),
    0o640: ("OK", "only the owner or the group can read 1 file with secrets"),
    0o644: ("WARNING", "/etc/a.key (--etcd-keyfile) has mode 0644: all users can read it"),
    0o660: ("WARNING", "/etc/a.key (--etcd-keyfile) has mode 0660: other users can write to it"),
    0o602: ("WARNING", "/etc/a.key (--etcd-keyfile) has mode 0602: other users can write to it"),
}


@pytest.mark.parametrize(("mode", "found"), MODES.items(), ids=map(oct, MODES))
def test_findings_by_mode(mode: int, found: tuple[str, str]) -> None:
    assert told(examine([SecretFile("--etcd-keyfile", KEY, mode)])) == [found]


def test_a_file_that_cannot_be_read_is_an_error() -> None:
    assert told(examine([SecretFile("--etcd-keyfile", KEY, problem="Permission denied")])) == [
        ("ERROR", "/etc/a.key (--etcd-keyfile) cannot be read: Permission denied")
    ]


def test_the_files_of_a_configuration_and_of_the_data_directory(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.csv"
    generated = tmp_path / "pki" / "ca.key"
    generated.parent.mkdir()
    for path, mode in ((tokens, 0o604), (generated, 0o600)):
        path.touch(mode)
        path.chmod(mode)
    config = parse([f"--data-dir={tmp_path}", f"--token-auth-file={tokens}"])
    assert gather(config) == [
        SecretFile("--token-auth-file", tokens, 0o604),
        SecretFile("the data directory", generated, 0o600),
    ]
    tokens.unlink()
    assert gather(config)[0].problem == "No such file or directory"


def test_the_store_keeps_its_locks(tmp_path: Path) -> None:
    """POSIX releases all locks of a process on a file when the process closes any descriptor of it."""
    path = tmp_path / "store" / "store.db"
    path.parent.mkdir()
    path.touch(0o600)
    with path.open("r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        assert gather(parse([f"--data-dir={tmp_path}"])) == [SecretFile("the embedded store", path)]
        other = subprocess.run([sys.executable, "-c", LOCK, path], check=False)
    assert other.returncode == 1


LOCK: Final = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(1)
"""
