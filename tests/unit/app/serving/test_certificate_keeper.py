"""Certificates are renewed before they expire; of others it is told."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from apiserver.app.serving import pki, pki_files
from apiserver.app.serving.certificate_keeper import TOLD_EVERY_S, CertificateKeeper

ADDRESSES: Final = ["127.0.0.1"]
DAY_S: Final = 24 * 3_600.0


def not_after(path: Path) -> datetime:
    return x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc


def shorten(certificate: Path, ca: Path, days: int) -> None:
    """Have a certificate, of the same key, end earlier."""
    old = x509.load_pem_x509_certificate(certificate.read_bytes())
    key = serialization.load_pem_private_key(ca.with_suffix(".key").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    builder = (
        x509.CertificateBuilder(old.issuer, old.subject, old.public_key(), old.serial_number)
        .not_valid_before(old.not_valid_before_utc)
        .not_valid_after(datetime.now(UTC) + timedelta(days=days))
    )
    for extension in old.extensions:
        builder = builder.add_extension(extension.value, critical=extension.critical)
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    certificate.write_bytes(pem)


@pytest.fixture
def made(tmp_path: Path) -> pki_files.Pki:
    return pki.ensure(tmp_path / "pki", ADDRESSES)


def test_only_certificates_that_expire_soon_are_renewed(made: pki_files.Pki) -> None:
    directory = made.ca_cert.parent
    assert not pki.renew(directory, ADDRESSES)
    shorten(made.serving_cert, made.ca_cert, days=29)
    shorten(made.admin_cert, made.ca_cert, days=31)
    before = {path: path.read_bytes() for path in directory.iterdir()}
    assert pki.renew(directory, ADDRESSES)
    changed = {path for path, content in before.items() if path.read_bytes() != content}
    assert changed == {made.serving_cert, made.serving_key}
    assert not_after(made.serving_cert) > datetime.now(UTC) + timedelta(days=300)


def test_names_matter_at_the_start_only(made: pki_files.Pki) -> None:
    """Two servers with one directory would replace each other's certificate again and again."""
    directory = made.ca_cert.parent
    assert not pki.renew(directory, ["192.0.2.1"])
    before = made.serving_cert.read_bytes()
    pki.ensure(directory, ["192.0.2.1"])
    assert made.serving_cert.read_bytes() != before


def test_the_ca_of_a_server_that_runs_is_not_replaced(made: pki_files.Pki) -> None:
    """Its clients trust that one. What it signs cannot last longer, and is not made again each time."""
    directory = made.ca_cert.parent
    shorten(made.ca_cert, made.ca_cert, days=20)
    ca = made.ca_cert.read_bytes()
    shorten(made.serving_cert, made.ca_cert, days=10)
    shorten(made.admin_cert, made.ca_cert, days=10)
    assert pki.renew(directory, ADDRESSES)
    assert made.ca_cert.read_bytes() == ca
    assert not_after(made.serving_cert) == not_after(made.ca_cert)
    assert not pki.renew(directory, ADDRESSES)


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_text("x")])
async def test_without_its_ca_nothing_is_renewed_and_the_server_goes_on(
    made: pki_files.Pki, caplog: pytest.LogCaptureFixture, spoil: Callable[[Path], object]
) -> None:
    shorten(made.serving_cert, made.ca_cert, days=1)
    spoil(made.ca_cert)
    keeper = CertificateKeeper(lambda: pki.renew(made.ca_cert.parent, ADDRESSES), dict)
    await keeper.look()
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert str(made.ca_cert) in record.getMessage()


TOLD: Final = {"in time": (31.0, None), "soon": (29.0, logging.WARNING), "expired": (-1.0, logging.ERROR)}


@pytest.mark.parametrize(("days", "level"), TOLD.values(), ids=TOLD)
async def test_what_expires_is_told_once_a_day(
    caplog: pytest.LogCaptureFixture, days: float, level: int | None
) -> None:
    now = [1_700_000_000.0]
    expires_at = now[0] + days * DAY_S
    keeper = CertificateKeeper(lambda: False, lambda: {"serving certificate": expires_at}, lambda: now[0])
    for _ in range(3):
        await keeper.look()
    now[0] += TOLD_EVERY_S / 2
    await keeper.look()
    levels = [record.levelno for record in caplog.records]
    assert levels == ([] if level is None else [level])


async def test_that_it_has_expired_is_told_at_once(caplog: pytest.LogCaptureFixture) -> None:
    now = [1_700_000_000.0]
    expires_at = now[0] + 60
    keeper = CertificateKeeper(lambda: False, lambda: {"serving certificate": expires_at}, lambda: now[0])
    await keeper.look()
    now[0] += 61
    await keeper.look()
    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.ERROR]
