"""The parts of certificates that Go computes. Pure. Source: crypto/x509, CreateCertificate."""

from __future__ import annotations

from typing import Final

from cryptography import x509

from apiserver.golang.x509_parsing import UNREADABLE

# What reading the extensions of a certificate raises: one that cannot be read makes all others unreadable.
NO_EXTENSION: Final = (
    *UNREADABLE,
    x509.ExtensionNotFound,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)


def authority_key_identifier(ca: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    """Returns the AuthorityKeyIdentifier of a signing CA, equal to its SubjectKeyIdentifier if it has one."""
    try:
        own = ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except NO_EXTENSION:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.public_key())  # type: ignore[arg-type]
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)
