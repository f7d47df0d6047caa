"""Metrics of API Priority and Fairness: the counts of each schema and level, read when /metrics is
requested.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Final

from apiserver.endpoints.flowcontrol.flow_control import ExecutingRequests, FlowControl
from apiserver.endpoints.flowcontrol.flow_statistics import FlowStatistics
from apiserver.endpoints.flowcontrol.priority_levels import PriorityLevel
from apiserver.metrics.histograms import Histogram
from apiserver.metrics.request_filters import FILTER_DURATIONS
from apiserver.metrics.series import Family, family, single


def _dispatched(flow: FlowStatistics, under_way: ExecutingRequests) -> int:
    return flow.finished + under_way.executing


_FLOW_VALUES: Final[Mapping[str, Callable[[FlowStatistics, ExecutingRequests], float]]] = {
    "apiserver_flowcontrol_dispatched_requests_total": _dispatched,
    "apiserver_flowcontrol_current_executing_requests": lambda _, under_way: under_way.executing,
    "apiserver_flowcontrol_current_executing_seats": lambda _, under_way: under_way.seats,
    "apiserver_flowcontrol_current_inqueue_requests": lambda each, _: each.waiting,
    "apiserver_flowcontrol_current_inqueue_seats": lambda each, _: each.waiting_seats,
}
_LEVEL_VALUES: Final[Mapping[str, Callable[[PriorityLevel], float]]] = {
    "apiserver_flowcontrol_nominal_limit_seats": lambda each: each.nominal,
    "apiserver_flowcontrol_lower_limit_seats": lambda each: each.low,
    "apiserver_flowcontrol_upper_limit_seats": lambda each: each.high,
    "apiserver_flowcontrol_current_limit_seats": lambda each: each.current,
    "apiserver_flowcontrol_demand_seats_high_watermark": lambda each: (
        each.queue_set.usage.demand.high_watermark
    ),
    "apiserver_flowcontrol_demand_seats_average": lambda each: each.queue_set.usage.demand.average,
    "apiserver_flowcontrol_demand_seats_stdev": lambda each: each.queue_set.usage.demand.deviation,
    "apiserver_flowcontrol_demand_seats_smoothed": lambda each: each.queue_set.usage.demand.smoothed,
    "apiserver_flowcontrol_target_seats": lambda each: each.target,
    "apiserver_flowcontrol_current_r": lambda each: each.queue_set.progress,
    "apiserver_flowcontrol_dispatch_r": lambda each: each.queue_set.dispatch_progress,
    "apiserver_flowcontrol_latest_s": lambda each: each.queue_set.dispatch_start,
}
_NOTHING: Final = ExecutingRequests()


class FlowControlMetrics:
    """The metrics of API Priority and Fairness. clock: that of the levels, in seconds."""

    def __init__(self, control: FlowControl, clock: Callable[[], float]) -> None:
        self._control, self._clock = control, clock

    def waits(self) -> Iterator[Histogram]:
        """Yields the waiting times of requests, with the bounds of filters."""
        control = self._control
        under_way, at_once = control.under_way(), 0
        for each in control.statistics:
            waited = each.waits.count
            at_once += _dispatched(each, under_way.get(each, _NOTHING)) - waited
            if waited:
                yield each.waits
        yield _with_more(Histogram.of(FILTER_DURATIONS), 0, at_once)

    def families(self) -> Iterable[Family]:
        control, flows = self._control, self._control.statistics
        levels, under_way = list(control.levels.values()), control.under_way()
        # Of each flow, how many requests began.
        begun = [(each, _dispatched(each, under_way.get(each, _NOTHING))) for each in flows]
        for name, of_flow in _FLOW_VALUES.items():
            by_flow = [
                ((each.level, each.schema), of_flow(each, under_way.get(each, _NOTHING))) for each in flows
            ]
            yield family(name, by_flow)
        waiting = (("mutating", control.kinds.writes), ("readOnly", control.kinds.reads))
        yield family("apiserver_current_inqueue_requests", [((of,), each.waiting) for of, each in waiting])
        rejected = [
            ((each.level, each.schema, reason), count)
            for each in flows
            for reason, count in each.rejected.items()
        ]
        yield family("apiserver_flowcontrol_rejected_requests_total", rejected)
        for name, of_level in _LEVEL_VALUES.items():
            yield family(name, [((each.name,), of_level(each)) for each in levels])
        yield single("apiserver_flowcontrol_seat_fair_frac", control.fair_fraction)
        yield from _next_starts(levels)
        yield from _of_flows(begun, frozenset(each.name for each in levels if each.spec.queues))
        yield from self._over_time(levels)

    def _over_time(self, levels: Iterable[PriorityLevel]) -> Iterator[Family]:
        """Yields the histograms whose counts are nanoseconds."""
        now = self._clock()
        for level in levels:
            level.queue_set.fill_histograms(now)
        usages = [(level.name, level.queue_set.usage) for level in levels]
        yield family(
            "apiserver_flowcontrol_priority_level_seat_utilization",
            ((("executing", name), usage.seat_ratios) for name, usage in usages),
        )
        yield family(
            "apiserver_flowcontrol_priority_level_request_utilization",
            (
                pair
                for name, usage in usages
                for pair in (
                    (("waiting", name), usage.waiting_ratios),
                    (("executing", name), usage.executing_ratios),
                )
            ),
        )
        yield family(
            "apiserver_flowcontrol_demand_seats", (((name,), usage.demand_ratios) for name, usage in usages)
        )
        yield family(
            "apiserver_flowcontrol_read_vs_write_current_requests", self._control.kinds.histograms(now)
        )


def _next_starts(levels: Iterable[PriorityLevel]) -> Iterator[Family]:
    plain, discounted = [], []
    for level in levels:
        bounds = level.queue_set.next_starts()
        if bounds is not None:
            (least, most), (least_discounted, most_discounted) = bounds
            plain += [(("min", level.name), least), (("max", level.name), most)]
            discounted += [(("min", level.name), least_discounted), (("max", level.name), most_discounted)]
    yield family("apiserver_flowcontrol_next_s_bounds", plain)
    yield family("apiserver_flowcontrol_next_discounted_s_bounds", discounted)


def _of_flows(begun: Sequence[tuple[FlowStatistics, int]], with_queues: Set[str]) -> Iterator[Family]:
    """begun: the number of requests of each flow that began. with_queues: the levels that have queues."""
    yield family(
        "apiserver_flowcontrol_request_wait_duration_seconds",
        (
            ((each.level, each.schema, execute), waits)
            for each, count in begun
            for execute, waits in (
                # Most have not waited, and are not counted one by one.
                ("true", _with_more(each.waits, 0, count - each.waits.count)),
                ("false", each.refused_waits),
            )
            if any(waits.buckets)
        ),
    )
    yield family(
        "apiserver_flowcontrol_request_execution_seconds",
        (
            ((each.level, each.schema, kind), durations)
            for each, _ in begun
            for kind, durations in (("regular", each.durations), ("watch", each.watch_durations))
            if any(durations.buckets)
        ),
    )
    yield family(
        "apiserver_flowcontrol_request_queue_length_after_enqueue",
        (
            # Without a queue that has others there is no need to put it there.
            ((each.level, each.schema), _with_more(each.queue_lengths, 1, count - each.waits.count))
            for each, count in begun
            if each.level in with_queues
        ),
    )
    yield family(
        "apiserver_flowcontrol_work_estimated_seats",
        (
            ((each.level, each.schema), _with_more(each.seats, 1, _of_one_seat(each, count)))
            for each, count in begun
        ),
    )
    yield family(
        "apiserver_flowcontrol_watch_count_samples",
        (
            ((each.level, each.schema), watches)
            for each, _ in begun
            if any((watches := _with_more(each.watches, 0, each.unwatched)).buckets)
        ),
    )


def _of_one_seat(flow: FlowStatistics, begun: int) -> int:
    """Returns the number of requests that were estimated to need one seat, which are not counted
    individually.
    """
    return begun + flow.waiting + flow.rejected.total() - flow.seats.count


def _with_more(histogram: Histogram, value: float, count: int) -> Histogram:
    """Returns a histogram with `count` more observations of a value."""
    more = Histogram(histogram.bounds)
    more.buckets = list(histogram.buckets)
    more.buckets[bisect_left(more.bounds, value)] += count
    more.sum = histogram.sum + value * count
    return more
