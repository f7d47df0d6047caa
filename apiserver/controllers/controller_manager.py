"""Runs the controllers of a server, some on every server, others only on the leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from apiserver.controller_runtime.controller import Runnable
from apiserver.controllers.leader_election import LeaderElector
from apiserver.metrics.work_queues import WorkQueueMetrics


class ControllerSpec(NamedTuple):
    """A controller to run.

    name: that in kube-controller-manager. build: makes the controller; called again for each restart.
    leader_only: whether it runs on only one of the servers that share a store.
    """

    name: str
    build: Callable[[], Runnable]
    leader_only: bool = False


class ControllerManager:
    """Runs the controllers of one server.

    elector: makes this server the leader; None if it always is, as the only server on its store.
    metrics: get the queues of running controllers.
    """

    def __init__(
        self, controllers: Iterable[ControllerSpec], metrics: WorkQueueMetrics, elector: LeaderElector | None
    ) -> None:
        controllers = list(controllers)
        self._on_leader = [each for each in controllers if each.leader_only and elector is not None]
        self._everywhere = [each for each in controllers if each not in self._on_leader]
        self._metrics = metrics
        self._elector = elector
        self._leading: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Run the controllers until cancelled; if one of them fails, all end."""
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
        controller = spec.build()
        self._metrics.add(controller.queue)
        try:
            await controller.run()
        finally:
            self._metrics.remove(controller.queue)
