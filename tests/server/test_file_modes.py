"""Whatever the umask, nobody else can read or replace what the server writes.

Directories that are missing are made for it alone, those above them too.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from apiserver.storage.private_directories import make_directory
from tests.server.test_process import run
from tests.support.api import Api
from tests.support.eventually import until
from tests.support.server_process import ServerProcess

POLICY: Final = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: RequestResponse}]}"
CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def modes(root: Path) -> dict[str, int]:
    """What others may do with everything below a directory."""
    return {
        str(path.relative_to(root)): stat.S_IMODE(path.stat().st_mode) & 0o077 for path in root.rglob("*")
    }


def test_nobody_else_reads_what_a_server_writes(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir(0o700)
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    log = root / "log" / "deep" / "audit.log"
    data = root / "data" / "deep" / "data"
    with (
        umask(0),
        ServerProcess(
            tmp_path / "process",
            f"--data-dir={data}",
            f"--cert-dir={root / 'certificates' / 'deep' / 'serving'}",
            f"--audit-policy-file={policy}",
            f"--audit-log-path={log}",
            "--audit-log-maxsize=1",
            "--audit-log-compress",
            module="apiserver",
        ) as server,
        Api(server, ca=data / "pki" / "ca.crt") as api,
    ):
        for number in range(4):
            body = {"metadata": {"name": f"c{number}"}, "data": {"a": "x" * 400_000}}
            api.post(CONFIG_MAPS, body).ok()
        until(
            lambda: {path.suffix for path in log.parent.glob("audit-*")},
            lambda suffixes: suffixes == {".gz"},
            "files that have been rotated, and none that is still being compressed",
        )
        seen = modes(root)
        saved = root / "saved" / "snapshot"
        saved.parent.mkdir(0o700)
        assert run("snapshot", "save", str(saved), f"--data-dir={data}").returncode == 0
        restored = root / "restored" / "deep" / "data"
        assert run("snapshot", "restore", str(saved), f"--data-dir={restored}").returncode == 0
        seen |= modes(root)
    assert {name for name, mode in seen.items() if mode} == set()
    names = {Path(name).name for name in seen}
    assert {"store.db", "store.db-wal", "admin.kubeconfig", "ca.key", "audit.log", "snapshot"} <= names


@pytest.mark.parametrize("mask", [0, 0o022, 0o077])
def test_directories_that_are_missing_are_private(tmp_path: Path, mask: int) -> None:
    """Those that are there stay as they are."""
    there = tmp_path / "there"
    there.mkdir()
    there.chmod(0o755)
    with umask(mask):
        make_directory(there / "a" / "b" / "c")
        make_directory(there / "a" / "b" / "c")
        make_directory(there)
    assert modes(tmp_path) == {"there": 0o055, "there/a": 0, "there/a/b": 0, "there/a/b/c": 0}


def test_what_is_no_directory_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError, match=r"File exists|Not a directory"):
            make_directory(path)
