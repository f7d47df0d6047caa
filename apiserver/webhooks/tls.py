"""Decides which webhooks are trusted, by the `caBundle` of their configuration, as Go's crypto/tls does.

Each certificate of the bundle is trusted by itself: a root, an intermediate authority whose issuer is not in
the bundle, or the certificate with which the webhook serves. OpenSSL by itself trusts only chains that end in
a self-signed certificate. Names are those of the certificate's subjectAltName alone, for IP addresses too;
the common name does not count.
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from apiserver.golang.pem import NoCertificate, bundle_certificates


class UnusableBundle(ValueError):
    """A CA bundle has no certificate; the message is for the client."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"unable to load root certificates: {reason}")


class UnusableCertificate(ValueError):
    """A client certificate and its key cannot be used; the message is for the client."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"unable to load the client certificate: {reason}")


def client_context(ca_bundle: str, certificate: tuple[bytes, bytes] | None = None) -> ssl.SSLContext:
    """Returns the TLS context for calling a webhook. Raises UnusableBundle, UnusableCertificate.

    ca_bundle: PEM in base64, as in `clientConfig`; if it is empty, the system's authorities are trusted.
    certificate: the client certificate with its private key, in PEM.
    """
    context = _trusting(ca_bundle)
    if certificate is not None:
        try:
            load_certificate(context, *certificate)
        except ValueError as error:
            raise UnusableCertificate(str(error)) from None
    return context


def unverified_context() -> ssl.SSLContext:
    """Returns a TLS context for servers whose certificate is not verified."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def load_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Makes a TLS context present a client certificate, which is in PEM with its private key.

    Raises ValueError with the reason.
    """
    with _file(certificate) as certificate_path, _file(key) as key_path:
        try:
            context.load_cert_chain(certificate_path, key_path, _no_password)
        except ssl.SSLError as error:
            raise ValueError(error.reason or "the certificate or the key cannot be read") from None


def _no_password() -> str:
    """Returns an empty password, as the library would otherwise ask on the terminal."""
    raise ValueError("the private key is encrypted")


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    """Yields the path of a private file with some content, as the library accepts only files."""
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        with open(os.memfd_create("pem"), "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile() as temporary:
            temporary.write(content)
            temporary.flush()
            yield temporary.name


def _trusting(ca_bundle: str) -> ssl.SSLContext:
    """Returns a TLS context that trusts a bundle."""
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
