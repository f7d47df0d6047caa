"""How long those who are refused should stay away: longer while many are refused, second by second.

It doubles when three in each second of the last period were refused, and shrinks by a second at a time when
fewer than one was. Source: k8s.io/apiserver, pkg/util/flowcontrol/dropped_requests_tracker.go.
"""

from __future__ import annotations

from collections import deque
from typing import Final

RETRY_AFTER_MAX_S: Final = 32
_MANY: Final = 3


class RetryAfter:
    """What one priority level tells those whom it refuses. seconds: to wait before they try again."""

    def __init__(self) -> None:
        self.seconds = 1
        self._raised_at = -RETRY_AFTER_MAX_S
        # Seconds in which some were refused, and how many; the last may not be over.
        self._history: deque[tuple[int, int]] = deque(maxlen=RETRY_AFTER_MAX_S + 1)

    def refused(self, second: int) -> int:
        """Note that a request is refused. second: now, of any clock. Returns what to tell it, in seconds."""
        history = self._history
        if history and history[-1][0] == second:
            history[-1] = second, history[-1][1] + 1
        else:
            self._adjust(second)
            history.append((second, 1))
        return self.seconds

    def _adjust(self, second: int) -> None:
        period_s = self.seconds
        refused = sum(count for when, count in self._history if second - period_s <= when < second)
        if refused >= _MANY * period_s and second - self._raised_at >= period_s:
            self.seconds = min(period_s * 2, RETRY_AFTER_MAX_S)
            self._raised_at = second
        elif refused < period_s and period_s > 1:
            self.seconds -= 1
