"""Parses certificates, requests and public keys that others have made, as Go's crypto/x509 does.

`cryptography` warns of some that Go takes: of a serial number that is zero, as some root CAs have, of names
that are longer than X.520 allows, as those of many nodes are, and of keys for Diffie-Hellman. Nobody here can
do anything about that. Each would be a line on stderr, and an exception where warnings are errors, as in
tests with a server in their process; so these warnings, and no others, are ignored where this package gives
rise to them. What Go does not take is refused: a serial number that is negative.
"""

from __future__ import annotations

import re
import warnings
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key

# That of serial numbers comes when a certificate is parsed, the others when its name or key is asked for.
_MESSAGES: Final = (
    r"Parsed a (negative )?serial number|Attribute's length must be|Diffie-Hellman over finite fields"
)
_MODULES: Final = r"apiserver\.|cryptography\."
# As `warnings.filterwarnings` puts it in.
_FILTER: Final = ("ignore", re.compile(_MESSAGES, re.IGNORECASE), Warning, re.compile(_MODULES), 0)


def parse_certificate(der: bytes) -> x509.Certificate:
    """Returns the certificate that is encoded as DER. Raises pem.UNREADABLE."""
    _ignore_warnings()
    return _checked(x509.load_der_x509_certificate(der))


def parse_pem_certificate(pem: bytes) -> x509.Certificate:
    """Returns the first certificate. Raises pem.UNREADABLE."""
    _ignore_warnings()
    return _checked(x509.load_pem_x509_certificate(pem))


def parse_pem_certificates(pem: bytes) -> list[x509.Certificate]:
    """Returns the certificates, of which there must be one. Raises pem.UNREADABLE."""
    _ignore_warnings()
    return [_checked(each) for each in x509.load_pem_x509_certificates(pem)]


def parse_request(der: bytes) -> x509.CertificateSigningRequest:
    """Returns a request in PKCS#10; its signature and what is in it are read when they are asked for.

    Raises pem.UNREADABLE.
    """
    _ignore_warnings()
    return x509.load_der_x509_csr(der)


def parse_public_key(der: bytes) -> PublicKeyTypes:
    """Returns the public key that is encoded as DER. Raises pem.UNREADABLE."""
    _ignore_warnings()
    return load_der_public_key(der)


def parse_pem_public_key(pem: bytes) -> PublicKeyTypes:
    """Returns the public key that is encoded as PEM. Raises pem.UNREADABLE."""
    _ignore_warnings()
    return load_pem_public_key(pem)


def _checked(certificate: x509.Certificate) -> x509.Certificate:
    """Refuses with a ValueError what Go refuses since 1.23. Source: crypto/x509, parseCertificate."""
    if certificate.serial_number < 0:
        raise ValueError("negative serial number")
    return certificate


def _ignore_warnings() -> None:
    """Put the filter before all others, if it is not there: whoever runs the server may have set some since.

    It stays. To take it away again, as `warnings.catch_warnings` does, would undo what other threads do to
    the filters, which all share.
    """
    if warnings.filters[:1] != [_FILTER]:
        warnings.filterwarnings("ignore", message=_MESSAGES, module=_MODULES)
