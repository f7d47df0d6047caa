"""Runs the controllers of a server, some on every server, others only on the leader."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from apiserver.controller_runtime.controller import Runnable, is_being_cancelled
from apiserver.controller_runtime.work_queue import Backoff
from apiserver.controllers.leader_election import LeaderElector
from apiserver.metrics.work_queues import WorkQueueMetrics

log = logging.getLogger(__name__)

# When a failed controller is started again. The delays begin anew once it has run for as long as the longest.
RESTART: Final = Backoff(base_s=1.0, max_s=60.0)


class ControllerSpec(NamedTuple):
    """A controller to run.

    name: that in kube-controller-manager. build: makes the controller; called again for each restart.
    leader_only: whether it runs on only one of the servers that share a store.
    """

    name: str
    build: Callable[[], Runnable]
    leader_only: bool = False


class ControllerManager:
    """Runs the controllers of one server. One that fails is started again, and does not end the others.

    elector: makes this server the leader; None if it always is, as the only server on its store.
    metrics: get the queues of running controllers, and count restarts.
    """

    def __init__(
        self,
        controllers: Iterable[ControllerSpec],
        metrics: WorkQueueMetrics,
        elector: LeaderElector | None,
        restart: Backoff = RESTART,
    ) -> None:
        controllers = list(controllers)
        self._on_leader = [each for each in controllers if each.leader_only and elector is not None]
        self._everywhere = [each for each in controllers if each not in self._on_leader]
        self._metrics = metrics
        for each in controllers:
            metrics.add_controller(each.name)
        self._elector = elector
        self._restart = restart
        self._leading: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Run the controllers until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            if self._elector is not None and self._on_leader:
                self._leading = tasks.create_task(self._elector.run(self._lead), name="leader-election")
            await self._run_all(self._everywhere)

    async def leave(self) -> None:
        """End the controllers of the leader, and release the Lease, so that another server leads."""
        if self._leading is not None:
            self._leading.cancel()
            await asyncio.wait([self._leading])

    async def _lead(self) -> None:
        await self._run_all(self._on_leader)

    async def _run_all(self, controllers: Sequence[ControllerSpec]) -> None:
        async with asyncio.TaskGroup() as tasks:
            for each in controllers:
                tasks.create_task(self._run(each), name=each.name)

    async def _run(self, spec: ControllerSpec) -> None:
        """Run a controller until it ends by itself, and start it again when it fails."""
        loop, failures = asyncio.get_running_loop(), 0
        while True:
            began = loop.time()
            try:
                # In a separate task: until Python 3.12 a failed task group leaves the mark of a cancellation.
                await asyncio.create_task(self._run_once(spec), name=spec.name)
                return
            except (Exception, asyncio.CancelledError):
                if is_being_cancelled():
                    raise
                if loop.time() - began > self._restart.max_s:
                    failures = 0
                delay_s = self._restart.delay_s(failures)
                log.exception("the controller %s failed, starting it again in %.3g s", spec.name, delay_s)
            failures += 1
            await asyncio.sleep(delay_s)
            self._metrics.count_restart(spec.name)

    async def _run_once(self, spec: ControllerSpec) -> None:
        controller = spec.build()
        self._metrics.add(controller.queue)
        try:
            await controller.run()
        finally:
            self._metrics.remove(controller.queue)
