"""How many calls of the OpenID provider logins and sessions may cause."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import orjson
import pytest

from apiserver.auth.authn.authentication_configuration import (
    ClaimMapping,
    Issuer,
    JwtAuthenticatorConfiguration,
)
from apiserver.auth.authn.discovery_documents import Discovery
from apiserver.auth.authn.identity_provider import IdentityProvider
from apiserver.auth.authn.jwt_authenticators import JwtAuthenticator
from apiserver.console.logins import Login
from apiserver.console.oidc_logins import (
    CALLS_BURST,
    CALLS_PER_S,
    WAITING_MAX,
    AuthorizationCode,
    OidcClient,
    OidcLogins,
)
from apiserver.meta.errors import TooManyRequests
from tests.unit.console.test_logins import NOW, Clock, Server

URL: Final = "https://issuer.example"
CODE: Final = AuthorizationCode("code", "verifier", "https://server/console/")
# Its token does not fit into the cookie, and has to be got at each reload.
LOGIN: Final = Login("one", None, NOW + 1_000, "", "refresh", URL)


class Provider:
    """A provider that issues tokens, once it is open."""

    def __init__(self) -> None:
        self.is_open, self.calls = asyncio.Event(), 0
        self.is_open.set()

    async def fetch(self, url: str, authorities: str) -> bytes:
        raise AssertionError("it has been found")

    def keys_fetched(self, issuer: str, content: bytes | None) -> None: ...

    def issuer_removed(self, issuer: str) -> None: ...

    async def post_form(
        self, url: str, authorities: str, form: Mapping[str, str], authorization: str
    ) -> tuple[int, bytes]:
        self.calls += 1
        await self.is_open.wait()
        return 200, orjson.dumps({"id_token": "opaque", "refresh_token": "next"})


class Setup:
    def __init__(self) -> None:
        self.clock, self.provider = Clock(), Provider()
        self._server = Server(self.clock)
        issuer = Issuer(URL, ("client",))
        found = IdentityProvider(issuer, self.provider.fetch, self.provider, self.clock)
        found.discovery = Discovery("", f"{URL}/authorize", f"{URL}/token")
        configuration = JwtAuthenticatorConfiguration(issuer, ClaimMapping("sub"))
        authenticator = JwtAuthenticator(configuration, found, "example.com", self.clock)
        self._oidc = OidcLogins(lambda: [authenticator], OidcClient(), self.provider.post_form, self.clock)

    async def log_in(self) -> None:
        await self._oidc.exchange(CODE, "192.0.2.1")

    async def refresh(self) -> None:
        login, is_new = await self._oidc.refreshed(LOGIN, self._server.logins)
        assert is_new
        assert (login.id, login.token, login.refresh, login.until) == ("one", "opaque", "next", LOGIN.until)


@pytest.fixture
def setup() -> Setup:
    return Setup()


Purpose = Callable[[Setup], Awaitable[None]]
PURPOSES: Final[dict[str, tuple[Purpose, Purpose]]] = {
    "refreshes do not stop logins": (Setup.refresh, Setup.log_in),
    "logins do not stop refreshes": (Setup.log_in, Setup.refresh),
}


@pytest.mark.parametrize(("many", "other"), PURPOSES.values(), ids=PURPOSES)
async def test_calls_for_one_purpose_leave_those_for_the_other(
    setup: Setup, many: Purpose, other: Purpose
) -> None:
    for _ in range(CALLS_BURST):
        await many(setup)
    with pytest.raises(TooManyRequests):
        await many(setup)
    assert setup.provider.calls == CALLS_BURST
    await other(setup)
    setup.clock.now += 1 / CALLS_PER_S
    await many(setup)


@pytest.mark.parametrize(("many", "other"), PURPOSES.values(), ids=PURPOSES)
async def test_calls_that_wait_for_one_purpose_leave_those_for_the_other(
    setup: Setup, many: Purpose, other: Purpose
) -> None:
    setup.provider.is_open.clear()
    waiting = [asyncio.ensure_future(many(setup)) for _ in range(WAITING_MAX)]
    while setup.provider.calls < WAITING_MAX:
        await asyncio.sleep(0)
    with pytest.raises(TooManyRequests):
        await many(setup)
    waiting.append(asyncio.ensure_future(other(setup)))
    while setup.provider.calls < WAITING_MAX + 1:
        assert not waiting[-1].done(), waiting[-1].exception()
        await asyncio.sleep(0)
    setup.provider.is_open.set()
    await asyncio.gather(*waiting)
