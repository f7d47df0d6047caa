"""Which workers the watchdog ends, and when."""

from __future__ import annotations

from signal import SIGABRT, SIGKILL
from typing import Final

from apiserver.app.serving.service_manager import ServiceManager
from apiserver.app.workers.slots import WorkerSlot
from apiserver.app.workers.watchdog import WorkerWatchdog

WATCHDOG_S: Final = 10.0


class Server:
    """Two workers at the time 0, and the signals that their processes, 1 and 2, got since the last look."""

    def __init__(self, watchdog_s: float = WATCHDOG_S) -> None:
        self.slots = [WorkerSlot(1), WorkerSlot(2)]
        for slot in self.slots:
            slot.pid, slot.is_ready, slot.heard_at = slot.number, True, 0.0
        self._sent: list[tuple[int, int]] = []
        self.watchdog = WorkerWatchdog(
            ServiceManager(watchdog_s=watchdog_s),
            self.slots,
            lambda pid, number: self._sent.append((pid, number)),
        )
        self.watchdog.watch(0.0)

    def signals_at(self, now: float, *, heard: int | None = None) -> list[tuple[int, int]]:
        """Returns the signals that are sent at a time. heard: the worker that has just reported."""
        if heard is not None:
            self.slots[heard - 1].heard_at = now
        self._sent.clear()
        self.watchdog.watch(now)
        return list(self._sent)


def test_a_silent_worker_is_aborted_and_then_killed() -> None:
    server = Server()
    sent = [server.signals_at(at, heard=1) for at in (5.0, 9.9, 10.0, 15.0, 20.0)]
    assert sent == [[], [], [(2, SIGABRT)], [], [(2, SIGKILL)]]


def test_a_worker_that_is_not_ready_may_be_silent() -> None:
    server = Server()
    server.slots[1].is_ready = False
    assert [server.signals_at(at, heard=1) for at in (5.0, 10.0, 15.0)] == [[], [], []]


def test_a_supervisor_that_was_late_itself_gives_all_workers_the_full_time_again() -> None:
    server = Server()
    late = 5.0 + WATCHDOG_S / 2 + 0.1  # The report was due at 5.
    assert server.signals_at(late) == []
    assert server.signals_at(late + 5.0, heard=1) == []
    assert server.signals_at(late + 10.0, heard=1) == [(2, SIGABRT)]


def test_without_a_watchdog_nothing_is_due_and_no_worker_is_ended() -> None:
    server = Server(watchdog_s=0.0)
    assert server.watchdog.report_at is None
    assert server.signals_at(1e6) == []
