"""What a second worker process adds. `make bench ARGS=workers`.

The client and etcd need processors, too: on a machine with two cores, rates cannot show what two workers do.
So the figures are rates of workers that have a core each: the answers per second of processor time of the
busiest one. That includes how evenly connections are spread over them.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from statistics import median
from typing import Final

import psutil

from benchmarks import load
from benchmarks.bodies import config_map
from benchmarks.processes import Measured
from benchmarks.report import Result
from benchmarks.workloads import (
    CONFIGMAPS,
    ROUNDS,
    RequestsFor,
    Settings,
    etcd,
    fill,
    posts,
    repeatedly,
    server,
)

WORKERS: Final = 2
# More than in other workloads: the fewer there are, the less evenly they are spread over the workers.
CONNECTIONS: Final = 128
# Of the rate of one worker. Each worker also handles the watch events of the writes of all.
READS_LEAST, WRITES_LEAST = 1.8, 1.5


async def workers(settings: Settings) -> AsyncIterator[Result]:
    target = CONFIGMAPS.format("bench")
    with etcd(settings) as url:
        if not url:
            print("workers: NOT MEASURED: this machine has no etcd")
            return
        flags = (f"--etcd-servers={url}",)
        with (
            server(settings, *flags, "--etcd-prefix=/one") as (_, one),
            server(settings, *flags, "--etcd-prefix=/more", f"--workers={WORKERS}") as (process, more),
        ):
            every = [Measured(each.pid, more.url) for each in psutil.Process(process.pid).children()]
            for measured in (one, more):
                await fill(measured.url, "bench", 10)
            names = itertools.count()
            for work, least, requests in (
                ("GET from cache (RV=0)", READS_LEAST, repeatedly(f"{target}/c-000001?resourceVersion=0")),
                ("GET consistent", READS_LEAST, repeatedly(f"{target}/c-000001")),
                ("create", WRITES_LEAST, posts(target, lambda _: config_map(f"w-{next(names):06}"))),
            ):
                found = [
                    (
                        await _per_core(more.url, every, requests, for_s),
                        await _per_core(one.url, [one], requests, for_s),
                    )
                    for for_s in [settings.seconds / ROUNDS] * ROUNDS
                ]
                rates, rates_of_one = (median(each) for each in zip(*found, strict=True))
                yield Result(f"{work}, etcd, {WORKERS} workers / one", "/s", rates, rates_of_one, least)


async def _per_core(url: str, workers: Sequence[Measured], requests: RequestsFor, for_s: float) -> float:
    """Returns the answers per second of processor time of the worker that uses the most."""
    async with load.Connections.to(url, CONNECTIONS) as opened:
        before = [each.cpu_s() for each in workers]
        done = await opened.run(requests(for_s))
        return done.answers / max(each.cpu_s() - began for each, began in zip(workers, before, strict=True))
