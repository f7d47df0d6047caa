"""Answers requests for /console/session: gives a page its token, and keeps the login in a cookie.

The cookie is for reloads. Only this path reads it: the API knows no cookies, and a browser sends it nowhere
else, thus to no pod or extension server behind the API either. That is why its name begins with `__Secure-`
and not with `__Host-`, which would need the path `/`. Cookies know no ports, so the name has the port: two
servers on one host have each their own.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from aiohttp import hdrs

from apiserver.console.json_bodies import read_json_body, send_json
from apiserver.console.logins import Logins, Session
from apiserver.console.oidc_logins import AuthorizationCode, OidcLogins
from apiserver.console.own_pages import own_origin, require_own_page
from apiserver.endpoints import console_paths
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.middleware import FailureThrottle
from apiserver.endpoints.responses import send
from apiserver.golang.quoting import go_quote
from apiserver.meta import timestamps
from apiserver.meta.errors import BadRequest, MethodNotAllowed, Unauthorized
from apiserver.meta.vocabulary import Document

log = logging.getLogger(__name__)

# A login with this field replaces no session: a link can have the code of another user.
KEEP_SESSION: Final = "keepSession"
# Browsers keep no longer cookies: name, value and attributes. Source: RFC 6265bis, 5.5.
COOKIE_LENGTH_MAX: Final = 4_096
# Longer than a call of the issuer, or of the store, takes until it fails.
ANSWER_S: Final = 30.0
_REASON_LENGTH_MAX: Final = 256
_ATTRIBUTES: Final = f"Path={console_paths.SESSION}; Secure; HttpOnly; SameSite=Strict"
_port = re.compile(r":([0-9]{1,5})$").search
# RFC 3339 has no later years.
_LAST_TIME: Final = 253_402_300_799


class SessionEndpoint:
    """The endpoint. oidc: None if no issuer is configured."""

    def __init__(self, logins: Logins, oidc: OidcLogins | None) -> None:
        self._logins, self._oidc = logins, oidc
        self._failures = FailureThrottle()
        self._login_methods: dict[str, Callable[[ApiCall, Any], Awaitable[Session]]] = {
            "code": self._by_code,
            "token": self._by_token,
            "oidc": self._by_oidc,
        }

    async def respond(self, call: ApiCall) -> None:
        """Answer a request. Raises ApiError, StorageError, TimeoutError."""
        method = call.info.method
        if method not in (hdrs.METH_POST, hdrs.METH_DELETE):
            raise MethodNotAllowed
        require_own_page(call)
        if method == hdrs.METH_DELETE:
            await self._log_out(call)
            return
        try:
            document = await read_json_body(call)
            proof, keeps_session = _proof(document)
            if not proof and not _sent_cookies(call):
                # The first thing that a page asks for is no failure.
                await send(call, 204, b"", "")
                return
            # The request has no deadline, as those of authenticated users have.
            async with asyncio.timeout(ANSWER_S):
                session, is_kept = await self._session(call, proof, keeps_session)
        except (BadRequest, Unauthorized):
            await self._failures.wait()
            raise
        # From now on it is known who asks, also to the audit log.
        call.set_user(session.user)
        described = {**_described(session), "kept": is_kept}
        await send_json(call, described, headers=self._setting_cookie(call, session))

    async def _log_out(self, call: ApiCall) -> None:
        """Raises TooManyRequests, StorageError, TimeoutError: the session and its cookie remain then."""
        async with asyncio.timeout(ANSWER_S):
            for cookie in set(_sent_cookies(call)):
                await self._logins.log_out(cookie)
        await send(call, 204, b"", "", _clearing_cookie(call))

    async def _session(self, call: ApiCall, proof: Document, keeps_session: bool) -> tuple[Session, bool]:
        """Returns a session, and whether it is that of the cookie.

        Raises BadRequest, Unauthorized, TooManyRequests, ServiceUnavailable, StorageError.
        """
        if len(proof) > 1 or not proof.keys() <= self._login_methods.keys():
            methods = ", ".join(self._login_methods)
            raise BadRequest(f"the body must have at most one of the fields {methods}, and {KEEP_SESSION}")
        if not proof:
            return await self._by_cookie(call), True
        # Only if there is no session: when it is not known whether there is one, that is the answer.
        if keeps_session and _sent_cookies(call):
            with suppress(Unauthorized):
                return await self._by_cookie(call), True
        ((name, value),) = proof.items()
        return await self._login_methods[name](call, value), False

    async def _by_code(self, _: ApiCall, code: Any) -> Session:
        return await self._logins.redeem(_text("code", code))

    async def _by_token(self, _: ApiCall, token: Any) -> Session:
        return await self._logins.session(self._logins.of_token(_text("token", token).strip()))

    async def _by_oidc(self, call: ApiCall, fields: Any) -> Session:
        if self._oidc is None:
            raise BadRequest("no OIDC issuer is configured for the console")
        names = ("code", "verifier", "redirectURI")
        if not isinstance(fields, dict) or fields.keys() != set(names):
            raise BadRequest(f"oidc must have the fields {', '.join(names)}")
        code = AuthorizationCode(*(_text(f"oidc.{name}", fields[name]) for name in names))
        if not code.redirect_uri.lower().startswith(f"{own_origin(call)}{console_paths.PREFIX}"):
            raise BadRequest(f"oidc.redirectURI is not below {console_paths.PREFIX} on this server")
        tokens = await self._oidc.exchange(code, call.request.remote or "")
        login = self._logins.of_token(tokens.id_token, tokens.refresh_token, tokens.issuer)
        try:
            return await self._logins.session(login)
        except Unauthorized as error:
            # Users do not see why; administrators, who have configured both, have to.
            why = go_quote(error.why[:_REASON_LENGTH_MAX])
            log.warning("console login: the ID token of the OIDC issuer is not accepted: %s", why)
            raise

    async def _by_cookie(self, call: ApiCall) -> Session:
        login = await self._logins.of_cookie(_sent_cookie(call))
        if login.refresh and self._oidc is not None:
            login, is_new = await self._oidc.refreshed(login, self._logins)
        else:
            is_new = False
        session = await self._logins.session(login)
        return session if is_new else session._replace(login=None)

    def _setting_cookie(self, call: ApiCall, session: Session) -> dict[str, str]:
        """Returns the header that sets the cookie; none if nothing is to be changed.

        What does not fit is left out: the token, if it can be got again, or else what gets the next one, or
        else all, and after a reload the user has to log in again.
        """
        login = session.login
        if login is None:
            return {}
        name = _cookie_name(call)
        smaller = (login._replace(token=""), login._replace(refresh="")) if login.refresh else ()
        for each in (login, *smaller):
            line = f"{name}={self._logins.cookie(each, session.user.name)}; {_ATTRIBUTES}"
            if len(line) <= COOKIE_LENGTH_MAX:
                return {hdrs.SET_COOKIE: line}
        # That of an earlier login would be another user's.
        return _clearing_cookie(call)


def _proof(document: Document) -> tuple[Document, bool]:
    """Returns what somebody logs in with, and whether a session is kept. Raises BadRequest."""
    proof = dict(document)
    keeps_session = proof.pop(KEEP_SESSION, False)
    if not isinstance(keeps_session, bool):
        raise BadRequest(f"{KEEP_SESSION} must be true or false")
    return proof, keeps_session


def _described(session: Session) -> Document:
    expires_at = session.expires_at
    has_end = expires_at is not None and 0 <= expires_at <= _LAST_TIME
    return {
        "token": session.token,
        "user": {"username": session.user.name, "groups": session.user.groups},
        "expiresAt": timestamps.to_text(expires_at) if expires_at is not None and has_end else None,
    }


def _text(name: str, value: Any) -> str:
    """Raises BadRequest."""
    if not isinstance(value, str) or not value:
        raise BadRequest(f"{name} must be a string that is not empty")
    return value


def _clearing_cookie(call: ApiCall) -> dict[str, str]:
    return {hdrs.SET_COOKIE: f"{_cookie_name(call)}=; Max-Age=0; {_ATTRIBUTES}"}


def _cookie_name(call: ApiCall) -> str:
    found = _port(call.request.headers.get(hdrs.HOST, ""))
    return f"__Secure-console-{found[1] if found else 443}"


def _sent_cookie(call: ApiCall) -> str:
    """Returns the value of the cookie. Raises Unauthorized if there is none, or more than one.

    Another server of the same domain can set one, too, but not replace ours.
    """
    found = _sent_cookies(call)
    if len(found) != 1:
        raise Unauthorized(f"console session: {len(found)} cookies")
    return found[0]


def _sent_cookies(call: ApiCall) -> Sequence[str]:
    wanted = _cookie_name(call)
    pairs = (
        pair.strip().partition("=")
        for header in call.request.headers.getall(hdrs.COOKIE, ())
        for pair in header.split(";")
    )
    return [value for name, _, value in pairs if name == wanted]
