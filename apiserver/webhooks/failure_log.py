"""Logs that a webhook is down, without a line for each request that it fails."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable
from typing import Final

# How often a webhook that is down is logged, as seconds: an outage of hours stays readable.
INTERVAL_S: Final = 30.0
# The number of webhooks with separate entries, which have failed in the last interval. All others share one.
WEBHOOKS_MAX: Final = 1_000


class FailureLog:
    """Logs the first failure of a webhook at once, then at most one failure per `INTERVAL_S`, with the number
    of failures that were not logged.

    When it responds again, another line says so. A webhook that fails now and then has at most one line of
    each kind in an interval.

    log, level: where failures are logged; that a webhook responds again is no more than a warning.
    clock: seconds since some time.
    """

    def __init__(self, log: logging.Logger, level: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._level, self._clock = log, level, clock
        self._states: dict[Hashable, _WebhookState] = {}

    def failed(self, webhook: Hashable, message: str) -> None:
        """A call has failed. webhook: its key, the same in each call."""
        now = self._clock()
        state = self._states.get(webhook) or self._added(webhook, now)
        if state.has_responded:
            state.has_responded, state.began_at = False, now
        state.failed_at = now
        if now - state.logged_at < INTERVAL_S:
            state.omitted += 1
            return
        state.is_open = True
        state.logged_at = now
        self._log.log(self._level, "%s%s", message, state.take_omitted())

    def responded(self, webhook: Hashable, what: str) -> None:
        """A call has succeeded. what: names the webhook, for the log."""
        state = self._states.get(webhook) if self._states else None
        if state is None:
            return
        now, state.has_responded = self._clock(), True
        if state.is_open:
            state.is_open = False
            omitted, ago_s = state.take_omitted(), now - state.began_at
            self._log.warning("%s responds again, %.0f s after its first failure%s", what, ago_s, omitted)
        if now - state.logged_at >= INTERVAL_S:
            if omitted := state.take_omitted():
                self._log.warning("%s responds%s", what, omitted)
            del self._states[webhook]

    def _added(self, webhook: Hashable, now: float) -> _WebhookState:
        if len(self._states) >= WEBHOOKS_MAX:
            # Without those that have not failed for an interval, such as deleted ones.
            self._states = {
                each: state for each, state in self._states.items() if now - state.failed_at < INTERVAL_S
            }
        key = webhook if len(self._states) < WEBHOOKS_MAX else None
        return self._states.setdefault(key, _WebhookState(now))


class _WebhookState:
    """How a webhook has failed and responded lately.

    is_open: whether the last line says that it fails. has_responded: whether it has responded since its last
    failure.
    """

    __slots__ = ("began_at", "failed_at", "has_responded", "is_open", "logged_at", "omitted")

    def __init__(self, now: float) -> None:
        self.began_at = self.failed_at = now
        self.logged_at = now - INTERVAL_S
        self.is_open = self.has_responded = False
        self.omitted = 0

    def take_omitted(self) -> str:
        omitted, self.omitted = self.omitted, 0
        return f" (similar messages omitted: {omitted})" if omitted else ""
