"""API Priority and Fairness: what was counted of each schema and level, read when /metrics is requested."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import Final, TypeAlias

from apiserver.flowcontrol.flow_control import ExecutingRequests, FlowControl
from apiserver.flowcontrol.flow_statistics import DURATION_BUCKETS, FlowStatistics
from apiserver.flowcontrol.priority_levels import PriorityLevel
from apiserver.metrics.histograms import Histogram
from apiserver.metrics.request_filters import FILTER_BUCKETS
from apiserver.metrics.series import Family, histogram_family, values

_PREFIX: Final = "apiserver_flowcontrol_"
_FLOW: Final = ("priority_level", "flow_schema")
_LEVEL: Final = ("priority_level",)


def _dispatched(flow: FlowStatistics, under_way: ExecutingRequests) -> int:
    return flow.finished + under_way.executing


_OfLevel: TypeAlias = Callable[[PriorityLevel], float]
_FLOW_VALUES: Final[
    tuple[tuple[str, str, str, Callable[[FlowStatistics, ExecutingRequests], float]], ...]
] = (
    ("dispatched_requests_total", "counter", "Requests that began.", _dispatched),
    (
        "current_executing_requests",
        "gauge",
        "Requests that are executed now; watches until they have begun.",
        lambda _, under_way: under_way.executing,
    ),
    (
        "current_executing_seats",
        "gauge",
        "Seats of the requests that are executed now, and of those that keep theirs for a moment.",
        lambda _, under_way: under_way.seats,
    ),
    (
        "current_inqueue_requests",
        "gauge",
        "Requests that wait in queues now.",
        lambda each, _: each.waiting,
    ),
    (
        "current_inqueue_seats",
        "gauge",
        "Seats that the requests in queues will need.",
        lambda each, _: each.waiting_seats,
    ),
)
_LEVEL_VALUES: Final[tuple[tuple[str, str, _OfLevel], ...]] = (
    ("nominal_limit_seats", "Seats of each level by its shares.", lambda each: each.nominal),
    ("lower_limit_seats", "Seats that each level keeps in any case.", lambda each: each.low),
    ("upper_limit_seats", "Seats that each level may have at most.", lambda each: each.high),
    ("current_limit_seats", "Seats that each level has now.", lambda each: each.current),
    (
        "demand_seats_high_watermark",
        "The most seats that each level could have used, in the last period.",
        lambda each: each.queue_set.usage.demand.high_watermark,
    ),
    (
        "demand_seats_average",
        "Seats that each level could have used on average, in the last period.",
        lambda each: each.queue_set.usage.demand.average,
    ),
    (
        "demand_seats_stdev",
        "The standard deviation of the seats that each level could have used, in the last period.",
        lambda each: each.queue_set.usage.demand.deviation,
    ),
    (
        "demand_seats_smoothed",
        "Seats that each level could have used, over several periods.",
        lambda each: each.queue_set.usage.demand.smoothed,
    ),
    ("target_seats", "Seats that each level is to have, if there are enough.", lambda each: each.target),
    ("current_r", "The progress R of each level.", lambda each: each.queue_set.progress),
    (
        "dispatch_r",
        "The progress R of each level when a request last left a queue.",
        lambda each: each.queue_set.dispatch_progress,
    ),
    (
        "latest_s",
        "When the request that last left a queue began, in virtual time.",
        lambda each: each.queue_set.dispatch_start,
    ),
)
_NOTHING: Final = ExecutingRequests()
_Histograms: TypeAlias = Iterable[tuple[tuple[str, ...], Histogram]]


class FlowControlMetrics:
    """clock: that of the levels, in seconds."""

    def __init__(self, control: FlowControl, clock: Callable[[], float]) -> None:
        self._control, self._clock = control, clock

    def waits(self) -> Iterator[Histogram]:
        """Yields how long requests have waited for their turn, with the bounds of filters."""
        control = self._control
        under_way, at_once = control.under_way(), 0
        for each in control.statistics:
            waited = each.waits.count
            at_once += _dispatched(each, under_way.get(each, _NOTHING)) - waited
            if waited:
                yield each.waits
        yield _with_more(Histogram(FILTER_BUCKETS), 0, at_once)

    def families(self) -> Iterable[Family]:
        control, flows = self._control, self._control.statistics
        levels, under_way = list(control.levels.values()), control.under_way()
        # Of each flow, how many requests began.
        begun = [(each, _dispatched(each, under_way.get(each, _NOTHING))) for each in flows]
        for name, kind, text, of_flow in _FLOW_VALUES:
            by_flow = [
                ((each.level, each.schema), of_flow(each, under_way.get(each, _NOTHING))) for each in flows
            ]
            yield values(f"{_PREFIX}{name}", kind, text, _FLOW, by_flow)
        kinds = control.kinds
        yield values(
            "apiserver_current_inqueue_requests",
            "gauge",
            "Requests that wait in queues now, by their kind.",
            ("request_kind",),
            [(("mutating",), kinds.writes.waiting), (("readOnly",), kinds.reads.waiting)],
        )
        yield values(
            f"{_PREFIX}rejected_requests_total",
            "counter",
            "Requests that were refused.",
            (*_FLOW, "reason"),
            [
                ((each.level, each.schema, reason), count)
                for each in flows
                for reason, count in each.rejected.items()
            ],
        )
        for name, text, of_level in _LEVEL_VALUES:
            by_level = [((each.name,), of_level(each)) for each in levels]
            yield values(f"{_PREFIX}{name}", "gauge", text, _LEVEL, by_level)
        yield values(
            f"{_PREFIX}seat_fair_frac",
            "gauge",
            "The part of what it could use that each level gets which has none of its bounds.",
            (),
            [((), control.fair_fraction)],
        )
        yield from _next_starts(levels)
        yield from _of_flows(begun, frozenset(each.name for each in levels if each.spec.queues))
        yield from self._over_time(levels)

    def _over_time(self, levels: Iterable[PriorityLevel]) -> Iterator[Family]:
        """Yields the histograms whose counts are nanoseconds."""
        now = self._clock()
        for level in levels:
            level.queue_set.fill_histograms(now)
        usages = [(level.name, level.queue_set.usage) for level in levels]
        yield _timed(
            "priority_level_seat_utilization",
            "Nanoseconds for which such a part of the seats was in use.",
            ("phase", *_LEVEL),
            ((("executing", name), usage.seat_ratios) for name, usage in usages),
        )
        yield _timed(
            "priority_level_request_utilization",
            "Nanoseconds for which so many requests, as a part of their limit, waited or were executed.",
            ("phase", *_LEVEL),
            (
                pair
                for name, usage in usages
                for pair in (
                    (("waiting", name), usage.waiting_ratios),
                    (("executing", name), usage.executing_ratios),
                )
            ),
        )
        yield _timed(
            "demand_seats",
            "Nanoseconds for which a level could have used so many seats, as a part of those that it has.",
            _LEVEL,
            (((name,), usage.demand_ratios) for name, usage in usages),
        )
        yield _timed(
            "read_vs_write_current_requests",
            "Nanoseconds for which so many requests, as a part of their limit, waited or were executed.",
            ("phase", "request_kind"),
            self._control.kinds.histograms(now),
        )


def _next_starts(levels: Iterable[PriorityLevel]) -> Iterator[Family]:
    plain, discounted = [], []
    for level in levels:
        bounds = level.queue_set.next_starts()
        if bounds is not None:
            (least, most), (least_discounted, most_discounted) = bounds
            plain += [(("min", level.name), least), (("max", level.name), most)]
            discounted += [(("min", level.name), least_discounted), (("max", level.name), most_discounted)]
    for name, text, found in (
        ("next_s_bounds", "When, in virtual time, the first requests of queues begin: min and max.", plain),
        (
            "next_discounted_s_bounds",
            "When, in virtual time, the first requests of queues begin, less the work under way.",
            discounted,
        ),
    ):
        yield values(f"{_PREFIX}{name}", "gauge", text, ("bound", *_LEVEL), found)


def _of_flows(begun: Sequence[tuple[FlowStatistics, int]], with_queues: Set[str]) -> Iterator[Family]:
    """begun: how many requests of each flow began. with_queues: the levels that have queues."""

    def histograms(name: str, text: str, labels: tuple[str, ...], found: _Histograms) -> Family:
        return histogram_family(f"{_PREFIX}{name}", text, labels, found)

    yield histograms(
        "request_wait_duration_seconds",
        "How long requests waited in queues.",
        (*_FLOW, "execute"),
        (
            ((each.level, each.schema, execute), waits)
            for each, count in begun
            for execute, waits in (
                # Most have not waited, and are not counted one by one.
                ("true", _with_more(each.waits.with_bounds(DURATION_BUCKETS), 0, count - each.waits.count)),
                ("false", each.refused_waits),
            )
            if any(waits.buckets)
        ),
    )
    yield histograms(
        "request_execution_seconds",
        "How long requests were executed; watches until they had begun.",
        (*_FLOW, "type"),
        (
            ((each.level, each.schema, kind), durations)
            for each, _ in begun
            for kind, durations in (("regular", each.durations), ("watch", each.watch_durations))
            if any(durations.buckets)
        ),
    )
    yield histograms(
        "request_queue_length_after_enqueue",
        "How many requests were in the queue of one that was put there.",
        _FLOW,
        (
            # Without a queue that has others there is no need to put it there.
            ((each.level, each.schema), _with_more(each.queue_lengths, 1, count - each.waits.count))
            for each, count in begun
            if each.level in with_queues
        ),
    )
    yield histograms(
        "work_estimated_seats",
        "How many seats requests were estimated to need, at most.",
        _FLOW,
        (
            ((each.level, each.schema), _with_more(each.seats, 1, _of_one_seat(each, count)))
            for each, count in begun
        ),
    )
    yield histograms(
        "watch_count_samples",
        "How many watches writes may have had to tell.",
        _FLOW,
        (
            ((each.level, each.schema), watches)
            for each, _ in begun
            if any((watches := _with_more(each.watches, 0, each.unwatched)).buckets)
        ),
    )


def _of_one_seat(flow: FlowStatistics, begun: int) -> int:
    """Returns how many requests were estimated to need one seat, which are not counted one by one."""
    return begun + flow.waiting + flow.rejected.total() - flow.seats.count


def _timed(name: str, text: str, labels: tuple[str, ...], found: _Histograms) -> Family:
    return histogram_family(f"{_PREFIX}{name}", text, labels, found)


def _with_more(histogram: Histogram, value: float, count: int) -> Histogram:
    """Returns a histogram that has `count` more observations of a value."""
    more = Histogram(histogram.bounds)
    more.buckets = list(histogram.buckets)
    more.buckets[bisect_left(more.bounds, value)] += count
    more.sum = histogram.sum + value * count
    return more
