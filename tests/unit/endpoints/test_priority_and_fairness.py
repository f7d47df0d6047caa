"""Requests that wait for their seats, as the event loop has them."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Final

from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.flowcontrol.flow_control import Flow
from apiserver.endpoints.flowcontrol.queue_set import Request
from apiserver.endpoints.priority_and_fairness import Fairness, Seats
from apiserver.endpoints.request_info import parse_query, parse_target
from apiserver.meta.vocabulary import AUTHENTICATED, UserInfo
from apiserver.metrics.requests import InFlight
from tests.unit.endpoints.flowcontrol.support import LEVELS, SCHEMAS, mandatory_only
from tests.unit.endpoints.handlers import calls

ALICE: Final = UserInfo("alice", (AUTHENTICATED,))
TARGET: Final = "/api/v1/namespaces/a/configmaps"


def fairness(in_flight: InFlight) -> Fairness:
    control = mandatory_only(in_flight, monotonic())
    control.configure(LEVELS, SCHEMAS, monotonic())
    return Fairness(control, lambda _: None, asyncio.get_running_loop(), request_timeout_s=60.0)


def write(of: Fairness) -> tuple[ApiCall, Flow]:
    """Returns a write that has been classified, and its flow."""
    call = calls.call("POST", TARGET)
    call.set_user(ALICE)
    call.flow = of.control.classify(ALICE, call.info)
    return call, call.flow


def watch(of: Fairness) -> ApiCall:
    call = calls.call("GET", f"{TARGET}?watch=1&resourceVersion=5")
    call.set_user(ALICE)
    call.info, call.query = parse_target("GET", TARGET, True), parse_query("watch=1")
    call.flow = of.control.classify(call.user, call.info)
    return call


async def test_a_watch_is_a_read_in_flight_until_it_has_begun() -> None:
    """Otherwise there would be fewer reads under way than none, while watches wait."""
    in_flight = InFlight()
    of = fairness(in_flight)
    call, has_begun, may_end = watch(of), asyncio.Event(), asyncio.Event()
    assert call.flow is not None
    queue_set = call.flow.level.queue_set
    others = [Request(call.flow, ALICE, call.info) for _ in range(queue_set.limit)]
    for each in others:
        queue_set.arrive(each, monotonic())

    async def handle(call: ApiCall) -> None:
        call.release_slot()
        has_begun.set()
        await may_end.wait()

    watching = asyncio.ensure_future(of.limit_watches(handle)(call))
    await asyncio.sleep(0)
    reads = of.control.kinds.reads
    assert (reads.waiting, in_flight.read_only.value) == (1, 1)
    for each in others:
        if not each.is_waiting:
            queue_set.finish(each, monotonic())
    await has_begun.wait()
    assert (reads.waiting, in_flight.read_only.value) == (0, 0)
    may_end.set()
    await watching
    assert in_flight.read_only.value == 0


async def test_a_watch_whose_client_goes_while_it_waits_leaves_nothing() -> None:
    in_flight = InFlight()
    of = fairness(in_flight)
    call = watch(of)
    assert call.flow is not None
    queue_set = call.flow.level.queue_set
    for _ in range(queue_set.limit):
        queue_set.arrive(Request(call.flow, ALICE, call.info), monotonic())
    before = queue_set.waiting

    async def handle(_: ApiCall) -> None:
        raise AssertionError

    watching = asyncio.ensure_future(of.limit_watches(handle)(call))
    await asyncio.sleep(0)
    assert queue_set.waiting == before + 1
    watching.cancel()
    await asyncio.wait([watching])
    assert watching.cancelled()
    assert (queue_set.waiting, queue_set.cancelled) == (before, 1)
    assert (of.control.kinds.reads.waiting, in_flight.read_only.value) == (0, 0)


async def test_a_request_whose_level_ends_before_its_body_is_there_takes_seats_of_another() -> None:
    in_flight = InFlight()
    of = fairness(in_flight)
    call, flow = write(of)
    assert flow.level.name == "global-default"
    call.head_lines = b"Other: line\r\n" + flow.head
    seats = Seats(of, call, flow, in_flight.mutating)
    of.control.configure((), (), monotonic())  # Only the mandatory ones are left.
    assert seats.take() is None
    assert not flow.level.queue_set.executing
    catch_all = of.control.levels["catch-all"]
    assert list(catch_all.queue_set.executing) == [seats]
    assert call.flow is not None
    assert call.flow is not flow
    assert call.head_lines == b"Other: line\r\n" + call.flow.head
    seats.release()
    assert catch_all.queue_set.is_idle
    assert in_flight.mutating.value == 0


async def test_a_request_stays_in_its_deleted_level_while_others_use_that() -> None:
    """It ends when they have."""
    in_flight = InFlight()
    of = fairness(in_flight)
    call, flow = write(of)
    other = Request(flow, ALICE, call.info)
    flow.level.queue_set.arrive(other, monotonic())
    seats = Seats(of, call, flow, in_flight.mutating)
    of.control.configure((), (), monotonic())
    assert seats.take() is None
    assert list(flow.level.queue_set.executing) == [other, seats]
    seats.release()


async def post(of: Fairness, in_flight: InFlight) -> tuple[ApiCall, Seats]:
    """A write that has its seats."""
    call, flow = write(of)
    seats = call.slot = Seats(of, call, flow, in_flight.mutating)
    await call.take_slot()
    return call, seats


async def test_a_request_that_waits_for_webhooks_has_no_seats() -> None:
    """Waits may overlap; what ends the request ends them."""
    in_flight = InFlight()
    of = fairness(in_flight)
    call, seats = await post(of, in_flight)
    assert call.flow is not None
    queue_set = call.flow.level.queue_set
    with call.without_slot():
        with call.without_slot():
            assert (list(queue_set.executing), queue_set.paused) == ([], 1)
        assert queue_set.paused == 1
    assert (list(queue_set.executing), queue_set.paused) == ([seats], 0)
    with call.without_slot():
        seats.release()
    assert queue_set.is_idle
    assert of.paused.held(ALICE.name) == 0


async def test_a_request_that_begins_to_wait_before_its_seats_are_there_gives_them_back_at_once() -> None:
    """A write of what a webhook converts takes its seats when its body is there."""
    in_flight = InFlight()
    of = fairness(in_flight)
    call, flow = write(of)
    seats = call.slot = Seats(of, call, flow, in_flight.mutating)
    with call.without_slot():
        await call.take_slot()
        assert (list(flow.level.queue_set.executing), flow.level.queue_set.paused) == ([], 1)
    assert list(flow.level.queue_set.executing) == [seats]
    seats.release()
    assert flow.level.queue_set.is_idle


async def test_only_so_many_requests_of_a_user_wait_without_seats() -> None:
    in_flight = InFlight()
    of = fairness(in_flight)
    call, seats = await post(of, in_flight)
    assert call.flow is not None
    while of.paused.take(ALICE.name):
        pass
    with call.without_slot():
        assert list(call.flow.level.queue_set.executing) == [seats]
    seats.release()
    assert call.flow.level.queue_set.is_idle
