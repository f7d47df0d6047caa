"""The profiles that a server makes, one at a time."""

from __future__ import annotations

import asyncio
import threading

import pytest
from aiohttp.test_utils import make_mocked_request

from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.profiles import Profiles
from apiserver.endpoints.request_info import PROFILES_PREFIX, parse_target
from apiserver.meta.errors import ServiceUnavailable
from apiserver.metrics.event_loop import EventLoopMonitor
from tests.support.eventually import WITHIN_S, eventually
from tests.unit.endpoints.handlers import calls


def call(method: str = "GET") -> ApiCall:
    path = f"{PROFILES_PREFIX}heap"
    info = parse_target(method, path, False)
    return calls.made(make_mocked_request(method, path), info)


class Heap:
    """A profile that is made until it is allowed to end."""

    def __init__(self) -> None:
        self.began, self.ends = threading.Event(), threading.Event()

    def count_objects(self) -> str:
        self.began.set()
        assert self.ends.wait(WITHIN_S)
        return "objects"


async def test_profiles_are_refused_until_the_thread_of_one_has_ended() -> None:
    """Also once its client is gone: a thread that computes cannot be cancelled."""
    heap, loop = Heap(), asyncio.get_running_loop()
    profiles = Profiles(loop, EventLoopMonitor(loop), heap.count_objects)
    first = asyncio.create_task(profiles.text(call(), "heap"))
    await eventually(heap.began.is_set)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    for method in ("GET", "HEAD"):
        with pytest.raises(ServiceUnavailable):
            await profiles.text(call(method), "tasks")
    heap.ends.set()

    async with asyncio.timeout(WITHIN_S):
        while True:
            try:
                text = await profiles.text(call(), "heap")
                break
            except ServiceUnavailable:
                await asyncio.sleep(0.01)
    assert text == "objects"


async def test_head_makes_no_profile() -> None:
    heap, loop = Heap(), asyncio.get_running_loop()
    profiles = Profiles(loop, EventLoopMonitor(loop), heap.count_objects)
    assert await profiles.text(call("HEAD"), "heap") == ""
    assert not heap.began.is_set()
