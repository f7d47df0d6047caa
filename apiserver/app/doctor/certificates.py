"""Checks certificates: how long they are valid, and whether they belong to their keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509

from apiserver.app.doctor import configured_files
from apiserver.app.doctor.report import Finding, error, note, ok, warning
from apiserver.app.doctor.units import count
from apiserver.cli.bounded_files import read_bounded
from apiserver.cli.config import Config
from apiserver.cli.server_options import ServerOptions
from apiserver.golang.tls_pairs import pair_problem
from apiserver.golang.urls import redacted_urls
from apiserver.golang.x509_parsing import UNREADABLE, parse_pem_certificates
from apiserver.webhooks.credentials import PemText
from apiserver.wire.configuration_fields import InvalidConfiguration

# A month is time enough for any approval. Certificates that live shorter are renewed by a program, which
# usually does so when a third of their life is left: only less is a reason to worry.
WARN_BEFORE: Final = timedelta(days=30)
WARN_SHARE: Final = 1 / 3


class Validity(NamedTuple):
    """When a certificate is valid."""

    not_before: datetime
    not_after: datetime

    @classmethod
    def of(cls, certificate: x509.Certificate) -> Validity:
        return cls(certificate.not_valid_before_utc, certificate.not_valid_after_utc)


class CertificateFile(NamedTuple):
    """A file of certificates. name: what it is.

    problem: why it cannot be used; empty if it can be.
    is_bundle: it holds CAs, each of which is trusted by itself; otherwise it is a chain, of which all are
        needed.
    is_generated: the server renews it.
    """

    name: str
    valid: Sequence[Validity] = ()
    problem: str = ""
    is_bundle: bool = False
    is_generated: bool = False


def gather(config: Config) -> list[CertificateFile]:
    found = []
    for (name, path), (_, key), is_generated in configured_files.certificate_pairs(config):
        try:
            certificates, keys = read_bounded(path), read_bounded(key)
        except OSError as failure:
            found.append(CertificateFile(f"{path} ({name})", problem=_reason(failure)))
            continue
        file = of_pem(f"{path} ({name})", certificates)
        problem = pair_problem(certificates, keys) or file.problem
        found.append(file._replace(problem=problem, is_generated=is_generated))
    for name, path in configured_files.authorities(config):
        try:
            found.append(of_pem(f"{path} ({name})", read_bounded(path), is_bundle=True))
        except OSError as failure:
            found.append(CertificateFile(f"{path} ({name})", problem=_reason(failure)))
    return found


def gather_kubeconfig(options: ServerOptions) -> list[CertificateFile]:
    """Returns the certificates in a kubeconfig; none if it cannot be read, which other checks report."""
    found = []
    with suppress(OSError, InvalidConfiguration):
        access = options.target()
        if access.cluster.authorities is not None:
            content, url = _content(access.cluster.authorities), redacted_urls(access.cluster.server)
            found.append(of_pem(f"the CA of {url} in {access.source}", content, is_bundle=True))
        if access.credentials.certificate is not None:
            content = _content(access.credentials.certificate[0])
            found.append(of_pem(f"the client certificate in {access.source}", content))
    return found


def _content(source: PemText) -> bytes:
    return source.text if source.path is None else read_bounded(source.path)


def of_pem(name: str, content: bytes, *, is_bundle: bool = False) -> CertificateFile:
    """Returns the certificates in PEM, or why there are none."""
    try:
        valid = tuple(map(Validity.of, parse_pem_certificates(content)))
    except UNREADABLE:
        return CertificateFile(name, problem="no PEM certificate was found", is_bundle=is_bundle)
    return CertificateFile(name, valid, is_bundle=is_bundle)


def examine(files: Iterable[CertificateFile], now: datetime) -> Iterator[Finding]:
    """Yields findings about certificates that have problems, and one about all others."""
    healthy: list[tuple[datetime, str]] = []
    for file in files:
        found = list(_examine_file(file, now))
        yield from found
        if not found:
            healthy.append((min(each.not_after for each in file.valid), file.name))
    if healthy:
        until, name = min(healthy)
        yield ok(
            f"{count(len(healthy), 'certificate file')} without problems; the first to expire is {name}, "
            f"{in_days(until, now)}"
        )


def problems(files: Iterable[CertificateFile], now: datetime) -> Iterator[Finding]:
    """Yields findings about certificates that are not valid, or will soon not be."""
    for file in files:
        yield from _examine_file(file, now)


def _examine_file(file: CertificateFile, now: datetime) -> Iterator[Finding]:
    if file.problem:
        yield error(
            f"{file.name} cannot be used: {file.problem}",
            "Replace the file with the PEM certificate that belongs to the key.",
        )
        return
    expired = [each for each in file.valid if each.not_after <= now]
    future = [each for each in file.valid if each.not_before > now]
    if len(expired) == len(file.valid) or (expired and not file.is_bundle):
        first = min(each.not_after for each in expired)
        if file.is_generated:
            yield warning(
                f"{file.name} expired {in_days(first, now)}",
                "Start the server. It renews the certificate when it starts.",
            )
        else:
            yield error(
                f"{file.name} expired {in_days(first, now)}",
                "Renew the certificate and replace the file. The server reads the new file.",
            )
    elif expired:
        yield note(
            f"{len(expired)} of {len(file.valid)} CAs in {file.name} have expired",
            "Remove these CAs from the file when their certificates are no longer in use.",
        )
    if future:
        first = max(each.not_before for each in future)
        yield error(
            f"{file.name} is not valid before {first:%Y-%m-%d %H:%M} UTC; the current time is "
            f"{now:%Y-%m-%d %H:%M} UTC",
            "Correct the clock of this machine, or wait until the certificate is valid.",
        )
    soon = [
        each for each in file.valid if each not in expired and each not in future and _ends_soon(each, now)
    ]
    if soon:
        first = min(each.not_after for each in soon)
        message = f"{file.name} expires {in_days(first, now)}"
        if file.is_generated:
            yield note(
                message, "Do nothing. The server renews the certificate, at the latest at its next start."
            )
        else:
            yield warning(
                message, "Renew the certificate and replace the file. The server reads the new file."
            )


def _ends_soon(each: Validity, now: datetime) -> bool:
    left = each.not_after - now
    return left < WARN_BEFORE and left < WARN_SHARE * (each.not_after - each.not_before)


def in_days(moment: datetime, now: datetime) -> str:
    """Returns a moment relative to now, with its date: `in 12 days (2027-03-01)`."""
    left = moment - now
    hours = abs(left) // timedelta(hours=1)
    amount, unit = (hours // 24, "day") if hours >= 48 else (hours, "hour")
    text = count(amount, unit)
    return f"{f'in {text}' if left >= timedelta() else f'{text} ago'} ({moment.astimezone(UTC):%Y-%m-%d})"


def _reason(failure: OSError) -> str:
    return failure.strerror or str(failure)
