"""Answers requests for the console, below /console/."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from apiserver.auth.authn.bearer_tokens import BearerTokens
from apiserver.auth.authn.chain import AuthenticationChain, Identity
from apiserver.auth.authn.console_tokens import ConsoleTokens
from apiserver.auth.authn.peer_certificates import PeerCertificates
from apiserver.console import login_codes, session_endpoint
from apiserver.console.login_codes import LoginCodes
from apiserver.console.logins import Logins, Sealing
from apiserver.console.oidc_logins import OidcLogins
from apiserver.console.redeemed_codes import RedeemedCodes
from apiserver.console.session_endpoint import SessionEndpoint
from apiserver.console.small_documents import send_small_document
from apiserver.console.static_files import StaticFiles
from apiserver.console.watches.endpoint import WatchesEndpoint
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.request_info import CONSOLE_CEL, CONSOLE_WATCHES, CONSOLE_WHO_CAN
from apiserver.endpoints.responses import send
from apiserver.meta.errors import MethodNotAllowed
from apiserver.meta.vocabulary import Document

PREFIX: Final = "/console/"
CONFIG_PATH: Final = "/console/config"
_OF_USERS: Final = frozenset({login_codes.PATH, CONSOLE_WATCHES})
# Handled as the API is.
_ROUTED: Final = frozenset({CONSOLE_CEL, CONSOLE_WHO_CAN})


class ConsoleAccess(NamedTuple):
    """What logins need of the server.

    derived_key: returns the key for a purpose, the same on all servers. tokens: those of sessions.
    clock: seconds since 1970.
    """

    chain: AuthenticationChain
    certificates: PeerCertificates
    bearers: BearerTokens
    derived_key: Callable[[str], bytes]
    tokens: ConsoleTokens
    redeemed: RedeemedCodes
    clock: Callable[[], float]


class Console:
    """The console of a server. oidc: None if no issuer is configured."""

    def __init__(
        self, access: ConsoleAccess, oidc: OidcLogins | None, watches: WatchesEndpoint, *, read_only: bool
    ) -> None:
        self._files, self._watches = StaticFiles(), watches
        self._oidc, self._read_only = oidc, read_only

        async def review(token: str) -> Identity:
            return await access.bearers.review(token, ())

        sealing = Sealing.of(access.derived_key, access.tokens, access.clock)
        logins = Logins(sealing, review, access.redeemed, access.clock)
        self._login_codes = LoginCodes(logins, access.chain, access.certificates)
        self._session = SessionEndpoint(logins, oidc)

    async def answer(self, call: ApiCall) -> bool:
        """Answer a request that needs no user. Returns whether it was one. Raises ApiError."""
        path = call.info.path
        if path == PREFIX[:-1]:
            await send(call, 301, b"", "", {"Location": PREFIX})
            return True
        if not path.startswith(PREFIX) or path in _OF_USERS | _ROUTED:
            return False
        if path == session_endpoint.PATH:
            await self._session.respond(call)
        elif path == CONFIG_PATH:
            await self._send_config(call)
        else:
            await self._files.respond(call, path.removeprefix(PREFIX))
        return True

    async def answer_user(self, call: ApiCall) -> bool:
        """Answer a request whose user needs no right for it. Returns whether it was one. Raises ApiError."""
        path = call.info.path
        if path not in _OF_USERS:
            return False
        if path == CONSOLE_WATCHES:
            await self._watches.respond(call)
        else:
            await self._login_codes.respond(call)
        return True

    async def _send_config(self, call: ApiCall) -> None:
        if call.info.method not in ("GET", "HEAD"):
            raise MethodNotAllowed
        oidc = None if self._oidc is None else self._oidc.description()
        document: Document = {"readOnly": self._read_only, "oidc": oidc}
        await send_small_document(call, document)
