"""Requests that wait for their seats, as the event loop has them."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Final

from apiserver.catalogue.flowcontrol.defaults import FLOW_SCHEMAS, PRIORITY_LEVELS
from apiserver.catalogue.flowcontrol.flow_schemas import MANDATORY_FLOW_SCHEMAS
from apiserver.catalogue.flowcontrol.priority_level_configurations import MANDATORY_PRIORITY_LEVELS
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.priority_and_fairness import Fairness
from apiserver.endpoints.request_info import parse_query, parse_target
from apiserver.flowcontrol.flow_control import FlowControl
from apiserver.flowcontrol.flow_schemas import FlowSchema
from apiserver.flowcontrol.priority_levels import LevelSpec
from apiserver.flowcontrol.queue_set import Request
from apiserver.metrics.requests import InFlight
from apiserver.vocabulary import AUTHENTICATED, UserInfo
from tests.unit.handlers import calls

ALICE: Final = UserInfo("alice", (AUTHENTICATED,))
TARGET: Final = "/api/v1/namespaces/a/configmaps"


def fairness(in_flight: InFlight) -> Fairness:
    now = monotonic()
    levels, schemas = (
        [{"metadata": {"name": name}, "spec": spec} for name, spec in specs.items()]
        for specs in (
            {**PRIORITY_LEVELS, **MANDATORY_PRIORITY_LEVELS},
            {**FLOW_SCHEMAS, **MANDATORY_FLOW_SCHEMAS},
        )
    )
    specs, found = [LevelSpec.of(each) for each in levels], [FlowSchema.of(each) for each in schemas]
    control = FlowControl(600, specs, found, in_flight, now)
    return Fairness(control, lambda _: None, asyncio.get_running_loop(), request_timeout_s=60.0)


def watch(of: Fairness) -> ApiCall:
    call = calls.call("GET", f"{TARGET}?watch=1&resourceVersion=5")
    call.user, call.info, call.query = ALICE, parse_target("GET", TARGET, True), parse_query("watch=1")
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
