"""An authority that issues certificates for TLS."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.etcd_process import TlsFiles


class Authority:
    """Issues certificates for 127.0.0.1, for servers and clients."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory, self._key = directory, ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        self._ca = directory / "ca.crt"
        self._ca.write_bytes(self._sign(self._name, self._key.public_key(), constraints, is_ca=True))

    def issue(self, name: str) -> TlsFiles:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        files = TlsFiles(self._ca, self._directory / f"{name}.crt", self._directory / f"{name}.key")
        files.certificate.write_bytes(self._sign(subject, key.public_key(), address))
        files.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
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
    ) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder(
            self._name, subject, key, x509.random_serial_number(), now, now + datetime.timedelta(hours=1)
        )
        certificate = builder.add_extension(extension, critical=is_ca).sign(self._key, hashes.SHA256())
        return certificate.public_bytes(serialization.Encoding.PEM)
