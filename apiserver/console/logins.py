"""Logs users in to the console: what codes, cookies and sessions are, and when they are valid.

All replicas and workers serve all sessions, because a code and a cookie hold the login themselves, sealed
with a key that only the servers have (`auth.authn.sealed_texts`). Only the ids of used codes, and of sessions
whose users have logged out, are stored, until they would expire (`revocations`).

A login of a caller with a bearer token holds this token, and the page gets it: it is checked again whenever a
code or a cookie is used, and by each request, so that its end, its revocation and the objects that it is
bound to count as everywhere. A caller with a client certificate has no credential that could enter a page.
Its login holds the user, until the certificate ends or for `SESSION_S`; the page gets tokens for
`PAGE_TOKEN_S`. When the CA of the certificate is not trusted any more, its sessions end; a new signing key of
service accounts ends all sessions.

Impersonated users get no code. Requests of the session would be recorded without the impersonator, and
constrained impersonation of one request would become that of all. Users whom a front proxy names get none
either: it vouches for each request, and can neither end a session nor know that its user has left.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, Protocol

from apiserver.auth.authn.chain import Identity
from apiserver.auth.authn.console_tokens import CertifiedUser, ConsoleTokens
from apiserver.auth.authn.jwt_authenticators import claimed_expiry
from apiserver.auth.authn.sealed_texts import NotOpened, SealedTexts
from apiserver.auth.authn.service_account import TOKEN_LENGTH_MAX
from apiserver.meta.errors import BadRequest, Unauthorized
from apiserver.meta.vocabulary import Document, UserInfo

CODE_S: Final = 60
# A working day. No session lasts longer, whatever its token does.
SESSION_S: Final = 8 * 3600
# What a page may leak is valid no longer; as long as the ID tokens of many issuers.
PAGE_TOKEN_S: Final = 15 * 60
_ID_BYTES: Final = 16
# What is in them belongs to the kind: a server of another release that has other fields needs another kind.
_CODES: Final = "console-code"
_COOKIES: Final = "console-login"
# What `fetch` can send in a header.
_is_sendable = re.compile(r"[\x21-\x7e]+").fullmatch


class Login(NamedTuple):
    """A user who has logged in.

    id: that of the session, the same in all its cookies.
    user: the user of a client certificate; None if there is a token. until: when its sessions end at the
    latest, in seconds since 1970. refresh: gets the next token, from `issuer`; empty if there is none.
    """

    id: str
    user: CertifiedUser | None
    until: float
    token: str = ""
    refresh: str = ""
    issuer: str = ""

    def document(self) -> Document:
        """Returns all but the id."""
        if self.user is not None:
            return {"until": self.until, "user": self.user.document()}
        return {"until": self.until, "token": self.token, "refresh": self.refresh, "issuer": self.issuer}

    @classmethod
    def of(cls, id_: str, document: Document) -> Login:
        until = document["until"]
        if "user" in document:
            return cls(id_, CertifiedUser.of(document["user"]), until)
        return cls(id_, None, until, document["token"], document["refresh"], document["issuer"])


class Session(NamedTuple):
    """What a page gets. expires_at: of the token, in seconds since 1970; None if unknown.

    login: what the cookie is to hold from now on; None: what it holds already.
    """

    token: str
    user: UserInfo
    expires_at: float | None
    login: Login | None


class Revoked(Protocol):
    """Notes which codes and sessions are not valid any more: `revocations.Revocations`."""

    async def use_code(self, code_id: str, user_name: str) -> bool: ...
    async def end_session(self, session_id: str, user_name: str) -> None: ...
    async def has_ended(self, session_id: str) -> bool: ...


class Sealing(NamedTuple):
    """What seals codes, cookies and the tokens of sessions."""

    codes: SealedTexts
    cookies: SealedTexts
    tokens: ConsoleTokens

    @classmethod
    def of(
        cls, derived_key: Callable[[str], bytes], tokens: ConsoleTokens, clock: Callable[[], float]
    ) -> Sealing:
        """Returns what seals with derived keys. derived_key: returns the key for a purpose."""
        codes, cookies = (SealedTexts(derived_key(kind), kind, clock) for kind in (_CODES, _COOKIES))
        return cls(codes, cookies, tokens)


class Logins:
    """Issues codes, and makes sessions of codes, tokens and cookies.

    review: returns the user of a token; raises Unauthorized, TooManyRequests. clock: seconds since 1970.
    """

    def __init__(
        self,
        sealing: Sealing,
        review: Callable[[str], Awaitable[Identity]],
        revoked: Revoked,
        clock: Callable[[], float],
    ) -> None:
        self._sealing, self._review, self._revoked, self._clock = sealing, review, revoked, clock

    def of_certificate(self, user: CertifiedUser, ends_at: float) -> Login:
        """Returns the login of a caller with a client certificate. ends_at: when the certificate ends."""
        return Login(_new_id(), user, min(ends_at, self._clock() + SESSION_S))

    def of_token(self, token: str, refresh: str = "", issuer: str = "") -> Login:
        """Returns the login of a caller with a bearer token, which is not verified here.

        refresh: if there is one, the session may outlast the token. Raises BadRequest.
        """
        if len(token) > TOKEN_LENGTH_MAX or not _is_sendable(token):
            raise BadRequest("a token for the console must be printable ASCII without spaces")
        until = self._clock() + SESSION_S
        expires_at = self._expiry(token)
        if expires_at is not None and not refresh:
            until = min(until, expires_at)
        return Login(_new_id(), None, until, token, refresh, issuer)

    def code(self, login: Login) -> str:
        """Returns a code for a login, for which there is no other."""
        document = {"id": login.id, "login": login.document()}
        return self._sealing.codes.seal(document, self._clock() + CODE_S)

    async def redeem(self, code: str) -> Session:
        """Use a code, and return its session. Raises Unauthorized, TooManyRequests, StorageError."""
        document = _opened(self._sealing.codes, code)
        session = await self.session(Login.of(document["id"], document["login"]))
        if not await self._revoked.use_code(document["id"], session.user.name):
            raise Unauthorized("login code: it has been used")
        return session

    async def session(self, login: Login) -> Session:
        """Returns the session of a login. Raises Unauthorized, TooManyRequests."""
        now = self._clock()
        if now >= login.until:
            raise Unauthorized("console session: it has ended")
        if login.user is not None:
            if not self._sealing.tokens.trusts(login.user.authority):
                raise Unauthorized("console session: the CA of its client certificate is not trusted")
            expires_at = int(min(login.until, now + PAGE_TOKEN_S))
            token = self._sealing.tokens.issue(login.user, expires_at)
            return Session(token, login.user.user, expires_at, login)
        if not login.token:
            raise Unauthorized("console session: its token cannot be got again")
        found = await self._review(login.token)
        return Session(login.token, found.user, self._expiry(login.token), login)

    def cookie(self, login: Login, user_name: str) -> str:
        """Returns the value of the cookie of a login, whose user has this name."""
        document = {"id": login.id, "userName": user_name, **login.document()}
        return self._sealing.cookies.seal(document, login.until)

    async def of_cookie(self, cookie: str) -> Login:
        """Returns the login in a cookie. Raises Unauthorized, StorageError."""
        document = _opened(self._sealing.cookies, cookie)
        if await self._revoked.has_ended(document["id"]):
            raise Unauthorized("console session: its user has logged out")
        return Login.of(document["id"], document)

    async def log_out(self, cookie: str) -> None:
        """End the session of a cookie, and of all its copies. Raises TooManyRequests, StorageError."""
        try:
            document = _opened(self._sealing.cookies, cookie)
        except Unauthorized:
            return  # It is of no session, or of one that has ended.
        await self._revoked.end_session(document["id"], document["userName"])

    def remaining_s(self, login: Login) -> float | None:
        """Returns for how long the token of a login is valid, if nothing revokes it; None if unknown."""
        expires_at = self._expiry(login.token)
        return None if expires_at is None else expires_at - self._clock()

    def _expiry(self, token: str) -> float | None:
        expires_at = self._sealing.tokens.expires_at(token)
        return claimed_expiry(token) if expires_at is None else expires_at


def _new_id() -> str:
    return secrets.token_hex(_ID_BYTES)


def _opened(texts: SealedTexts, text: str) -> Document:
    """Raises Unauthorized."""
    try:
        return texts.open(text)[0]
    except NotOpened as error:
        raise Unauthorized(f"{texts.prefix}: {error}") from None
