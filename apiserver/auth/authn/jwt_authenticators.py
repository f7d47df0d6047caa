"""Authenticates by tokens of the configured issuers, which are OpenID providers.

Source: k8s.io/apiserver, plugin/pkg/authenticator/token/oidc.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from apiserver.auth.authn.authentication_configuration import JwtAuthenticatorConfiguration
from apiserver.auth.authn.chain import Identity
from apiserver.auth.authn.claim_expressions import CostBudget
from apiserver.auth.authn.claim_mapping import read_claims, user_of
from apiserver.auth.authn.identity_provider import IdentityProvider
from apiserver.auth.authn.json_web_keys import header_of, is_compact, verified
from apiserver.auth.authn.service_account import TOKEN_LENGTH_MAX
from apiserver.auth.authn.token_cache import TokenResult
from apiserver.golang.quoting import quoted_list
from apiserver.load.size_class import TakesLong
from apiserver.load.switch_interval import compute_in_thread
from apiserver.meta.errors import Unauthorized
from apiserver.meta.vocabulary import Document, UserInfo

# Clocks may differ. As in go-oidc: a token is not accepted after its end, but a little before its beginning.
NOT_BEFORE_LEEWAY_S: Final = 60
# Google's tokens have had both.
_ALIASES: Final = {"accounts.google.com": "https://accounts.google.com"}


class LatencyObserver(Protocol):
    """Observes the authentication of each token that claims to be from an issuer."""

    def authenticated(self, issuer: str, *, is_success: bool, seconds: float) -> None: ...


class _CostlyRefusal(Unauthorized):
    """A token was refused after costly expressions were evaluated, and is not evaluated again for a while."""


class JwtAuthenticator:
    """Authenticates by the tokens of one issuer. clock: seconds since 1970."""

    def __init__(
        self,
        configuration: JwtAuthenticatorConfiguration,
        provider: IdentityProvider,
        extra_prefix: str,
        clock: Callable[[], float],
    ) -> None:
        self.configuration, self.provider = configuration, provider
        self._extra_prefix, self._clock = extra_prefix, clock

    async def authenticate(self, token: str) -> tuple[UserInfo, float]:
        """Returns the user of a token, and when it expires, in seconds since 1970. Raises Unauthorized.

        token: one that claims to be from this issuer.
        """
        if self.provider.problem:
            raise Unauthorized("oidc: authenticator not initialized")
        claims = read_claims(await self._verified(token))
        # By what was verified: the claims that chose this issuer were not.
        if _issuer(claims) != self.configuration.issuer.url:
            raise Unauthorized("oidc: verify token: oidc: id token issued by a different provider")
        self._check_audience(claims)
        expires_at = self._check_times(claims)
        return await self._user(claims), expires_at

    async def _verified(self, token: str) -> bytes:
        header, allowed = header_of(token), self.configuration.algorithms
        payload = verified(token, header, self.provider.keys, allowed)
        if payload is None and await self.provider.keys_fetched_anew():
            payload = verified(token, header, self.provider.keys, allowed)
        if payload is None:
            raise Unauthorized("oidc: verify token: failed to verify signature")
        return payload

    def _check_audience(self, claims: Document) -> None:
        found, wanted = claims.get("aud"), self.configuration.issuer.audiences
        audiences = [found] if isinstance(found, str) else found
        if not isinstance(audiences, list) or not all(isinstance(each, str) for each in audiences):
            raise Unauthorized("oidc: verify token: oidc: failed to unmarshal claims: aud")
        if not set(audiences) & set(wanted):
            shown = quoted_list(sorted(wanted))
            raise Unauthorized(f"oidc: verify token: oidc: expected audience in {shown}")

    def _check_times(self, claims: Document) -> float:
        now = self._clock()
        expires_at, not_before = claims.get("exp", 0.0), claims.get("nbf", 0.0)
        if not isinstance(expires_at, float) or not isinstance(not_before, float):
            raise Unauthorized("oidc: verify token: oidc: failed to unmarshal claims: exp, nbf")
        if now >= expires_at:
            raise Unauthorized("oidc: verify token: oidc: token is expired")
        if not_before - NOT_BEFORE_LEEWAY_S > now:
            raise Unauthorized("oidc: verify token: oidc: current time before the nbf (not before) time")
        return expires_at

    async def _user(self, claims: Document) -> UserInfo:
        configuration, prefix = self.configuration, self._extra_prefix
        try:
            return user_of(configuration, claims, CostBudget(is_on_loop=True), prefix)
        except TakesLong:
            budget = CostBudget(is_on_loop=False)
            try:
                return await compute_in_thread(user_of, configuration, claims, budget, prefix)
            except Unauthorized as error:
                raise _CostlyRefusal(error.why) from None


class JwtAuthenticators:
    """Authenticates by the tokens of all issuers, each chosen by the token itself."""

    def __init__(
        self, authenticators: Sequence[JwtAuthenticator], observer: LatencyObserver, audiences: Sequence[str]
    ) -> None:
        """audiences: those of this server, one of which a token must have."""
        self.all: Mapping[str, JwtAuthenticator] = {
            each.configuration.issuer.url: each for each in authenticators
        }
        self._observer, self._audiences = observer, tuple(audiences)

    async def look_up(self, token: str, audiences: Sequence[str]) -> TokenResult:
        """Returns the user of a token; None if it is from another issuer."""
        authenticator = self.all.get(claimed_issuer(token)) if self.all else None
        shared = tuple(each for each in audiences if each in self._audiences)
        if authenticator is None or not shared:
            return TokenResult(None, is_kept=False)
        issuer, began = authenticator.configuration.issuer.url, time.perf_counter()
        try:
            user, expires_at = await authenticator.authenticate(token)
        except Unauthorized as error:
            self._observer.authenticated(issuer, is_success=False, seconds=time.perf_counter() - began)
            return TokenResult(None, error.why or error.message, is_kept=isinstance(error, _CostlyRefusal))
        self._observer.authenticated(issuer, is_success=True, seconds=time.perf_counter() - began)
        return TokenResult(Identity(user, shared), expires_at=expires_at)


def claimed_issuer(token: str) -> str:
    """Returns the issuer that a token claims; empty if it is not a JSON Web Token."""
    if len(token) > TOKEN_LENGTH_MAX or not is_compact(token):
        return ""
    try:
        return _issuer(read_claims(_payload(token)))
    except Unauthorized:
        return ""


def claimed_expiry(token: str) -> float | None:
    """Returns when a token expires, in seconds since 1970; None if it is not a JSON Web Token that says so.

    token: not verified here.
    """
    if len(token) > TOKEN_LENGTH_MAX or not is_compact(token):
        return None
    try:
        expires_at = read_claims(_payload(token)).get("exp")
    except Unauthorized:
        return None
    return expires_at if isinstance(expires_at, float) else None


def _issuer(claims: Document) -> str:
    issuer = claims.get("iss")
    return _ALIASES.get(issuer, issuer) if isinstance(issuer, str) else ""


def _payload(token: str) -> bytes:
    """Returns the payload of a token."""
    part = token.split(".")[1]
    try:
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except binascii.Error:
        raise Unauthorized from None
