"""Profiles of the process that runs this test."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Final

import pytest

from apiserver.metrics.event_loop import LONGEST_TURNS_KEPT, ClockReadings, EventLoopMonitor, LongTurn
from apiserver.metrics.profiles import (
    OtherThreadsSampler,
    cpu_profile,
    object_counts,
    task_counts,
    turns_text,
)
from apiserver.metrics.thread_stacks import functions_in

TEXT: Final = """\
Thread 0x00007f0000000001 [worker] (most recent call first):
  File "/srv/lib/apiserver/app/serving/tls_transport.py", line 156 in write
  File "/srv/lib/apiserver/app/server.py", line 12 in run
  File "/usr/lib/python3.11/asyncio/runners.py", line 118 in run

Current thread 0x00007f0000000004 (most recent call first):
  <no Python frame>
"""


def test_the_functions_of_threads() -> None:
    assert functions_in(TEXT, "/srv/lib/") == {
        0x7F0000000001: [
            "asyncio.runners:run",
            "apiserver.app.server:run",
            "apiserver.app.serving.tls_transport:write",
        ],
        0x7F0000000004: [],
    }


def burn(is_ended: Callable[[], bool]) -> None:
    while not is_ended():
        sum(range(1_000))


def us_of(text: str, thread: str, function: str) -> int:
    """Returns the microseconds of the stacks of a thread that contain a function."""
    found = 0
    for line in text.splitlines():
        stack, microseconds = line.rsplit(" ", 1)
        name, *functions = stack.split(";")
        if name == thread and any(each.endswith(f":{function}") for each in functions):
            found += int(microseconds)
    return found


async def test_cpu_time_of_threads_is_charged_to_the_stacks_that_use_it() -> None:
    ended = threading.Event()
    threads = [
        threading.Thread(target=burn, args=(ended.is_set,), name="busy; one"),
        threading.Thread(target=ended.wait, name="idle"),
    ]
    for thread in threads:
        thread.start()
    try:
        began = time.process_time()
        text = await cpu_profile(0.5, threading.Event())
        used_us = (time.process_time() - began) * 1e6
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert 0.3 * used_us < us_of(text, "busy,_one", "burn") <= 1.1 * used_us
    assert "idle;" not in text


async def test_the_main_thread_is_sampled_where_it_computes() -> None:
    profiling = asyncio.create_task(cpu_profile(0.5, threading.Event()))
    began = time.thread_time()
    while not profiling.done():
        until = time.monotonic() + 0.002
        burn(lambda: time.monotonic() > until)  # noqa: B023  called at once
        await asyncio.sleep(0)
    used_us = (time.thread_time() - began) * 1e6
    assert 0.5 * used_us < us_of(profiling.result(), "MainThread", "burn") <= 1.1 * used_us
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)


async def test_a_cpu_profile_ends_early_when_its_client_is_gone() -> None:
    profiling = asyncio.create_task(cpu_profile(60, threading.Event()))
    await asyncio.sleep(0.05)
    profiling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await profiling
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)
    os.kill(os.getpid(), signal.SIGPROF)  # A late signal ends nothing.


async def test_a_cpu_profile_that_ends_early_contains_the_time_until_then() -> None:
    ended = threading.Event()
    profiling = asyncio.create_task(cpu_profile(60, ended))
    await asyncio.sleep(0)
    began = time.thread_time()
    burn(lambda: time.thread_time() - began > 0.1)
    ended.set()
    assert us_of(await profiling, "MainThread", "burn") > 0


class Threads:
    """Two threads. Each reading of their stacks takes 2 ms."""

    def __init__(self) -> None:
        self.used_s, self.now, self.own_cpu_s, self.readings = [0.0, 0.0], 0.0, 0.0, 0

    def clocks(self) -> dict[int, tuple[str, float]]:
        return {0: ("one", self.used_s[0]), 1: ("two", self.used_s[1])}

    def stacks(self) -> dict[int, list[str]]:
        self.readings += 1
        self.own_cpu_s += 0.002
        return {0: [f"reading {self.readings}"]}

    def sampler(self) -> OtherThreadsSampler:
        return OtherThreadsSampler(self.stacks, self.clocks, lambda: self.now, lambda: self.own_cpu_s)


def test_stacks_are_not_read_while_threads_are_idle() -> None:
    """What they use then is charged later."""
    threads = Threads()
    sampler = threads.sampler()
    for _ in range(3):
        threads.used_s[0] += 0.0002
        threads.used_s[1] += 0.0001
        sampler.sample(is_last=False)
    assert threads.readings == 0
    threads.used_s[0] += 0.0002
    sampler.sample(is_last=False)
    assert sampler.used_by == pytest.approx({("one", "reading 1"): 0.0008, ("two",): 0.0003})


def test_stacks_are_read_at_intervals_of_20_times_their_cost() -> None:
    threads = Threads()
    sampler = threads.sampler()
    for _ in range(11):
        threads.now += 0.01
        threads.used_s[0] += 0.01
        sampler.sample(is_last=False)
    assert threads.readings == 3
    threads.used_s[0] += 0.01
    sampler.sample(is_last=True)  # at once
    assert sampler.used_by == pytest.approx(
        {("one", "reading 1"): 0.01, ("one", "reading 2"): 0.04, ("one", "reading 3"): 0.04}
        | {("one", "reading 4"): 0.03}
    )


class Kept:
    """An object of this test."""

    def __init__(self) -> None:
        self.itself = self


def test_objects_are_counted_by_type() -> None:
    kept = [Kept() for _ in range(1_234)]
    text = object_counts()
    (line,) = (line for line in text.splitlines() if line.endswith(f"{__name__}.Kept"))
    count, size, _ = line.split()
    assert (int(count), int(size) % 1_234) == (len(kept), 0)


async def test_tasks_are_counted_by_where_they_wait() -> None:
    ended = asyncio.Event()

    async def inner() -> None:
        await ended.wait()

    async def outer() -> None:
        await inner()

    tasks = [asyncio.create_task(outer()) for _ in range(3)]
    await asyncio.sleep(0)
    text = await task_counts(asyncio.get_running_loop())
    ended.set()
    await asyncio.gather(*tasks)
    (line,) = (line for line in text.splitlines() if ".outer" in line)
    count, where = line.strip().split(" ", 1)
    assert count == "3"
    assert ".<locals>.outer at asyncio.locks:Event.wait:" in where
    assert text.startswith("# 4 tasks\n")


def test_long_turns_are_lines() -> None:
    turns = [
        LongTurn(ClockReadings(0.25, 0.2, 0.1), 0.5, ("GET /a in b:c:1", "GET /d in e:f:2")),
        LongTurn(ClockReadings(0.01, 0.01, 0.01), 1.5, ()),
    ]
    assert turns_text(turns) == (
        "elapsed ms  thread ms process ms ended                    operations\n"
        "     250.0      100.0      200.0 1970-01-01T00:00:00.500Z GET /a in b:c:1, then GET /d in e:f:2\n"
        "      10.0       10.0       10.0 1970-01-01T00:00:01.500Z unknown operation\n"
    )


async def test_the_longest_turns_are_kept() -> None:
    """Longer ones push out shorter ones."""
    monitor = EventLoopMonitor(asyncio.get_running_loop())
    monitor.start()
    try:
        for number in range(LONGEST_TURNS_KEPT + 5):
            monitor.wake()
            time.sleep(0.012 if number < 5 else 0.03)
            await asyncio.sleep(0.006)
        longest = [turn.took.wall for turn in monitor.longest_turns()]
    finally:
        monitor.close()
    assert len(longest) == LONGEST_TURNS_KEPT
    assert longest == sorted(longest, reverse=True)
    assert longest[-1] > 0.024
