"""Findings about configurations: each mistake is one finding, and nothing is started."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from apiserver.app.doctor.configuration import ConfigurationFacts, examine, load, unusable_files
from tests.unit.app.doctor.findings import problems, told


def file(directory: Path, content: str) -> Path:
    path = directory / "file"
    path.write_text(content)
    return path


FILE: Final = "FILE"
# The flags, of which FILE is a file with the content, and the findings.
MISTAKES: Final[dict[str, tuple[list[str], str, list[tuple[str, str]]]]] = {
    "none": ([], "", []),
    "an unknown flag": (["--etcd-server=x"], "", [("ERROR", "unknown flag: --etcd-server")]),
    "a combination": (
        ["--workers=2"],
        "",
        [("ERROR", "--workers requires --etcd-servers: only one process can use the embedded store")],
    ),
    "a file that is not there": (
        ["--client-ca-file=/none"],
        "",
        [("ERROR", "--client-ca-file: /none is not a file")],
    ),
    "a broken file of flags": (["--config=FILE"], "[", [("ERROR", "FILE is not valid YAML: ")]),
    "a flag in a file": (["--config=FILE"], "secure-port: x", [("ERROR", "FILE: argument --secure-port")]),
    "a broken file of tokens": (
        ["--token-auth-file=FILE"],
        "only-a-token",
        [
            (
                "ERROR",
                (
                    "--token-auth-file: FILE: FILE, line 1: "
                    'expected token,user,uid or token,user,uid,"group1,group2"'
                ),
            )
        ],
    ),
    "a key that is none": (
        ["--service-account-signing-key-file=FILE"],
        "junk",
        [("ERROR", "--service-account-signing-key-file: FILE: ")],
    ),
    "public keys that are none": (
        ["--service-account-key-file=FILE"],
        "junk",
        [("ERROR", "--service-account-key-file: FILE: the file contains no key")],
    ),
    "a flag without effect": (
        ["--etcd-healthcheck-timeout=2s"],
        "",
        [("NOTE", "--etcd-healthcheck-timeout has no effect on this server")],
    ),
}


@pytest.mark.parametrize(("flags", "content", "found"), MISTAKES.values(), ids=MISTAKES)
def test_findings(tmp_path: Path, flags: list[str], content: str, found: list[tuple[str, str]]) -> None:
    path = str(file(tmp_path, content))
    data_dir = tmp_path / "data"
    config, facts = load([f"--data-dir={data_dir}", *(each.replace(FILE, path) for each in flags)])
    told_of = problems(examine(facts, [] if config is None else list(unusable_files(config))))
    assert [severity for severity, _ in told_of] == [severity for severity, _ in found]
    for (_, message), (_, begin) in zip(told_of, found, strict=True):
        assert message.startswith(begin.replace(FILE, path))
    assert (config is None) is bool(facts.problem)
    assert not data_dir.exists()


STORES: Final[dict[str, tuple[list[str], Callable[[Path], str]]]] = {
    "embedded": ([], lambda path: f"embedded in {path / 'store'}"),
    "in memory": (["--storage-backend=memory"], lambda _: "in memory"),
    "etcd": (["--etcd-servers=http://u:secret@a:2379"], lambda _: "etcd at http://CLASSIFIED@a:2379"),
}


@pytest.mark.parametrize(("flags", "store"), STORES.values(), ids=STORES)
def test_the_store_is_named(tmp_path: Path, flags: list[str], store: Callable[[Path], str]) -> None:
    _, facts = load([f"--data-dir={tmp_path}", *flags])
    assert told(examine(facts)) == [("OK", f"the configuration is valid; the store is {store(tmp_path)}")]


def test_hints_are_advice() -> None:
    _, facts = load(["--etcd-server=x"])
    (finding,) = examine(facts)
    assert finding.advice.startswith("Correct the flag or the file; did you mean --etcd-servers? See")


def test_a_data_directory_of_another_user() -> None:
    facts = ConfigurationFacts(store="x", data_dir=Path("/data"), is_writable=False)
    assert problems(examine(facts)) == [("ERROR", "this user cannot write to the data directory /data")]
