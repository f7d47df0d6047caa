"""The metrics of the garbage collector beside those of its queues, under kube-controller-manager's names.

Source: kubernetes, pkg/controller/garbagecollector/metrics.
"""

from __future__ import annotations

from collections.abc import Iterable

from apiserver.metrics.series import Family, single


class GarbageCollectorMetrics:
    """Counts failures of the garbage collector.

    sync_errors: how often a resource could not be followed, so that its objects are read again.
    """

    def __init__(self) -> None:
        self.sync_errors = 0

    def count_sync_error(self) -> None:
        self.sync_errors += 1

    def families(self) -> Iterable[Family]:
        yield single("garbagecollector_controller_resources_sync_error_total", self.sync_errors)
