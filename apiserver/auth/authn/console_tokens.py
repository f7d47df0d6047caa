"""Issues and authenticates the bearer tokens of console sessions of users with client certificates.

A client certificate cannot enter a web page. The token has the user in it, sealed (`sealed_texts`), and is
valid for some minutes, and as long as the CA is trusted for certificates of users; the cookie of the session
renews it (`apiserver.console`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final, NamedTuple, Self

from apiserver.auth.authn.chain import Identity
from apiserver.auth.authn.sealed_texts import NotOpened, SealedTexts
from apiserver.meta.errors import Unauthorized
from apiserver.meta.vocabulary import Document, UserInfo

KIND: Final = "console-session"
_PREFIX: Final = f"{KIND}."


class CertifiedUser(NamedTuple):
    """The user of a client certificate. authority: the digest of the CA that has signed the certificate."""

    user: UserInfo
    authority: str

    def document(self) -> Document:
        user = self.user
        shown = {"name": user.name, "groups": user.groups, "uid": user.uid, "extra": user.extra}
        return shown | {"authority": self.authority}

    @classmethod
    def of(cls, document: Document) -> Self:
        extra = tuple((key, tuple(values)) for key, values in document["extra"])
        user = UserInfo(document["name"], tuple(document["groups"]), document["uid"], extra)
        return cls(user, document["authority"])


class ConsoleTokens:
    """Issues and authenticates these tokens.

    derived_key: returns the key for a purpose. audiences: those of this server, which all these tokens have.
    trusts: whether a CA is trusted for certificates of users, by its digest. clock: seconds since 1970.
    """

    def __init__(
        self,
        derived_key: Callable[[str], bytes],
        audiences: Sequence[str],
        trusts: Callable[[str], bool],
        clock: Callable[[], float],
    ) -> None:
        self._derived_key, self._audiences, self._clock = derived_key, tuple(audiences), clock
        self.trusts = trusts

    def issue(self, user: CertifiedUser, expires_at: float) -> str:
        """Returns a token of a user. expires_at: seconds since 1970."""
        return self._texts.seal(user.document(), expires_at)

    async def __call__(self, token: str, audiences: Sequence[str]) -> Identity | None:
        """Returns the user of a token; None if it is another token. Raises Unauthorized."""
        if not token.startswith(_PREFIX):
            return None
        shared = tuple(each for each in audiences if each in self._audiences)
        if not shared:
            return None
        try:
            document, _ = self._texts.open(token)
        except NotOpened as error:
            raise Unauthorized(f"console session token: {error}") from None
        user, authority = CertifiedUser.of(document)
        if not self.trusts(authority):
            raise Unauthorized("console session token: the CA of its client certificate is not trusted")
        return Identity(user, shared)

    def expires_at(self, token: str) -> float | None:
        """Returns when a token expires, in seconds since 1970; None if it is another token, or not valid."""
        try:
            return self._texts.open(token)[1] if token.startswith(_PREFIX) else None
        except NotOpened:
            return None

    @cached_property
    def _texts(self) -> SealedTexts:
        return SealedTexts(self._derived_key(KIND), KIND, self._clock)
