"""Reads the keys that sign and verify tokens of service accounts, RSA or ECDSA.

This module imports `cryptography`, so its users import it when the first token is issued or verified.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any, Final, TypeAlias

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from apiserver.golang.x509_parsing import UNREADABLE, parse_pem_certificate, parse_pem_public_key

PrivateKey: TypeAlias = EllipticCurvePrivateKey | RSAPrivateKey
PublicKey: TypeAlias = EllipticCurvePublicKey | RSAPublicKey

_KEY_BLOCK: Final = re.compile(
    rb"-----BEGIN (PUBLIC KEY|CERTIFICATE|(?:[A-Z]+ )?PRIVATE KEY)-----.*?-----END \1-----", re.DOTALL
)
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
# The curves as JSON Web Keys call them, with the length of a coordinate, by algorithm.
_WEB_CURVES: Final = {"ES256": ("P-256", 32), "ES384": ("P-384", 48), "ES512": ("P-521", 66)}


class UnusableKey(ValueError):
    """The text has no key that can sign or verify tokens."""


def read_private_key(pem: bytes, *, skips_rsa_check: bool = False) -> PrivateKey:
    """Returns the private key of a PEM file, RSA or ECDSA.

    skips_rsa_check: whether the numbers of an RSA key are not checked, which takes up to tenths of a second:
        for a key that was read before.
    Raises UnusableKey.
    """
    try:
        key = serialization.load_pem_private_key(pem, None, unsafe_skip_rsa_key_validation=skips_rsa_check)
    except UNREADABLE as error:
        raise UnusableKey(f"the private key is not valid: {error}") from None
    if not isinstance(key, PrivateKey):
        raise UnusableKey("the key is neither RSA nor ECDSA")
    algorithm(key)
    return key


def read_public_keys(pem: bytes, *, skips_rsa_check: bool = False) -> list[PublicKey]:
    """Returns the keys in a file of public keys, certificates and private keys, in their order.

    Other blocks, such as the parameters of a curve, are skipped. skips_rsa_check: see `read_private_key`.
    Raises UnusableKey.
    Source: k8s.io/client-go, util/keyutil/key.go.
    """
    keys: list[PublicKey] = []
    for block in _KEY_BLOCK.finditer(pem):
        key: object
        try:
            if block[1] == b"CERTIFICATE":
                key = parse_pem_certificate(block[0]).public_key()
            elif block[1].endswith(b"PRIVATE KEY"):
                key = read_private_key(block[0], skips_rsa_check=skips_rsa_check).public_key()
            else:
                key = parse_pem_public_key(block[0])
        except UNREADABLE as error:
            raise UnusableKey(f"the public key is not valid: {error}") from None
        if not isinstance(key, PublicKey):
            raise UnusableKey("the key is neither RSA nor ECDSA")
        algorithm(key)
        keys.append(key)
    if not keys:
        raise UnusableKey("the file contains no key")
    return keys


def algorithm(key: PrivateKey | PublicKey) -> str:
    if isinstance(key, RSAPrivateKey | RSAPublicKey):
        return "RS256"
    name = key.curve.name
    if name not in _CURVES:
        raise UnusableKey(f"the curve {name} is not supported")
    return _CURVES[name]


def key_id(key: PublicKey) -> str:
    """Returns the claim `kid`: a digest of the key, so that every server computes the same."""
    encoded = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return base64.urlsafe_b64encode(hashlib.sha256(encoded).digest()).rstrip(b"=").decode()


def web_key(key: PublicKey) -> dict[str, Any]:
    """Returns a key as a JSON Web Key (RFC 7517, RFC 7518)."""
    name = algorithm(key)
    shared = {"use": "sig", "kid": key_id(key), "alg": name}
    if isinstance(key, RSAPublicKey):
        rsa = key.public_numbers()
        return {**shared, "kty": "RSA", "n": _base64(rsa.n), "e": _base64(rsa.e)}
    curve, length = _WEB_CURVES[name]
    point = key.public_numbers()
    return {**shared, "kty": "EC", "crv": curve, "x": _base64(point.x, length), "y": _base64(point.y, length)}


def _base64(number: int, length: int = 0) -> str:
    octets = number.to_bytes(length or (number.bit_length() + 7) // 8)
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


def private_der(key: PrivateKey) -> bytes:
    """Returns a key as PKCS#8 in DER: of one key always the same bytes."""
    return key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def derived_key(key: PrivateKey, purpose: str) -> bytes:
    """Returns a key of 32 bytes for a purpose, the same on all servers with the same key.

    It tells nothing about the key of another purpose, or about the key itself (RFC 5869).
    """
    # Needed by few servers.
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    hkdf = HKDF(SHA256(), 32, salt=None, info=f"apiserver {purpose}".encode())
    return hkdf.derive(private_der(key))
