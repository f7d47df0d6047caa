"""Logs users in by the authorization code flow of an OpenID provider, with PKCE.

The page sends the user to the provider, and gets a code back. This server exchanges the code for an ID token,
because the page's policy lets it reach no other origin; the ID token is the session's bearer token, if the
API accepts it like any other.

Anybody can send codes, so calls of the provider are bounded: how many wait for it at a time, how many begin
in a second, and how many codes from one address may fail. Tokens of sessions are refreshed within separate
bounds, so that logins and sessions do not keep each other from the provider.

Sources: OpenID Connect Core 1.0, 3.1.3 and 12; RFC 6749, 4.1.3 and 6; RFC 7636.
"""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote_plus

import orjson

from apiserver.auth.authn.discovery_documents import Discovery, ProviderFailed
from apiserver.auth.authn.jwt_authenticators import JwtAuthenticator
from apiserver.auth.authn.service_account import TOKEN_LENGTH_MAX
from apiserver.console.logins import Login, Logins
from apiserver.load.token_bucket import KeyedTokenBuckets, TokenBucket
from apiserver.meta.errors import ServiceUnavailable, TooManyRequests, Unauthorized
from apiserver.meta.vocabulary import Document

log = logging.getLogger(__name__)

# For logins, and as many for refreshes.
WAITING_MAX: Final = 16
CALLS_PER_S: Final = 5.0
CALLS_BURST: Final = 30
# Of the codes from each address.
FAILURES_PER_S: Final = 1.0
FAILURES_BURST: Final = 20
# Of the addresses whose failures are known: about 200 bytes each.
ADDRESSES_MAX: Final = 1_000
# A token that ends sooner is replaced when the page asks for one, if that is possible.
REFRESH_BEFORE_S: Final = 120.0
_OPENID: Final = "openid"
# Asked for where the provider supports them: names and groups of users, and tokens for refreshing.
_WANTED_SCOPES: Final = ("profile", "email", "groups", "offline_access")
# Of a provider that does not say, as the standard has it.
_BASIC: Final = "client_secret_basic"
_ERROR_LENGTH_MAX: Final = 64
_is_error = re.compile(r"[a-z_]+").fullmatch

# (url, authorities, form, authorization) -> status and body. Raises ProviderFailed.
PostForm: TypeAlias = Callable[[str, str, Mapping[str, str], str], Awaitable[tuple[int, bytes]]]


class OidcClient(NamedTuple):
    """What the provider knows of this server. id: empty: the first audience of the issuer.

    secret: empty if there is none. scopes: empty: those of `_WANTED_SCOPES` that the provider supports.
    """

    id: str = ""
    secret: str = ""
    scopes: tuple[str, ...] = ()


class AuthorizationCode(NamedTuple):
    """What a page has got from the provider, and has sent to it before."""

    code: str
    verifier: str
    redirect_uri: str


class OidcTokens(NamedTuple):
    """What a provider has issued. refresh_token: empty if there is none."""

    id_token: str
    refresh_token: str
    issuer: str


