"""Reads the public keys of an issuer of tokens, and verifies signatures of tokens. Pure.

Only asymmetric algorithms are known here. A key is used with an algorithm of its type, whatever a token
says: a public key is never taken for a shared secret.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple, TypeAlias

import orjson
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from apiserver.golang.x509_parsing import UNREADABLE
from apiserver.meta.errors import Unauthorized
from apiserver.meta.vocabulary import Document

PublicKey: TypeAlias = EllipticCurvePublicKey | RSAPublicKey

# Issuers have some few keys; of a token that names none, each is tried.
KEYS_MAX: Final = 64
# Verifying takes the longer the longer the key is; shorter ones than these can be broken.
RSA_BITS_MIN: Final = 2048
RSA_BITS_MAX: Final = 8192
_CURVES: Final = {"ES256": "secp256r1", "ES384": "secp384r1", "ES512": "secp521r1"}
_RSA: Final = ("RS", "PS")
# Three parts in base64url without padding.
_COMPACT: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


class UnusableKeySet(ValueError):
    """A document is not a JSON Web Key Set with at least one key that can verify tokens."""


class WebKey(NamedTuple):
    """A key that verifies tokens.

    id: the `kid` of its tokens; may be empty. algorithm: the only one allowed; empty: any for its type.
    """

    id: str
    key: PublicKey
    algorithm: str = ""


def read_key_set(content: bytes) -> tuple[WebKey, ...]:
    """Returns the keys that can verify signatures, without the others. Raises UnusableKeySet."""
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise UnusableKeySet(f"the document is not JSON: {error}") from None
    items = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(items, list):
        raise UnusableKeySet("the document has no list of keys")
    if len(items) > KEYS_MAX:
        raise UnusableKeySet(f"the document has {len(items)} keys; the maximum is {KEYS_MAX}")
    keys = tuple(key for key in map(_web_key, items) if key is not None)
    if not keys:
        raise UnusableKeySet("the document has no key that can verify signatures")
    return keys


def _web_key(item: object) -> WebKey | None:
    if not isinstance(item, dict) or item.get("use", "sig") != "sig" or "d" in item:
        return None
    import jwt

    name, algorithm = item.get("kid", ""), item.get("alg", "")
    if not isinstance(name, str) or not isinstance(algorithm, str):
        return None
    try:
        key = jwt.PyJWK({name: value for name, value in item.items() if name != "alg"}).key
    except (jwt.PyJWTError, AttributeError, KeyError, *UNREADABLE):
        return None
    if not isinstance(key, PublicKey):
        return None
    if isinstance(key, RSAPublicKey) and not RSA_BITS_MIN <= key.key_size <= RSA_BITS_MAX:
        return None
    return WebKey(name, key, algorithm)


def is_compact(token: str) -> bool:
    """Returns whether a text has the form of a signed token."""
    return _COMPACT.fullmatch(token) is not None


def header_of(token: str) -> Document:
    """Returns the header of a token without verifying it. Raises Unauthorized."""
    import jwt

    try:
        header: Document = jwt.get_unverified_header(token)
    except (jwt.InvalidTokenError, ValueError, RecursionError):
        raise Unauthorized("oidc: malformed jwt: the header is not valid or has extensions") from None
    if "crit" in header or "b64" in header:
        raise Unauthorized("oidc: malformed jwt: the header has extensions")
    return header


def verified(token: str, header: Document, keys: Sequence[WebKey], allowed: Collection[str]) -> bytes | None:
    """Returns the payload of a token if one of the keys has signed it; None otherwise. Raises Unauthorized.

    allowed: the algorithms that the token may have.
    """
    import jwt

    algorithm, name = header.get("alg"), header.get("kid", "")
    if not isinstance(algorithm, str) or algorithm not in allowed:
        wanted = " ".join(sorted(allowed))
        raise Unauthorized(f"oidc: id token signed with unsupported algorithm, expected one of [{wanted}]")
    signatures = jwt.PyJWS()
    for each in keys:
        if (not name or each.id == name) and _fits(each, algorithm):
            try:
                decoded = signatures.decode_complete(token, each.key, algorithms=[algorithm])
            except (jwt.PyJWTError, ValueError, TypeError):
                continue
            payload: bytes = decoded["payload"]
            return payload
    return None


def _fits(key: WebKey, algorithm: str) -> bool:
    if key.algorithm and key.algorithm != algorithm:
        return False
    if isinstance(key.key, RSAPublicKey):
        return algorithm.startswith(_RSA)
    return _CURVES.get(algorithm) == key.key.curve.name
