"""The collaborators that most parts of a server share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from apiserver.brand import Brand
from apiserver.cli.config import Config
from apiserver.endpoints.representation import MetaV1Encoders
from apiserver.metrics.admission import AdmissionMetrics
from apiserver.metrics.event_loop import EventLoopMonitor
from apiserver.metrics.garbage_collector import GarbageCollectorMetrics
from apiserver.metrics.requests import RequestMetrics
from apiserver.registry.memory_budget import MemoryBudget
from apiserver.registry.offload import Offload
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.store import Registry
from apiserver.schema.builtin import BuiltinSchemas
from storage.interface import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """The collaborators that most parts of a server share.

    clock: seconds since 1970.
    """

    config: Config
    store: Storage
    registry: Registry
    served: ServedTable
    schemas: BuiltinSchemas
    meta_encoders: MetaV1Encoders
    offload: Offload
    request_metrics: RequestMetrics
    admission_metrics: AdmissionMetrics
    garbage_collector_metrics: GarbageCollectorMetrics
    loop_monitor: EventLoopMonitor
    memory_budget: MemoryBudget
    loop: asyncio.AbstractEventLoop
    clock: Callable[[], float] = time.time

    @property
    def loop_clock(self) -> Callable[[], float]:
        """The event loop's clock, in seconds."""
        return self.loop.time

    @property
    def brand(self) -> Brand:
        return self.config.brand
