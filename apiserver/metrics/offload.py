"""What runs, and waits, in the threads beside the event loop."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from apiserver.registry.offload import Offload

_LANE = ("lane",)


class OffloadMetrics:
    """Reads the lanes of an `Offload` when they are asked for."""

    def __init__(self, offload: Offload) -> None:
        self._lanes = offload.lanes

    def families(self) -> Iterable[Metric]:
        waiting = GaugeMetricFamily(
            "apiserver_offload_waiting",
            "Pieces of large work that wait for the thread of their size.",
            labels=_LANE,
        )
        done = CounterMetricFamily(
            "apiserver_offload_done", "Pieces of large work that were done off the event loop.", labels=_LANE
        )
        refused = CounterMetricFamily(
            "apiserver_offload_refused",
            "Pieces of large work that were refused with 429, since too many waited.",
            labels=_LANE,
        )
        busy = CounterMetricFamily(
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
