"""Counts the events that a plugin of auditing loses, and logs losses once a minute at most."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from apiserver.metrics.audit import AuditMetrics

log = logging.getLogger(__name__)

# A disk that is full now and then must not fill the log, too.
SAID_AGAIN_AFTER_S: Final = 60.0


class DroppedEvents:
    """Counts and logs lost events. plugin: log, webhook, buffered or truncate, as in metrics."""

    def __init__(
        self, plugin: str, metrics: AuditMetrics, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """clock: seconds since any fixed time."""
        self._plugin, self._metrics, self._clock = plugin, metrics, clock
        # A counter that first appears with a loss does not increase, as Prometheus sees it.
        metrics.lost[plugin] += 0
        self._unsaid = 0
        self._say_again_at = float("-inf")

    def lost(self, count: int, why: str) -> None:
        """Count and log lost events. why: the reason, which may contain text from outside the server."""
        self._metrics.lost[self._plugin] += count
        self._unsaid += count
        now = self._clock()
        if now >= self._say_again_at:
            told = " ".join(why.split())
            log.error("audit plugin %s has lost %d events: %s", self._plugin, self._unsaid, told)
            self._unsaid, self._say_again_at = 0, now + SAID_AGAIN_AFTER_S
