"""Decides which webhooks are trusted, by the `caBundle` of their configuration, as Go's crypto/tls does.

Each certificate of the bundle is trusted for itself: a root, an intermediate authority whose issuer is not in
the bundle, or the certificate with which the webhook serves. OpenSSL by itself trusts only chains that end in
a self-signed certificate. Names are those of the certificate's subjectAltName alone, for IP addresses too;
the common name does not count.
"""

from __future__ import annotations

import base64
import binascii
import ssl
import tempfile
from pathlib import Path

from apiserver.golang.pem import NoCertificate, bundle_certificates


class UnusableBundle(ValueError):
    """A CA bundle holds no certificate. The message is for the client."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"unable to load root certificates: {reason}")


class UnusableCertificate(ValueError):
    """A client certificate and its key cannot be used. The message is for the client."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"unable to load the client certificate: {reason}")


def client_context(ca_bundle: str, certificate: tuple[bytes, bytes] | None = None) -> ssl.SSLContext:
    """Returns the context with which a webhook is called. Raises UnusableBundle, UnusableCertificate.

    ca_bundle: PEM in base64, as in `clientConfig`; if it is empty, the system's authorities are trusted.
    certificate: what the webhook is shown, with its private key, in PEM.
    """
    context = _trusting(ca_bundle)
    if certificate is not None:
        _load(context, *certificate)
    return context


def _load(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Raises UnusableCertificate. The library takes files only: nobody else can read these."""
    with tempfile.TemporaryDirectory() as name:
        paths = [Path(name) / each for each in ("certificate", "key")]
        for path, content in zip(paths, (certificate, key), strict=True):
            path.touch(mode=0o600)
            path.write_bytes(content)
        try:
            context.load_cert_chain(paths[0], paths[1], _no_password)
        except (ssl.SSLError, ValueError) as error:
            raise UnusableCertificate(str(error)) from None


def _no_password() -> str:
    """Else the library would ask on the terminal."""
    raise ValueError("the private key is encrypted")


def _trusting(ca_bundle: str) -> ssl.SSLContext:
    """Raises UnusableBundle."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.hostname_checks_common_name = False
    if not ca_bundle:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return context
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        certificates = bundle_certificates(base64.b64decode(ca_bundle))
        context.load_verify_locations(cadata=b"".join(certificates))
    except (NoCertificate, binascii.Error, ssl.SSLError) as error:
        raise UnusableBundle(str(error)) from None
    return context
