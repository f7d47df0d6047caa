"""Costs with many clients, watchers, objects and types. `make bench ARGS=scale`."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from operator import truediv
from pathlib import Path
from typing import Final

from apiserver.registry.stored_object import StoredObject
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.interface import Put
from apiserver.storage.watch_cache import EVERYTHING, WatchCache, Watcher
from benchmarks import load
from benchmarks.bodies import config_map
from benchmarks.fan_out import Round
from benchmarks.processes import Measured, WatchClients
from benchmarks.report import Result
from benchmarks.workloads import (
    CONFIGMAPS,
    CONNECTIONS,
    LISTED_OBJECTS,
    MIB,
    ROUNDS,
    STORED_OBJECTS,
    Settings,
    compare_get_with_bare,
    delay_result,
    etcd,
    fan_outs,
    fill,
    full_speed_result,
    make_namespace,
    rate,
    rate_on,
    server,
)
from tests.support.server_process import ServerProcess

CROWD: Final = 1_000
MANY_WATCHERS: Final = 1_000
EVENTS_PER_SECOND: Final = 100
EVENTS: Final = 100
PACED_ROUNDS: Final = 3
SINGLE_EVENTS: Final = 20
# The curves: the numbers of watchers, objects and types; and the turns of each, with their creates.
AROUND_WATCHERS: Final = (10, 100, 1_000)
AROUND_OBJECTS: Final = (1_000, 10_000, 100_000)
AROUND_TYPES: Final = (10, 100, 1_000)
TURNS: Final = 21
CREATES: Final = 200


async def scale(settings: Settings) -> AsyncIterator[Result]:
    for part in (
        _on_etcd,
        _crowd,
        _everything,
        _many_watchers,
        _watchers_around,
        _objects_around,
        _types_around,
    ):
        async for result in part(settings):
            yield result


async def _on_etcd(settings: Settings) -> AsyncIterator[Result]:
    """Consistent gets, and the time to fill the watch cache."""
    with etcd(settings) as url:
        if not url:
            yield Result("GET consistent, etcd", "/s", 0, note="NOT MEASURED: this machine has no etcd")
            return
        flag = f"--etcd-servers={url}"
        with server(settings, flag) as (_, measured):
            await fill(measured.url, "bench", STORED_OBJECTS)
            target = CONFIGMAPS.format("bench") + "/c-000001"
            yield await compare_get_with_bare(settings, measured, "GET consistent, etcd", target, 0.35)
        with tempfile.TemporaryDirectory(dir=settings.directory) as directory:
            process = ServerProcess(Path(directory) / "data", "--controllers=-*", flag)
            began = time.perf_counter()
            with process:
                seconds = time.perf_counter() - began
        yield Result(f"start to ready with {STORED_OBJECTS:,} in etcd", "s", seconds, target=4, is_bound=True)


async def _crowd(settings: Settings) -> AsyncIterator[Result]:
    """The same list for many clients at once, and selectors that look at all objects."""
    with server(settings) as (_, measured):
        await fill(measured.url, "bench", LISTED_OBJECTS)
        target = CONFIGMAPS.format("bench")
        one, cpu_us = await rate(measured, load.repeated(load.request("GET", target), for_s=1), 1)
        yield Result("LIST 5,000, one after the other", "/s", one.per_second, cpu_us=cpu_us)
        requests = (load.request("GET", target) for _ in range(CROWD))
        before = measured.memory_bytes()
        crowd, cpu_us = await rate(measured, load.each_of(requests), 250)
        yield Result(f"LIST 5,000, {CROWD:,} of them, 250 at once", "/s", crowd.per_second, cpu_us=cpu_us)
        added = (measured.memory_bytes() - before) / MIB
        yield Result("  memory that the crowd adds", "MB", added, target=64, is_bound=True)
        none = load.request("GET", f"{target}?labelSelector=tenth%3Dmaybe")
        done, cpu_us = await rate(measured, load.repeated(none, for_s=settings.seconds), 1)
        looked_at = done.per_second * LISTED_OBJECTS
        yield Result("entries that selectors look at", "/s", looked_at, 1e6, 1.0, cpu_us=cpu_us)


async def _everything(settings: Settings) -> AsyncIterator[Result]:
    """The time to the first byte of a list of 100,000."""
    with server(settings) as (_, measured):
        await fill(measured.url, "bench", STORED_OBJECTS)
        times = []
        for _ in range(3):
            reader, writer = await asyncio.open_connection(
                *load.address(measured.url), ssl=load.tls_context()
            )
            began = time.perf_counter()
            writer.write(load.request("GET", CONFIGMAPS.format("bench")))
            await reader.readexactly(1)
            times.append(time.perf_counter() - began)
            writer.transport.abort()
        yield Result(
            f"first byte of a list of {STORED_OBJECTS:,}", "ms", max(times) * 1e3, target=50, is_bound=True
        )


async def _many_watchers(settings: Settings) -> AsyncIterator[Result]:
    """At full speed, for the ratio; slowly, for the cost; then at a given rate, for the delay."""
    async with fan_outs(settings, MANY_WATCHERS) as (ours, bare):
        rounds = [(await ours.round(EVENTS), await bare.round(EVENTS)) for _ in range(ROUNDS)]
        yield full_speed_result(f"fan-out to {MANY_WATCHERS:,} watchers, full speed", rounds)
        single = [
            (await ours.round(SINGLE_EVENTS, per_second=10), await bare.round(SINGLE_EVENTS, per_second=10))
            for _ in range(PACED_ROUNDS)
        ]
        yield Result(
            "  server's CPU for a delivery, 10 writes/s",
            "us",
            statistics.median(one.cpu_us for one, _ in single),
            statistics.median(one.cpu_us for _, one in single),
            note="here every event is sent alone; at full speed ours sends several at once, bare does not",
        )
        pace, events = EVENTS_PER_SECOND, int(EVENTS_PER_SECOND * settings.seconds)
        paced = [
            (await ours.round(events, per_second=pace), await bare.round(events, per_second=pace))
            for _ in range(PACED_ROUNDS)
        ]
    # The slowest round: a delay counts only if the rate was reached.
    kept = min(one.written.per_second for one, _ in paced)
    worst, bare_worst = (
        max(side, key=lambda one: one.received.delays_s["p99"]) for side in zip(*paced, strict=True)
    )
    yield Result(
        f"fan-out to {MANY_WATCHERS:,}, {pace} writes/s: rate kept",
        *("/s", kept, pace, 0.97),
        cpu_us=worst.cpu_us * MANY_WATCHERS,
        note=f"{PACED_ROUNDS} rounds of {events:,} writes, all deliveries are timed; the slowest round:\n"
        f"ours {worst.shares}: {worst.limit}; a write is answered in {_answers(worst)}\n"
        f"bare {bare_worst.shares}: {bare_worst.limit}; a write is answered in {_answers(bare_worst)}; "
        f"it kept {bare_worst.written.per_second:.0f} writes/s",
    )
    yield delay_result("p50", paced)
    yield delay_result("p99", paced, at_most_ms=100)
    yield delay_result("max", paced)


def _answers(one: Round) -> str:
    return f"{one.written.delay_s(0.5) * 1e3:.0f} ms (p99 {one.written.delay_s(0.99) * 1e3:.0f} ms)"


# ---- curves: the CPU time of a create with more and more watchers, objects or types that do not concern it

# Makes a number of creates, and returns the CPU time of one in microseconds.
Creates = Callable[[int], Awaitable[float]]


async def _curve(what: str, states: Mapping[int, Creates]) -> AsyncIterator[Result]:
    """The states alternate, so that other processes of the machine affect all of them equally."""
    times: dict[int, list[float]] = {count: [] for count in states}
    for turn in range(TURNS + 1):
        # Alternately from few to many and from many to few.
        for count in list(states)[:: 1 if turn % 2 else -1]:
            cpu_us = await states[count](CREATES)
            if turn:  # the first one warms up
                times[count].append(cpu_us)
    base = next(iter(times.values()))
    for count, found in times.items():
        low, middle, high = statistics.quantiles(map(truediv, found, base), n=4)
        yield Result(
            f"  beside {count:,} {what}",
            *("us", statistics.median(found), statistics.median(base)),
            note=f"ratio turn by turn: {middle:.2f}, half of {TURNS} turns between {low:.2f} and {high:.2f}"
            if found is not base
            else "",
        )


@asynccontextmanager
async def _creates_on(settings: Settings) -> AsyncIterator[tuple[Measured, Creates]]:
    """A server with connections that stay open, and creates in a namespace of its own."""
    target = CONFIGMAPS.format("curve")
    numbers = itertools.count()
    with server(settings) as (_, measured):
        await make_namespace(measured.url, "curve")
        async with load.Connections.to(measured.url, CONNECTIONS) as opened:

            async def creates(count: int) -> float:
                requests = (
                    load.request("POST", target, config_map(f"c-{next(numbers):07}")) for _ in range(count)
                )
                _, cpu_us = await rate_on(opened, measured, load.each_of(requests))
                return cpu_us

            yield measured, creates


async def _watchers_around(settings: Settings) -> AsyncIterator[Result]:
    states = {}
    async with AsyncExitStack() as stack:
        for count in AROUND_WATCHERS:
            measured, states[count] = await stack.enter_async_context(_creates_on(settings))
            secrets = "/api/v1/secrets?watch=true"
            await stack.enter_async_context(WatchClients.of(measured.url, secrets, count))
        async for result in _curve("watchers of another type", states):
            yield result


async def _objects_around(settings: Settings) -> AsyncIterator[Result]:
    states = {}
    async with AsyncExitStack() as stack:
        for count in AROUND_OBJECTS:
            measured, states[count] = await stack.enter_async_context(_creates_on(settings))
            await fill(measured.url, "elsewhere", count)
        async for result in _curve("objects elsewhere", states):
            yield result


async def _types_around(settings: Settings) -> AsyncIterator[Result]:
    """From the store to a watcher, in this process: every type has 20 objects and a watcher."""
    states = {}
    async with AsyncExitStack() as stack:
        for count in AROUND_TYPES:
            states[count] = await stack.enter_async_context(_creates_beside_types(settings, count))
        async for result in _curve("types, store to watcher", states):
            yield result


@asynccontextmanager
async def _creates_beside_types(settings: Settings, types: int) -> AsyncIterator[Creates]:
    with tempfile.TemporaryDirectory(dir=settings.directory) as directory:
        store = await EmbeddedStore.open(Path(directory), durable=False)
        prefixes = [f"/registry/group-{n}.example.com/things/" for n in range(types)]
        for prefix in prefixes:
            await store.transact([], [Put(f"{prefix}ns/{n}", b"{}") for n in range(20)])
        cache = WatchCache(
            store, prefix="/registry", decode=StoredObject.of, size_of=lambda found: len(found.tail)
        )
        running = asyncio.create_task(cache.run())
        await cache.wait_until_filled()
        watchers: list[Watcher[StoredObject]] = [
            Watcher(after=cache.revision, on_ready=lambda: None) for _ in prefixes
        ]
        for prefix, watcher in zip(prefixes, watchers, strict=True):
            cache.watch(prefix, watcher, EVERYTHING)
        numbers = itertools.count()

        async def creates(count: int) -> float:
            began, seen = time.process_time(), 0
            for _ in range(count):
                await store.create(f"{prefixes[0]}ns/new-{next(numbers)}", b"{}")
                seen += len(watchers[0].take())
            while seen < count:
                seen += len(watchers[0].take())
                await asyncio.sleep(0)
            return (time.process_time() - began) / count * 1e6

        yield creates
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await store.close()
