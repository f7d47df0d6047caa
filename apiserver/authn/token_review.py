"""Reviews a token that somebody else presented: for the TokenReview API."""

from __future__ import annotations

from collections.abc import Sequence

from apiserver.authn.chain import NO_CERTIFICATE, AuthenticationChain, Credentials
from apiserver.authn.service_account import Identity, ServiceAccountAuthenticator
from apiserver.errors import Unauthorized


class TokenReviewer:
    """Asks all authenticators of tokens.

    audiences: the server's own; tokens other than those of service accounts are meant for these.
    """

    def __init__(
        self,
        chain: AuthenticationChain,
        service_accounts: ServiceAccountAuthenticator,
        audiences: Sequence[str],
    ) -> None:
        self._chain, self._service_accounts = chain, service_accounts
        self._audiences = tuple(audiences)

    async def __call__(self, token: str, audiences: Sequence[str]) -> Identity:
        """Returns whose the token is, and for which of `audiences` it is meant. Raises Unauthorized.

        audiences: if it is empty, the server's own.
        """
        wanted = tuple(audiences) or self._audiences
        identity = await self._service_accounts.identify(token, wanted)
        if identity is not None:
            return identity
        shared = tuple(each for each in wanted if each in self._audiences)
        if not shared:
            raise Unauthorized
        return Identity(await self._chain(Credentials(NO_CERTIFICATE, f"Bearer {token}")), shared)
