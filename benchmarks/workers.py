"""What a second worker process adds. `make bench ARGS=workers`.

The client and etcd need processors, too: on a machine with two cores, rates cannot show what two workers do.
So the figures are the rates of workers that have a core each, and are kept busy: the answers per second of
processor time, times the number of workers. How evenly the connections are spread over them is told, too, as
clients that do not wait for answers notice the busiest one first.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from statistics import fmean
from typing import Final

import psutil

from benchmarks import load
from benchmarks.bodies import config_map
from benchmarks.processes import Measured
from benchmarks.report import Result
from benchmarks.workloads import (
    CONFIGMAPS,
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
# One worker and several take turns, as the machine is not equally fast at all times.
ROUNDS: Final = 20
ROUND_SHARE: Final = 0.1
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
                of_one, of_all = _Rounds([one]), _Rounds(every)
                for _ in range(ROUNDS):
                    await of_one.add(one.url, requests(ROUND_SHARE * settings.seconds))
                    await of_all.add(more.url, requests(ROUND_SHARE * settings.seconds))
                yield Result(
                    f"{work}, etcd, {WORKERS} workers / one",
                    "/s",
                    of_all.per_second,
                    of_one.per_second,
                    least,
                    note=f"processor time of the busiest worker of a round: {of_all.share_of_busiest:.0%}",
                )


class _Rounds:
    """The requests of some rounds, and the processor time of the workers that have answered them."""

    def __init__(self, workers: Sequence[Measured]) -> None:
        self._workers = workers
        self._answers = 0
        self._cpu_s = 0.0
        self._shares_of_busiest: list[float] = []

    async def add(self, url: str, requests: load.NextRequest) -> None:
        async with load.Connections.to(url, CONNECTIONS) as opened:
            before = [each.cpu_s() for each in self._workers]
            self._answers += (await opened.run(requests)).answers
        used_s = [each.cpu_s() - began for each, began in zip(self._workers, before, strict=True)]
        self._cpu_s += sum(used_s)
        self._shares_of_busiest.append(max(used_s) / sum(used_s))

    @property
    def per_second(self) -> float:
        return len(self._workers) * self._answers / self._cpu_s

    @property
    def share_of_busiest(self) -> float:
        """The part of the processor time that the busiest worker of a round has used, in the mean."""
        return fmean(self._shares_of_busiest)
