"""What runs, and waits, in the threads beside the event loop."""

from __future__ import annotations

from collections.abc import Iterable

from apiserver.load.offload import Offload
from apiserver.metrics.series import Family, family


class OffloadMetrics:
    """Shows the lanes of an `Offload` as they are when /metrics is requested."""

    def __init__(self, offload: Offload) -> None:
        self._lanes = offload.lanes

    def families(self) -> Iterable[Family]:
        lanes = [((lane.name,), lane) for lane in self._lanes.values()]
        yield family("apiserver_offload_waiting", [(name, lane.waiting) for name, lane in lanes])
        yield family("apiserver_offload_done_total", [(name, lane.done_total) for name, lane in lanes])
        yield family("apiserver_offload_refused_total", [(name, lane.refused_total) for name, lane in lanes])
        yield family("apiserver_offload_busy_seconds_total", [(name, lane.busy_s) for name, lane in lanes])
