"""Caches the users of tokens for a while, by keyed digests of the tokens, which are not kept.

Source: k8s.io/apiserver, pkg/authentication/token/cache.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from apiserver.auth.authn.chain import Identity
from apiserver.auth.authn.service_account import TOKEN_LENGTH_MAX
from apiserver.meta.errors import ApiError, TooManyRequests, Unauthorized
from apiserver.meta.expiring_cache import ExpiringCache

# As kube-apiserver has it.
SUCCESS_TTL_S: Final = 10.0
# Users with longer names, groups and extra information are looked up each time.
KEPT_LENGTH_MAX: Final = 32 * 1024
ENTRIES_MAX: Final = 8_192
# Of different tokens, whose owners wait. Anybody can send any number.
LOOKUPS_MAX: Final = 1_000
# The timeout of the lookup of one token, whose sender may have disconnected by then.
LOOKUP_S: Final = 30.0
_KEY_BYTES: Final = 32


class TokenResult(NamedTuple):
    """The cached result for a token.

    identity: None if the token is not valid, for the reason `why`.
    is_kept: whether the result may be cached. expires_at: when the result expires, in seconds since 1970;
    None: with the cache entry.
    """

    identity: Identity | None
    why: str = ""
    is_kept: bool = True
    expires_at: float | None = None


# (token, audiences) -> answer
Lookup: TypeAlias = Callable[[str, Sequence[str]], Awaitable[TokenResult]]


class CacheObserver(Protocol):
    """Observes the cache."""

    def asked(self, *, is_hit: bool, seconds: float) -> None: ...
    def fetch_began(self) -> None: ...
    def fetched(self, *, is_success: bool) -> None: ...


class TokenCache:
    """Looks tokens up, each once for all concurrent requests.

    clock: seconds since 1970.
    """

    def __init__(
        self,
        lookup: Lookup,
        observer: CacheObserver,
        clock: Callable[[], float],
        *,
        success_ttl_s: float = SUCCESS_TTL_S,
        failure_ttl_s: float = 0.0,
    ) -> None:
        self._lookup, self._observer, self._clock = lookup, observer, clock
        self._ttl_s = {True: success_ttl_s, False: failure_ttl_s}
        self._secret = secrets.token_bytes(_KEY_BYTES)
        self._answers: ExpiringCache[TokenResult] = ExpiringCache(ENTRIES_MAX, clock)
        self._lookups: dict[bytes, asyncio.Task[TokenResult]] = {}
        # Also those whose answers are not to be remembered any more.
        self._running: set[asyncio.Task[TokenResult]] = set()

    async def __call__(self, token: str, audiences: Sequence[str]) -> Identity | None:
        """Returns the user of a token; None if the token is unknown or too long to be looked up.

        Raises Unauthorized if it is known to be invalid, and TooManyRequests.
        """
        if len(token) > TOKEN_LENGTH_MAX:
            return None
        began, key = time.perf_counter(), self._key(token, audiences)
        answer = self._answers.get(key)
        is_hit = answer is not None
        try:
            if answer is None:
                answer = await self._shared_lookup(key, token, audiences)
        finally:
            self._observer.asked(is_hit=is_hit, seconds=time.perf_counter() - began)
        if answer.identity is None and answer.why:
            raise Unauthorized(answer.why)
        return answer.identity

    def clear(self) -> None:
        """Forget all results, because the authenticator has been replaced."""
        self._answers.clear()
        # What is still being looked up is not to be remembered.
        self._lookups.clear()

    def _key(self, token: str, audiences: Sequence[str]) -> bytes:
        digest = hashlib.blake2b(key=self._secret, digest_size=_KEY_BYTES)
        for each in (token, *audiences):
            encoded = each.encode("utf-8", "surrogateescape")
            digest.update(len(encoded).to_bytes(8))
            digest.update(encoded)
        return digest.digest()

    async def _shared_lookup(self, key: bytes, token: str, audiences: Sequence[str]) -> TokenResult:
        task = self._lookups.get(key)
        if task is None:
            if len(self._running) >= LOOKUPS_MAX:
                raise TooManyRequests
            task = asyncio.create_task(self._look_up(key, token, audiences), name="token-lookup")
            self._lookups[key] = task
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        # Who is cancelled while waiting does not take it from the others.
        return await asyncio.shield(task)

    async def _look_up(self, key: bytes, token: str, audiences: Sequence[str]) -> TokenResult:
        answer: TokenResult | None = None
        self._observer.fetch_began()
        try:
            async with asyncio.timeout(LOOKUP_S):
                answer = await self._lookup(token, audiences)
        except TimeoutError:
            answer = TokenResult(None, "context deadline exceeded", is_kept=False)
        except ApiError as error:
            answer = TokenResult(None, error.message, is_kept=False)
        finally:
            is_current = self._lookups.get(key) is asyncio.current_task()
            if is_current:
                del self._lookups[key]
            self._observer.fetched(is_success=answer is not None and not answer.why)
        if is_current and answer.is_kept:
            self._remember(key, answer)
        return answer

    def _remember(self, key: bytes, answer: TokenResult) -> None:
        if answer.identity is not None and _length(answer.identity) > KEPT_LENGTH_MAX:
            return
        until = self._clock() + self._ttl_s[answer.identity is not None]
        if answer.expires_at is not None:
            until = min(until, answer.expires_at)
        self._answers.put(key, answer, until)


def _length(identity: Identity) -> int:
    user = identity.user
    extra = sum(len(key) + sum(map(len, values)) for key, values in user.extra)
    return len(user.name) + len(user.uid) + sum(map(len, user.groups)) + extra
