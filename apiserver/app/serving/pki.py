"""Keys and certificates: generated at the first start, and renewed before they expire. In the data directory:

    pki/ca.crt, ca.key              the cluster's CA
    pki/front-proxy-ca.crt, .key    the CA of front proxies, which may name the user of a request
    pki/apiserver.crt, .key         the serving certificate, unless --tls-cert-file names another; in
                                    --cert-dir if that is given, where a certificate of another CA is left
                                    alone
    pki/admin.crt, .key             the client certificate in admin.kubeconfig, of the group system:masters
    pki/front-proxy-client.crt, .key
                                    the client certificate that extension API servers are shown
    pki/sa.key, sa.pub              sign and verify service account tokens

The CAs and the service account key are the identity of a cluster, one for all its servers. Servers that share
an etcd get it from there (`app.serving.cluster_identity`); the files are then copies. Each server makes the
rest for itself.

Keys are P-256: fast to generate, and supported by all clients. Files are readable by the owner only.

This module imports `cryptography`. What a running server needs of these files is in `pki_files`, so that an
idle server does not import it (`server_keys`).
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from apiserver.app.serving.pki_files import (
    FRONT_PROXY_NAME,
    RENEW_BEFORE,
    Pki,
    UnusableFile,
    paths,
    write,
)
from apiserver.golang.certificates import authority_key_identifier
from apiserver.golang.x509_parsing import UNREADABLE, parse_pem_certificate, parse_pem_certificates
from apiserver.meta.vocabulary import SYSTEM_MASTERS
from apiserver.storage.private_directories import make_directory

CA_LIFETIME: Final = timedelta(days=3650)
CERTIFICATE_LIFETIME: Final = timedelta(days=365)
# Clients' clocks may be a little behind.
BACKDATE: Final = timedelta(minutes=5)
# Of a common name: ub-common-name of RFC 5280, which counts characters, is applied to bytes of UTF-8.
COMMON_NAME_BYTES_MAX: Final = 64
ADMIN_NAME: Final = "kubernetes-admin"
CA_NAME: Final = "apiserver-ca"
FRONT_PROXY_CA_NAME: Final = "front-proxy-ca"
REPLACED: Final = ".replaced"
TRUSTED_KEPT_MAX: Final = 8
_SERVICE_NAMES: Final = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


@dataclass(frozen=True, slots=True)
class ClusterIdentity:
    """The identity that all servers of a cluster share, as PEM: two CAs with their keys, the service account
    key.

    Raises UnusableIdentity if a key or a certificate is invalid.
    """

    ca_cert: bytes
    ca_key: bytes = field(repr=False)
    service_account_key: bytes = field(repr=False)
    front_proxy_ca_cert: bytes
    front_proxy_ca_key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        try:
            serialization.load_pem_private_key(self.service_account_key, None)
        except UNREADABLE:
            raise UnusableIdentity("a certificate or a private key is missing or invalid") from None
        for certificate, key in (
            (self.ca_cert, self.ca_key),
            (self.front_proxy_ca_cert, self.front_proxy_ca_key),
        ):
            _require_pair(certificate, key)

    @property
    def expires_soon(self) -> bool:
        return any(map(_pem_expires_soon, (self.ca_cert, self.front_proxy_ca_cert)))

    def with_new_cas(self) -> ClusterIdentity:
        """Returns this identity with new CAs for those that expire soon; tokens of service accounts stay
        valid.
        """
        renewed = self
        if _pem_expires_soon(self.ca_cert):
            certificate, key = new_ca(CA_NAME)
            renewed = replace(renewed, ca_cert=certificate, ca_key=key)
        if _pem_expires_soon(self.front_proxy_ca_cert):
            certificate, key = new_ca(FRONT_PROXY_CA_NAME)
            renewed = replace(renewed, front_proxy_ca_cert=certificate, front_proxy_ca_key=key)
        return renewed


def new_ca(name: str) -> tuple[bytes, bytes]:
    """Returns the certificate and the key of a new CA."""
    key = _generate_key()
    return _pem(_create_ca(name, key, datetime.now(UTC))), _private_pem(key)


def _pem_expires_soon(certificate: bytes) -> bool:
    return _expires_soon(parse_pem_certificate(certificate), datetime.now(UTC))


def _require_pair(certificate: bytes, key: bytes) -> None:
    """Check that a certificate is a CA's, and that the key belongs to it.

    Raises UnusableIdentity.
    """
    try:
        ca, ca_key = parse_pem_certificate(certificate), serialization.load_pem_private_key(key, None)
    except UNREADABLE:
        raise UnusableIdentity("a certificate or a private key is missing or invalid") from None
    if not isinstance(ca_key, ec.EllipticCurvePrivateKey) or ca_key.public_key() != ca.public_key():
        raise UnusableIdentity("the key does not match the CA certificate")


class UnusableIdentity(ValueError):
    """The keys of a cluster cannot be used, for the reason in the message."""


_WriteFile: TypeAlias = Callable[[Path, bytes], None]


def ensure(
    directory: Path,
    addresses: Sequence[str],
    identity: ClusterIdentity | None = None,
    *,
    cert_dir: Path | None = None,
    is_durable: bool = True,
) -> Pki:
    """Generate the files that are missing, expire soon, or do not name one of `addresses`.

    Certificates that the CA has signed are replaced whenever something is wrong with them. The CA itself is
    generated only if there is none, or it expires.
    identity: what the files of the CA and the service account key have to contain. Files with another content
        get the suffix REPLACED: they may be the only copy of the keys of another cluster.
    cert_dir: where the serving certificate is, if not in the directory; one of another CA is used as it is.
    is_durable: see `write`.
    Raises OSError, UnusableFile.
    """
    make_directory(directory)
    if cert_dir is not None:
        make_directory(cert_dir)
    with _locked(directory / ".lock"):
        if identity is not None:
            _copy(directory, identity)
        return _ensure(directory, addresses, cert_dir, partial(write, is_durable=is_durable))


def renew(directory: Path, addresses: Sequence[str], *, cert_dir: Path | None = None) -> bool:
    """Replace the certificates that expire soon, as `ensure` does at the start, but never a CA.

    Clients of a running server trust its CA. A certificate that lacks an address is not replaced either:
    another server may have made it for itself. Returns whether any was replaced.
    Raises OSError, UnusableFile.
    """
    with _locked(directory / ".lock"):
        now = datetime.now(UTC)
        return _renew(paths(directory, cert_dir), addresses, cert_dir, now, write, checks_names=False)


def local_identity(directory: Path) -> ClusterIdentity:
    """Returns the identity in the files of a directory, with new keys for those that are missing.

    Nothing is written. Raises OSError, UnusableFile.
    """
    ca_cert, ca_key = _local_ca(directory, "ca", CA_NAME)
    front_proxy_ca_cert, front_proxy_ca_key = _local_ca(directory, "front-proxy-ca", FRONT_PROXY_CA_NAME)
    try:
        service_account_key = (directory / "sa.key").read_bytes()
    except FileNotFoundError:
        service_account_key = _private_pem(_generate_key())
    try:
        return ClusterIdentity(ca_cert, ca_key, service_account_key, front_proxy_ca_cert, front_proxy_ca_key)
    except UnusableIdentity:
        raise UnusableFile(directory / "sa.key", "is not a private key") from None


def _local_ca(directory: Path, file: str, name: str) -> tuple[bytes, bytes]:
    """Returns the certificate and the key of the CA in a directory, or of a new one."""
    ca = _read_ca(directory / f"{file}.crt")
    if ca is None or _expires_soon(ca, datetime.now(UTC)):
        return new_ca(name)
    return _pem(ca), _private_pem(_read_ca_key(directory / f"{file}.key", ca))


def _copy(directory: Path, identity: ClusterIdentity) -> None:
    public_key = serialization.load_pem_private_key(identity.service_account_key, None).public_key()
    # Keys first: a CA without its key would be an error at the next start.
    for name, content in (
        ("ca.key", identity.ca_key),
        ("ca.crt", identity.ca_cert),
        ("front-proxy-ca.key", identity.front_proxy_ca_key),
        ("front-proxy-ca.crt", identity.front_proxy_ca_cert),
        ("sa.key", identity.service_account_key),
        ("sa.pub", _public_pem(public_key)),
    ):
        path = directory / name
        with contextlib.suppress(FileNotFoundError):
            if path.read_bytes() == content:
                continue
            os.replace(path, path.with_name(name + REPLACED))
        write(path, content)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Lock the directory for one process: the certificate of one CA is useless with the key of another."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _ensure(directory: Path, addresses: Sequence[str], cert_dir: Path | None, write_file: _WriteFile) -> Pki:
    pki, now = paths(directory, cert_dir), datetime.now(UTC)
    _ensure_ca(pki.ca_cert, CA_NAME, now, write_file)
    _ensure_ca(pki.front_proxy_ca_cert, FRONT_PROXY_CA_NAME, now, write_file)
    _renew(pki, addresses, cert_dir, now, write_file)
    if not pki.service_account_key.exists():
        key = _generate_key()
        # The public key first: where there is a private one, both are there.
        write_file(directory / "sa.pub", _public_pem(key.public_key()))
        write_file(pki.service_account_key, _private_pem(key))
    return pki


def _renew(
    pki: Pki,
    addresses: Sequence[str],
    cert_dir: Path | None,
    now: datetime,
    write_file: _WriteFile,
    *,
    checks_names: bool = True,
) -> bool:
    """Issue the certificates that are missing or invalid. Returns whether it issued any."""
    names = _subject_alternative_names(addresses)
    serving = _CertificateRequest(_name("apiserver"), ExtendedKeyUsageOID.SERVER_AUTH, names)
    has_renewed = False
    for cert, key_file, request, signer_file in (
        (pki.serving_cert, pki.serving_key, serving, pki.ca_cert),
        (pki.admin_cert, pki.admin_key, _client(ADMIN_NAME, SYSTEM_MASTERS), pki.ca_cert),
        (pki.front_proxy_cert, pki.front_proxy_key, _client(FRONT_PROXY_NAME), pki.front_proxy_ca_cert),
    ):
        signer = _require_ca(signer_file)
        if cert.parent == cert_dir and _is_of_another_ca(cert, signer):
            continue
        needed = request.names if checks_names else ()
        if not _is_valid(cert, key_file, needed, signer, now):
            certificate, key = _signed(request, signer_file, now)
            write_file(key_file, key)
            write_file(cert, certificate)
            has_renewed = True
    return has_renewed


def _ensure_ca(cert_file: Path, name: str, now: datetime, write_file: _WriteFile) -> None:
    """Make a CA in a file if there is none, or it expires. Its key is in a file beside it."""
    ca = _read_ca(cert_file)
    if ca is None or _expires_soon(ca, now):
        key = _generate_key()
        ca = _create_ca(name, key, now)
        write_file(_key_file(cert_file), _private_pem(key))
        write_file(cert_file, _pem(ca))


def _key_file(cert_file: Path) -> Path:
    return cert_file.with_suffix(".key")


# Servers for tests have the same keys.
@lru_cache(TRUSTED_KEPT_MAX)
def trusted_for(chain: bytes, authorities: tuple[bytes, ...]) -> bytes:
    """Returns the certificates that clients must trust to verify a server that presents `chain`, all as PEM.

    That is the CA that signed its last certificate, if it is among `authorities`. Otherwise it is the chain
    itself: enough for Go, and for others if it ends with the certificate of the CA.
    """
    last = parse_pem_certificates(chain)[-1]
    for pem in filter(None, authorities):
        for ca in parse_pem_certificates(pem):
            try:
                last.verify_directly_issued_by(ca)
            except (InvalidSignature, *UNREADABLE):
                continue
            return _pem(ca)
    return chain


def client_certificate(
    name: str, groups: Sequence[str], ca: Path, now: datetime | None = None
) -> tuple[bytes, bytes]:
    """Returns a new client certificate of a user, and its key.

    ca: the CA's certificate; its key is beside it. now: a time by another clock than the computer's.
    Raises OSError, UnusableFile, and ValueError for a name that a certificate cannot have.
    """
    _require_common_name(name)
    return _signed(_client(name, *groups), ca, now or datetime.now(UTC))


# ---- certificates


def _require_common_name(name: str) -> None:
    """Raises ValueError for a name that a certificate cannot have."""
    size = len(name.encode(errors="surrogatepass"))
    if not 1 <= size <= COMMON_NAME_BYTES_MAX:
        raise ValueError(
            f"the name of a user must have 1 to {COMMON_NAME_BYTES_MAX} bytes, not {size}, because it is "
            "the common name of a certificate (RFC 5280, ub-common-name)"
        )


def _subject_alternative_names(addresses: Sequence[str]) -> list[x509.GeneralName]:
    """Returns the names and addresses that the serving certificate is valid for."""
    texts = dict.fromkeys((*_SERVICE_NAMES, socket.gethostname(), "127.0.0.1", "::1", *addresses))
    names: list[x509.GeneralName] = []
    for text in texts:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            if text.isascii():
                names.append(x509.DNSName(text))
        else:
            if not address.is_unspecified:
                names.append(x509.IPAddress(address))
    return names


class _CertificateRequest(NamedTuple):
    name: x509.Name
    usage: x509.ObjectIdentifier
    names: Sequence[x509.GeneralName] = ()


def _client(name: str, *organizations: str) -> _CertificateRequest:
    return _CertificateRequest(_name(name, *organizations), ExtendedKeyUsageOID.CLIENT_AUTH)


def _name(common_name: str, *organizations: str) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _create_ca(common_name: str, key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    name = _name(common_name)
    return (
        _builder(name, name, key, now, now + CA_LIFETIME, signs_certificates=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _signed(request: _CertificateRequest, ca_file: Path, now: datetime) -> tuple[bytes, bytes]:
    """Returns a new certificate, signed by a CA whose key is beside it, and its own key.

    Raises OSError, and UnusableFile, also for a CA that has expired.
    """
    ca, key = _require_ca(ca_file), _generate_key()
    ends = ca.not_valid_after_utc
    if now >= ends:
        raise UnusableFile(ca_file, f"expired on {ends}; the current time is {now:%Y-%m-%d %H:%M:%S%z}")
    signer, until = _read_ca_key(_key_file(ca_file), ca), min(now + CERTIFICATE_LIFETIME, ends)
    builder = (
        _builder(request.name, ca.subject, key, now, until, signs_certificates=False)
        .add_extension(x509.ExtendedKeyUsage([request.usage]), critical=False)
        .add_extension(authority_key_identifier(ca), critical=False)
    )
    if request.names:
        builder = builder.add_extension(x509.SubjectAlternativeName(request.names), critical=False)
    return _pem(builder.sign(signer, hashes.SHA256())), _private_pem(key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    until: datetime,
    *,
    signs_certificates: bool,
) -> x509.CertificateBuilder:
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
    path_length = 0 if signs_certificates else None
    return (
        x509.CertificateBuilder(
            issuer, subject, key.public_key(), x509.random_serial_number(), now - BACKDATE, until
        )
        .add_extension(x509.BasicConstraints(signs_certificates, path_length), critical=True)
        .add_extension(usage, critical=True)
    )


def _read_ca(path: Path) -> x509.Certificate | None:
    try:
        return parse_pem_certificate(path.read_bytes())
    except FileNotFoundError:
        return None
    except UNREADABLE:
        raise UnusableFile(path, "is not a certificate") from None


def _require_ca(path: Path) -> x509.Certificate:
    """Returns the CA in a file. Raises UnusableFile, also if there is none."""
    if (ca := _read_ca(path)) is None:
        raise UnusableFile(path, "is missing")
    return ca


def _read_ca_key(path: Path, ca: x509.Certificate) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except UNREADABLE:
        raise UnusableFile(path, "is not a private key") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != ca.public_key():
        raise UnusableFile(path, f"is not the key of {path.stem}.crt")
    return key


def _is_valid(
    cert_file: Path, key_file: Path, names: Sequence[x509.GeneralName], ca: x509.Certificate, now: datetime
) -> bool:
    """Whether a valid certificate with its key exists: signed by the CA, for these names, not expiring."""
    try:
        certificate = parse_pem_certificate(cert_file.read_bytes())
        key = serialization.load_pem_private_key(key_file.read_bytes(), None)
        certificate.verify_directly_issued_by(ca)
    except (FileNotFoundError, InvalidSignature, *UNREADABLE):
        return False
    # One that is valid for as long as its CA cannot be had for longer.
    is_late = _expires_soon(certificate, now) and certificate.not_valid_after_utc < ca.not_valid_after_utc
    if is_late or certificate.public_key() != key.public_key():
        return False
    if not names:
        return True
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return False
    return set(names) <= set(extension.value)


def _is_of_another_ca(cert_file: Path, ca: x509.Certificate) -> bool:
    """Whether a certificate exists that a CA with another name has signed."""
    try:
        return parse_pem_certificate(cert_file.read_bytes()).issuer != ca.subject
    except FileNotFoundError:
        return False
    except UNREADABLE:
        raise UnusableFile(cert_file, "is not a certificate") from None


def _expires_soon(certificate: x509.Certificate, now: datetime) -> bool:
    return certificate.not_valid_after_utc < now + RENEW_BEFORE


# ---- files


def _generate_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _public_pem(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
