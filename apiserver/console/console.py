"""Answers requests for the console, below /console/."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from apiserver.auth.authn.bearer_tokens import BearerTokens
from apiserver.auth.authn.chain import AuthenticationChain, Identity
from apiserver.auth.authn.console_tokens import ConsoleTokens
from apiserver.auth.authn.peer_certificates import PeerCertificates
from apiserver.console.json_bodies import send_json
from apiserver.console.login_codes import LoginCodes
from apiserver.console.logins import Logins, Sealing
from apiserver.console.oidc_logins import OidcLogins
from apiserver.console.revocations import Revocations
from apiserver.console.session_endpoint import SessionEndpoint
from apiserver.console.static_files import StaticFiles
from apiserver.console.watches.endpoint import WatchesEndpoint
from apiserver.endpoints import console_paths
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.responses import send
from apiserver.meta.errors import MethodNotAllowed
from apiserver.meta.vocabulary import Document


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
    revocations: Revocations
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
        logins = Logins(sealing, review, access.revocations, access.clock)
        self._login_codes = LoginCodes(logins, access.chain, access.certificates)
        self._session = SessionEndpoint(logins, oidc)

    async def answer(self, call: ApiCall) -> bool:
        """Answer a request that needs no user. Returns whether it was one. Raises ApiError."""
        path = call.info.path
        if path == console_paths.PREFIX.removesuffix("/"):
            await send(call, 301, b"", "", {"Location": console_paths.PREFIX})
            return True
        if (
            not path.startswith(console_paths.PREFIX)
            or path in console_paths.OF_USERS
            or path in console_paths.ROUTED
        ):
            return False
        if path == console_paths.SESSION:
            await self._session.respond(call)
        elif path == console_paths.CONFIG:
            await self._send_config(call)
        else:
            await self._files.respond(call, path.removeprefix(console_paths.PREFIX))
        return True

    async def answer_user(self, call: ApiCall) -> bool:
        """Answer a request whose user needs no right for it. Returns whether it was one. Raises ApiError."""
        path = call.info.path
        if path not in console_paths.OF_USERS:
            return False
        if path == console_paths.WATCHES:
            await self._watches.respond(call)
        else:
            await self._login_codes.respond(call)
        return True

    async def _send_config(self, call: ApiCall) -> None:
        if call.info.method not in ("GET", "HEAD"):
            raise MethodNotAllowed
        oidc = None if self._oidc is None else self._oidc.description()
        document: Document = {"readOnly": self._read_only, "oidc": oidc}
        await send_json(call, document)
