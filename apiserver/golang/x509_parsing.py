"""Parses certificates, requests and public keys of other parties, as Go's crypto/x509 does.

`cryptography` warns about some that Go accepts: about serial numbers of zero, as some root CAs have, about
names that are longer than X.520 allows, as those of many nodes, and about keys for Diffie-Hellman. The server
cannot change them. Each warning would be a line on stderr, and an exception where warnings are errors, as in
tests with a server in their process; so exactly these warnings are ignored for calls from this package.
Negative serial numbers are refused, as in Go.
"""

from __future__ import annotations

import re
import warnings
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key

# What `cryptography` raises for a key, a certificate or a request that it cannot read or does not know.
UNREADABLE: Final = (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion)

# That of serial numbers comes when a certificate is parsed, the others when its name or key is asked for.
_MESSAGES: Final = (
    r"Parsed a (negative )?serial number|Attribute's length must be|Diffie-Hellman over finite fields"
)
_MODULES: Final = r"apiserver\.|cryptography\."
# As `warnings.filterwarnings` puts it in.
_FILTER: Final = ("ignore", re.compile(_MESSAGES, re.IGNORECASE), Warning, re.compile(_MODULES), 0)


def parse_certificate(der: bytes) -> x509.Certificate:
    """Returns the certificate in DER. Raises UNREADABLE."""
    _ignore_warnings()
    return _checked(x509.load_der_x509_certificate(der))


def parse_pem_certificate(pem: bytes) -> x509.Certificate:
    """Returns the first certificate in PEM. Raises UNREADABLE."""
    _ignore_warnings()
    return _checked(x509.load_pem_x509_certificate(pem))


def parse_pem_certificates(pem: bytes) -> list[x509.Certificate]:
    """Returns the certificates in PEM, at least one. Raises UNREADABLE."""
    _ignore_warnings()
    return [_checked(each) for each in x509.load_pem_x509_certificates(pem)]


def parse_request(der: bytes) -> x509.CertificateSigningRequest:
    """Returns a PKCS#10 request; its signature and its content are parsed at their first use.

    Raises UNREADABLE.
    """
    _ignore_warnings()
    return x509.load_der_x509_csr(der)


def parse_public_key(der: bytes) -> PublicKeyTypes:
    """Returns the public key in DER. Raises UNREADABLE."""
    _ignore_warnings()
    return load_der_public_key(der)


def parse_pem_public_key(pem: bytes) -> PublicKeyTypes:
    """Returns the public key in PEM. Raises UNREADABLE."""
    _ignore_warnings()
    return load_pem_public_key(pem)


def _checked(certificate: x509.Certificate) -> x509.Certificate:
    """Returns a certificate unless Go refuses it since 1.23: then raises ValueError.

    Source: crypto/x509, parseCertificate.
    """
    if certificate.serial_number < 0:
        raise ValueError("negative serial number")
    return certificate


def _ignore_warnings() -> None:
    """Put the filter before all others, if it is not there: code in the process may have added filters since.

    It stays. Removing it, as `warnings.catch_warnings` does, would undo changes of other threads to the
    filters, which all share.
    """
    if warnings.filters[:1] != [_FILTER]:
        warnings.filterwarnings("ignore", message=_MESSAGES, module=_MODULES)
