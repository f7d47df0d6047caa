"""Serves the OpenID documents by which others verify service account tokens without asking this server.

Source: k8s.io/kubernetes, pkg/serviceaccount/openidmetadata.go, pkg/routes/openidmetadata.go.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import orjson
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from apiserver.auth.authn.service_account import PublicKey, algorithm, key_id
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.negotiation import Negotiator
from apiserver.endpoints.responses import send
from apiserver.meta.errors import MethodNotAllowed
from apiserver.wire.media_types import JSON

CONFIGURATION_PATH: Final = ".well-known/openid-configuration"
JWKS_PATH: Final = "openid/v1/jwks"
_JWKS: Final = "application/jwk-set+json"
# Keys rarely change; verifiers need not fetch them each time.
_HEADERS: Final = {"Cache-Control": "public, max-age=3600"}
# The curves of NIST as JSON Web Keys call them, with the length of a coordinate.
_CURVES: Final = {"ES256": ("P-256", 32), "ES384": ("P-384", 48), "ES512": ("P-521", 66)}


class OpenId:
    """The OpenID documents of an issuer. keys: those that verify tokens; the first is the issuer's."""

    def __init__(self, issuer: str, jwks_uri: str, keys: Sequence[PublicKey]) -> None:
        self._configuration = orjson.dumps(
            {
                "issuer": issuer,
                "jwks_uri": jwks_uri,
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": sorted({algorithm(key) for key in keys}),
            }
        )
        self._jwks = orjson.dumps({"keys": [_web_key(key) for key in keys]})
        self._of_configuration = Negotiator((), (JSON,))
        self._of_jwks = Negotiator((), (_JWKS,))

    async def configuration(self, call: ApiCall) -> None:
        await _send(call, self._configuration, JSON, self._of_configuration)

    async def jwks(self, call: ApiCall) -> None:
        await _send(call, self._jwks, _JWKS, self._of_jwks)


def can_be_discovered(issuer: str) -> bool:
    """Whether OpenID Connect can discover an issuer: an https URL without query and fragment."""
    try:
        url = urlsplit(issuer)
    except ValueError:
        return False
    return url.scheme == "https" and bool(url.netloc) and not url.query and not url.fragment


async def _send(call: ApiCall, body: bytes, media_type: str, negotiator: Negotiator) -> None:
    """Send a document."""
    if call.info.method != "GET":
        raise MethodNotAllowed
    negotiator.form_for(call.request.headers.get("Accept", ""))
    await send(call, 200, body, media_type, _HEADERS)


def _web_key(key: PublicKey) -> dict[str, Any]:
    """Returns a key as a JSON Web Key (RFC 7517, RFC 7518)."""
    name = algorithm(key)
    shared = {"use": "sig", "kid": key_id(key), "alg": name}
    if isinstance(key, RSAPublicKey):
        rsa = key.public_numbers()
        return {**shared, "kty": "RSA", "n": _base64(rsa.n), "e": _base64(rsa.e)}
    curve, length = _CURVES[name]
    point = key.public_numbers()
    return {**shared, "kty": "EC", "crv": curve, "x": _base64(point.x, length), "y": _base64(point.y, length)}


def _base64(number: int, length: int = 0) -> str:
    octets = number.to_bytes(length or (number.bit_length() + 7) // 8)
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()
