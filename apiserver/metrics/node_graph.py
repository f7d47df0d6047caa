"""How long changes of the Node authorizer's graph take: which objects the pods of each node refer to.

Source: kubernetes, plugin/pkg/auth/authorizer/node/metrics.go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from typing import Final

from apiserver.metrics.histograms import Histogram
from apiserver.metrics.series import Family, family

_DURATIONS: Final = "node_authorizer_graph_actions_duration_seconds"


class NodeGraphMetrics:
    """Times changes of the Node authorizer's graph, by what is done, as `AddPod`.

    There are two such names for each kind of object.
    """

    def __init__(self) -> None:
        self._durations: defaultdict[str, Histogram] = defaultdict(partial(Histogram.of, _DURATIONS))

    def changed(self, operation: str, seconds: float) -> None:
        self._durations[operation].observe(seconds)

    def families(self) -> Iterable[Family]:
        yield family(_DURATIONS, [((operation,), each) for operation, each in self._durations.items()])
