"""Which webhooks are trusted: the rules of Go's crypto/x509 and crypto/tls. Handshakes are made in memory."""

from __future__ import annotations

import base64
import ipaddress
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from apiserver.webhooks.tls import UnusableBundle, client_context

HOST: Final = "convert.default.svc"
HALF_A_DAY: Final = timedelta(hours=12)


@dataclass(frozen=True)
class Issued:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)


def issue(
    name: str,
    issuer: Issued | None = None,
    *,
    is_authority: bool = False,
    names: tuple[x509.GeneralName, ...] = (),
    shift: timedelta = timedelta(0),
) -> Issued:
    """Issue a certificate; without an issuer it is self-signed. shift: of the time in which it is valid."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC) + shift
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - HALF_A_DAY)
        .not_valid_after(now + HALF_A_DAY)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return Issued(builder.sign(key if issuer is None else issuer.key, hashes.SHA256()), key)


DNS: Final = (x509.DNSName(HOST),)
ROOT: Final = issue("root", is_authority=True)
INTERMEDIATE: Final = issue("intermediate", ROOT, is_authority=True)
OTHER: Final = issue("other", is_authority=True)
SERVING: Final = issue("serving", INTERMEDIATE, names=DNS)
SELF_SIGNED: Final = issue("self-signed", names=DNS)
SELF_SIGNED_AUTHORITY: Final = issue("self-signed authority", is_authority=True, names=DNS)
EXPIRED: Final = issue("expired", INTERMEDIATE, names=DNS, shift=timedelta(days=-2))


def bundle(*certificates: Issued) -> bytes:
    return b"".join(each.pem for each in certificates)


def _server_context(directory: Path, chain: tuple[Issued, ...]) -> ssl.SSLContext:
    path = directory / "chain.pem"
    key = chain[0].key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(bundle(*chain) + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


def handshake(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> None:
    """Raises SSLCertVerificationError if the client does not trust the server."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):  # more than a handshake has flights
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    for end in ends:
        end.do_handshake()  # nothing is left to do


TRUSTED: Final = {
    "the root": (bundle(ROOT), (SERVING, INTERMEDIATE)),
    "an intermediate authority alone": (bundle(INTERMEDIATE), (SERVING,)),
    "an intermediate authority that the webhook sends, too": (bundle(INTERMEDIATE), (SERVING, INTERMEDIATE)),
    "the serving certificate alone": (bundle(SERVING), (SERVING,)),
    "the serving certificate, with its chain sent": (bundle(SERVING), (SERVING, INTERMEDIATE)),
    "a self-signed serving certificate": (bundle(SELF_SIGNED), (SELF_SIGNED,)),
    "a self-signed authority that serves": (bundle(SELF_SIGNED_AUTHORITY), (SELF_SIGNED_AUTHORITY,)),
    "one of several": (bundle(OTHER, ROOT), (SERVING, INTERMEDIATE)),
    "the same twice": (bundle(ROOT, ROOT), (SERVING, INTERMEDIATE)),
    "text between certificates": (
        "Größe:\n".encode() + bundle(OTHER) + b"\n# the root:\n" + bundle(ROOT),
        (SERVING, INTERMEDIATE),
    ),
    "lines that end as on Windows": (bundle(OTHER, ROOT).replace(b"\n", b"\r\n"), (SERVING, INTERMEDIATE)),
    "beside other blocks and a broken certificate": (
        b"-----BEGIN X-----\neA==\n-----END X-----\n"
        b"-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----\n" + bundle(ROOT),
        (SERVING, INTERMEDIATE),
    ),
}


@pytest.mark.parametrize(("trusted", "chain"), TRUSTED.values(), ids=TRUSTED)
def test_each_certificate_of_the_bundle_is_trusted_for_itself(
    trusted: bytes, chain: tuple[Issued, ...], tmp_path: Path
) -> None:
    client = client_context(base64.b64encode(trusted).decode())
    handshake(client, _server_context(tmp_path, chain), HOST)


NOT_TRUSTED: Final = {
    "another root": (bundle(OTHER), (SERVING, INTERMEDIATE), "unable to get local issuer certificate"),
    "the root, without the chain between": (bundle(ROOT), (SERVING,), "unable to get local issuer"),
    "another serving certificate of the same name": (bundle(SELF_SIGNED), (SERVING,), "unable to get local"),
    "a serving certificate is no authority": (
        bundle(SELF_SIGNED),
        (issue("signed by it", SELF_SIGNED, names=DNS), SELF_SIGNED),
        "invalid CA certificate",
    ),
    "what has expired": (bundle(EXPIRED), (EXPIRED,), "certificate has expired"),
    "no bundle: the authorities of the system": (b"", (SELF_SIGNED,), "self-signed certificate"),
}


@pytest.mark.parametrize(("trusted", "chain", "problem"), NOT_TRUSTED.values(), ids=NOT_TRUSTED)
def test_what_is_not_trusted(trusted: bytes, chain: tuple[Issued, ...], problem: str, tmp_path: Path) -> None:
    client = client_context(base64.b64encode(trusted).decode())
    with pytest.raises(ssl.SSLCertVerificationError, match=problem):
        handshake(client, _server_context(tmp_path, chain), HOST)


V4: Final = x509.IPAddress(ipaddress.ip_address("192.0.2.1"))
V6: Final = x509.IPAddress(ipaddress.ip_address("2001:db8::1"))
NAMES: Final[dict[str, tuple[str, tuple[x509.GeneralName, ...], str, bool]]] = {
    "a name": ("x", DNS, HOST, True),
    "a name in other case": ("x", DNS, HOST.upper(), True),
    "another name": ("x", DNS, "other.default.svc", False),
    "a wildcard for one label": ("x", (x509.DNSName("*.default.svc"),), HOST, True),
    "a wildcard is not for two labels": ("x", (x509.DNSName("*.svc"),), HOST, False),
    "a wildcard is a whole label": ("x", (x509.DNSName("con*.default.svc"),), HOST, False),
    "the common name does not count without names": (HOST, (), HOST, False),
    "the common name does not count beside addresses": (HOST, (V4,), HOST, False),
    "an IPv4 address": ("x", (V4,), "192.0.2.1", True),
    "an IPv6 address": ("x", (V6,), "2001:db8::1", True),
    "another address": ("x", (V4,), "192.0.2.2", False),
    "an address as a name does not count": ("x", (x509.DNSName("192.0.2.1"),), "192.0.2.1", False),
    "an address as the common name does not count": ("192.0.2.1", (), "192.0.2.1", False),
}


@pytest.mark.parametrize(("common_name", "names", "host", "is_valid"), NAMES.values(), ids=NAMES)
def test_the_name_must_be_in_the_certificate(
    common_name: str, names: tuple[x509.GeneralName, ...], host: str, is_valid: bool, tmp_path: Path
) -> None:
    serving = issue(common_name, names=names)
    client = client_context(base64.b64encode(bundle(serving)).decode())
    server = _server_context(tmp_path, (serving,))
    if is_valid:
        handshake(client, server, host)
    else:
        with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
            handshake(client, server, host)


@pytest.mark.parametrize("text", ["bm9uc2Vuc2U=", "!", "eA"], ids=["no PEM", "no base64", "base64 cut off"])
def test_a_bundle_without_a_certificate_cannot_be_used(text: str) -> None:
    with pytest.raises(UnusableBundle, match=r"^unable to load root certificates: "):
        client_context(text)