class CallLimit:
    """Bounds the calls of the provider for one purpose.

    monotonic: seconds of a clock that never goes back.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._bucket = TokenBucket(CALLS_PER_S, CALLS_BURST, monotonic)
        self._waiting = 0

    @contextmanager
    def call(self) -> Iterator[None]:
        """Returns the context of a call. Raises TooManyRequests."""
        if self._waiting >= WAITING_MAX or not self._bucket.take():
            raise TooManyRequests
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1


class OidcLogins:
    """Logs users in at the first configured issuer that has the endpoints for it.

    issuers: returns the authenticators of all issuers. monotonic: seconds of a clock that never goes back.
    """

    def __init__(
        self,
        issuers: Callable[[], Iterable[JwtAuthenticator]],
        client: OidcClient,
        post_form: PostForm,
        monotonic: Callable[[], float],
    ) -> None:
        self._issuers, self._client, self._post_form = issuers, client, post_form
        self._logins, self._refreshes = CallLimit(monotonic), CallLimit(monotonic)
        self._failures = KeyedTokenBuckets(FAILURES_PER_S, FAILURES_BURST, ADDRESSES_MAX, monotonic)

    def description(self) -> Document | None:
        """Returns what the page has to know; None if there is no issuer, or it has not been found yet."""
        issuer = self._issuer()
        if issuer is None:
            return None
        return {
            "authorizationEndpoint": issuer.provider.discovery.authorization_endpoint,
            "clientID": self._client_id(issuer),
            "scopes": self._scopes(issuer.provider.discovery),
        }

    async def exchange(self, code: AuthorizationCode, address: str) -> OidcTokens:
        """Exchange a code for tokens. address: the client's.

        Raises Unauthorized, TooManyRequests, ServiceUnavailable.
        """
        if not self._failures.take(address):
            raise TooManyRequests
        form = {"grant_type": "authorization_code", "code": code.code, "code_verifier": code.verifier}
        found = await self._tokens({**form, "redirect_uri": code.redirect_uri}, self._logins)
        self._failures.give_back(address)
        return found

    async def refreshed(self, login: Login, logins: Logins) -> tuple[Login, bool]:
        """Returns a login with a token that does not end soon, and whether it is a new one.

        While its token is valid, a login remains what it is if the provider has no other.
        Raises Unauthorized, TooManyRequests, ServiceUnavailable.
        """
        remaining_s = logins.remaining_s(login) if login.token else 0.0
        if remaining_s is None or remaining_s > REFRESH_BEFORE_S:
            return login, False
        try:
            issuer = self._issuer()
            if issuer is None or issuer.configuration.issuer.url != login.issuer:
                raise Unauthorized("console session: its issuer is not configured any more")
            form = {"grant_type": "refresh_token", "refresh_token": login.refresh}
            found = await self._tokens(form, self._refreshes)
        except (Unauthorized, TooManyRequests, ServiceUnavailable):
            if remaining_s > 0:
                return login, False
            raise
        renewed = logins.of_token(found.id_token, found.refresh_token or login.refresh, found.issuer)
        return renewed._replace(id=login.id, until=login.until), True

    def _issuer(self) -> JwtAuthenticator | None:
        for each in self._issuers():
            found = each.provider.discovery
            if found.authorization_endpoint and found.token_endpoint:
                return each
        return None

    def _client_id(self, issuer: JwtAuthenticator) -> str:
        return self._client.id or issuer.configuration.issuer.audiences[0]

    def _scopes(self, found: Discovery) -> str:
        """Returns the scopes as the parameter of an authorization request has them (RFC 6749, 3.3)."""
        return " ".join(
            self._client.scopes or (_OPENID, *(each for each in _WANTED_SCOPES if each in found.scopes))
        )

    async def _tokens(self, form: Mapping[str, str], limit: CallLimit) -> OidcTokens:
        """Ask the provider for tokens. Raises Unauthorized, TooManyRequests, ServiceUnavailable."""
        issuer = self._issuer()
        if issuer is None:
            raise ServiceUnavailable("the OIDC issuer cannot be reached")
        with limit.call():
            try:
                status, content = await self._call(issuer, form)
            except ProviderFailed as error:
                log.warning("console login: %s", error)
                raise ServiceUnavailable("the OIDC issuer cannot be reached") from None
        document = _document(content)
        if status != 200:
            # Only the code of the error: its description may have what was sent.
            told = _shown_error(document.get("error"))
            log.warning("console login: the OIDC issuer responds with %d %s", status, told)
            if 400 <= status < 500:
                raise Unauthorized(f"oidc: {told}")
            raise ServiceUnavailable("the OIDC issuer failed")
        token, refresh = _token(document.get("id_token")), _token(document.get("refresh_token"))
        if not token:
            log.warning("console login: the OIDC issuer responds without an ID token")
            raise Unauthorized("oidc: no ID token")
        return OidcTokens(token, refresh, issuer.configuration.issuer.url)

    async def _call(self, issuer: JwtAuthenticator, form: Mapping[str, str]) -> tuple[int, bytes]:
        """Raises ProviderFailed."""
        client_id, secret, found = self._client_id(issuer), self._client.secret, issuer.provider.discovery
        authorization = ""
        if not secret:
            form = {**form, "client_id": client_id}
        elif _BASIC in (found.client_authentications or {_BASIC}):
            pair = f"{quote_plus(client_id)}:{quote_plus(secret)}".encode()
            authorization = f"Basic {base64.b64encode(pair).decode()}"
        else:
            form = {**form, "client_id": client_id, "client_secret": secret}
        authorities = issuer.configuration.issuer.authorities
        return await self._post_form(found.token_endpoint, authorities, form, authorization)


def _document(content: bytes) -> Document:
    try:
        found = orjson.loads(content)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _token(value: Any) -> str:
    """Returns a token; empty if there is none, or it is longer than any should be."""
    return value if isinstance(value, str) and len(value) <= TOKEN_LENGTH_MAX else ""


def _shown_error(error: Any) -> str:
    """Returns the code of an error (RFC 6749, 5.2), or a text that says that there is none."""
    is_code = isinstance(error, str) and len(error) <= _ERROR_LENGTH_MAX and _is_error(error)
    return error if is_code else "without an error code"
