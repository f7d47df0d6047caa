"""How long it takes until what belonged to a deleted object is gone. `make bench ARGS=collect`.

A client creates objects all the while, as fast as it can: its rate is compared with the one it had before.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Final

from benchmarks import load
from benchmarks.bodies import config_map
from benchmarks.processes import Measured
from benchmarks.report import Result
from benchmarks.workloads import (
    CONFIGMAPS,
    CONNECTIONS,
    Settings,
    body_of,
    create,
    etcd,
    fill,
    make_namespace,
    server,
)

CONTENTS: Final = 10_000
COLLECTED_S_MAX: Final = 10
CONTROLLERS: Final = "--controllers=namespace-controller,garbage-collector-controller"
MEANWHILE: Final = CONFIGMAPS.format("meanwhile")
# How often is asked whether something is left: for one object, from memory.
ASK_S: Final = 0.05


async def collect(settings: Settings) -> AsyncIterator[Result]:
    with server(settings, CONTROLLERS) as (_, measured):
        async for result in _collections(settings, measured, "embedded"):
            yield result
    with etcd(settings) as url:
        if not url:
            yield Result("collections, etcd", "s", 0, note="NOT MEASURED: this machine has no etcd")
            return
        with server(settings, CONTROLLERS, f"--etcd-servers={url}") as (_, measured):
            async for result in _collections(settings, measured, "etcd"):
                yield result


async def _collections(settings: Settings, measured: Measured, where: str) -> AsyncIterator[Result]:
    url, count = measured.url, settings.at_most(CONTENTS)
    await make_namespace(url, "meanwhile")
    alone = await _creates_until(measured, "alone", asyncio.create_task(asyncio.sleep(settings.seconds)))

    await make_namespace(url, "owned")
    owned = CONFIGMAPS.format("owned")
    await create(url, owned, lambda _: config_map("owner"), 1)
    uid = json.loads(await body_of(url, f"{owned}/owner"))["metadata"]["uid"]
    await create(url, owned, lambda number: _dependent(number, uid), count)
    deletion = load.request("DELETE", f"{owned}/owner?propagationPolicy=Background")
    async for result in _timed(
        measured, f"{count:,} dependents collected, {where}", alone, deletion, "owned"
    ):
        yield result

    await fill(url, "doomed", count)
    deletion = load.request("DELETE", "/api/v1/namespaces/doomed")
    async for result in _timed(
        measured, f"{count:,} objects of a namespace, {where}", alone, deletion, "doomed"
    ):
        yield result


def _dependent(number: int, uid: str) -> bytes:
    document = json.loads(config_map(f"d-{number:06}"))
    document["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    ]
    return json.dumps(document).encode()


async def _timed(
    measured: Measured, what: str, alone: float, deletion: bytes, namespace: str
) -> AsyncIterator[Result]:
    """Delete, and wait until the namespace has no ConfigMaps. alone: creates in a second without that."""
    began = time.perf_counter()
    await load.run(measured.url, load.each_of(iter([deletion])), connections=1)
    gone = asyncio.create_task(_until_empty(measured.url, namespace))
    meanwhile = await _creates_until(measured, namespace, gone)
    seconds = await gone - began
    yield Result(what, "s", seconds, target=COLLECTED_S_MAX, is_bound=True)
    yield Result("  creates meanwhile, and without", "/s", meanwhile, alone, 0.7)


async def _creates_until(measured: Measured, name: str, done: asyncio.Task[object]) -> float:
    """Create objects until something is done; returns how many in a second."""
    numbers = iter(range(10**9))

    def next_request() -> bytes | None:
        if done.done():
            return None
        return load.request("POST", MEANWHILE, config_map(f"{name}-{next(numbers):06}"))

    return (await load.run(measured.url, next_request, connections=CONNECTIONS)).per_second


async def _until_empty(url: str, namespace: str) -> float:
    """Returns when there was nothing left, by time.perf_counter."""
    target = f"{CONFIGMAPS.format(namespace)}?limit=1&resourceVersion=0"
    while json.loads(await body_of(url, target))["items"]:
        await asyncio.sleep(ASK_S)
    return time.perf_counter()
