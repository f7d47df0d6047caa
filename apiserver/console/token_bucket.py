"""Limits how often something happens, with a burst."""

from __future__ import annotations

from collections.abc import Callable


class TokenBucket:
    """A bucket of `burst` tokens that fills by `per_s` tokens a second. monotonic: seconds of a clock that
    never goes back.
    """

    def __init__(self, per_s: float, burst: int, monotonic: Callable[[], float]) -> None:
        self._per_s, self._burst, self._clock = per_s, burst, monotonic
        self._tokens, self._counted_at = float(burst), monotonic()

    def take(self) -> bool:
        """Take a token, and return whether there was one."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._counted_at) * self._per_s)
        self._counted_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
