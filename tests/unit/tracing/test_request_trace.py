"""The timed parts of a request: what is kept of them, and how a log line shows them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from apiserver.tracing.request_trace import (
    CURRENT_TRACE,
    LOGGED_PARTS_MAX,
    LONG_RUNNING_PARTS_MAX,
    PARTS_MAX,
    Part,
    RequestTrace,
    covered_s,
    current,
    delayed,
    no_request,
    record,
    traced,
)


@pytest.fixture
def trace() -> Iterator[RequestTrace]:
    trace = RequestTrace("some-id")
    token = CURRENT_TRACE.set(trace)
    yield trace
    CURRENT_TRACE.reset(token)


@pytest.mark.parametrize(
    ("spans", "seconds"),
    [
        ([], 0),
        ([(0, 1)], 1),
        ([(0, 1), (2, 4)], 3),
        ([(0, 4), (1, 2)], 4),  # one within the other
        ([(1, 2), (0, 4), (3, 5)], 5),  # in any order, and overlapping
        ([(0, 1), (0, 1), (1, 2)], 2),
    ],
)
def test_time_that_is_in_several_parts_counts_once(spans: list[tuple[float, float]], seconds: float) -> None:
    assert covered_s([Part("a", "", began, ended) for began, ended in spans]) == seconds


def test_a_line_names_the_longest_parts_and_the_rest(trace: RequestTrace) -> None:
    trace.parts = [
        Part("authentication", "", 0, 0.0001),  # too short to be named
        Part("webhook", "hook.example.com/x", 0.1, 0.6),
        Part("storage update", "configmaps", 0.7, 0.72),
    ]
    assert trace.describe(1.0) == (
        "webhook (hook.example.com/x) 500 ms, storage update (configmaps) 20 ms, other 480 ms"
    )


def test_a_line_has_a_bounded_number_of_parts(trace: RequestTrace) -> None:
    trace.parts = [Part(f"p{n}", "", n, n + 0.1 + n / 1000) for n in range(50)]
    shown = trace.describe(50).split(", ")
    assert [each.split()[0] for each in shown] == [
        *(f"p{n}" for n in range(50 - LOGGED_PARTS_MAX, 50)),
        "other",
    ]


@pytest.mark.parametrize(("is_long_running", "most"), [(False, PARTS_MAX), (True, LONG_RUNNING_PARTS_MAX)])
def test_parts_beyond_the_bound_are_counted(is_long_running: bool, most: int) -> None:
    trace = RequestTrace("", is_long_running=is_long_running)
    for _ in range(most + 3):
        trace.add("storage delete", 0.0, "pods")
    assert (len(trace.parts), trace.omitted) == (most, 3)
    assert ", 3 more parts, other " in trace.describe(1.0)


def test_logs_have_a_bounded_part_of_an_audit_id_that_a_client_chose() -> None:
    assert RequestTrace("a" * 10_000).audit_id == "a" * 64


async def test_tasks_of_a_request_record_in_its_trace(trace: RequestTrace) -> None:
    async def deletes(name: str) -> None:
        record("storage delete", time.perf_counter(), name)

    await asyncio.gather(deletes("a"), deletes("b"))
    assert [detail for _, detail, *_ in trace.parts] == ["a", "b"]


async def test_a_part_is_recorded_however_it_ends(trace: RequestTrace) -> None:
    async def fails() -> None:
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        await traced("queue", fails())
    assert [name for name, *_ in trace.parts] == ["queue"]


def test_nothing_is_recorded_outside_of_requests() -> None:
    assert current() is None
    record("storage list", time.perf_counter())


async def test_what_a_request_has_begun_does_not_belong_to_it_after_its_end(trace: RequestTrace) -> None:
    """Timers and tasks keep the context in which they were made, some for as long as the server runs."""
    has_ended = asyncio.Event()

    async def goes_on() -> RequestTrace | None:
        await has_ended.wait()
        record("storage list", time.perf_counter())
        return current()

    going_on = asyncio.create_task(goes_on())
    await asyncio.sleep(0)
    trace.is_ended = True
    has_ended.set()
    assert (await going_on, trace.parts) == (None, [])


@pytest.mark.usefixtures("trace")
async def test_what_requests_share_belongs_to_none() -> None:
    loop = asyncio.get_running_loop()
    seen: asyncio.Future[RequestTrace | None] = loop.create_future()
    loop.call_soon(lambda: seen.set_result(current()), context=no_request())
    assert await seen is None


async def test_time_that_the_server_makes_the_client_wait_is_known(trace: RequestTrace) -> None:
    await delayed(asyncio.sleep(0.01))
    assert trace.delayed_s >= 0.01
