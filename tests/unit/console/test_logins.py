"""When codes, cookies and sessions are valid, by a clock that can jump."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import jwt
import pytest

from apiserver.auth.authn.chain import Identity
from apiserver.auth.authn.console_tokens import CertifiedUser, ConsoleTokens
from apiserver.auth.authn.sealed_texts import LEEWAY_S
from apiserver.console.logins import CODE_S, PAGE_TOKEN_S, SESSION_S, Login, Logins, Sealing
from apiserver.console.revocations import (
    CODE_KEPT_S,
    CODES_BURST,
    CODES_PER_S,
    LOGOUTS_BURST,
    LOGOUTS_PER_S,
    SESSION_KEPT_S,
    Revocations,
)
from apiserver.meta.errors import BadRequest, TooManyRequests, Unauthorized
from apiserver.meta.vocabulary import UserInfo
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.keys import prefix_range

NOW: Final = 1_700_000_000
CAROL: Final = CertifiedUser(UserInfo("carol", ("dev",), "7", (("a", ("b",)),)), "the CA")
CODES: Final = "/registry/-/console-codes/"
SESSIONS: Final = "/registry/-/console-sessions/"


class Clock:
    def __init__(self) -> None:
        self.now = float(NOW)

    def __call__(self) -> float:
        return self.now


class Server:
    """What a server has for logins. revoked: the tokens, and the CAs, that are not valid any more."""

    def __init__(self, clock: Clock) -> None:
        self.revoked: set[str] = set()
        self._used: set[str] = set()
        self._ended: set[str] = set()

        def key(purpose: str) -> bytes:
            return purpose.encode().ljust(32)

        tokens = ConsoleTokens(key, ("a",), lambda authority: authority not in self.revoked, clock)
        self.logins = Logins(Sealing.of(key, tokens, clock), self._review, self, clock)

    async def use_code(self, code_id: str, _: str) -> bool:
        is_new = code_id not in self._used
        self._used.add(code_id)
        return is_new

    async def end_session(self, session_id: str, _: str) -> None:
        self._ended.add(session_id)

    async def has_ended(self, session_id: str) -> bool:
        return session_id in self._ended

    async def _review(self, token: str) -> Identity:
        if token in self.revoked:
            raise Unauthorized
        return Identity(UserInfo("alice"), ("a",))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server(clock: Clock) -> Server:
    return Server(clock)


def token_until(expires_at: float) -> str:
    return jwt.encode({"exp": expires_at}, "k" * 32, "HS256")


async def test_a_session_of_a_certificate_has_tokens_of_its_own_until_it_ends(
    server: Server, clock: Clock
) -> None:
    login = server.logins.of_certificate(CAROL, NOW + 10 * SESSION_S)
    assert login.until == NOW + SESSION_S
    first = await server.logins.session(login)
    assert (first.user, first.expires_at) == (CAROL.user, NOW + PAGE_TOKEN_S)
    clock.now = NOW + SESSION_S - 10
    assert (await server.logins.session(login)).expires_at == NOW + SESSION_S
    clock.now = NOW + SESSION_S
    with pytest.raises(Unauthorized):
        await server.logins.session(login)


async def test_a_session_ends_with_its_certificate(server: Server, clock: Clock) -> None:
    cookie = server.logins.cookie(server.logins.of_certificate(CAROL, NOW + 100), "carol")
    assert (await server.logins.session(await server.logins.of_cookie(cookie))).expires_at == NOW + 100
    clock.now = NOW + 100
    with pytest.raises(Unauthorized):
        await server.logins.of_cookie(cookie)


ENDS: Final = {
    "with a token that says when it ends": (token_until(NOW + 100), "", NOW + 100),
    "after a working day, if the token lasts longer": (token_until(NOW + 2 * SESSION_S), "", NOW + SESSION_S),
    "after a working day, if the token does not say": ("opaque", "", NOW + SESSION_S),
    "after a working day, if the token can be refreshed": (token_until(NOW + 100), "r", NOW + SESSION_S),
    "at once, if the token has ended": (token_until(-5), "", -5),
}


@pytest.mark.parametrize(("token", "refresh", "until"), ENDS.values(), ids=ENDS)
def test_a_session_of_a_token_ends(server: Server, token: str, refresh: str, until: float) -> None:
    assert server.logins.of_token(token, refresh).until == until


async def test_sessions_end_when_the_ca_of_the_certificate_is_not_trusted_any_more(server: Server) -> None:
    login = server.logins.of_certificate(CAROL, NOW + 100)
    code, cookie = server.logins.code(login), server.logins.cookie(login, "user")
    server.revoked.add(CAROL.authority)
    with pytest.raises(Unauthorized):
        await server.logins.redeem(code)
    with pytest.raises(Unauthorized):
        await server.logins.session(await server.logins.of_cookie(cookie))


async def test_a_revoked_token_logs_nobody_in(server: Server) -> None:
    login = server.logins.of_token("opaque")
    code, cookie = server.logins.code(login), server.logins.cookie(login, "user")
    assert (await server.logins.session(login)).token == "opaque"
    server.revoked.add("opaque")
    with pytest.raises(Unauthorized):
        await server.logins.redeem(code)
    with pytest.raises(Unauthorized):
        await server.logins.session(await server.logins.of_cookie(cookie))


LOGINS: Final = {
    "of a certificate": Login("one", CAROL, NOW + 100.0),
    "of a token": Login("two", None, NOW + 100.5, "token", "refresh", "https://issuer"),
}


@pytest.mark.parametrize("login", LOGINS.values(), ids=LOGINS)
async def test_a_cookie_holds_the_whole_login(server: Server, login: Login) -> None:
    assert await server.logins.of_cookie(server.logins.cookie(login, "user")) == login


async def test_logging_out_ends_all_cookies_of_a_session_and_no_other(server: Server, clock: Clock) -> None:
    session = await server.logins.redeem(server.logins.code(server.logins.of_certificate(CAROL, NOW + 500)))
    login = session.login
    assert login is not None
    cookies = [server.logins.cookie(each, "carol") for each in (login, login, login._replace(until=NOW + 50))]
    other = server.logins.cookie(server.logins.of_certificate(CAROL, NOW + 500), "carol")
    await server.logins.log_out(cookies[0])
    for cookie in cookies:
        with pytest.raises(Unauthorized):
            await server.logins.of_cookie(cookie)
    assert (await server.logins.of_cookie(other)).user == CAROL


@pytest.mark.parametrize("cookie", ["", "x", "console-login.AAAA"])
async def test_logging_out_of_no_session_does_nothing(server: Server, cookie: str) -> None:
    await server.logins.log_out(cookie)


async def test_a_code_is_valid_for_a_minute(server: Server, clock: Clock) -> None:
    codes = [server.logins.code(server.logins.of_certificate(CAROL, NOW + 100)) for _ in range(2)]
    clock.now = NOW + CODE_S - 1
    assert (await server.logins.redeem(codes[0])).user == CAROL.user
    clock.now = NOW + CODE_S
    with pytest.raises(Unauthorized):
        await server.logins.redeem(codes[1])


@pytest.mark.parametrize("back_s", [LEEWAY_S + 1, 3_600])
async def test_a_code_is_not_valid_again_when_the_clock_is_put_back(
    server: Server, clock: Clock, back_s: float
) -> None:
    """Its id may have expired in the store by then."""
    code = server.logins.code(server.logins.of_certificate(CAROL, NOW + 100))
    clock.now = NOW - back_s
    with pytest.raises(Unauthorized):
        await server.logins.redeem(code)


@pytest.mark.parametrize("token", ["", "a b", "a\n", "ä", "a" * 20_000])
def test_what_no_header_can_hold_is_no_token(server: Server, token: str) -> None:
    with pytest.raises(BadRequest):
        server.logins.of_token(token)


# ---- what is revoked


@pytest.fixture
async def store(tmp_path: Path, clock: Clock) -> AsyncIterator[EmbeddedStore]:
    store = await EmbeddedStore.open(tmp_path / "store", durable=False, monotonic=clock, wall=clock)
    yield store
    await store.close()


async def ids(store: EmbeddedStore, folder: str = CODES) -> list[str]:
    return [each.key.removeprefix(folder) for each in (await store.list(prefix_range(folder))).items]


async def test_a_code_is_used_at_one_of_two_servers(store: EmbeddedStore, clock: Clock) -> None:
    one, two = (Revocations(store, "/registry", clock) for _ in range(2))
    assert [await each.use_code("a", "carol") for each in (one, two, one)] == [True, False, False]
    assert await two.use_code("b", "carol")
    assert await ids(store) == ["a", "b"]


async def test_a_session_that_ends_at_one_server_has_ended_at_all(store: EmbeddedStore, clock: Clock) -> None:
    one, two = (Revocations(store, "/registry", clock) for _ in range(2))
    assert not await two.has_ended("a")
    await one.end_session("a", "carol")
    await two.end_session("a", "carol")
    assert [await each.has_ended(id_) for each in (one, two) for id_ in ("a", "b")] == [True, False] * 2
    assert await ids(store, SESSIONS) == ["a"]


async def test_a_lease_that_is_gone_is_replaced(store: EmbeddedStore, clock: Clock) -> None:
    revocations = Revocations(store, "/registry", clock)
    await revocations.use_code("a", "carol")
    (stored,) = (await store.list(prefix_range(CODES))).items
    await store.revoke_lease(stored.lease)
    assert await revocations.use_code("b", "carol")
    assert await ids(store) == ["b"]


async def test_no_code_is_valid_when_its_id_has_expired(server: Server, clock: Clock) -> None:
    """Nor at a server whose clock is behind by as much as codes allow."""
    code = server.logins.code(server.logins.of_certificate(CAROL, NOW + 10 * CODE_KEPT_S))
    clock.now = NOW + CODE_KEPT_S - 2 * LEEWAY_S
    with pytest.raises(Unauthorized):
        await server.logins.redeem(code)


async def test_no_cookie_is_valid_when_the_id_of_its_ended_session_has_expired(
    server: Server, clock: Clock
) -> None:
    cookie = server.logins.cookie(server.logins.of_certificate(CAROL, NOW + 10 * SESSION_S), "carol")
    clock.now = NOW + SESSION_KEPT_S - 2 * LEEWAY_S
    with pytest.raises(Unauthorized):
        await server.logins.of_cookie(cookie)


async def test_a_user_uses_codes_at_a_bounded_rate(store: EmbeddedStore, clock: Clock) -> None:
    revocations = Revocations(store, "/registry", clock)
    for number in range(CODES_BURST):
        await revocations.use_code(str(number), "carol")
    with pytest.raises(TooManyRequests):
        await revocations.use_code("a", "carol")
    assert await revocations.use_code("b", "alice")
    clock.now += 1 / CODES_PER_S
    assert await revocations.use_code("a", "carol")


async def test_a_user_logs_out_at_a_bounded_rate(store: EmbeddedStore, clock: Clock) -> None:
    revocations = Revocations(store, "/registry", clock)
    for number in range(LOGOUTS_BURST):
        await revocations.end_session(str(number), "carol")
    with pytest.raises(TooManyRequests):
        await revocations.end_session("a", "carol")
    assert not await revocations.has_ended("a")
    await revocations.end_session("b", "alice")
    clock.now += 1 / LOGOUTS_PER_S
    await revocations.end_session("a", "carol")
