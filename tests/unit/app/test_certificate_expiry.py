"""When certificates expire that no other part of the server watches."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from apiserver.app.certificate_expiry import CertificateExpiry, track_expiry
from apiserver.app.serving.listening import CannotStart
from apiserver.app.serving.watched_files import FILE_BYTES_MAX
from apiserver.cli.command_line import parse
from apiserver.golang.pem import first_expiry
from tests.support.authority import Authority
from tests.support.etcd_process import TlsFiles

CASES: Final = ("--etcd-cafile", "--etcd-certfile", "--oidc-ca-file", "--cluster-signing-cert-file")
ETCD: Final = ("--etcd-servers=https://127.0.0.1:1",)


@pytest.fixture
def files(tmp_path: Path) -> TlsFiles:
    return Authority(tmp_path / "ca").issue("one")


def tracked(files: TlsFiles, *flags: str) -> CertificateExpiry:
    found = track_expiry(
        parse(
            [
                *ETCD,
                *flags,
                f"--etcd-cafile={files.ca}",
                f"--etcd-certfile={files.certificate}",
                f"--etcd-keyfile={files.key}",
                "--oidc-issuer-url=https://127.0.0.1:1",
                "--oidc-client-id=a",
                f"--oidc-ca-file={files.ca}",
                f"--cluster-signing-cert-file={files.certificate}",
                f"--cluster-signing-key-file={files.key}",
            ]
        )
    )
    assert sorted(found.expirations) == sorted(CASES)
    return found


def expiries(files: TlsFiles) -> Mapping[str, float]:
    ca, certificate = (first_expiry(each.read_bytes()) for each in (files.ca, files.certificate))
    return {each: ca if "ca" in each else certificate for each in CASES}


@pytest.mark.parametrize(
    ("flags", "reloaded"),
    [((), {"--etcd-cafile", "--etcd-certfile"}), (("--etcd-transport=grpc",), set())],
    ids=["http2", "grpc"],
)
async def test_the_expiry_is_that_of_what_is_in_use(
    files: TlsFiles, tmp_path: Path, flags: tuple[str, ...], reloaded: set[str]
) -> None:
    found = tracked(files, *flags)
    before = expiries(files)
    assert found.expirations == before
    other = Authority(tmp_path / "other").issue("one", valid_for=datetime.timedelta(hours=5))
    files.certificate.write_bytes(other.certificate.read_bytes())
    files.ca.write_bytes(other.certificate.read_bytes())
    for each in found.watched:
        await each.look()
        await each.look()
    after = expiries(files)
    assert not {*before.values()} & {*after.values()}
    assert found.expirations == {each: (after if each in reloaded else before)[each] for each in CASES}


async def test_a_file_that_becomes_invalid_changes_nothing_and_is_logged(
    files: TlsFiles, caplog: pytest.LogCaptureFixture
) -> None:
    found = tracked(files)
    before = dict(found.expirations)
    files.certificate.write_text("none")
    for each in found.watched:
        await each.look()
        await each.look()
    assert found.expirations == before
    assert caplog.messages
    for text in caplog.messages:
        assert "cannot use the changed files; connections to etcd that begin from now on may fail" in text


def test_a_server_without_such_files_watches_none() -> None:
    assert track_expiry(parse([])) == CertificateExpiry([], {})


def test_a_file_that_cannot_be_read_prevents_the_start(files: TlsFiles) -> None:
    files.ca.write_bytes(bytes(FILE_BYTES_MAX + 1))
    with pytest.raises(CannotStart, match=r"ca\.crt"):
        track_expiry(parse([*ETCD, f"--etcd-cafile={files.ca}"]))


def test_a_file_without_certificates_is_left_to_its_user(
    files: TlsFiles, caplog: pytest.LogCaptureFixture
) -> None:
    files.ca.write_text("none")
    with caplog.at_level(logging.WARNING):
        assert track_expiry(parse([*ETCD, f"--etcd-cafile={files.ca}"])).expirations == {}
    [record] = caplog.records
    assert "it is not known when a certificate expires: --etcd-cafile: " in record.getMessage()
