"""An OpenID provider, whose keys can be replaced and which can fail in all the ways that a test asks for."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import jwt
import orjson
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from tests.support.https_server import HttpsServer

CLIENT: Final = "the-client"
DISCOVERY: Final = "/.well-known/openid-configuration"
KEYS: Final = "/keys"
PrivateKey: TypeAlias = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
# Making one takes a tenth of a second.
RSA_KEY: Final = rsa.generate_private_key(65537, 2048)


def public_jwk(key: PrivateKey, kid: str, **more: Any) -> dict[str, Any]:
    public = key.public_key()
    if isinstance(public, rsa.RSAPublicKey):
        found = RSAAlgorithm.to_jwk(public, as_dict=True)
    else:
        found = ECAlgorithm.to_jwk(public, as_dict=True)
    return {**found, "kid": kid, "use": "sig", **more}


class OpenIdProvider(HttpsServer):
    """The provider.

    keys: by their names; the last signs. failing: (path) -> another answer, or None for the right one.
    requests: how often each path was asked for.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.keys: dict[str, PrivateKey] = {"first": RSA_KEY}
        self.failing: Callable[[str], Awaitable[web.StreamResponse | None]] | None = None
        self.requests: Counter[str] = Counter()

    @property
    def issuer(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def rotate(self, kid: str, *, keeps_old: bool = True) -> None:
        """Sign with a new key from now on."""
        new: PrivateKey = ec.generate_private_key(ec.SECP256R1())
        self.keys = {**(self.keys if keeps_old else {}), kid: new}

    def token(self, *, kid: str | None = None, key: PrivateKey | None = None, **claims: Any) -> str:
        """Returns a token for an hour. claims: those that are None are left out."""
        kid = kid or list(self.keys)[-1]
        key = key or self.keys[kid]
        algorithm = "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
        return jwt.encode(self.claims(**claims), key, algorithm, {"kid": kid})

    def claims(self, **claims: Any) -> dict[str, Any]:
        now = int(time.time())
        told = {"iss": self.issuer, "aud": CLIENT, "sub": "alice", "iat": now, "exp": now + 3600, **claims}
        return {name: value for name, value in told.items() if value is not None}

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests[request.path] += 1
        if self.failing is not None and (failure := await self.failing(request.path)) is not None:
            return failure
        if request.path == DISCOVERY:
            return _json({"issuer": self.issuer, "jwks_uri": f"{self.issuer}{KEYS}"})
        if request.path == KEYS:
            return _json({"keys": [public_jwk(key, kid) for kid, key in self.keys.items()]})
        return web.Response(status=404)


def _json(document: Any) -> web.Response:
    response = web.Response(body=orjson.dumps(document), content_type="application/json")
    # So that none is open when the loop ends.
    response.force_close()
    return response


async def never(_: str) -> web.StreamResponse | None:
    """Keep the caller waiting."""
    await asyncio.Event().wait()
    return None
