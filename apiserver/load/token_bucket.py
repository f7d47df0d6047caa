"""Limits how often something happens, with a burst."""

from __future__ import annotations

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

    def reserve(self) -> float:
        """Take a token, or the next one to come that is not taken. Returns the seconds to wait for it."""
        self._fill()
        self._tokens -= 1
        return max(0.0, -self._tokens / self._per_s)

    def _fill(self) -> None:
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._counted_at) * self._per_s)
        self._counted_at = now
