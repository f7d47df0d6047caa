"""The tables of /debug/api_priority_and_fairness: levels, queues, requests.

Each function takes a snapshot at once, and formats it while its result is iterated over, which may be in
another thread: there may be thousands of requests.

Source: k8s.io/apiserver, pkg/util/flowcontrol/apf_controller_debug.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from apiserver.endpoints.flowcontrol.flow_control import FlowControl
from apiserver.endpoints.flowcontrol.priority_levels import PriorityLevel
from apiserver.endpoints.flowcontrol.queue_set import Queue, Request

# Queues without requests that are shown of a level, beside those that have some.
IDLE_QUEUES_SHOWN_MAX: Final = 1_000
# Go's text/tabwriter, as kube-apiserver sets it up.
_CELL_WIDTH_MIN: Final = 8
_NEVER: Final = "0001-01-01T00:00:00Z"

Lines: TypeAlias = Iterator[str]

LEVEL_COLUMNS: Final = (
    *("PriorityLevelName", "ActiveQueues", "IsIdle", "IsQuiescing", "WaitingRequests", "ExecutingRequests"),
    *("DispatchedRequests", "RejectedRequests", "TimedoutRequests", "CancelledRequests"),
)
QUEUE_COLUMNS: Final = (
    *("PriorityLevelName", "Index", "PendingRequests", "ExecutingRequests", "SeatsInUse", "NextDispatchR"),
    *("InitialSeatsSum", "MaxSeatsSum", "TotalWorkSum"),
)
REQUEST_COLUMNS: Final = (
    *("PriorityLevelName", "FlowSchemaName", "QueueIndex", "RequestIndexInQueue", "FlowDistingsher"),
    *("ArriveTime", "InitialSeats", "FinalSeats", "AdditionalLatency", "StartTime"),
)
DETAIL_COLUMNS: Final = (
    *("UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource"),
)


class Clocks(NamedTuple):
    """The same moment by two clocks: that of the levels, and seconds since 1970."""

    now: float
    since_epoch: float

    def text(self, moment: float | None) -> str:
        """Returns a time of the levels' clock as Go writes it."""
        if moment is None:
            return _NEVER
        when = datetime.fromtimestamp(self.since_epoch - self.now + moment, UTC)
        return f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond:06d}".rstrip("0").rstrip(".") + "Z"


def level_table(control: FlowControl) -> Lines:
    """Yields the lines of a table of the priority levels."""
    dispatched: Counter[str] = Counter()
    for each in control.statistics:
        dispatched[each.level] += each.finished
    rows = []
    for level in _levels(control):
        requests = level.queue_set
        active = sum(1 for queue in requests.queues() if queue.waiting)
        rows.append(
            (
                level.name,
                str(active),
                _text(requests.is_idle),
                _text(level.is_quiescing),
                str(requests.waiting),
                str(len(requests.executing)),
                str(dispatched[level.name] + len(requests.executing)),
                str(requests.rejected),
                str(requests.timed_out),
                str(requests.cancelled),
            )
        )
    return _table(LEVEL_COLUMNS, rows)


def queue_table(control: FlowControl) -> Lines:
    """Yields the lines of a table of the queues."""
    rows: list[tuple[str, ...]] = []
    for level in _levels(control):
        known = {queue.index: queue for queue in level.queue_set.queues()}
        idle = islice(
            (index for index in range(level.spec.queues) if index not in known), IDLE_QUEUES_SHOWN_MAX
        )
        rows += (
            (level.name, str(index), *_queue_cells(known.get(index))) for index in sorted((*known, *idle))
        )
    return _table(QUEUE_COLUMNS, rows)


def _queue_cells(queue: Queue | None) -> tuple[str, ...]:
    if queue is None:
        return "0", "0", "0", _seat_seconds(0.0), "0", "0", _seat_seconds(0.0)
    return (
        str(len(queue.waiting)),
        str(queue.executing),
        str(queue.seats_in_use),
        _seat_seconds(queue.next_start),
        str(sum(each.estimate.seats for each in queue.waiting)),
        str(queue.waiting_seats),
        _seat_seconds(queue.waiting_work),
    )


def request_table(control: FlowControl, clocks: Clocks, *, with_details: bool) -> Lines:
    """Yields the lines of a table of the requests that wait or execute."""
    # The number of the queue, and the place in it of one that waits.
    placed: list[tuple[int, int, Request]] = []
    for level in _levels(control):
        for queue in level.queue_set.queues():
            placed += ((queue.index, place, each) for place, each in enumerate(queue.waiting))
        for each in level.queue_set.executing:
            placed.append((-1 if each.queue is None else each.queue.index, -1, each))
    columns = (*REQUEST_COLUMNS, *(DETAIL_COLUMNS if with_details else ()))
    rows = (
        (
            request.flow.statistics.level,
            request.flow.statistics.schema,
            str(index),
            str(place),
            _printable(request.flow.distinguisher),
            clocks.text(request.arrived_at),
            str(request.estimate.seats),
            str(request.estimate.final_seats),
            _duration(request.estimate.lingers_s),
            clocks.text(request.started_at),
            *(_detail_cells(request) if with_details else ()),
        )
        for index, place, request in placed
    )
    return _table(columns, rows)


def _detail_cells(request: Request) -> tuple[str, ...]:
    target = request.target
    version = f"{target.group}/{target.version}" if target.group else target.version
    cells = (
        request.user.name,
        target.verb,
        target.path,
        target.namespace,
        target.name,
        version,
        target.resource,
        target.subresource,
    )
    return tuple(_printable(cell) for cell in cells)


def _levels(control: FlowControl) -> Iterable[PriorityLevel]:
    return [control.levels[name] for name in sorted(control.levels)]


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Lines:
    """Yields lines whose columns are aligned, as Go's text/tabwriter aligns them."""
    all_rows = [columns, *rows]
    widths = [
        max(_CELL_WIDTH_MIN, 1 + max(len(row[number]) + 1 for row in all_rows))
        for number in range(len(columns) - 1)
    ]
    for row in all_rows:
        cells = (f"{cell},".ljust(width) for cell, width in zip(row[:-1], widths, strict=True))
        yield "".join(cells) + row[-1] + "\n"


def _printable(text: str) -> str:
    """Returns a text that cannot break the table: names and paths come from clients."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _text(value: bool) -> str:
    return "true" if value else "false"


def _seat_seconds(value: float) -> str:
    return f"{value:.8f}ss"


def _duration(seconds: float) -> str:
    """Returns a duration of milliseconds, or of some seconds, as Go writes it."""
    if not seconds:
        return "0s"
    value, unit = (seconds, "s") if seconds >= 1 else (seconds * 1000, "ms")
    return f"{value:.6f}".rstrip("0").rstrip(".") + unit
