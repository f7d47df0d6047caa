"""The metrics of the garbage collector beside those of its queues, under kube-controller-manager's names.

Source: kubernetes, pkg/controller/garbagecollector/metrics.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from apiserver.metrics.client_library import counter_family

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class GarbageCollectorMetrics:
    """sync_errors: how often a resource could not be followed, so that its objects are read again."""

    def __init__(self) -> None:
        self.sync_errors = 0

    def count_sync_error(self) -> None:
        self.sync_errors += 1

    def families(self) -> Iterable[Metric]:
        yield counter_family(
            "garbagecollector_controller_resources_sync_error",
            "How often the garbage collector could not follow a resource, and had to read its objects again.",
            value=self.sync_errors,
        )
