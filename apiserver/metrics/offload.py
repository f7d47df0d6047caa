"""What runs, and waits, in the threads beside the event loop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from apiserver.load.offload import Offload
from apiserver.metrics.client_library import counter_family, gauge_family

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_LANE = ("lane",)


class OffloadMetrics:
    """Reads the lanes of an `Offload` when they are asked for."""

    def __init__(self, offload: Offload) -> None:
        self._lanes = offload.lanes

    def families(self) -> Iterable[Metric]:
        waiting = gauge_family(
            "apiserver_offload_waiting",
            "Pieces of large work that wait for the thread of their size.",
            labels=_LANE,
        )
        done = counter_family(
            "apiserver_offload_done", "Pieces of large work that were done off the event loop.", labels=_LANE
        )
        refused = counter_family(
            "apiserver_offload_refused",
            "Pieces of large work that were refused with 429, since too many waited.",
            labels=_LANE,
        )
        busy = counter_family(
            "apiserver_offload_busy_seconds",
            "For how many seconds the threads beside the event loop have worked.",
            labels=_LANE,
        )
        for lane in self._lanes.values():
            label = (lane.name,)
            waiting.add_metric(label, lane.waiting)
            done.add_metric(label, lane.done_total)
            refused.add_metric(label, lane.refused_total)
            busy.add_metric(label, lane.busy_s)
        yield from (waiting, done, refused, busy)
