"""Certificates and keys in PEM, for tests of what reads them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

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


def key() -> str:
    """Returns a private key."""
    own = ec.generate_private_key(ec.SECP256R1())
    return own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
