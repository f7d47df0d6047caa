"""Ask each way of authentication in turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from apiserver.errors import Unauthorized
from apiserver.vocabulary import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, UserInfo


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a caller shows.

    certificate: the verified certificate of the connection as `ssl` decodes it, or a function that gets it.
    authorization: the Authorization header.
    """

    certificate_user: Callable[[], UserInfo | None]
    authorization: str


# Returns who it is, at once or when it has looked, or None if it is shown nothing it understands.
# Raises Unauthorized.
Authenticator = Callable[[Credentials], UserInfo | Awaitable[UserInfo] | None]


class AuthenticationChain:
    """authenticators: asked in order. allows_anonymous: whoever shows nothing is `system:anonymous`."""

    def __init__(self, authenticators: Sequence[Authenticator], *, allows_anonymous: bool) -> None:
        self._authenticators = tuple(authenticators)
        self._allows_anonymous = allows_anonymous

    async def __call__(self, credentials: Credentials) -> UserInfo:
        """Raises Unauthorized."""
        for authenticator in self._authenticators:
            user = authenticator(credentials)
            if user is not None:
                return user if isinstance(user, UserInfo) else await user
        if not self._allows_anonymous:
            raise Unauthorized
        return _ANONYMOUS_USER


_ANONYMOUS_USER = UserInfo(ANONYMOUS, (UNAUTHENTICATED,))


def authenticated(name: str, groups: Sequence[str], uid: str = "") -> UserInfo:
    """A caller who has shown who they are belongs to one more group."""
    return UserInfo(name, (*(group for group in groups if group != AUTHENTICATED), AUTHENTICATED), uid)
