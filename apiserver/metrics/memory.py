"""The memory that the process may have, and what was refused for want of it."""

from __future__ import annotations

from collections.abc import Iterable

from apiserver.load.memory_budget import MemoryBudget
from apiserver.metrics.series import Family, values


class MemoryMetrics:
    """Reads a budget when /metrics is requested."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget

    def families(self) -> Iterable[Family]:
        budget = self._budget
        yield values(
            "apiserver_memory_limit_bytes",
            "gauge",
            "Bytes of memory that the server may have, by --memory-limit or its container; 0 for no limit.",
            (),
            [((), budget.limit_bytes)],
        )
        yield values(
            "apiserver_memory_pressure",
            "gauge",
            "1 while large work is refused for want of memory, 2 while all but small work is.",
            (),
            [((), int(budget.pressure))],
        )
        yield values(
            "apiserver_memory_refused_requests_total",
            "counter",
            "Requests that were refused for want of memory, by the kind of their work.",
            ("kind",),
            [((kind,), count) for kind, count in budget.refused.items()],
        )
