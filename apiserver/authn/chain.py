"""The chain of authenticators: each is asked in turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from apiserver.errors import Unauthorized
from apiserver.vocabulary import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, UserInfo


class PeerCertificate(NamedTuple):
    """The verified client certificate of a connection.

    user: whom it names; None if it names nobody, or no CA of clients has signed it.
    front_proxy: its common name, if a CA of front proxies has signed it; else None.
    """

    user: UserInfo | None = None
    front_proxy: str | None = None


# Of a connection on which the client has shown none.
NO_CERTIFICATE: Final = PeerCertificate()


class Headers(Protocol):
    """A request's headers, whose names have no case. Bytes that are not UTF-8 are surrogates in values."""

    def getall(self, name: str, default: Sequence[str], /) -> Sequence[str]: ...
    def items(self) -> Iterable[tuple[str, str]]: ...


class _NoHeaders:
    def getall(self, name: str, default: Sequence[str], /) -> Sequence[str]:
        return default

    def items(self) -> Iterable[tuple[str, str]]:
        return ()


NO_HEADERS: Final[Headers] = _NoHeaders()


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a caller presents. authorization: the Authorization header."""

    certificate: PeerCertificate
    authorization: str
    headers: Headers = NO_HEADERS


# Returns the user, or an awaitable of it if something has to be looked up first; None if there is no
# credential of its kind. Raises Unauthorized for a credential that is not valid.
Authenticator = Callable[[Credentials], UserInfo | Awaitable[UserInfo] | None]


class AuthenticationChain:
    """Asks authenticators in order.

    allows_anonymous: callers without credentials are `system:anonymous`.
    """

    def __init__(self, authenticators: Sequence[Authenticator], *, allows_anonymous: bool) -> None:
        self._authenticators = tuple(authenticators)
        self._allows_anonymous = allows_anonymous

    async def __call__(self, credentials: Credentials) -> UserInfo:
        """Returns the caller. Raises Unauthorized."""
        for authenticator in self._authenticators:
            user = authenticator(credentials)
            if user is not None:
                return user if isinstance(user, UserInfo) else await user
        if not self._allows_anonymous:
            raise Unauthorized
        return _ANONYMOUS_USER


_ANONYMOUS_USER = UserInfo(ANONYMOUS, (UNAUTHENTICATED,))


def authenticated(name: str, groups: Sequence[str], uid: str = "") -> UserInfo:
    """Returns a user with the group of all authenticated users added last."""
    return UserInfo(name, (*(group for group in groups if group != AUTHENTICATED), AUTHENTICATED), uid)
