"""Certificates and keys in PEM, for tests of what reads them."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


def certificate(name: str, *extensions: x509.ExtensionType) -> str:
    """Returns a certificate that has signed itself, with these extensions."""
    own = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(own.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=True)
    return builder.sign(own, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


def request_for(common_name: str, *organizations: str) -> bytes:
    """Returns a request for a certificate of a user and its groups, as the spec of one has it."""
    names = [(NameOID.ORGANIZATION_NAME, each) for each in organizations] + [
        (NameOID.COMMON_NAME, common_name)
    ]
    subject = x509.Name([x509.NameAttribute(*each) for each in names])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject)
    return request.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(Encoding.PEM)


def key() -> str:
    """Returns a private key."""
    own = ec.generate_private_key(ec.SECP256R1())
    return own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


# From 2050 on certificates have a GeneralizedTime, which has all digits of a year.
END: Final = datetime(2060, 1, 1, tzinfo=UTC)


def ends_in_year_0(der: bytes) -> bytes:
    """Returns a certificate that ends at END as one that ends in a year which Python has not."""
    return der.replace(b"\x18\x0f2060", b"\x18\x0f0000")


class UnusualAuthority:
    """Signs certificates that builders refuse to make, and others have. name: its common name."""

    def __init__(self, name: str = "unusual") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = self._named(name)
        self.certificate = self.sign(name)

    def sign(self, common_name: str) -> x509.Certificate:
        """Returns a certificate of the authority's own key, with the serial number 1."""
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(self._named(common_name))
            .issuer_name(self._name)
            .public_key(self._key.public_key())
            .serial_number(1)
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(END)
            .sign(self._key, hashes.SHA256())
        )

    def numbered(self, certificate: x509.Certificate, serial: int) -> bytes:
        """Returns a certificate of its own with another serial number, -128 to 127, in DER."""
        one, other = b"\x02\x01\x01", b"\x02\x01" + serial.to_bytes(1, signed=True)
        content = certificate.tbs_certificate_bytes.replace(one, other, 1)
        signature = b"\0" + self._key.sign(content, ec.ECDSA(hashes.SHA256()))
        ecdsa_with_sha256 = bytes.fromhex("300a06082a8648ce3d040302")
        return _der(0x30, content + ecdsa_with_sha256 + _der(0x03, signature))

    def request(self, common_name: str) -> bytes:
        """Returns a request in PEM."""
        builder = x509.CertificateSigningRequestBuilder().subject_name(self._named(common_name))
        return builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)

    def _named(self, common_name: str) -> x509.Name:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name, _validate=False)])


def _der(tag: int, content: bytes) -> bytes:
    size = len(content).to_bytes((len(content).bit_length() + 7) // 8)
    return bytes([tag]) + (size if len(content) < 0x80 else bytes([0x80 | len(size)]) + size) + content
