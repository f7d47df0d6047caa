"""One priority level at run time: its seats, its queues, and the next request.

Fair queuing: each queue has a virtual time, measured as progress R, at which its next request begins; of all
candidates, the request that would end first begins. R is the seat-seconds that each queue with requests has
had since the start. A queue is charged for its request at once, by an estimate, which is corrected when the
request ends. Source: k8s.io/apiserver, pkg/util/flowcontrol/fairqueuing/queueset, and its doc.go for the
theory.

For differences see the package's docstring: a flow leaves seats to others, queues never exceed their length,
and only queues with requests exist.

Requests that have begun share the event loop: `storage.event_loop_turns` interrupts long ones, such as lists,
and `load` compares all that make requests wait.
"""

from __future__ import annotations

import enum
import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from apiserver.endpoints.flowcontrol.flow_statistics import FlowStatistics
from apiserver.endpoints.flowcontrol.seat_usage import Capacity, SeatUsage, UsageState
from apiserver.endpoints.flowcontrol.work_estimates import ONE_SEAT, WorkEstimate
from apiserver.load.user_shares import SHARE_OF_FREE
from apiserver.meta.vocabulary import RequestInfo, UserInfo

# The assumed duration of a request until it ends.
SERVICE_S: Final = 0.003
# A level is calm while no more of its seats are in use. No flow can have more than its share then.
CALM_PART: Final = 1 / 2

QUEUE_FULL: Final = "queue-full"
CONCURRENCY_LIMIT: Final = "concurrency-limit"
TIME_OUT: Final = "time-out"
CANCELLED: Final = "cancelled"


class _Arrival(enum.Enum):
    """The outcome for an arriving request; the values of refusals are their reasons."""

    BEGINS = ""
    WAITS = "waits"
    FINDS_NO_SEAT = CONCURRENCY_LIMIT
    FINDS_QUEUE_FULL = QUEUE_FULL


_REFUSALS: Final = (_Arrival.FINDS_NO_SEAT, _Arrival.FINDS_QUEUE_FULL)


class QueueRules(NamedTuple):
    """The queues and limits of a priority level.

    queues: their number; 0 if requests without a free seat are refused. length_max: the limit of each queue.
    is_exempt: whether there is no limit.
    is_closed: whether it has no shares, so that no request runs, not even alone.
    """

    queues: int = 0
    length_max: int = 0
    is_exempt: bool = False
    is_closed: bool = False


class QueuedFlow:
    """A flow within a level.

    hash: identifies the flow. hand: the numbers of its queues; empty without queues.
    distinguisher: its name within its schema.
    """

    __slots__ = ("distinguisher", "hand", "hash", "statistics")

    def __init__(
        self, statistics: FlowStatistics, distinguisher: str = "", hash_: int = 0, hand: tuple[int, ...] = ()
    ) -> None:
        self.statistics = statistics
        self.distinguisher = distinguisher
        self.hash, self.hand = hash_, hand


@dataclass(slots=True, eq=False, repr=False)
class Request:
    """A request of a level.

    user, target: the caller, and the resource or path. on_start: called when a request that waited begins.
    estimate, seats: its work, and the seats that it has, or will have: one, unless it is estimated.
    arrived_at, started_at: by the clock of the level; None before it arrives, or begins.
    queue: the queue in which it waits, or which is charged; None in a level that is calm or has no queues.
    work, arrival_progress: its estimated seat-seconds, and R at its arrival; not set while the level is calm.
    """

    flow: QueuedFlow
    user: UserInfo
    target: RequestInfo
    estimate: WorkEstimate = field(init=False, default=ONE_SEAT)
    seats: int = field(init=False, default=1)
    on_start: Callable[[], object] | None = None
    queue: Queue | None = None
    arrived_at: float | None = None
    started_at: float | None = None
    work: float = field(init=False)
    arrival_progress: float = field(init=False)

    @property
    def is_waiting(self) -> bool:
        return self.started_at is None


