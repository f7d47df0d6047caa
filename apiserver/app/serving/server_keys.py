"""The keys and certificates of one server, with all that a start has to know of their contents.

To make keys, and to look into certificates, takes `cryptography`, whose import takes 10 MB of memory and some
50 ms. So all of this is done at the start, by `make_server_keys`, whose result is plain data. The
program `apiserver` with an embedded store lets a child process do it (`key_process`), and does not import the
library for it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from apiserver.app.serving.listening import (
    CannotStart,
    certificate_names,
    front_proxy_certificate,
    tls_files,
)
from apiserver.app.serving.pki_files import RENEW_BEFORE, Pki, UnusableFile, paths
from apiserver.app.serving.service_account_tokens import TokenKeys, read_token_keys
from apiserver.app.serving.serving_tls import (
    KeyPair,
    KnownTls,
    TlsContent,
    UnusableTls,
    expires_at,
    read_content,
)
from apiserver.app.serving.watched_files import read_file
from apiserver.cli.config import Config
from apiserver.controllers.authentication_info import certificate_blocks
from apiserver.golang.pem import first_expiry

if TYPE_CHECKING:
    from apiserver.app.serving.pki import ClusterIdentity


class CertificateFiles(NamedTuple):
    """The files of the certificates that the server makes for itself, as they were when it started.

    digest: of their contents. renew_at: when the first of them has to be renewed, in seconds since 1970.
    """

    paths: Sequence[Path]
    digest: bytes
    renew_at: float

    def are_good_at(self, now: float) -> bool:
        """Returns whether no file has changed since, and none has to be renewed. now: seconds since 1970."""
        with suppress(OSError):
            return now < self.renew_at and _digest(self.paths) == self.digest
        return False


class ServerKeys(NamedTuple):
    """The keys and certificates of one server.

    certificates: their files. tls: what is known of those that connections use. tokens: the keys of service
    account tokens. own: the files that `CertificateRenewal` begins with.
    front_proxy: the certificate by which this server proves to extension servers that it is a front proxy.
    expirations: when certificates expire, in seconds since 1970, by their PEM.
    """

    certificates: Pki
    tls: KnownTls
    tokens: TokenKeys
    own: CertificateFiles
    front_proxy: KeyPair
    expirations: Mapping[bytes, float]

    def expires_at(self, what: str, pem: bytes) -> float:
        """Returns when the first of some certificates expires, in seconds since 1970. Raises UnusableTls."""
        known = self.expirations.get(pem)
        return expires_at(what, pem) if known is None else known


# Makes the keys of a server. The identity is the cluster's, if it is not in the data directory. Raises
# CannotStart.
MakeServerKeys: TypeAlias = Callable[[Config, "ClusterIdentity | None"], ServerKeys]


def make_server_keys(config: Config, identity: ClusterIdentity | None) -> ServerKeys:
    """Create the keys and certificates that are missing, and read all. identity: the cluster's, if it is not
    in the data directory. Raises CannotStart.
    """
    certificates, own = _make_certificates(config, identity)
    files = tls_files(config, certificates)
    try:
        tls = KnownTls.of(files, read_content(files))
    except UnusableTls as error:
        raise CannotStart(str(error)) from None
    except OSError as error:
        raise CannotStart(f"{error.filename}: {error.strerror or error}") from None
    front_proxy = _front_proxy(config, certificates)
    return ServerKeys(
        certificates=certificates,
        tls=tls,
        tokens=read_token_keys(config, certificates),
        own=own,
        front_proxy=front_proxy,
        expirations=_expirations(certificates, tls.content, front_proxy),
    )


def _front_proxy(config: Config, certificates: Pki) -> KeyPair:
    """Read what this server shows to extension servers. Raises CannotStart."""
    certificate, key = front_proxy_certificate(config, certificates)
    try:
        return KeyPair(read_file(certificate), read_file(key))
    except OSError as error:
        raise unusable_front_proxy(certificate, error) from None


def unusable_front_proxy(path: Path, error: Exception) -> CannotStart:
    """Returns why a start fails. path: of the certificate that extension servers would be shown."""
    return CannotStart(f"--proxy-client-cert-file {path} cannot be used: {error}")


def _expirations(certificates: Pki, content: TlsContent, front_proxy: KeyPair) -> dict[bytes, float]:
    """Returns when the certificates expire that controllers look at, without those that cannot be read, which
    they report.
    """
    cas = (content.all_client_cas, content.front_proxy_cas, certificates.front_proxy_ca_cert.read_bytes())
    found = [each.encode() for each in certificate_blocks(b"\n".join(cas).decode("utf-8", "replace"))]
    expirations = {}
    for pem in (*found, front_proxy.chain):
        with suppress(UnusableTls):
            expirations[pem] = expires_at("", pem)
    return expirations


def _make_certificates(config: Config, identity: ClusterIdentity | None) -> tuple[Pki, CertificateFiles]:
    from apiserver.app.serving import pki

    try:
        certificates = pki.ensure(
            config.serving.data_dir / "pki",
            certificate_names(config),
            identity,
            cert_dir=config.serving.cert_dir,
        )
        return certificates, _own_files(certificates)
    except (OSError, UnusableFile) as error:
        raise _no_certificates(config, error) from None


def _no_certificates(config: Config, error: Exception) -> CannotStart:
    return CannotStart(f"cannot make certificates in {config.serving.data_dir}: {error}")


def local_identity(config: Config) -> ClusterIdentity:
    """Returns the identity in the data directory, or a new one. Raises CannotStart."""
    from apiserver.app.serving import pki

    try:
        return pki.local_identity(config.serving.data_dir / "pki")
    except (OSError, UnusableFile) as error:
        raise _no_certificates(config, error) from None


class CertificateRenewal:
    """Renews the certificates that the server has made for itself.

    files: those certificates, as they were when they were last looked into.
    """

    def __init__(self, config: Config, files: CertificateFiles) -> None:
        self.files = files
        self._config = config

    def renew(self) -> bool:
        """Replace the certificates that expire soon. Returns whether there were any.

        Raises OSError, UnusableFile.
        """
        if self.files.are_good_at(time.time()):
            return False
        from apiserver.app.serving import pki

        options = self._config.serving
        directory, cert_dir = options.data_dir / "pki", options.cert_dir
        has_renewed = pki.renew(directory, certificate_names(self._config), cert_dir=cert_dir)
        # Else the next time looks again; what was renewed is renewed.
        with suppress(OSError, UnusableFile):
            self.files = _own_files(paths(directory, cert_dir))
        return has_renewed


def _own_files(certificates: Pki) -> CertificateFiles:
    """Look into the server's own certificates. Raises OSError, UnusableFile."""
    issued = (certificates.serving_cert, certificates.admin_cert, certificates.front_proxy_cert)
    keys = (certificates.serving_key, certificates.admin_key, certificates.front_proxy_key)
    files = (*issued, *keys, certificates.ca_cert, certificates.front_proxy_ca_cert)
    ends = min(map(_end_of, issued))
    return CertificateFiles(files, _digest(files), ends - RENEW_BEFORE.total_seconds())


def _end_of(path: Path) -> float:
    """Returns when the certificate in a file expires, in seconds since 1970. Raises OSError, UnusableFile."""
    try:
        return first_expiry(path.read_bytes())
    except ValueError:
        raise UnusableFile(path, "is not a certificate") from None


def _digest(paths: Sequence[Path]) -> bytes:
    """Returns a digest of the contents of files. Raises OSError."""
    return hashlib.sha256(b"".join(hashlib.sha256(each.read_bytes()).digest() for each in paths)).digest()
