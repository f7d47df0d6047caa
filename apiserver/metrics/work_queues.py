"""Metrics of the controllers' work queues, under Kubernetes' names.

Source: k8s.io/component-base, metrics/prometheus/workqueue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from apiserver.metrics.histograms import Histogram
from apiserver.metrics.series import Family, Value, family

_QUEUE_DURATIONS: Final = "workqueue_queue_duration_seconds"
_WORK_DURATIONS: Final = "workqueue_work_duration_seconds"
_RESTARTS: Final = "apiserver_controller_restarts_total"


@dataclass(slots=True)
class QueueCounters:
    """The counters and durations of one queue. undone: its controller's writes that other clients
    reverted.
    """

    adds: int = 0
    retries: int = 0
    undone: int = 0
    queue_durations: Histogram = field(default_factory=partial(Histogram.of, _QUEUE_DURATIONS))
    work_durations: Histogram = field(default_factory=partial(Histogram.of, _WORK_DURATIONS))


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


_VALUES: Final[Mapping[str, Callable[[MeasuredQueue], Value]]] = {
    "workqueue_depth": lambda queue: queue.depth,
    "workqueue_adds_total": lambda queue: queue.counters.adds,
    "workqueue_retries_total": lambda queue: queue.counters.retries,
    "workqueue_unfinished_work_seconds": lambda queue: queue.unfinished_work_s(),
    "workqueue_longest_running_processor_seconds": lambda queue: queue.longest_running_s(),
    "apiserver_controller_undone_writes_total": lambda queue: queue.counters.undone,
    _QUEUE_DURATIONS: lambda queue: queue.counters.queue_durations,
    _WORK_DURATIONS: lambda queue: queue.counters.work_durations,
}


class WorkQueueMetrics:
    """The metrics of all queues that were added and not removed since, and of their controllers."""

    def __init__(self) -> None:
        self._queues: list[MeasuredQueue] = []
        self._restarts: Counter[str] = Counter()

    def add(self, queue: MeasuredQueue) -> None:
        self._queues.append(queue)

    def remove(self, queue: MeasuredQueue) -> None:
        """Drop a queue whose controller does not run any more."""
        self._queues.remove(queue)

    def add_controller(self, name: str) -> None:
        """Show the restarts of a controller, also while there are none."""
        self._restarts[name] += 0

    def count_restart(self, controller: str) -> None:
        """Count that a controller is started again after it failed."""
        self._restarts[controller] += 1

    def families(self) -> Iterable[Family]:
        yield family(_RESTARTS, [((name,), count) for name, count in self._restarts.items()])
        for name, value_of in _VALUES.items():
            yield family(name, [((queue.name,), value_of(queue)) for queue in self._queues])
