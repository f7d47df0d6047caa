"""The slots for workers: each holds one process, and its successor after it dies."""

from __future__ import annotations

from typing import Final

from apiserver.app.workers.channel import Channel
from apiserver.app.workers.metrics import MetricFamily

RESTART_FIRST_S: Final = 0.5
RESTART_MAX_S: Final = 30.0
# After a process that has lived for so long, the first restart waits no longer than the first time.
STEADY_S: Final = 60.0


class WorkerSlot:
    """A slot for one worker process, and the process that is in it now.

    pid: 0 if there is no process. starts_at: when the next one will be forked, if there is none.
    restarts: how many processes have been replaced.
    is_connected: the process receives messages. unanswered: the number of unanswered requests for metrics.
    metrics: as it last reported them.
    heard_at: when it was last known to be alive. is_aborted: the watchdog has sent it SIGABRT.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid = 0
        self.channel: Channel | None = None
        self.is_connected = self.is_ready = self.is_aborted = False
        self.heard_at = 0.0
        self.unanswered = 0
        self.metrics: dict[str, MetricFamily] = {}
        self.restarts = 0
        self.started_at = self.starts_at = 0.0
        self._backoff_s = RESTART_FIRST_S

    def process_started(self, pid: int, channel: Channel, now: float) -> None:
        self.pid, self.channel, self.started_at = pid, channel, now

    def process_ended(self, now: float) -> None:
        """Schedule the next process, after a longer delay each time, unless this one ran steadily."""
        if now - self.started_at > STEADY_S:
            self._backoff_s = RESTART_FIRST_S
        self.starts_at = now + self._backoff_s
        self._backoff_s = min(self._backoff_s * 2, RESTART_MAX_S)
        self.channel, self.unanswered = None, 0
        self.is_connected = self.is_ready = self.is_aborted = False
        self.metrics = {}
