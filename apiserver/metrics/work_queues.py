"""The work queues of controllers, under the names that Kubernetes gives their metrics.

Source: k8s.io/component-base, metrics/prometheus/workqueue.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from apiserver.metrics.client_library import counter_family, gauge_family
from apiserver.metrics.histograms import Histogram
from apiserver.metrics.series import Family, histogram_family

if TYPE_CHECKING:
    from prometheus_client.core import Metric

# Kubernetes' own, from 10 ns to 1000 s.
BUCKETS: Final = tuple(10.0**exponent for exponent in range(-8, 4))
_LABELS: Final = ("name",)


def _durations() -> Histogram:
    return Histogram(BUCKETS)


@dataclass(slots=True)
class QueueCounters:
    """The counters and durations of one queue. undone: writes of its controller that others have undone."""

    adds: int = 0
    retries: int = 0
    undone: int = 0
    queue_durations: Histogram = field(default_factory=_durations)
    work_durations: Histogram = field(default_factory=_durations)


class MeasuredQueue(Protocol):
    """A queue whose metrics are shown. name: the label of its metrics."""

    @property
    def name(self) -> str: ...

    @property
    def counters(self) -> QueueCounters: ...

    @property
    def depth(self) -> int: ...

    def unfinished_work_s(self) -> float: ...

    def longest_running_s(self) -> float: ...


class WorkQueueMetrics:
    """The metrics of all queues that were added, and not removed since."""

    def __init__(self) -> None:
        self._queues: list[MeasuredQueue] = []

    def add(self, queue: MeasuredQueue) -> None:
        self._queues.append(queue)

    def remove(self, queue: MeasuredQueue) -> None:
        """Forget a queue, whose controller does not run any more."""
        self._queues.remove(queue)

    def families(self) -> Iterable[Metric | Family]:
        depth = gauge_family("workqueue_depth", "Keys that are ready to be processed.", labels=_LABELS)
        adds = counter_family("workqueue_adds", "Keys that were added.", labels=_LABELS)
        retries = counter_family(
            "workqueue_retries", "Keys that were added for a later time.", labels=_LABELS
        )
        unfinished = gauge_family(
            "workqueue_unfinished_work_seconds",
            "For how long the keys that are being processed have been, added up.",
            labels=_LABELS,
        )
        longest = gauge_family(
            "workqueue_longest_running_processor_seconds",
            "For how long the key that takes longest has been processed.",
            labels=_LABELS,
        )
        undone = counter_family(
            "apiserver_controller_undone_writes",
            "Writes of a controller that others have undone, so that it had to write the same again.",
            labels=_LABELS,
        )
        for queue in self._queues:
            labels = [queue.name]
            depth.add_metric(labels, queue.depth)
            adds.add_metric(labels, queue.counters.adds)
            retries.add_metric(labels, queue.counters.retries)
            unfinished.add_metric(labels, queue.unfinished_work_s())
            longest.add_metric(labels, queue.longest_running_s())
            undone.add_metric(labels, queue.counters.undone)
        yield from (depth, adds, retries, unfinished, longest, undone)
        yield histogram_family(
            "workqueue_queue_duration_seconds",
            "For how long keys were in the queue before they were processed.",
            _LABELS,
            [((queue.name,), queue.counters.queue_durations) for queue in self._queues],
        )
        yield histogram_family(
            "workqueue_work_duration_seconds",
            "For how long keys were processed.",
            _LABELS,
            [((queue.name,), queue.counters.work_durations) for queue in self._queues],
        )