@dataclass(slots=True, eq=False)
class Queue:
    """A queue that has requests.

    next_start: the progress at which its next request begins in virtual time.
    executing: the number of its executing requests.
    seats_in_use: the seats of its executing requests, and of those that ended and keep their seats for a
        moment.
    waiting_work: in seat-seconds.
    """

    index: int
    executing: int = 0
    seats_in_use: int = 0
    next_start: float = 0.0
    waiting_seats: int = 0
    waiting_work: float = 0.0
    waiting: deque[Request] = field(default_factory=deque)

    def bound(self) -> None:
        """Limit the next start: no request begins before it arrives, in virtual time either.

        Otherwise a queue that uses less than its part would accumulate claims without limit.
        """
        if self.waiting and self.next_start < self.waiting[0].arrival_progress:
            self.next_start = self.waiting[0].arrival_progress


class QueueSet:
    """The seats and queues of one level. All times are of one monotonic clock, in seconds.

    While at most `CALM_PART` of the seats are in use, the level is calm: no request has to wait, and none is
    charged to a queue. When the level becomes busy, executing requests are charged as if they had just begun.

    limit: the number of seats; ignored by an exempt level.
    seats_in_use: the seats of executing requests, and of those that ended and keep theirs for a moment.
    executing: the executing requests, in the order in which they began. lingering: the requests that ended
        and keep their seats.
    waiting: the number of waiting requests. waiting_seats: the seats that they will need.
    paused: the number of requests that began, and wait for another server without seats.
    progress: R. rejected, timed_out, cancelled: the total numbers of such requests.
    dispatch_progress, dispatch_start: R at the last start of a request that had waited, and its start in
        virtual time.
    """

    def __init__(self, now: float, rules: QueueRules, limit: int = 0) -> None:
        self.rules, self.limit = rules, limit
        self.usage = SeatUsage(now)
        self.seats_in_use = self.waiting = self.waiting_seats = self.paused = 0
        self.executing: dict[Request, None] = {}
        self.lingering: dict[Request, None] = {}
        self.progress = 0.0
        self.rejected = self.timed_out = self.cancelled = 0
        self.dispatch_progress = self.dispatch_start = 0.0
        self._is_busy = False
        self._busy_since = now  # the last time that it became busy
        self._calm_max = _calm_max(rules, limit)
        self._known_at = now  # until when R has been kept
        self._queues: dict[int, Queue] = {}
        # Those in which requests wait; the one that was served last at the end.
        self._non_empty: dict[Queue, None] = {}
        self._seats_of: dict[int, int] = {}  # by flow, where there are queues
        self._next_card = 0  # from which on a hand is looked at

    @property
    def is_idle(self) -> bool:
        return not (self.executing or self.waiting or self.paused)

    def configure(self, rules: QueueRules, limit: int, capacity: Capacity, now: float) -> None:
        """Change the limit, or the queues; requests in a queue stay in it."""
        self._pass_time(now)
        self.usage.observe(self._state, now)
        self.rules, self.limit = rules, limit
        self._calm_max = _calm_max(rules, limit)
        self.usage.set_capacity(capacity)
        self._start_waiting(now)

    def end_period(self, now: float) -> None:
        """Begin a new period of `usage.demand`."""
        self._pass_time(now)
        self.usage.observe(self._state, now)
        self.usage.end_period(self.seats_in_use + self.waiting_seats)

    # ---- the life of a request

    def arrive(self, request: Request, now: float) -> str:
        """Start a request, queue it, or refuse it. Returns the reason for a refusal; else an empty text.

        A wait ends with `on_start`, or with `give_up`.
        """
        usage = self.usage
        if now >= usage.observe_at:
            usage.observe(self._state, now)
        request.arrived_at = now
        if request.estimate is not ONE_SEAT:
            request.flow.statistics.seats.observe(request.seats)
        in_use = self.seats_in_use + request.seats
        if not self._is_busy:
            if in_use <= self._calm_max:
                request.started_at = now
                self.executing[request] = None
                self.seats_in_use = in_use
                if in_use > usage.high:
                    usage.high = in_use
                return ""
            self._become_busy(now)
        return self._arrive_busy(request, now)

    def pause(self, request: Request, now: float) -> None:
        """Take the seats of a request that waits for another server, until `resume` is called.

        The time so far is charged, and counts in its duration; the time of the wait does not.
        """
        self._observe(now)
        del self.executing[request]
        self.paused += 1
        if self._is_busy:
            self._settle(request, now)
        assert request.started_at is not None
        request.started_at = now - request.started_at  # for how long it has executed
        self.seats_in_use -= request.seats
        if self._is_busy:
            if request.queue is not None:
                # It keeps seats only once, after its end: `resume` charges that again.
                request.queue.next_start -= request.estimate.final_seats * request.estimate.lingers_s
                request.queue.bound()
            self._give_back(request, now)
        request.queue = None

    def resume(self, request: Request, now: float) -> None:
        """Give a request its seats again: at once, even if none are free.

        It has little work left, and other requests might wait for resources that it holds.
        """
        self._observe(now)
        self.paused -= 1
        assert request.started_at is not None
        request.started_at = now - request.started_at
        if self._is_busy:
            self._pass_time(now)
            if request.flow.hand and self.rules.queues:
                queue = self._queue(self._choose(request.flow.hand))
                self._charge(queue, request)
                # `_settle` counts from `started_at` on, and the time before the pause has been charged.
                queue.next_start -= request.estimate.seats * (now - max(request.started_at, self._busy_since))
                queue.bound()
        self.executing[request] = None
        self.seats_in_use += request.seats
        self._note_demand()

    def finish(self, request: Request, now: float) -> float:
        """End a request that has begun.

        Returns the seconds for which it keeps its seats. Call `leave` after that time, unless it is 0.
        """
        assert request.started_at is not None
        usage = self.usage
        if now >= usage.observe_at:
            usage.observe(self._state, now)
        lasted_s = now - request.started_at
        del self.executing[request]
        statistics = request.flow.statistics
        if request.target.verb == "watch":
            statistics.watch_durations.observe(lasted_s)
        else:
            statistics.durations.observe(lasted_s)
        if self._is_busy:
            self._settle(request, now)
        estimate = request.estimate
        if estimate is not ONE_SEAT and estimate.lingers_s > 0:
            self.lingering[request] = None
            return estimate.lingers_s
        self.seats_in_use -= request.seats
        if self._is_busy:
            self._give_back(request, now)
        return 0.0

    def _settle(self, request: Request, now: float) -> None:
        """Charge a request's queue for the actual work, instead of the estimate, while the level is busy."""
        self._pass_time(now)
        queue = request.queue
        if queue is not None:
            assert request.started_at is not None
            queue.executing -= 1
            # While the level was calm R stood still: what a request took then is no debt of its queue.
            charged_s = now - max(request.started_at, self._busy_since)
            queue.next_start -= request.estimate.seats * (SERVICE_S - charged_s)
            queue.bound()

    def leave(self, request: Request, now: float) -> None:
        """Take back the seats that a request kept after its end."""
        self._observe(now)
        del self.lingering[request]
        self._pass_time(now)
        self.seats_in_use -= request.seats
        if self._is_busy:
            self._give_back(request, now)

    def give_up(self, request: Request, reason: str, now: float) -> None:
        """Remove a waiting request. reason: TIME_OUT or CANCELLED."""
        self._observe(now)
        self._pass_time(now)
        queue = request.queue
        assert queue is not None
        assert request.arrived_at is not None
        queue.waiting.remove(request)
        self._leave_queue(queue, request)
        queue.bound()
        self._drop_if_empty(queue)
        request.flow.statistics.refused_waits.observe(now - request.arrived_at)
        self._refuse(request, reason)
        if reason == TIME_OUT:
            self.timed_out += 1
        else:
            self.cancelled += 1
        self._start_waiting(now)  # It may have been in the way.

    # ---- what dumps and metrics show

    def queues(self) -> Iterator[Queue]:
        """Yields the queues that have requests, by their numbers."""
        yield from (self._queues[index] for index in sorted(self._queues))

    def next_starts(self) -> tuple[tuple[float, float], tuple[float, float]] | None:
        """Returns the range of virtual times at which waiting requests would begin.

        Returns the least and the most of them, and the same without the work in progress; None if no
        request waits.
        """
        if not self._non_empty:
            return None
        starts = [queue.next_start for queue in self._non_empty]
        discounted = [queue.next_start - queue.seats_in_use * SERVICE_S for queue in self._non_empty]
        return (min(starts), max(starts)), (min(discounted), max(discounted))

    def fill_histograms(self, now: float) -> None:
        """Add the usage until now to the histograms of `usage`."""
        self.usage.observe(self._state, now)
        self.usage.fill_histograms()

    def _observe(self, now: float) -> None:
        """Record the usage until now, if that is due; called before every change."""
        if now >= self.usage.observe_at:
            self.usage.observe(self._state, now)

    @property
    def _state(self) -> UsageState:
        return len(self.executing), self.seats_in_use, self.waiting, self.waiting_seats

    # ---- calm and busy

    def _become_busy(self, now: float) -> None:
        """Begin to charge requests to queues, including those that already execute."""
        self._is_busy = True
        self._known_at = self._busy_since = now
        for request in (*self.executing, *self.lingering):
            if not (hand := request.flow.hand):
                continue
            queue = self._queue(self._choose(hand))
            self._charge(queue, request)
            if request in self.lingering:
                queue.executing -= 1

    def _become_calm(self) -> None:
        self._is_busy = False
        self._queues.clear()
        self._seats_of.clear()
        for request in (*self.executing, *self.lingering):
            request.queue = None

    def _arrive_busy(self, request: Request, now: float) -> str:
        self._pass_time(now)
        estimate, hand = request.estimate, request.flow.hand if self.rules.queues else ()
        request.work = estimate.seats * SERVICE_S + estimate.final_seats * estimate.lingers_s
        request.arrival_progress = self.progress
        index = self._choose(hand) if hand else None
        decided = self._decide(request, index)
        if decided in _REFUSALS:
            return self._refuse(request, decided.value)
        if index is None:
            self._start(request, now)
        elif decided is _Arrival.BEGINS:
            self._start_from(self._queue(index), request, now)
        else:
            self._enqueue(self._queue(index), request)
            self._start_waiting(now)
        return ""

    def _decide(self, request: Request, index: int | None) -> _Arrival:
        """Returns the outcome for an arriving request. index: the queue that it may wait in, if any."""
        fits = self._fits(request.seats)
        if index is None:
            return _Arrival.BEGINS if fits else _Arrival.FINDS_NO_SEAT
        if fits and not self.waiting and self.seats_in_use < self.limit and not self._exceeds_share(request):
            return _Arrival.BEGINS
        queue = self._queues.get(index)
        if queue is not None and len(queue.waiting) >= self.rules.length_max:
            return _Arrival.FINDS_QUEUE_FULL
        return _Arrival.WAITS

    def _pass_time(self, now: float) -> None:
        """Advance R by the time since the last event; called before every change while the level is busy."""
        seconds = now - self._known_at
        if seconds <= 0:
            return
        self._known_at = now
        if self._queues:
            wanted = self.seats_in_use + self.waiting_seats
            self.progress += min(wanted, self.limit) / len(self._queues) * seconds

    # ---- the next request

    def _fits(self, seats: int) -> bool:
        """Whether enough seats are free. A request that is wider than an open level runs alone."""
        in_use = self.seats_in_use
        return in_use + seats <= self.limit or not (in_use or self.rules.is_closed)

    def _exceeds_share(self, request: Request) -> bool:
        """Whether the flow holds seats, and must release some before it gets more."""
        held = self._seats_of.get(request.flow.hash, 0)
        if not held:
            return False
        seats = request.seats
        free = max(self.limit - self.seats_in_use, seats)
        return held + seats > SHARE_OF_FREE * (free - seats + 1)

    def _choose(self, hand: tuple[int, ...]) -> int:
        """Returns the number of the queue in a hand with the least waiting work."""
        # Each time from another card on: flows whose hands overlap would all prefer the same.
        self._next_card = offset = (self._next_card + 1) % len(hand)
        if not self.waiting:
            return hand[offset]
        chosen, least = -1, math.inf
        for index in (*hand[offset:], *hand[:offset]):
            queue = self._queues.get(index)
            work = 0.0 if queue is None else queue.waiting_work
            if work < least:
                chosen, least = index, work
        return chosen

    def _queue(self, index: int) -> Queue:
        """Returns a queue by its number, for a request that begins or waits in it."""
        found = self._queues.get(index)
        if found is None:
            found = self._queues[index] = Queue(index)
        if not (found.waiting or found.executing):
            found.next_start = self.progress
        return found

    def _enqueue(self, queue: Queue, request: Request) -> None:
        queue.waiting.append(request)
        queue.waiting_work += request.work
        queue.waiting_seats += request.seats
        queue.bound()
        self._non_empty[queue] = None
        request.queue = queue
        self.waiting += 1
        self.waiting_seats += request.seats
        statistics = request.flow.statistics
        statistics.waiting += 1
        statistics.waiting_seats += request.seats
        statistics.queue_lengths.observe(len(queue.waiting))
        self._note_demand()

    def _leave_queue(self, queue: Queue, request: Request) -> None:
        """Update the counts for a request that has been taken out of its queue."""
        queue.waiting_work = queue.waiting_work - request.work if queue.waiting else 0.0
        queue.waiting_seats -= request.seats
        if not queue.waiting:
            del self._non_empty[queue]
        self.waiting -= 1
        self.waiting_seats -= request.seats
        statistics = request.flow.statistics
        statistics.waiting -= 1
        statistics.waiting_seats -= request.seats

    def _start_waiting(self, now: float) -> None:
        """Start as many waiting requests as may begin."""
        while (queue := self._next()) is not None:
            request = queue.waiting.popleft()
            assert request.arrived_at is not None
            self._leave_queue(queue, request)
            if queue in self._non_empty:
                # Of queues that are equally due, the others are before it.
                del self._non_empty[queue]
                self._non_empty[queue] = None
            self.dispatch_progress, self.dispatch_start = self.progress, queue.next_start
            request.flow.statistics.waits.observe(now - request.arrived_at)
            self._start_from(queue, request, now)
            queue.bound()
            if request.on_start is not None:
                request.on_start()

    def _next(self) -> Queue | None:
        """Returns the queue whose first request begins next; None if there is none, or it waits for seats."""
        if not (self.waiting and self.seats_in_use < self.limit):
            return None
        # Flows that have to give seats back first. None of their later requests goes before the one that is
        # due: a wide one would wait for ever.
        too_much: set[int] = set()
        while True:
            found, least = None, math.inf
            for queue in self._non_empty:
                request = queue.waiting[0]
                end = queue.next_start + request.work
                if end < least and request.flow.hash not in too_much:
                    found, least = queue, end
            if found is None:
                return None
            request = found.waiting[0]
            if not self._exceeds_share(request):
                # It waits until it fits: narrower ones would keep it waiting for ever.
                return found if self._fits(request.seats) else None
            too_much.add(request.flow.hash)

    def _start_from(self, queue: Queue, request: Request, now: float) -> None:
        if request.seats > self.limit:
            request.estimate = request.estimate.within(self.limit)
            request.seats = request.estimate.seats_max
        self._charge(queue, request)
        self._start(request, now)

    def _charge(self, queue: Queue, request: Request) -> None:
        """Charge a request that begins to its queue and its flow."""
        estimate = request.estimate
        queue.next_start += estimate.seats * SERVICE_S + estimate.final_seats * estimate.lingers_s
        queue.executing += 1
        queue.seats_in_use += request.seats
        request.queue = queue
        flow = request.flow.hash
        self._seats_of[flow] = self._seats_of.get(flow, 0) + request.seats

    def _start(self, request: Request, now: float) -> None:
        request.started_at = now
        self.executing[request] = None
        self.seats_in_use += request.seats
        self._note_demand()

    def _note_demand(self) -> None:
        wanted = self.seats_in_use + self.waiting_seats
        if wanted > self.usage.high:
            self.usage.high = wanted

    def _give_back(self, request: Request, now: float) -> None:
        """Release the seats of a request, while the level is busy."""
        queue = request.queue
        if queue is not None:
            queue.seats_in_use -= request.seats
            flow, seats_of = request.flow.hash, self._seats_of
            held = seats_of[flow] - request.seats
            if held:
                seats_of[flow] = held
            else:
                del seats_of[flow]
            self._drop_if_empty(queue)
        self._start_waiting(now)
        # Long before it would be busy again: otherwise it would be all the time.
        if not self.waiting and self.seats_in_use <= self._calm_max // 2:
            self._become_calm()

    def _drop_if_empty(self, queue: Queue) -> None:
        if not (queue.seats_in_use or queue.waiting):
            del self._queues[queue.index]

    def _refuse(self, request: Request, reason: str) -> str:
        self.rejected += 1
        request.flow.statistics.rejected[reason] += 1
        return reason


def _calm_max(rules: QueueRules, limit: int) -> float:
    """Returns the number of seats that may be in use in a calm level."""
    return math.inf if rules.is_exempt else int(limit * CALM_PART)
