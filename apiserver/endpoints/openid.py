"""Serves the OpenID documents by which others verify service account tokens without asking this server.

Source: k8s.io/kubernetes, pkg/serviceaccount/openidmetadata.go, pkg/routes/openidmetadata.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import orjson

from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.negotiation import Negotiator
from apiserver.endpoints.responses import send
from apiserver.load.switch_interval import compute_in_thread
from apiserver.meta.errors import MethodNotAllowed
from apiserver.wire.media_types import JSON

if TYPE_CHECKING:
    from apiserver.auth.authn.service_account_keys import PublicKey

CONFIGURATION_PATH: Final = ".well-known/openid-configuration"
JWKS_PATH: Final = "openid/v1/jwks"
_JWKS: Final = "application/jwk-set+json"
# Keys rarely change; verifiers need not fetch them each time.
_HEADERS: Final = {"Cache-Control": "public, max-age=3600"}


class OpenId:
    """The OpenID documents of an issuer.

    read_keys: returns the keys that verify tokens, the issuer's first; called at the first request.
    """

    def __init__(self, issuer: str, jwks_uri: str, read_keys: Callable[[], Sequence[PublicKey]]) -> None:
        self._issuer, self._jwks_uri, self._read_keys = issuer, jwks_uri, read_keys
        self._made: tuple[bytes, bytes] | None = None
        self._of_configuration = Negotiator((), (JSON,))
        self._of_jwks = Negotiator((), (_JWKS,))

    async def configuration(self, call: ApiCall) -> None:
        await _send(call, (await self._documents())[0], JSON, self._of_configuration)

    async def jwks(self, call: ApiCall) -> None:
        await _send(call, (await self._documents())[1], _JWKS, self._of_jwks)

    async def _documents(self) -> tuple[bytes, bytes]:
        """Returns the configuration and the key set, as JSON. The first call imports `cryptography`."""
        if self._made is None:
            self._made = await compute_in_thread(self._make)
        return self._made

    def _make(self) -> tuple[bytes, bytes]:
        from apiserver.auth.authn.service_account_keys import web_key

        keys = [web_key(key) for key in self._read_keys()]
        configuration = {
            "issuer": self._issuer,
            "jwks_uri": self._jwks_uri,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": sorted({each["alg"] for each in keys}),
        }
        return orjson.dumps(configuration), orjson.dumps({"keys": keys})


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
