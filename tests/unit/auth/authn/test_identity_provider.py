"""How the keys of a provider are found and kept, and how little a provider is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import orjson
import pytest

from apiserver.auth.authn.authentication_configuration import (
    AuthenticationConfiguration,
    ClaimMapping,
    Issuer,
    JwtAuthenticatorConfiguration,
)
from apiserver.auth.authn.configured_issuers import ConfiguredIssuers
from apiserver.auth.authn.discovery_documents import ProviderFailed
from apiserver.auth.authn.identity_provider import (
    CALL_INTERVAL_S,
    CALLS_MAX,
    WAITING_MAX,
    IdentityProvider,
)
from apiserver.auth.authn.json_web_keys import KEYS_MAX, UnusableKeySet, read_key_set
from tests.support.openid_provider import RSA_KEY, public_jwk

URL: Final = "https://issuer.example"
KEYS_URL: Final = f"{URL}/keys"
ISSUER: Final = Issuer(URL, ("client",))
FOUND: Final = orjson.dumps({"issuer": URL, "jwks_uri": KEYS_URL})
KEY_SET: Final = orjson.dumps({"keys": [public_jwk(RSA_KEY, "a")]})


class Provider:
    """What is at URLs, who has asked, and a clock."""

    def __init__(self) -> None:
        self.documents: dict[str, bytes | Exception] = {ISSUER.document_url: FOUND, KEYS_URL: KEY_SET}
        self.asked: list[str] = []
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.now = 0.0
        self.told: list[tuple[str, bool]] = []

    async def fetch(self, url: str, authorities: str) -> bytes:
        self.asked.append(url)
        await self.is_open.wait()
        found = self.documents[url]
        if isinstance(found, Exception):
            raise found
        return found

    def keys_fetched(self, issuer: str, content: bytes | None) -> None:
        self.told.append((issuer, content is not None))

    def issuer_removed(self, issuer: str) -> None:
        self.told.append((f"-{issuer}", True))

    def authenticated(self, issuer: str, *, is_success: bool, seconds: float) -> None:
        pass


@asynccontextmanager
async def running(provider: Provider) -> AsyncIterator[IdentityProvider]:
    found = IdentityProvider(ISSUER, provider.fetch, provider, lambda: provider.now)
    task = asyncio.create_task(found.run())
    try:
        yield found
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.fixture
def provider() -> Provider:
    return Provider()


async def test_a_provider_is_found(provider: Provider) -> None:
    async with running(provider) as found:
        assert found.problem
        await found.is_found.wait()
        assert (found.problem, [key.id for key in found.keys]) == ("", ["a"])
        assert (provider.asked, provider.told) == ([ISSUER.document_url, KEYS_URL], [(URL, True)])


async def test_many_who_need_a_key_share_a_call(provider: Provider) -> None:
    async with running(provider) as found:
        await found.is_found.wait()
        provider.is_open.clear()
        waiting = [asyncio.create_task(found.keys_fetched_anew()) for _ in range(50)]
        await asyncio.sleep(0)
        waiting[0].cancel()  # Who goes away takes nothing from the others.
        await asyncio.sleep(0)
        provider.is_open.set()
        assert all(await asyncio.gather(*waiting[1:]))
        assert provider.asked.count(KEYS_URL) == 2


async def test_who_waits_for_a_key_of_an_issuer_that_is_removed_is_told(provider: Provider) -> None:
    async with running(provider) as found:
        await found.is_found.wait()
        provider.is_open.clear()
        waiting = asyncio.create_task(found.keys_fetched_anew())
        await asyncio.sleep(0)
    assert not await waiting


async def test_calls_for_unknown_keys_are_few(provider: Provider) -> None:
    async with running(provider) as found:
        await found.is_found.wait()
        assert [await found.keys_fetched_anew() for _ in range(CALLS_MAX + 2)] == [
            *(True,) * CALLS_MAX,
            *(False, False),
        ]
        provider.now += CALL_INTERVAL_S
        assert [await found.keys_fetched_anew() for _ in range(2)] == [True, False]
        assert provider.asked.count(KEYS_URL) == 1 + CALLS_MAX + 1


async def test_not_all_wait_for_a_provider_that_does_not_answer(provider: Provider) -> None:
    async with running(provider) as found:
        await found.is_found.wait()
        provider.is_open.clear()
        waiting = [asyncio.create_task(found.keys_fetched_anew()) for _ in range(WAITING_MAX)]
        await asyncio.sleep(0)
        assert not await found.keys_fetched_anew()
        provider.is_open.set()
        assert all(await asyncio.gather(*waiting))


async def test_keys_stay_while_the_provider_fails(provider: Provider) -> None:
    async with running(provider) as found:
        await found.is_found.wait()
        for failure in (ProviderFailed("away"), b"<html>", b'{"keys": []}'):
            provider.documents[KEYS_URL] = failure
            assert not await found.keys_fetched_anew()
            assert (found.problem, len(found.keys)) == ("", 1)
        assert provider.told[-1] == (URL, False)


BAD_DISCOVERY: Final[dict[str, bytes | Exception]] = {
    "away": ProviderFailed("away"),
    "no JSON": b"<html>",
    "no object": b"[]",
    "another issuer": orjson.dumps({"issuer": URL + "/", "jwks_uri": KEYS_URL}),
    "an issuer that is no text": orjson.dumps({"issuer": {}, "jwks_uri": KEYS_URL}),
    "no keys": orjson.dumps({"issuer": URL}),
    "keys without https": orjson.dumps({"issuer": URL, "jwks_uri": "http://issuer.example/keys"}),
    "keys nowhere": orjson.dumps({"issuer": URL, "jwks_uri": "https://[/keys"}),
}


@pytest.mark.parametrize("document", BAD_DISCOVERY.values(), ids=BAD_DISCOVERY)
async def test_a_provider_that_is_not_found(provider: Provider, document: bytes | Exception) -> None:
    provider.documents[ISSUER.document_url] = document
    async with running(provider) as found:
        while not provider.asked:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (found.problem.startswith("init verifier failed"), found.keys) == (True, ())
        assert not await found.keys_fetched_anew()
        assert provider.asked == [ISSUER.document_url]


KEY_SETS: Final[dict[str, tuple[Any, int]]] = {
    "one key": ([public_jwk(RSA_KEY, "a")], 1),
    "a key for something else beside it": (
        [public_jwk(RSA_KEY, "a"), {**public_jwk(RSA_KEY, "b"), "use": "enc"}],
        1,
    ),
    "a shared secret beside it": ([public_jwk(RSA_KEY, "a"), {"kty": "oct", "k": "c2VjcmV0", "kid": "s"}], 1),
    "what is no key beside it": (
        [public_jwk(RSA_KEY, "a"), 1, {}, {"kty": "RSA"}, {"kty": "RSA", "n": 1}],
        1,
    ),
    "a kid that is no text": ([{**public_jwk(RSA_KEY, "a"), "kid": 1}], 0),
    "a private key": ([{**public_jwk(RSA_KEY, "a"), "d": "AQAB"}], 0),
    "a weak key": ([{"kty": "RSA", "n": "AQAB" * 20, "e": "AQAB", "kid": "w"}], 0),
    "none": ([], 0),
    "no list": ({}, 0),
    "too many": ([public_jwk(RSA_KEY, str(n)) for n in range(KEYS_MAX + 1)], 0),
}


@pytest.mark.parametrize(("keys", "count"), KEY_SETS.values(), ids=KEY_SETS)
def test_keys_that_can_verify_tokens(keys: Any, count: int) -> None:
    content = orjson.dumps({"keys": keys})
    if count:
        assert len(read_key_set(content)) == count
    else:
        with pytest.raises(UnusableKeySet):
            read_key_set(content)


def of_issuers(*issuers: Issuer) -> AuthenticationConfiguration:
    return AuthenticationConfiguration(
        tuple(JwtAuthenticatorConfiguration(each, ClaimMapping("sub")) for each in issuers)
    )


async def test_issuers_are_replaced_when_all_are_found(provider: Provider) -> None:
    """Those that stay keep their keys; what was there stays while a new one is not found."""
    away = Issuer("https://away.example", ("client",))
    provider.documents[away.document_url] = ProviderFailed("away")
    issuers = ConfiguredIssuers(of_issuers(ISSUER), provider.fetch, provider, ("a",), "p", lambda: 0.0)
    task = asyncio.create_task(issuers.run())
    while len(provider.asked) < 2:
        await asyncio.sleep(0)
    with pytest.raises(ValueError, match=r"https://away\.example: init verifier failed: away"):
        await issuers.replace(of_issuers(ISSUER, away), timeout_s=0.01)
    await issuers.replace(of_issuers(Issuer(URL, ("other",))), timeout_s=0.01)
    assert provider.asked.count(ISSUER.document_url) == 1
    assert ("-" + URL, True) not in provider.told
    await issuers.replace(of_issuers(), timeout_s=0.01)
    assert provider.told[-1] == ("-" + URL, True)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
