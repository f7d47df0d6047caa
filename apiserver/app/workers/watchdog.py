"""The watchdog of a server with workers: reports to the service manager, and ends workers that are stuck."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Sequence

from apiserver.app.serving.service_manager import ALIVE, ServiceManager
from apiserver.app.workers.slots import WorkerSlot

log = logging.getLogger(__name__)


class WorkerWatchdog:
    """Watches over workers as the service manager watches over the server, and with the same period.

    kill: sends a signal to a process.
    report_at: when `watch` has to be called next; None if the service manager does not watch the server.
    """

    def __init__(
        self, manager: ServiceManager, slots: Sequence[WorkerSlot], kill: Callable[[int, int], None]
    ) -> None:
        self._manager, self._slots, self._kill = manager, slots, kill
        self.report_at: float | None = 0.0 if manager.watchdog_s else None

    def watch(self, now: float) -> None:
        """Report to the service manager if it is time, and end workers whose event loop is stuck.

        The caller has read all messages that have arrived: each sets its worker's `heard_at`.
        """
        watchdog_s = self._manager.watchdog_s
        if self.report_at is None:
            return
        if now >= self.report_at:
            if now > self.report_at + watchdog_s / 2:
                # The supervisor itself was stopped, or starved: it cannot tell how long a worker was silent.
                for slot in self._slots:
                    slot.heard_at = now
            self._manager.notify(ALIVE)
            self.report_at = now + watchdog_s / 2
        for slot in self._slots:
            if slot.is_ready and now - slot.heard_at >= watchdog_s:
                # A process that is stopped, or stuck in the kernel, does not end by the first signal.
                number = signal.SIGKILL if slot.is_aborted else signal.SIGABRT
                slot.is_aborted, slot.heard_at = True, now
                log.error("worker %d (process %d) is stuck; sending %s", slot.number, slot.pid, number.name)
                self._kill(slot.pid, number)
