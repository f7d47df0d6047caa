"""Whether a certificate and a key are a pair. Source: Go's crypto/tls, X509KeyPair."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from apiserver.golang.tls_pairs import pair_problem

EC: Final = ec.generate_private_key(ec.SECP256R1())
OTHER_EC: Final = ec.generate_private_key(ec.SECP384R1())
ED: Final = ed25519.Ed25519PrivateKey.generate()
RSA: Final = rsa.generate_private_key(65537, 2048)
ED448: Final = ed448.Ed448PrivateKey.generate()


def certificate(key: CertificateIssuerPrivateKeyTypes) -> bytes:
    now = datetime.now(UTC).replace(microsecond=0)
    builder = x509.CertificateBuilder(x509.Name([]), x509.Name([]), key.public_key(), 1)
    builder = builder.not_valid_before(now).not_valid_after(now + timedelta(days=1))
    is_edwards = isinstance(key, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey)
    return builder.sign(key, None if is_edwards else hashes.SHA256()).public_bytes(Encoding.PEM)


def key_text(
    key: CertificateIssuerPrivateKeyTypes, form: PrivateFormat = PrivateFormat.TraditionalOpenSSL
) -> bytes:
    return key.private_bytes(Encoding.PEM, form, NoEncryption())


def block(label: str) -> bytes:
    return f"-----BEGIN {label}-----\nYQ==\n-----END {label}-----\n".encode()


_OF_EC: Final = certificate(EC)
_KEY_OF_EC: Final = key_text(EC)
_IN: Final = "certificate input"
PAIRS: Final[dict[str, tuple[bytes, bytes, str]]] = {
    "an elliptic curve": (_OF_EC, _KEY_OF_EC, ""),
    "in PKCS#8": (_OF_EC, key_text(EC, PrivateFormat.PKCS8), ""),
    "RSA": (certificate(RSA), key_text(RSA), ""),
    "Ed25519": (certificate(ED), key_text(ED, PrivateFormat.PKCS8), ""),
    "the first certificate counts": (_OF_EC + certificate(RSA), _KEY_OF_EC, ""),
    "and the first key, after parameters": (_OF_EC, block("EC PARAMETERS") + _KEY_OF_EC + key_text(RSA), ""),
    "nothing": (b"", b"", f"tls: failed to find any PEM data in {_IN}"),
    "no key": (_OF_EC, b"x", "tls: failed to find any PEM data in key input"),
    "switched": (
        _KEY_OF_EC,
        _OF_EC,
        (
            f"tls: failed to find certificate PEM data in {_IN}, but did find a private key; PEM inputs may "
            "have been switched"
        ),
    ),
    "blocks that are no certificate": (
        block("A") + block("B"),
        _KEY_OF_EC,
        (
            f'tls: failed to find "CERTIFICATE" PEM block in {_IN} after skipping PEM blocks of the '
            "following types: [A B]"
        ),
    ),
    "a certificate for a key": (
        _OF_EC,
        _OF_EC,
        "tls: found a certificate rather than a key in the PEM for the private key",
    ),
    "blocks that are no key": (
        _OF_EC,
        block("MYPRIVATE KEY"),
        (
            'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after skipping PEM '
            "blocks of the following types: [MYPRIVATE KEY]"
        ),
    ),
    "a broken certificate": (block("CERTIFICATE"), _KEY_OF_EC, "x509: malformed certificate"),
    "a broken key": (_OF_EC, block("PRIVATE KEY"), "tls: failed to parse private key"),
    "another algorithm": (_OF_EC, key_text(RSA), "tls: private key type does not match public key type"),
    "another key": (_OF_EC, key_text(OTHER_EC), "tls: private key does not match public key"),
    "an algorithm that TLS does not have": (
        certificate(ED448),
        _KEY_OF_EC,
        "tls: unknown public key algorithm",
    ),
}


@pytest.mark.parametrize(("certificates", "keys", "problem"), PAIRS.values(), ids=PAIRS)
def test_what_is_wrong_with_a_pair(certificates: bytes, keys: bytes, problem: str) -> None:
    assert pair_problem(certificates, keys) == problem
