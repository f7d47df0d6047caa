"""A token bucket."""

from __future__ import annotations

from collections.abc import Callable


class Throttle:
    """A token bucket: allows `burst` tokens at once, and `qps` per second in the long run."""

    def __init__(self, qps: float, burst: int, clock: Callable[[], float]) -> None:
        self._qps, self._burst, self._clock = qps, float(burst), clock
        self._tokens, self._at = float(burst), clock()

    def take(self) -> float:
        """Take a token. Returns the seconds to wait until it is available."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._qps) - 1
        self._at = now
        return max(0.0, -self._tokens / self._qps)
