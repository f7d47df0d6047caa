"""Limits how often something happens, with a burst."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable


class TokenBucket:
    """A bucket of `burst` tokens that fills by `per_s` tokens a second.

    monotonic: seconds of a clock that never goes back.
    """

    __slots__ = ("_burst", "_clock", "_counted_at", "_per_s", "_tokens")

    def __init__(self, per_s: float, burst: int, monotonic: Callable[[], float]) -> None:
        self._per_s, self._burst, self._clock = per_s, float(burst), monotonic
        self._tokens, self._counted_at = float(burst), monotonic()

    def take(self) -> bool:
        """Take a token, and return whether there was one."""
        self._fill()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def give_back(self) -> None:
        """Give back a token that was taken, because what happened does not count."""
        self._tokens = min(self._burst, self._tokens + 1)

    def reserve(self) -> float:
        """Take a token, or the next one to come that is not taken. Returns the seconds to wait for it."""
        self._fill()
        self._tokens -= 1
        return max(0.0, -self._tokens / self._per_s)

    def _fill(self) -> None:
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._counted_at) * self._per_s)
        self._counted_at = now


class KeyedTokenBuckets:
    """A `TokenBucket` for each key, so that one key, which clients may choose, does not stop the others.

    keys_max: how many of the buckets that were used last are kept; the key of another one begins anew.
    monotonic: seconds of a clock that never goes back.
    """

    def __init__(self, per_s: float, burst: int, keys_max: int, monotonic: Callable[[], float]) -> None:
        self._per_s, self._burst, self._keys_max, self._clock = per_s, burst, keys_max, monotonic
        # By hashes of the keys, which may be long. The one used last is at the end.
        self._buckets: OrderedDict[int, TokenBucket] = OrderedDict()

    def take(self, key: str) -> bool:
        """Take a token of a key, and return whether there was one."""
        return self._used(key).take()

    def give_back(self, key: str) -> None:
        """Give back a token that was taken, because what happened does not count."""
        self._used(key).give_back()

    def _used(self, key: str) -> TokenBucket:
        bucket = self._buckets.pop(hash(key), None)
        if bucket is None:
            bucket = TokenBucket(self._per_s, self._burst, self._clock)
        self._buckets[hash(key)] = bucket
        if len(self._buckets) > self._keys_max:
            self._buckets.popitem(last=False)
        return bucket
