"""The keys and certificates of one server, with all that a start has to know of their contents.

To make keys, and to look into certificates, takes `cryptography`, whose import takes 10 MB of memory and some
50 ms. So all of this is done once, at the start, by `make_server_keys`, whose result is plain data. The
program `apiserver` with an embedded store lets a child process do it (`key_process`), and does not import the
library before a request, or a file that changes, needs it.
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
    tls_options,
)
from apiserver.app.serving.pki_files import RENEW_BEFORE, Pki, UnusableFile
from apiserver.app.serving.service_account_tokens import TokenKeys, read_token_keys
from apiserver.app.serving.serving_tls import (
    KnownTls,
    TlsContent,
    TlsFiles,
    UnusableTls,
    expires_at,
    make_context,
    read_content,
)
from apiserver.cli.config import Config
from apiserver.controllers.authentication_info import certificate_blocks

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
    account tokens. own: the files that `renew_certificates` keeps.
    expirations: when certificates expire, in seconds since 1970, by their PEM.
    """

    certificates: Pki
    tls: KnownTls
    tokens: TokenKeys
    own: CertificateFiles
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
    certificates = _make_certificates(config, identity)
    files = tls_files(config, certificates)
    try:
        tls = _known_tls(config, files)
    except UnusableTls as error:
        raise CannotStart(str(error)) from None
    except OSError as error:
        raise CannotStart(f"{error.filename}: {error.strerror or error}") from None
    tokens = read_token_keys(config, certificates)
    return ServerKeys(
        certificates, tls, tokens, _own_files(certificates), _expirations(config, certificates, tls.content)
    )


def _known_tls(config: Config, files: TlsFiles) -> KnownTls:
    """Read the files of connections. Raises OSError, UnusableTls."""
    content = read_content(files)
    try:
        return KnownTls.of(files, content)
    except UnusableTls:
        make_context(content, tls_options(config, checks_times=True))  # may know better what is wrong
        raise


def _expirations(config: Config, certificates: Pki, content: TlsContent) -> dict[bytes, float]:
    """Returns when the certificates expire that controllers look at, without those that cannot be read, which
    they report.
    """
    cas = (content.all_client_cas, content.front_proxy_cas, certificates.front_proxy_ca_cert.read_bytes())
    found = [each.encode() for each in certificate_blocks(b"\n".join(cas).decode("utf-8", "replace"))]
    with suppress(OSError):
        found.append(front_proxy_certificate(config, certificates)[0].read_bytes())
    expirations = {}
    for pem in found:
        with suppress(UnusableTls):
            expirations[pem] = expires_at("", pem)
    return expirations


def _make_certificates(config: Config, identity: ClusterIdentity | None) -> Pki:
    from apiserver.app.serving import pki

    try:
        return pki.ensure(
            config.serving.data_dir / "pki",
            certificate_names(config),
            identity,
            cert_dir=config.serving.cert_dir,
        )
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


def renew_certificates(config: Config, own: CertificateFiles) -> bool:
    """Replace the server's own certificates that expire soon. Returns whether there were any.

    Raises OSError, UnusableFile.
    """
    if own.are_good_at(time.time()):
        return False
    from apiserver.app.serving import pki

    return pki.renew(
        config.serving.data_dir / "pki", certificate_names(config), cert_dir=config.serving.cert_dir
    )


def _own_files(certificates: Pki) -> CertificateFiles:
    issued = (certificates.serving_cert, certificates.admin_cert, certificates.front_proxy_cert)
    keys = (certificates.serving_key, certificates.admin_key, certificates.front_proxy_key)
    paths = (*issued, *keys, certificates.ca_cert, certificates.front_proxy_ca_cert)
    ends = [expires_at(str(each), each.read_bytes()) for each in issued]
    return CertificateFiles(paths, _digest(paths), min(ends) - RENEW_BEFORE.total_seconds())


def _digest(paths: Sequence[Path]) -> bytes:
    """Returns a digest of the contents of files. Raises OSError."""
    return hashlib.sha256(b"".join(hashlib.sha256(each.read_bytes()).digest() for each in paths)).digest()
