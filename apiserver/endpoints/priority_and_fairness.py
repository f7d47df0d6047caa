"""Implements API Priority and Fairness: each request waits for its seats, or is refused.

`endpoints.flowcontrol` decides; this module has the part that needs an event loop. A request is classified
before it is authorized, so that every response after authentication names its flow, and takes its seats where
others take a slot (`request_slots`): a read at once, a write when its body has arrived. It gives them back
when its response is made; a watch when its initial events are.

Source: k8s.io/apiserver, pkg/server/filters/priority-and-fairness.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from time import monotonic, time
from typing import Final

from apiserver.endpoints.api_call import ApiCall, Handler, Middleware
from apiserver.endpoints.flowcontrol import dumps
from apiserver.endpoints.flowcontrol.flow_control import ADJUST_EVERY_S, Flow, FlowControl
from apiserver.endpoints.flowcontrol.flow_statistics import FlowStatistics
from apiserver.endpoints.flowcontrol.priority_levels import PriorityLevel
from apiserver.endpoints.flowcontrol.queue_set import CANCELLED, TIME_OUT, QueueSet, Request
from apiserver.endpoints.flowcontrol.request_kinds import OBSERVE_KINDS_EVERY_S
from apiserver.endpoints.flowcontrol.watch_counts import INDEXED_FIELDS, WatchCounts
from apiserver.endpoints.flowcontrol.work_estimates import (
    ONE_SEAT,
    WATCHED_VERBS,
    ListSize,
    ResourceSize,
    SizeOf,
    WorkEstimate,
    has_initial_state,
    list_estimate,
    write_estimate,
)
from apiserver.endpoints.request_info import READ_VERBS, selected_name, selected_value
from apiserver.endpoints.request_slots import RequestSlot, Slot, SlotLimit
from apiserver.endpoints.responses import TEXT, send_text
from apiserver.load.size_class import SizeClass
from apiserver.load.user_shares import SharedPool, holder_of
from apiserver.meta.errors import TooManyRequests
from apiserver.meta.vocabulary import SYSTEM_MASTERS, Query, RequestInfo
from apiserver.metrics.requests import RequestCount

# A request waits for its seats for this part of the time that it has, and no longer than the most.
WAIT_PART: Final = 1 / 4
WAIT_MAX_S: Final = 60.0
# Limits the requests that wait for webhooks without their seats. Each holds a small object; large bodies have
# separate limits (`body_limits`). Users share these places, and keep their seats if they have used their
# share.
PAUSED_MAX: Final = 2_048
_DUMPS: Final = "debug/api_priority_and_fairness/"


class Fairness:
    """Queues the requests of a server by their flows.

    size_of: returns how much there is to list.
    request_timeout_s: how long a request without a timeout parameter may take.
    """

    def __init__(
        self,
        control: FlowControl,
        size_of: SizeOf,
        loop: asyncio.AbstractEventLoop,
        *,
        request_timeout_s: float,
    ) -> None:
        self.control = control
        self._size_of = size_of
        self.loop = loop
        self._request_timeout_s = request_timeout_s
        self._watches = WatchCounts()
        self.paused = SharedPool(PAUSED_MAX)

    def seats_of(self, call: ApiCall, limit: SlotLimit) -> RequestSlot:
        """Returns the seats of a request, none of which are taken yet."""
        flow, user = call.flow, call.user
        assert flow is not None
        if flow.is_exempt and SYSTEM_MASTERS not in user.groups:
            return Seats(self, call, flow, None, Slot(limit, user, call.info))
        return Seats(self, call, flow, limit.in_flight)

    async def run(self) -> None:
        """Move seats between levels until cancelled."""
        control = self.control
        adjust_at = monotonic() + ADJUST_EVERY_S
        while True:
            await asyncio.sleep(OBSERVE_KINDS_EVERY_S)
            now = monotonic()
            control.kinds.observe(now)
            if now >= adjust_at:
                adjust_at = now + ADJUST_EVERY_S
                control.adjust(now)

    def classify(self) -> Middleware:
        """Finds the flow of each request, and adds it to the response; forwarded requests have none."""
        control = self.control

        def middleware(handle: Handler) -> Handler:
            # Not a coroutine: every request only passes through.
            def classified(call: ApiCall) -> Awaitable[None]:
                info = call.info
                if not info.is_long_running or info.verb == "watch":
                    flow = call.flow = control.classify(call.user, info)
                    call.head_lines += flow.head
                return handle(call)

            return classified

        return middleware

    def limit_watches(self, handle: Handler) -> Handler:
        """Makes watches wait for their seats, which they release once they have begun.

        Until then they count as reads in flight.
        """
        reads = self.control.kinds.reads.in_flight

        async def watch(call: ApiCall) -> None:
            assert call.flow is not None
            seats = call.slot = Seats(self, call, call.flow, reads)
            try:
                if (waiting := seats.take()) is not None:
                    await waiting
                await self._watch(call, handle)
            finally:
                seats.release()

        return watch

    async def _watch(self, call: ApiCall, handle: Handler) -> None:
        """Count a watch for as long as it is open."""
        info = call.info
        field = INDEXED_FIELDS.get(info.resource)
        if field is not None and selected_value(info, call.query, field):
            await handle(call)
            return
        name = info.name or selected_name(info, call.query)
        self._watches.add(info, name)
        try:
            await handle(call)
        finally:
            self._watches.discard(info, name)

    def estimate(self, call: ApiCall, level: PriorityLevel, statistics: FlowStatistics) -> WorkEstimate:
        """Returns the estimated work of a request."""
        info = call.info
        verb = info.verb
        if verb == "list" or verb == "watch":
            return self._list_estimate(level, info, call.query)
        if verb not in WATCHED_VERBS:
            return ONE_SEAT
        watches = self._watches.interested_in(info)
        if not watches:
            statistics.unwatched += 1
            return ONE_SEAT
        estimate = write_estimate(watches, level.request_seats_max)
        statistics.watches.observe(watches)
        return estimate

    def _list_estimate(self, level: PriorityLevel, info: RequestInfo, query: Query) -> WorkEstimate:
        is_watch = info.verb == "watch"
        if is_watch and not has_initial_state(query):
            return ONE_SEAT
        size = self._size_of(info)
        if size is None:
            return ONE_SEAT  # It is another server's, or there is no such resource.
        is_single = bool(info.name or ("fieldSelector" in query and selected_name(info, query)))
        listed = ListSize(ResourceSize(*size), is_single)
        return list_estimate(query, listed, level.request_seats_max, is_watch=is_watch)

    def wait_limit_s(self, call: ApiCall) -> float:
        """Returns how long a request may wait for its seats."""
        allowed_s = self._request_timeout_s
        if call.deadline is not None:
            allowed_s = call.deadline - call.received_at
        return min(allowed_s * WAIT_PART, WAIT_MAX_S)

    # ---- dumps

    @property
    def dump_handlers(self) -> dict[str, Handler]:
        """The handlers of debugging tables, by their paths."""
        return {
            f"{_DUMPS}dump_priority_levels": self._dump_levels,
            f"{_DUMPS}dump_queues": self._dump_queues,
            f"{_DUMPS}dump_requests": self._dump_requests,
        }

    async def _dump_levels(self, call: ApiCall) -> None:
        await _send_table(call, dumps.level_table(self.control))

    async def _dump_queues(self, call: ApiCall) -> None:
        await _send_table(call, dumps.queue_table(self.control))

    async def _dump_requests(self, call: ApiCall) -> None:
        with_details = bool(call.query.get("includeRequestDetails", [""])[0])
        clocks = dumps.Clocks(monotonic(), time())
        await _send_table(call, dumps.request_table(self.control, clocks, with_details=with_details))


async def _send_table(call: ApiCall, lines: dumps.Lines) -> None:
    """Write a table in another thread, as there may be ten thousand requests."""
    text = await call.offload.run(SizeClass.HUGE, "".join, lines)
    await send_text(call, [text.encode()], TEXT)


class Seats(Request):
    """The seats of one request, which it takes instead of a slot.

    It refers to its call until it is released, so that no cycle is left to the garbage collector.
    in_flight: counts requests of its kind; None if `slot` does.
    slot: the slot that a request of the exempt level takes beside its seats.
    """

    __slots__ = ("_call", "_fairness", "_in_flight", "_is_paused", "_level", "_pauses", "_slot")

    def __init__(
        self,
        fairness: Fairness,
        call: ApiCall,
        flow: Flow,
        in_flight: RequestCount | None,
        slot: Slot | None = None,
    ) -> None:
        super().__init__(flow, call.user, call.info)
        self._call: ApiCall | None = call  # None once it is released
        self._level = flow.level
        self._fairness, self._in_flight, self._slot = fairness, in_flight, slot
        self._pauses, self._is_paused = 0, False
        if in_flight is not None:
            in_flight.value += 1

    def take(self) -> Awaitable[None] | None:
        """Take the seats, once; returns None, or an awaitable that ends when they are taken.

        Raises TooManyRequests, as the awaitable does.
        """
        call = self._call
        if self.arrived_at is not None or call is None:
            return None
        if self._slot is not None:
            self._slot.take()
        if self._level.is_gone:
            self._classify_again(call)
        if self.target.verb != "get":
            self._estimate(call)
        if self._level.queue_set.arrive(self, monotonic()):
            raise self._refusal()
        if self.started_at is None:
            return self._wait(call)
        if self._pauses:
            self._begin_pause()
        return None

    def _classify_again(self, call: ApiCall) -> None:
        """Classify a request again, because its priority level was removed while its body was read.

        Source: k8s.io/apiserver, pkg/util/flowcontrol/apf_controller.go, startRequest.
        """
        before = self.flow
        assert isinstance(before, Flow)
        flow = self.flow = call.flow = self._fairness.control.classify(self.user, call.info)
        self._level = flow.level
        call.head_lines = call.head_lines.replace(before.head, flow.head)

    async def _wait(self, call: ApiCall) -> None:
        """Wait for the seats."""
        fairness, queue_set = self._fairness, self._level.queue_set
        kinds = fairness.control.kinds
        kind = kinds.reads if self.target.verb in READ_VERBS else kinds.writes
        decided: asyncio.Future[None] = fairness.loop.create_future()

        def decide() -> None:
            if not decided.done():
                decided.set_result(None)

        self.on_start = decide
        timer = fairness.loop.call_later(fairness.wait_limit_s(call), decide)
        kind.waiting += 1
        reason, began = CANCELLED, monotonic()
        try:
            await decided
            reason = TIME_OUT
        finally:
            timer.cancel()
            call.waited_s += monotonic() - began
            self.on_start = None
            kind.waiting -= 1
            # Otherwise it has begun, perhaps in the moment in which the client has gone: then it is released
            # at once.
            if self.started_at is None:
                queue_set.give_up(self, reason, monotonic())
        if self.started_at is None:
            raise self._refusal()
        if self._pauses:
            self._begin_pause()

    def _estimate(self, call: ApiCall) -> None:
        estimate = self._fairness.estimate(call, self._level, self.flow.statistics)
        if estimate is not ONE_SEAT:
            self.estimate, self.seats = estimate, estimate.seats_max

    def _refusal(self) -> TooManyRequests:
        return TooManyRequests(retry_after_s=self._level.retry_after.refused(int(monotonic())))

    def pause(self) -> None:
        self._pauses += 1
        if self._pauses == 1 and self.started_at is not None:
            self._begin_pause()

    def _begin_pause(self) -> None:
        if self._call is None or not self._fairness.paused.take(holder_of(self.user)):
            return
        self._is_paused = True
        self._level.queue_set.pause(self, monotonic())

    def resume(self) -> None:
        self._pauses -= 1
        if not self._pauses and self._is_paused:
            self._end_pause()

    def _end_pause(self) -> None:
        self._is_paused = False
        self._fairness.paused.give_back(holder_of(self.user))
        self._level.queue_set.resume(self, monotonic())

    def release(self) -> None:
        """Release the seats; may be called again."""
        if self._call is None:
            return
        self._call = None
        if self._is_paused:  # Its answer is made, or its client has gone.
            self._end_pause()
        if self._in_flight is not None:
            self._in_flight.value -= 1
        elif self._slot is not None:
            self._slot.release()
        if self.started_at is None:
            return
        lingers_s = self._level.queue_set.finish(self, monotonic())
        if lingers_s:
            self._fairness.loop.call_later(lingers_s, _leave, self._level.queue_set, self)


def _leave(queue_set: QueueSet, request: Request) -> None:
    queue_set.leave(request, monotonic())
