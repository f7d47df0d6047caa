"""Limits how often each user, or each address, may try something, so that one does not stop the others."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

# About 200 bytes each. If there are more, those that were not seen for the longest time begin anew.
KEYS_MAX: Final = 1_000


class LoginRates:
    """A bucket of `burst` tokens for each key, which fills by `per_s` tokens a second.

    monotonic: seconds of a clock that never goes back.
    """

    def __init__(self, per_s: float, burst: int, monotonic: Callable[[], float]) -> None:
        self._per_s, self._burst, self._clock = per_s, float(burst), monotonic
        # By hashes of the keys, which may be long: the tokens at a time. The one used last is at the end.
        self._buckets: OrderedDict[int, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> bool:
        """Take a token of a key, and return whether there was one."""
        now = self._clock()
        tokens, then = self._buckets.pop(hash(key), (self._burst, now))
        tokens = min(self._burst, tokens + (now - then) * self._per_s)
        has_token = tokens >= 1
        self._buckets[hash(key)] = tokens - has_token, now
        if len(self._buckets) > KEYS_MAX:
            self._buckets.popitem(last=False)
        return has_token

    def give_back(self, key: str) -> None:
        """Give back a token that was taken, because what happened does not count."""
        tokens, then = self._buckets.get(hash(key), (self._burst, self._clock()))
        self._buckets[hash(key)] = min(self._burst, tokens + 1), then
