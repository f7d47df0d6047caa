"""A line about a stall says which call it was, in words that cannot forge lines."""

from __future__ import annotations

import asyncio
import threading
from typing import Final

import pytest
from aiohttp.test_utils import make_mocked_request

from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.calls_under_way import CallsUnderWay
from apiserver.endpoints.request_info import parse_target
from tests.support.in_process import resource
from tests.unit.endpoints.handlers import calls

PODS: Final = "/api/v1/namespaces/a/pods"
CALLS: Final[dict[str, tuple[str, str, str]]] = {
    "a list": ("GET", PODS, "list pods"),
    "a subresource": ("PATCH", f"{PODS}/a/status", "patch pods/status"),
    "a path": ("GET", "/metrics", "GET /metrics"),
    "a path that forges lines": ("GET", "/a%0Ab", r"GET /a\nb"),
    "a long path": ("GET", "/" + "a" * 1000, "GET /" + "a" * 99),
}


def call(method: str, path: str) -> ApiCall:
    info = parse_target(method, path, False)
    made = calls.made(make_mocked_request(method, path), info)
    if info.is_resource:
        made.found_resource = resource("pods", "")
    return made


async def asked_about(calls: CallsUnderWay, *under_way: ApiCall) -> str:
    """Returns what is told of the task that runs now, whose call is the last of those."""
    others = [asyncio.create_task(asyncio.sleep(0)) for _ in under_way[1:]]
    task = asyncio.current_task()
    assert task is not None
    calls.tasks.update(zip(under_way, [*others, task], strict=True))
    told = calls.operation_of(task)
    await asyncio.gather(*others)
    return told


@pytest.mark.parametrize(("method", "path", "expected"), CALLS.values(), ids=CALLS)
async def test_the_operation(method: str, path: str, expected: str) -> None:
    other = call("GET", "/other")
    assert await asked_about(CallsUnderWay(), other, call(method, path)) == expected


async def test_a_task_without_a_call() -> None:
    calls = CallsUnderWay()
    calls.tasks[call("GET", PODS)] = asyncio.create_task(asyncio.sleep(0))
    task = asyncio.current_task()
    assert task is not None
    assert calls.operation_of(task) == ""


async def test_calls_may_come_and_go_meanwhile() -> None:
    """It is asked on another thread: nothing may be raised there."""
    calls = CallsUnderWay()
    task = asyncio.current_task()
    assert task is not None
    ends = threading.Event()

    def come_and_go() -> None:
        made = [call("GET", PODS) for _ in range(100)]
        while not ends.is_set():
            calls.tasks.update(dict.fromkeys(made))
            calls.tasks.clear()

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        assert {calls.operation_of(task) for _ in range(20_000)} == {""}
    finally:
        ends.set()
        thread.join()
