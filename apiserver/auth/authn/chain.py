"""The chain of authenticators: each is asked in turn."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from multidict import CIMultiDict, CIMultiDictProxy

from apiserver.meta.errors import Unauthorized
from apiserver.meta.vocabulary import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, UserInfo


class PeerCertificate(NamedTuple):
    """The client certificate of a connection, which was verified when the connection was made.

    user: whom it names; None if it names nobody, or no CA of clients has signed it.
    front_proxy: its common name, if a CA of front proxies has signed it; else None.
    is_trusted: whether one of the CAs has signed it that are trusted now.
    expires_at: seconds since 1970.
    """

    user: UserInfo | None = None
    front_proxy: str | None = None
    is_trusted: bool = True
    expires_at: float = math.inf


# Of a connection on which the client has shown none.
NO_CERTIFICATE: Final = PeerCertificate()


class Headers(Protocol):
    """A request's headers, whose names have no case. Bytes that are not UTF-8 are surrogates in values."""

    def getall(self, name: str, default: Sequence[str], /) -> Sequence[str]: ...
    def items(self) -> Iterable[tuple[str, str]]: ...


_NO_HEADERS: Final[Headers] = CIMultiDictProxy(CIMultiDict[str]())


class Credentials(NamedTuple):
    """What a caller presents. authorization: the Authorization header."""

    certificate: PeerCertificate
    authorization: str
    headers: Headers = _NO_HEADERS


class Identity(NamedTuple):
    """The user of a token, and those of the wanted audiences for which it is meant.

    annotations: as those of Unauthorized. warning: what the caller is told of the token; empty: nothing.
    """

    user: UserInfo
    audiences: tuple[str, ...]
    annotations: tuple[tuple[str, str], ...] = ()
    warning: str = ""


# Returns the user, or an awaitable of who has a token if that has to be looked up first; None if there is no
# credential of its kind. Raises Unauthorized for a credential that is not valid.
Authenticator = Callable[[Credentials], UserInfo | Awaitable[Identity] | None]


class NoCredentials(Unauthorized):
    """The caller shows none, and may not be anonymous."""


class Anonymous(NamedTuple):
    """Whether callers may be anonymous. paths: the only ones on which they may; None: all."""

    is_enabled: bool = True
    paths: frozenset[str] | None = None

    def is_allowed(self, path: str) -> bool:
        return self.is_enabled and (self.paths is None or path in self.paths)


# Returns whose credentials are, for the path of a request. Raises Unauthorized.
Authenticate: TypeAlias = Callable[[Credentials, str], Awaitable[UserInfo | Identity]]


class AuthenticationChain:
    """Asks authenticators in order.

    anonymous: where callers without credentials are `system:anonymous`; may be replaced.
    """

    def __init__(self, authenticators: Sequence[Authenticator], anonymous: Anonymous) -> None:
        self._authenticators = tuple(authenticators)
        self.anonymous = anonymous

    async def __call__(self, credentials: Credentials, path: str) -> UserInfo | Identity:
        """Returns the caller, with what is told of a token that had to be looked up. path: of the request.

        Raises Unauthorized, of which NoCredentials is one.
        """
        for authenticator in self._authenticators:
            user = authenticator(credentials)
            if user is not None:
                return user if isinstance(user, UserInfo) else await user
        if not self.anonymous.is_allowed(path):
            raise NoCredentials
        return _ANONYMOUS_USER


_ANONYMOUS_USER = UserInfo(ANONYMOUS, (UNAUTHENTICATED,))


def authenticated(name: str, groups: Sequence[str], uid: str = "") -> UserInfo:
    """Returns a user with the group of all authenticated users added last.

    Who is said to have shown nothing, as a front proxy says it of its anonymous callers, is not one of them.
    Source: k8s.io/apiserver, pkg/authentication/group/authenticated_group_adder.go.
    """
    if name == ANONYMOUS or UNAUTHENTICATED in groups:
        return UserInfo(name, tuple(groups), uid)
    return UserInfo(name, (*(group for group in groups if group != AUTHENTICATED), AUTHENTICATED), uid)
