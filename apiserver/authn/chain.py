"""The chain of authenticators: each is asked in turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from apiserver.errors import Unauthorized
from apiserver.vocabulary import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, UserInfo


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a caller presents.

    certificate_user: returns the user in the verified client certificate of the connection, if there is one.
    authorization: the Authorization header.
    """

    certificate_user: Callable[[], UserInfo | None]
    authorization: str


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
