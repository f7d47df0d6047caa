"""Authenticates by bearer tokens: calls all authenticators of tokens, those without remote calls first.

A token that one authenticator accepts is valid, even if another has refused it; a TokenReview returns the
reasons of all. Source: k8s.io/apiserver, pkg/authentication/token/union.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol

from apiserver.auth.authn.chain import Credentials, Identity
from apiserver.auth.authn.service_account import Claims, LegacyClaims, ServiceAccountAuthenticator
from apiserver.auth.authn.token_file import TokenFileAuthenticator, bearer_token
from apiserver.meta.errors import Unauthorized
from apiserver.meta.vocabulary import UserInfo


class TokenAuthenticator(Protocol):
    async def __call__(self, token: str, audiences: Sequence[str]) -> Identity | None:
        """Returns the user of a token; None if it is unknown. Raises Unauthorized, TooManyRequests."""
        ...


class BearerTokens:
    """The authenticators of bearer tokens.

    others: called after the token file and the service accounts, in order.
    audiences: those of this server, which tokens without audiences have.
    extensions: called last; a reload of extensions replaces them.
    """

    def __init__(
        self,
        file: TokenFileAuthenticator,
        accounts: ServiceAccountAuthenticator,
        others: Sequence[TokenAuthenticator],
        audiences: Sequence[str],
    ) -> None:
        self._file, self._accounts, self._others = file, accounts, tuple(others)
        self._audiences = tuple(audiences)
        self.extensions: Sequence[TokenAuthenticator] = ()

    def __call__(self, credentials: Credentials) -> UserInfo | Awaitable[Identity] | None:
        """Returns the user of a token, or an awaitable of the user; None if there is no token.

        The call, or the awaitable, raises Unauthorized, TooManyRequests.
        """
        authorization = credentials.authorization
        if not authorization:
            return None
        user = self._file.known(authorization)
        if user is not None:
            return user
        token = bearer_token(authorization)
        if not token:
            return None
        claims = self._accounts.claims(token)
        if claims is None and (user := self._file.authenticate(authorization, token)) is not None:
            return user
        if self._others or self.extensions:
            return self._identity(token, claims, self._audiences)
        if claims is None:
            raise Unauthorized
        return self._accounts.identity(claims, self._audiences)

    async def review(self, token: str, audiences: Sequence[str]) -> Identity:
        """Returns the user of a token, and the requested audiences that it has. Raises Unauthorized.

        audiences: if empty, the server's own.
        """
        wanted = tuple(audiences) or self._audiences
        user = self._file.user_of(token)
        shared = tuple(each for each in wanted if each in self._audiences)
        if user is not None and shared:
            return Identity(user, shared)
        return await self._identity(token, self._accounts.claims(token), wanted)

    async def _identity(
        self, token: str, claims: Claims | LegacyClaims | None, audiences: Sequence[str]
    ) -> Identity:
        reasons: list[str] = []
        annotations: Sequence[tuple[str, str]] = ()
        if claims is not None:
            try:
                return await self._accounts.identity(claims, audiences)
            except Unauthorized as error:
                reasons.append(error.why)
                annotations = error.annotations
        for each in (*self._others, *self.extensions):
            try:
                identity = await each(token, audiences)
            except Unauthorized as error:
                reasons.append(error.why)
            else:
                if identity is not None:
                    return identity
        raise Unauthorized(", ".join(dict.fromkeys(filter(None, reasons))), annotations)
