"""Checks a certificate and its key as Go's tls.X509KeyPair does, with the same error texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_der_private_key

from apiserver.golang.pem import CERTIFICATE, pem_blocks
from apiserver.golang.x509_parsing import UNREADABLE, parse_certificate

_KEY: Final = "PRIVATE KEY"
_OF_PUBLIC: Final = (
    (RSAPublicKey, RSAPrivateKey),
    (EllipticCurvePublicKey, EllipticCurvePrivateKey),
    (Ed25519PublicKey, Ed25519PrivateKey),
)
_PRIVATE: Final = (RSAPrivateKey, EllipticCurvePrivateKey, Ed25519PrivateKey)


def pair_problem(certificates: bytes, keys: bytes) -> str:
    """Returns the problem of the pair; empty if a server can use it. Both are in PEM."""
    of_certificates = list(pem_blocks(certificates))
    certificate = next((block.content for block in of_certificates if block.label == CERTIFICATE), None)
    if certificate is None:
        return _no_certificate([block.label for block in of_certificates])
    of_keys = list(pem_blocks(keys))
    key = next((block.content for block in of_keys if _is_key(block.label)), None)
    if key is None:
        return _no_key([block.label for block in of_keys])
    return _mismatch(certificate, key)


def _is_key(label: str) -> bool:
    return label == _KEY or label.endswith(f" {_KEY}")


def _no_certificate(labels: Sequence[str]) -> str:
    if not labels:
        return "tls: failed to find any PEM data in certificate input"
    if len(labels) == 1 and labels[0].endswith(_KEY):
        return (
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM "
            "inputs may have been switched"
        )
    return (
        f'tls: failed to find "{CERTIFICATE}" PEM block in certificate input after skipping PEM blocks of '
        f"the following types: [{' '.join(labels)}]"
    )


def _no_key(labels: Sequence[str]) -> str:
    if not labels:
        return "tls: failed to find any PEM data in key input"
    if list(labels) == [CERTIFICATE]:
        return "tls: found a certificate rather than a key in the PEM for the private key"
    return (
        f'tls: failed to find PEM block with type ending in "{_KEY}" in key input after skipping PEM '
        f"blocks of the following types: [{' '.join(labels)}]"
    )


def _mismatch(certificate: bytes, key: bytes) -> str:
    try:
        public = parse_certificate(certificate).public_key()
    except UNREADABLE:
        return "x509: malformed certificate"
    try:
        # Whether the factors of an RSA key are prime is not checked here.
        private = load_der_private_key(key, password=None, unsafe_skip_rsa_key_validation=True)
    except UNREADABLE:
        return "tls: failed to parse private key"
    if not isinstance(private, _PRIVATE):
        return "tls: found unknown private key type in PKCS#8 wrapping"
    expected = next((secret for known, secret in _OF_PUBLIC if isinstance(public, known)), None)
    if expected is None:
        return "tls: unknown public key algorithm"
    if not isinstance(private, expected):
        return "tls: private key type does not match public key type"
    return "" if private.public_key() == public else "tls: private key does not match public key"
