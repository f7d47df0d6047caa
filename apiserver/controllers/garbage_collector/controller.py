"""Runs the parts of the garbage collector as one controller."""

from __future__ import annotations

import asyncio

from apiserver.controller_runtime.work_queue import WorkQueue
from apiserver.controllers.garbage_collector.collector import Collector
from apiserver.controllers.garbage_collector.graph_builder import GraphBuilder
from apiserver.controllers.garbage_collector.orphaning import Orphaning
from apiserver.metrics.work_queues import WorkQueueMetrics
from apiserver.registry.store import Registry


class GarbageCollector:
    """The graph of owners, and the controllers that act on its changes.

    builder: keeps the graph. queue: that of objects to check. queues: the metrics, which also get the other
        queues.
    """

    def __init__(self, registry: Registry, builder: GraphBuilder, queues: WorkQueueMetrics) -> None:
        self.queue: WorkQueue[str] = builder.attempt_to_delete
        self._parts = (
            builder,
            builder.remote_owners,
            Collector(registry, builder),
            Orphaning(registry, builder),
        )
        self._queues = queues

    async def run(self) -> None:
        """Collect until cancelled."""
        others = [each.queue for each in self._parts if each.queue is not self.queue]
        for queue in others:
            self._queues.add(queue)
        try:
            async with asyncio.TaskGroup() as tasks:
                for part in self._parts:
                    tasks.create_task(part.run(), name=part.queue.name)
        finally:
            for queue in others:
                self._queues.remove(queue)
