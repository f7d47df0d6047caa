"""How long changes of the Node authorizer's graph take: which objects the pods of each node refer to.

Source: kubernetes, plugin/pkg/auth/authorizer/node/metrics.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from apiserver.metrics.histograms import Histogram
from apiserver.metrics.series import Family, histogram_family

# Seconds.
_BUCKETS: Final = tuple(0.0001 * 2**exponent for exponent in range(12))


class NodeGraphMetrics:
    """Counts changes by what is done, as `AddPod`: there are two for each kind of object."""

    def __init__(self) -> None:
        self._durations: dict[str, Histogram] = {}

    def changed(self, operation: str, seconds: float) -> None:
        durations = self._durations.get(operation)
        if durations is None:
            durations = self._durations[operation] = Histogram(_BUCKETS)
        durations.observe(seconds)

    def families(self) -> Iterable[Family]:
        yield histogram_family(
            "node_authorizer_graph_actions_duration_seconds",
            "How long changes of what the pods of nodes refer to took, by what was done.",
            ("operation",),
            [((operation,), durations) for operation, durations in self._durations.items()],
        )
