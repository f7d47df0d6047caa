"""What others say of callers: tokens, claims and keys of OpenID providers, and the files that name these."""

from __future__ import annotations

import contextlib

import jwt
import orjson
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from apiserver.auth.authn.authentication_configuration import parse
from apiserver.auth.authn.claim_expressions import CostBudget
from apiserver.auth.authn.claim_mapping import read_claims, user_of
from apiserver.auth.authn.json_web_keys import (
    UnusableKeySet,
    WebKey,
    header_of,
    is_compact,
    read_key_set,
    verified,
)
from apiserver.auth.authn.jwt_authenticators import claimed_issuer
from apiserver.load.size_class import TakesLong
from apiserver.meta.errors import Unauthorized
from apiserver.wire.configuration_fields import InvalidConfiguration
from tests.fuzz.target import fuzzer

_KEY = ec.derive_private_key(0x0F0E0D0C0B0A09080706050403020100, ec.SECP256R1())
_TOKEN = jwt.encode({"iss": "https://issuer.example", "sub": "a"}, _KEY, "ES256", {"kid": "k"})
_KEYS = (WebKey("k", _KEY.public_key()),)
_FILE = b"""{
 "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration",
 "jwt": [{
  "issuer": {"url": "https://issuer.example", "audiences": ["a"]},
  "claimValidationRules": [{"claim": "hd", "requiredValue": "x"}, {"expression": "has(claims.sub)"}],
  "claimMappings": {
   "username": {"expression": "claims.email_verified ? claims.email : claims.sub"},
   "groups": {"claim": "groups", "prefix": "p:"},
   "uid": {"expression": "claims.?uid.orValue('')"},
   "extra": [{"key": "a.io/b", "valueExpression": "claims.?a__dot__b.orValue([])"}]},
  "userValidationRules": [{"expression": "!user.username.startsWith('system:')"}]}],
 "anonymous": {"enabled": true, "conditions": [{"path": "/livez"}]}}"""
(_CONFIGURATION,) = parse(_FILE, "k8s.io", ()).jwt


@fuzzer(
    _TOKEN.encode(),
    b"e30.e30.e30",
    b"eyJhbGciOiJub25lIn0.e30.",
    words=b"eyJ eyJhbGciOiJFUzI1NiJ9 eyJhbGciOiJub25lIn0 e30 . = _ -",
)
def foreign_tokens(data: bytes) -> None:
    """None is verified but the one that was signed."""
    token = data.decode("utf-8", "surrogateescape")
    claimed_issuer(token)
    if not is_compact(token):
        return
    with contextlib.suppress(Unauthorized):
        payload = verified(token, header_of(token), _KEYS, ("ES256", "RS256"))
        assert payload is None or _TOKEN.split(".")[1] in token


@fuzzer(
    b'{"sub":"a","email":"a@b","email_verified":true,"hd":"x","groups":["g"],"uid":"u","jti":"1","a.b":["c"]}',
    b'{"sub":"a","hd":"x","groups":"g","email_verified":false,"_claim_names":{"groups":"s"}}',
    words=b"sub email email_verified hd groups uid jti a.b _claim_names true false null 1e999 NaN",
    is_json=True,
)
def openid_claims(data: bytes) -> None:
    """A user of texts, or a refusal."""
    try:
        user = user_of(_CONFIGURATION, read_claims(data), CostBudget(is_on_loop=True), "p")
    except (Unauthorized, TakesLong):
        return
    assert user.name
    assert all(isinstance(text, str) for text in (user.name, user.uid, *user.groups))
    assert all(isinstance(value, str) for _, values in user.extra for value in values)


@fuzzer(
    orjson.dumps(
        {"keys": [{**ECAlgorithm.to_jwk(_KEY.public_key(), as_dict=True), "kid": "k", "use": "sig"}]}
    ),
    b'{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB","kid":"r","alg":"RS256"}]}',
    b'{"keys":[{"kty":"oct","k":"AA"},{"kty":"OKP","crv":"Ed25519","x":"AA"}]}',
    words=b"keys kty RSA EC OKP oct n e x y d crv P-256 P-521 kid use sig enc alg AQAB",
    is_json=True,
)
def key_sets(data: bytes) -> None:
    with contextlib.suppress(UnusableKeySet):
        assert read_key_set(data)


@fuzzer(
    _FILE,
    b"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n",
    words=b"jwt issuer url audiences claimMappings username groups uid extra expression claim prefix claims",
)
def authentication_files(data: bytes) -> None:
    with contextlib.suppress(InvalidConfiguration):
        parse(data, "k8s.io", ("https://own.example",))
