"""Calls that are late, and those that only a long turn of the event loop makes look so."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from apiserver.storage.etcd.call_timeouts import TICK_S, CallTimeouts
from tests.support.eventually import eventually

PATIENCE_S: Final = 0.2


async def test_a_call_is_late_once_after_its_time() -> None:
    calls, late = CallTimeouts(), list[str]()
    began = time.monotonic()
    calls.add(2 * PATIENCE_S, lambda: late.append("second"))
    calls.add(PATIENCE_S, lambda: late.append("first"))
    calls.discard(calls.add(PATIENCE_S, lambda: late.append("one that has ended")))
    await eventually(lambda: "second" in late)
    assert late == ["first", "second"]
    assert time.monotonic() - began >= 2 * PATIENCE_S


async def test_a_long_turn_of_the_event_loop_makes_no_call_late() -> None:
    calls, late = CallTimeouts(), list[str]()
    call = calls.add(PATIENCE_S, lambda: late.append("the call"))
    await asyncio.sleep(TICK_S / 2)
    time.sleep(2 * PATIENCE_S)
    # Its response is read in one of these turns.
    for _ in range(3):
        await asyncio.sleep(0)
    calls.discard(call)
    await asyncio.sleep(3 * TICK_S)
    assert late == []


async def test_a_call_after_a_pause_without_calls_has_its_time() -> None:
    calls, late = CallTimeouts(), list[str]()
    calls.discard(calls.add(PATIENCE_S, lambda: late.append("one that has ended")))
    await asyncio.sleep(3 * TICK_S)
    calls.add(10 * PATIENCE_S, lambda: late.append("the call"))
    await asyncio.sleep(3 * TICK_S)
    assert late == []
