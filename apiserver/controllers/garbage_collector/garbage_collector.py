"""Runs the parts of the garbage collector as one controller."""

from __future__ import annotations

import asyncio

from apiserver.controllers.event_recorder import EventRecorder
from apiserver.controllers.garbage_collector.collector import Collector
from apiserver.controllers.garbage_collector.graph_builder import GraphBuilder
from apiserver.controllers.garbage_collector.orphaning import Orphaning
from apiserver.controllers.work_queue import WorkQueue
from apiserver.metrics.work_queues import WorkQueueMetrics
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.store import Registry


class GarbageCollector:
    """The graph, and those who do what follows from its changes.

    queue: of objects to look at. metrics: are told of the other two queues, too.
    """

    def __init__(
        self, registry: Registry, served: ServedTable, events: EventRecorder, metrics: WorkQueueMetrics
    ) -> None:
        self.builder = builder = GraphBuilder(registry, served, events)
        self.queue: WorkQueue[str] = builder.attempt_to_delete
        self._parts = (builder, Collector(registry, builder), Orphaning(registry, builder))
        self._metrics = metrics

    async def run(self) -> None:
        """Collect until cancelled."""
        others = [each.queue for each in self._parts if each.queue is not self.queue]
        for queue in others:
            self._metrics.add(queue)
        try:
            async with asyncio.TaskGroup() as tasks:
                for part in self._parts:
                    tasks.create_task(part.run(), name=part.queue.name)
        finally:
            for queue in others:
                self._metrics.remove(queue)
