"""What is remembered of tokens, for how long, and how often somebody is asked about them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import pytest

from apiserver.auth.authn.chain import Identity
from apiserver.auth.authn.token_cache import (
    ENTRIES_MAX,
    KEPT_LENGTH_MAX,
    LOOKUPS_MAX,
    TokenCache,
    TokenResult,
)
from apiserver.meta.errors import ServiceUnavailable, TooManyRequests, Unauthorized
from apiserver.meta.vocabulary import UserInfo

TTL_S: Final = 10.0
ALICE: Final = Identity(UserInfo("alice"), ("a",))
KNOWN: Final = TokenResult(ALICE)
UNKNOWN: Final = TokenResult(None)


class Others:
    """Those who are asked, and a clock."""

    def __init__(self, answer: TokenResult | Exception = KNOWN) -> None:
        self.answer = answer
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.now = 1000.0

    async def look_up(self, token: str, audiences: Sequence[str]) -> TokenResult:
        self.asked.append((token, tuple(audiences)))
        await self.is_open.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def cache(self, failure_ttl_s: float = 0.0) -> TokenCache:
        return TokenCache(
            self.look_up, Observer(), lambda: self.now, success_ttl_s=TTL_S, failure_ttl_s=failure_ttl_s
        )


class Observer:
    """Is told, and forgets."""

    def asked(self, *, is_hit: bool, seconds: float) -> None:
        pass

    def fetch_began(self) -> None:
        pass

    def fetched(self, *, is_success: bool) -> None:
        pass


@pytest.fixture
def others() -> Others:
    return Others()


async def test_an_answer_counts_for_a_while(others: Others) -> None:
    cache = others.cache()
    for later_s, asked in ((0.0, 1), (TTL_S - 1, 1), (2.0, 2)):
        others.now += later_s
        assert await cache("t", ("a",)) == ALICE
        assert len(others.asked) == asked


# Whether the second of two questions is answered from memory.
KEPT: Final[dict[str, tuple[TokenResult | Exception, float, bool]]] = {
    "a user": (KNOWN, 0.0, True),
    "a user until the token expires": (TokenResult(ALICE, expires_at=1000.0), 0.0, False),
    "nobody, if that is kept": (UNKNOWN, TTL_S, True),
    "nobody, if that is not kept": (UNKNOWN, 0.0, False),
    "an error that is kept": (TokenResult(None, "why"), TTL_S, True),
    "an error": (TokenResult(None, "why", is_kept=False), TTL_S, False),
    "a failure": (ServiceUnavailable("away"), TTL_S, False),
    "a user with ever so many groups": (
        TokenResult(Identity(UserInfo("a", ("x" * KEPT_LENGTH_MAX,)), ("a",))),
        TTL_S,
        False,
    ),
}


@pytest.mark.parametrize(("answer", "failure_ttl_s", "is_kept"), KEPT.values(), ids=KEPT)
async def test_what_is_kept(answer: TokenResult | Exception, failure_ttl_s: float, is_kept: bool) -> None:
    others = Others(answer)
    cache = others.cache(failure_ttl_s)
    for _ in range(2):
        if isinstance(answer, Exception) or answer.why:
            with pytest.raises(Unauthorized):
                await cache("t", ("a",))
        else:
            assert await cache("t", ("a",)) == answer.identity
    assert len(others.asked) == (1 if is_kept else 2)


async def test_audiences_are_part_of_the_question(others: Others) -> None:
    cache = others.cache()
    for audiences in (("a",), ("a", "b"), ("ab",), ()):
        await cache("t", audiences)
    assert len(others.asked) == 4


async def test_all_who_ask_at_the_same_time_share_an_answer(others: Others) -> None:
    others.is_open.clear()
    cache = others.cache()
    asking = [asyncio.create_task(cache("t", ("a",))) for _ in range(20)]
    await asyncio.sleep(0)
    asking[0].cancel()  # Who goes away takes nothing from the others.
    await asyncio.sleep(0)
    others.is_open.set()
    assert set(await asyncio.gather(*asking[1:])) == {ALICE}
    assert len(others.asked) == 1


async def test_what_was_asked_before_all_is_forgotten_is_not_remembered(others: Others) -> None:
    others.is_open.clear()
    cache = others.cache()
    asking = asyncio.create_task(cache("t", ("a",)))
    await asyncio.sleep(0)
    cache.clear()
    others.is_open.set()
    assert await asking == ALICE
    others.answer = UNKNOWN
    assert await cache("t", ("a",)) is None


async def test_a_flood_of_tokens_is_bounded(others: Others) -> None:
    others.is_open.clear()
    cache = others.cache()
    asking = [asyncio.create_task(cache(str(number), ("a",))) for number in range(LOOKUPS_MAX)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyRequests):
        await cache("one more", ("a",))
    others.is_open.set()
    await asyncio.gather(*asking)
    assert await cache("one more", ("a",)) == ALICE


async def test_the_answers_that_were_used_last_are_kept(others: Others) -> None:
    cache = others.cache()
    for number in range(ENTRIES_MAX + 1):
        await cache(str(number), ("a",))
    count = len(others.asked)
    await cache(str(ENTRIES_MAX), ("a",))
    assert len(others.asked) == count
    await cache("0", ("a",))
    assert len(others.asked) == count + 1


async def test_no_token_is_kept_as_it_is(others: Others) -> None:
    cache = others.cache()
    await cache("s3cret", ("a",))
    assert "s3cret" not in repr(vars(cache))
