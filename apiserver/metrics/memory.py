"""The memory that the process may have, and what was refused for want of it."""

from __future__ import annotations

from collections.abc import Iterable

from apiserver.load.memory_budget import MemoryBudget
from apiserver.metrics.series import Family, family, single


class MemoryMetrics:
    """Shows the memory budget as it is when /metrics is requested."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget

    def families(self) -> Iterable[Family]:
        budget = self._budget
        yield single("apiserver_memory_limit_bytes", budget.limit_bytes)
        yield single("apiserver_memory_pressure", int(budget.pressure))
        refused = budget.refused.items()
        yield family("apiserver_memory_refused_requests_total", [((kind,), count) for kind, count in refused])
