"""An authority that issues certificates for TLS."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.etcd_process import TlsFiles

_HOUR: Final = datetime.timedelta(hours=1)
# OpenSSL reads a coarser clock, which may be a second behind.
_BACKDATE: Final = datetime.timedelta(minutes=1)


class Authority:
    """Issues certificates for 127.0.0.1, for servers and clients."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory, self._key = directory, ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"authority {directory.name}")])
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        self._ca = directory / "ca.crt"
        self._ca.write_bytes(self._sign(self._name, self._key.public_key(), constraints, is_ca=True))

    @property
    def ca(self) -> Path:
        return self._ca

    def issue(self, name: str, *dns_names: str, valid_for: datetime.timedelta = _HOUR) -> TlsFiles:
        """Issue a certificate, with a new key. name: its common name, and that of its files."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        names = x509.SubjectAlternativeName([address, *map(x509.DNSName, dns_names)])
        files = TlsFiles(self._ca, self._directory / f"{name}.crt", self._directory / f"{name}.key")
        files.certificate.write_bytes(self._sign(subject, key.public_key(), names, valid_for=valid_for))
        files.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return files

    def _sign(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        extension: x509.ExtensionType,
        *,
        is_ca: bool = False,
        valid_for: datetime.timedelta = _HOUR,
    ) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        # One that is not valid any more began before it ended.
        begins = min(now, now + valid_for - _HOUR) - _BACKDATE
        builder = x509.CertificateBuilder(
            self._name, subject, key, x509.random_serial_number(), begins, now + valid_for
        )
        certificate = builder.add_extension(extension, critical=is_ca).sign(self._key, hashes.SHA256())
        return certificate.public_bytes(serialization.Encoding.PEM)
