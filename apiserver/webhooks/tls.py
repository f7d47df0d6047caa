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

from apiserver.golang.pem import NoCertificate, bundle_certificates


class UnusableBundle(ValueError):
    """A CA bundle holds no certificate. The message is for the client."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"unable to load root certificates: {reason}")


def client_context(ca_bundle: str) -> ssl.SSLContext:
    """Returns the context with which a webhook is called. Raises UnusableBundle.

    ca_bundle: PEM in base64, as in `clientConfig`; if it is empty, the system's authorities are trusted.
    """
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
