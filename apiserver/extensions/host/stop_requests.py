"""Asks functions whose results nobody wants to stop, and finds the ones that do not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from apiserver.extensions.frames import frame
from apiserver.extensions.host.runner import HookInfo
from apiserver.extensions.host.worker_process import WorkerProcess


class StopRequests:
    """The functions of a worker that have been asked to stop, by the numbers of their calls.

    on_late: called with the worker, the number and the function if one has not stopped in time.
    """

    def __init__(self, on_late: Callable[[WorkerProcess, int, HookInfo], None]) -> None:
        self._on_late = on_late
        self._loop = asyncio.get_running_loop()
        self._timers: dict[int, asyncio.TimerHandle] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._timers

    def ask(self, worker: WorkerProcess | None, number: int, hook: HookInfo, timeout_s: float) -> None:
        """Ask a function to stop in this time. It is asked once."""
        if worker is not None and worker.is_connected and number not in self._timers:
            worker.send(frame({"cancel": number}))
            self._timers[number] = self._loop.call_later(timeout_s, self._on_late, worker, number, hook)

    def stopped(self, number: int) -> None:
        """Note that a function has stopped."""
        if self._timers and (timer := self._timers.pop(number, None)) is not None:
            timer.cancel()

    def forget(self) -> None:
        """Forget all functions, as their worker is no longer used."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
