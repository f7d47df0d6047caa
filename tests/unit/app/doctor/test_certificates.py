"""Findings about certificates, by the time that is left and by what may be wrong with the files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from apiserver.app.doctor.certificates import (
    CertificateFile,
    Validity,
    examine,
    gather,
    gather_kubeconfig,
    in_days,
    of_pem,
)
from apiserver.cli.command_line import parse
from apiserver.cli.server_options import ServerOptions
from tests.support.authority import Authority
from tests.unit.app.doctor.findings import problems, told

NOW: Final = datetime(2027, 3, 1, 12, tzinfo=UTC)
DAY: Final = timedelta(days=1)


def valid(before: timedelta, after: timedelta) -> Validity:
    """A certificate that is valid since some time, and for some more."""
    return Validity(NOW - before, NOW + after)


YEAR: Final = valid(100 * DAY, 265 * DAY)
SICK: Final[dict[str, tuple[CertificateFile, list[tuple[str, str]]]]] = {
    "healthy": (CertificateFile("x", [YEAR]), []),
    "expired": (
        CertificateFile("x", [valid(400 * DAY, -35 * DAY)]),
        [("ERROR", "x expired 35 days ago (2027-01-25)")],
    ),
    "an expired intermediate": (
        CertificateFile("x", [YEAR, valid(400 * DAY, -2 * DAY)]),
        [("ERROR", "x expired 2 days ago (2027-02-27)")],
    ),
    "one expired CA of two": (
        CertificateFile("x", [YEAR, valid(400 * DAY, -2 * DAY)], is_bundle=True),
        [("NOTE", "1 of 2 CAs in x have expired")],
    ),
    "all CAs expired": (
        CertificateFile("x", [valid(400 * DAY, -2 * DAY)], is_bundle=True),
        [("ERROR", "x expired 2 days ago (2027-02-27)")],
    ),
    "12 days": (
        CertificateFile("x", [valid(353 * DAY, 12 * DAY)]),
        [("WARNING", "x expires in 12 days (2027-03-13)")],
    ),
    "5 hours": (
        CertificateFile("x", [valid(353 * DAY, timedelta(hours=5))]),
        [("WARNING", "x expires in 5 hours (2027-03-01)")],
    ),
    "12 days that are renewed": (
        CertificateFile("x", [valid(353 * DAY, 12 * DAY)], is_generated=True),
        [("NOTE", "x expires in 12 days (2027-03-13)")],
    ),
    "expired, and renewed at the start": (
        CertificateFile("x", [valid(400 * DAY, -35 * DAY)], is_generated=True),
        [("WARNING", "x expired 35 days ago (2027-01-25)")],
    ),
    "half of a short life": (CertificateFile("x", [valid(DAY, DAY)]), []),
    "the end of a short life": (
        CertificateFile("x", [valid(20 * DAY, 4 * DAY)]),
        [("WARNING", "x expires in 4 days (2027-03-05)")],
    ),
    "not yet valid": (
        CertificateFile("x", [valid(-DAY, 300 * DAY)]),
        [("ERROR", "x is not valid before 2027-03-02 12:00 UTC; the current time is 2027-03-01 12:00 UTC")],
    ),
    "unusable": (CertificateFile("x", problem="it is empty"), [("ERROR", "x cannot be used: it is empty")]),
}


@pytest.mark.parametrize(("file", "found"), SICK.values(), ids=SICK)
def test_findings(file: CertificateFile, found: list[tuple[str, str]]) -> None:
    assert problems(examine([file], NOW)) == found


def test_one_line_for_those_without_problems() -> None:
    files = [CertificateFile("a", [YEAR]), CertificateFile("b", [valid(DAY, 200 * DAY)])]
    assert told(examine(files, NOW)) == [
        ("OK", "2 certificate files without problems; the first to expire is b, in 200 days (2027-09-17)")
    ]


def test_a_time_is_in_days_or_hours() -> None:
    assert in_days(NOW + 47 * DAY / 24, NOW) == "in 47 hours (2027-03-03)"
    assert in_days(NOW - timedelta(hours=1), NOW) == "1 hour ago (2027-03-01)"


def test_a_file_without_a_certificate_is_a_problem() -> None:
    assert of_pem("x", b"junk").problem == "no PEM certificate was found"


def test_the_files_of_a_configuration(tmp_path: Path) -> None:
    one, other = Authority(tmp_path / "one"), Authority(tmp_path / "other")
    certificate, key = one.issue("a").certificate, other.issue("b").key
    config = parse(
        [
            f"--data-dir={tmp_path}",
            f"--client-ca-file={one.ca}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
        ]
    )
    assert problems(examine(gather(config), datetime.now(UTC))) == [
        (
            "ERROR",
            f"{certificate} (--tls-cert-file) cannot be used: tls: private key does not match public key",
        )
    ]


def test_a_kubeconfig_that_cannot_be_read_has_none(tmp_path: Path) -> None:
    assert gather_kubeconfig(ServerOptions(tmp_path / "none")) == []


def test_a_chain_that_cannot_be_read_behind_a_certificate_that_fits(tmp_path: Path) -> None:
    """The key fits the first certificate, and the server cannot load the file nevertheless."""
    files = Authority(tmp_path / "pki").issue("a")
    with files.certificate.open("ab") as chain:
        chain.write(b"-----BEGIN CERTIFICATE-----\nanVuaw==\n-----END CERTIFICATE-----\n")
    config = parse(
        [
            f"--data-dir={tmp_path / 'data'}",
            f"--tls-cert-file={files.certificate}",
            f"--tls-private-key-file={files.key}",
        ]
    )
    assert problems(examine(gather(config), datetime.now(UTC))) == [
        (
            "ERROR",
            f"{files.certificate} (--tls-cert-file) cannot be used: no PEM certificate was found",
        )
    ]
