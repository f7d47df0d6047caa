"""The chain of authenticators, which are called in turn."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from multidict import CIMultiDict, CIMultiDictProxy

from apiserver.meta.errors import Unauthorized
from apiserver.meta.vocabulary import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, UserInfo


class PeerCertificate(NamedTuple):
    """The client certificate of a connection, verified when the connection was made.

    user: the one that it names; None if it names none, or no CA of clients has signed it.
    front_proxy: its common name, if a CA of front proxies has signed it; otherwise None.
    is_trusted: whether a currently trusted CA has signed it.
    expires_at: seconds since 1970.
    """

    user: UserInfo | None = None
    front_proxy: str | None = None
    is_trusted: bool = True
    expires_at: float = math.inf


# Of a connection on which the client has shown none.
NO_CERTIFICATE: Final = PeerCertificate()


class Headers(Protocol):
    """A request's headers, whose names are case-insensitive; bytes that are not UTF-8 are surrogates in
    values.
    """

    def getall(self, name: str, default: Sequence[str], /) -> Sequence[str]: ...
    def items(self) -> Iterable[tuple[str, str]]: ...


_NO_HEADERS: Final[Headers] = CIMultiDictProxy(CIMultiDict[str]())


class Credentials(NamedTuple):
    """The credentials that a caller presents. authorization: the Authorization header."""

    certificate: PeerCertificate
    authorization: str
    headers: Headers = _NO_HEADERS


class Identity(NamedTuple):
    """The user of a token, and the requested audiences that it has.

    annotations: like those of Unauthorized. warning: the one about the token for the caller; empty for none.
    """

    user: UserInfo
    audiences: tuple[str, ...]
    annotations: tuple[tuple[str, str], ...] = ()
    warning: str = ""


# Returns the user, or an awaitable of the token's user if that has to be looked up first; None if there is no
# credential of its kind. Raises Unauthorized for an invalid credential.
Authenticator = Callable[[Credentials], UserInfo | Awaitable[Identity] | None]


class NoCredentials(Unauthorized):
    """The caller presents no credentials, and may not be anonymous."""


class Anonymous(NamedTuple):
    """The paths on which callers may be anonymous. paths: the only allowed ones; None: all."""

    is_enabled: bool = True
    paths: frozenset[str] | None = None

    def is_allowed(self, path: str) -> bool:
        return self.is_enabled and (self.paths is None or path in self.paths)


# Returns whose credentials are, for the path of a request. Raises Unauthorized.
Authenticate: TypeAlias = Callable[[Credentials, str], Awaitable[UserInfo | Identity]]


class AuthenticationChain:
    """Calls authenticators in order, those of client certificates first.

    anonymous: the paths on which callers without credentials are `system:anonymous`; may be replaced.
    """

    def __init__(
        self,
        authenticators: Sequence[Authenticator],
        anonymous: Anonymous,
        by_certificate: Sequence[Authenticator] = (),
    ) -> None:
        """by_certificate: called only for connections with a client certificate, which few have."""
        self._authenticators = tuple(authenticators)
        self._by_certificate = tuple(by_certificate)
        self._with_certificate = (*by_certificate, *authenticators)
        self.anonymous = anonymous

    async def __call__(self, credentials: Credentials, path: str) -> UserInfo | Identity:
        """Returns the user of a request, with a warning about the token if there is one.

        path: that of the request.

        Raises Unauthorized, or its subclass NoCredentials.
        """
        has_certificate = credentials.certificate is not NO_CERTIFICATE
        for authenticator in self._with_certificate if has_certificate else self._authenticators:
            user = authenticator(credentials)
            if user is not None:
                return user if isinstance(user, UserInfo) else await user
        if not self.anonymous.is_allowed(path):
            raise NoCredentials
        return _ANONYMOUS_USER

    def certificate_authenticator(self, credentials: Credentials) -> Authenticator | None:
        """Returns the authenticator that finds the user by the certificate of a caller; None if none does.

        Raises Unauthorized.
        """
        if credentials.certificate is NO_CERTIFICATE:
            return None
        return next((each for each in self._by_certificate if each(credentials) is not None), None)


_ANONYMOUS_USER = UserInfo(ANONYMOUS, (UNAUTHENTICATED,))


def authenticated(name: str, groups: Sequence[str], uid: str = "") -> UserInfo:
    """Returns a user with the group of all authenticated users added last.

    Anonymous users, also those of a front proxy, do not get the group. Source: k8s.io/apiserver,
    pkg/authentication/group/authenticated_group_adder.go.
    """
    if name == ANONYMOUS or UNAUTHENTICATED in groups:
        return UserInfo(name, tuple(groups), uid)
    return UserInfo(name, (*(group for group in groups if group != AUTHENTICATED), AUTHENTICATED), uid)
