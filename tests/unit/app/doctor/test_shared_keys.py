"""Findings about the keys that replicas share."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from apiserver.app.doctor.configuration import unusable_files
from apiserver.app.doctor.shared_keys import SharedKeys, examine, own_keys
from apiserver.cli.command_line import parse
from apiserver.controllers.replicas import Replica
from apiserver.meta.releases.emulation import DEFAULT_RELEASE
from tests.support.authority import Authority
from tests.unit.app.doctor.findings import problems, told


def replica(*keys: str) -> Replica:
    issuer, release = "https://a", DEFAULT_RELEASE
    return Replica("10.0.0.1", 6443, issuer, (issuer,), keys[0], keys, "ca", False, release, release)


PLAIN: Final = SharedKeys(exists=True, own=("k1",), issuers=("https://a",), replicas=(replica("k1"),))
SICK: Final[dict[str, tuple[SharedKeys, list[tuple[str, str]]]]] = {
    "healthy": (PLAIN, []),
    "nothing yet": (SharedKeys(), []),
    "another key": (
        PLAIN._replace(own=("k2",)),
        [
            (
                "ERROR",
                (
                    "The replica at 10.0.0.1:6443 and this replica do not accept each other's service "
                    "account tokens"
                ),
            )
        ],
    ),
    "another key that is accepted": (
        PLAIN._replace(own=("k2", "k1"), replicas=(replica("k1", "k2"),)),
        [],
    ),
    "another issuer": (
        PLAIN._replace(issuers=("https://b",)),
        [
            (
                "ERROR",
                (
                    "The replica at 10.0.0.1:6443 issues service account tokens as https://a, "
                    "but this replica as https://b"
                ),
            )
        ],
    ),
    "another encryption": (
        PLAIN._replace(problem="it cannot be decrypted"),
        [("ERROR", "it cannot be decrypted")],
    ),
    "not encrypted yet": (
        PLAIN._replace(encrypts=True),
        [("NOTE", "the keys that replicas share are not encrypted in etcd")],
    ),
    "encrypted": (PLAIN._replace(encrypts=True, is_encrypted=True), []),
    "files of another cluster": (
        PLAIN._replace(differing=(Path("/data/pki/ca.crt"), Path("/data/pki/sa.key"))),
        [("NOTE", "ca.crt, sa.key in /data/pki belong to a different cluster than the keys in etcd")],
    ),
    "another CA of front proxies": (
        PLAIN._replace(front_proxy_is_published=False),
        [("WARNING", "the CA of front proxies is not in the ConfigMap kube-system/extension-apiserver-auth")],
    ),
    "keys that are not known": (PLAIN._replace(own=()), []),
}


@pytest.mark.parametrize(("facts", "found"), SICK.values(), ids=SICK)
def test_findings(facts: SharedKeys, found: list[tuple[str, str]]) -> None:
    told_of = problems(examine(facts))
    assert len(told_of) == len(found)
    for (severity, message), (expected, begin) in zip(told_of, found, strict=True):
        assert (severity, message[: len(begin)]) == (expected, begin)


def test_replicas_that_agree_are_named() -> None:
    assert told(examine(PLAIN)) == [
        ("OK", "1 running replica and this configuration share keys: 10.0.0.1:6443")
    ]


@pytest.mark.parametrize("flag", ["--service-account-signing-key-file", "--service-account-key-file"])
def test_keys_that_cannot_be_used_are_those_of_another_check(tmp_path: Path, flag: str) -> None:
    file = tmp_path / "junk"
    file.write_text("junk")
    signing = (
        ()
        if "signing" in flag
        else (f"--service-account-signing-key-file={Authority(tmp_path / 'a').issue('a').key}",)
    )
    config = parse([f"--data-dir={tmp_path}", f"{flag}={file}", *signing])
    assert own_keys(config, None) == ()
    assert [each.partition(":")[0] for each in unusable_files(config)] == [flag]
