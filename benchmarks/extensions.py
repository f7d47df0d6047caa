"""What functions of extensions cost who writes. `make bench ARGS=extensions`.

The cost of an inline function is processor time of the server, as in `benchmarks.admission`. A function in a
process is measured by the time of whole requests.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Final

from benchmarks.admission import NAMESPACE, costs_of_creates
from benchmarks.bodies import config_map
from benchmarks.report import Result
from benchmarks.workloads import CONFIGMAPS, Settings, make_namespace, server
from tests.support.api import Api

MODULE: Final = "tests.extensions.modules.nothing"
# What a function that does nothing may add to a create, by the extension.
INLINE_US_MAX: Final = 20
PROCESS_US_MAX: Final = 250
REQUESTS: Final = 2_000


async def extensions(settings: Settings) -> AsyncIterator[Result]:
    flag = f"--extension={MODULE}:inline"
    with server(settings) as (_, plain), server(settings, flag) as (_, ours):
        found = await costs_of_creates(settings, CONFIGMAPS, config_map, ours, plain)
        yield Result(
            "an inline function, create of 1 KB",
            "us",
            found.added_us,
            target=INLINE_US_MAX,
            is_bound=True,
            cpu_us=found.ours_us,
        )
    flag = f"--extension={MODULE}:process"
    with server(settings) as (one, plain), server(settings, flag) as (two, ours):
        for measured in (plain, ours):
            await make_namespace(measured.url, NAMESPACE)
        with ExitStack() as stack:
            without, api = (stack.enter_context(Api(each)) for each in (one, two))
            # They alternate, as the machine is not equally fast at all times.
            times = [(_create_us(api), _create_us(without)) for _ in range(settings.at_most(REQUESTS))]
        medians = [statistics.median(each) for each in zip(*times, strict=True)]
        yield Result(
            "a function in a process, p50 of a create of 1 KB",
            "us",
            medians[0] - medians[1],
            target=PROCESS_US_MAX,
            is_bound=True,
            note=f"{medians[1]:.0f} us without it",
        )


def _create_us(api: Api) -> float:
    began = time.perf_counter()
    answer = api.post(f"{CONFIGMAPS.format(NAMESPACE)}?dryRun=All", config_map("a"))
    took_us = 1e6 * (time.perf_counter() - began)
    answer.ok()
    return took_us
