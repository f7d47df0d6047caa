"""What recording the history costs who writes, and how fast the past is read. `make bench ARGS=history`."""

from __future__ import annotations

import itertools
import json
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from benchmarks import load
from benchmarks.admission import NAMESPACE, costs_of, percent
from benchmarks.bodies import config_map
from benchmarks.processes import Measured
from benchmarks.report import Result
from benchmarks.workloads import (
    CONFIGMAPS,
    LISTED_OBJECTS,
    PODS,
    Settings,
    create,
    make_namespace,
    posts,
    server,
    stores,
)
from tests.support.api import Api
from tests.support.metrics import metric
from tests.support.server_process import ServerProcess

# What recording may add to a write, in per cent.
WRITES_PERCENT_MAX: Final = 5
# Until all changes of a round are recorded: they are collected for a quarter of a second.
RECORDED_AFTER_S: Final = 0.4
STATUS_CHANGES: Final = 2_000
STATUS_BYTES_MAX: Final = 200
LIST_MS_MAX: Final = 500
GET_MS_MAX: Final = 5
VERSIONS: Final = 100
VERSIONS_MS_MAX: Final = 100
MISSED_CHANGES: Final = 100_000
# Their last values fit into what the recorder keeps meanwhile.
MISSED_OBJECTS: Final = 2_000
CATCH_UP_S_MAX: Final = 10
# How often each read is measured; the median counts.
READS: Final = 9
# Updates are of so many objects in turn.
UPDATED: Final = 200
_FLAG: Final = "--history"


async def history(settings: Settings) -> AsyncIterator[Result]:
    for store in stores(settings):
        async for result in _writes(settings, store.name, store.flags):
            yield result
    async for result in _reads(settings):
        yield result
    yield await _catching_up(settings)


async def _writes(settings: Settings, store: str, flags: tuple[str, ...]) -> AsyncIterator[Result]:
    target = CONFIGMAPS.format(NAMESPACE)
    # Two servers of one etcd would record each other's changes.
    apart = [[*flags, f"--etcd-prefix=/{each}"] if flags else [] for each in ("plain", "recording")]
    with (
        server(settings, *apart[0]) as (_, plain),
        server(settings, *apart[1], _FLAG) as (_, recording),
    ):
        for measured in (plain, recording):
            await make_namespace(measured.url, NAMESPACE)
            await create(measured.url, target, lambda n: config_map(f"u-{n:06}"), UPDATED)
        for work, requests in (("create", posts(target, config_map)), ("update", _updates(target))):
            costs = await costs_of(settings, requests, recording, plain, after_s=RECORDED_AFTER_S)
            yield percent(f"recorded {work} of 1 KB, {store}", costs, WRITES_PERCENT_MAX)


def _updates(target: str) -> Callable[[float], load.NextRequest]:
    """Updates of objects that exist, each with another value."""
    turns = itertools.count()

    def update() -> bytes:
        turn = next(turns)
        name = f"u-{turn % UPDATED:06}"
        return load.request("PUT", f"{target}/{name}", config_map(name, marker=str(turn)))

    return lambda for_s: load.generated(update, for_s=for_s)


async def _reads(settings: Settings) -> AsyncIterator[Result]:
    target = CONFIGMAPS.format(NAMESPACE)
    with server(settings, _FLAG) as (process, measured), closing(Api(process)) as api:
        await make_namespace(measured.url, NAMESPACE)
        yield await _status_bytes(settings, api, measured)
        await create(measured.url, target, lambda n: config_map(f"c-{n:06}"), LISTED_OBJECTS)
        revision = api.get(f"{target}?limit=1").ok()["metadata"]["resourceVersion"]
        for turn in range(2):
            await _put_all(measured, target, turn)
        past = f"/at/{revision}{target}"
        yield _time_ms(f"list of {LISTED_OBJECTS:,} past objects", api, past, LIST_MS_MAX)
        yield _time_ms("get of a past object", api, f"{past}/c-000017", GET_MS_MAX)
        for turn in range(VERSIONS):
            api.put(f"{target}/c-000001", json.loads(config_map("c-000001", marker=str(turn)))).ok()
        work = f"{VERSIONS} versions of an object"
        yield _time_ms(work, api, f"{target}/c-000001/history?limit={VERSIONS}", VERSIONS_MS_MAX)


async def _put_all(measured: Measured, target: str, turn: int, count: int = LISTED_OBJECTS) -> None:
    names = [f"c-{n:06}" for n in range(count)]
    requests = (load.request("PUT", f"{target}/{name}", config_map(name, marker=str(turn))) for name in names)
    await load.run(measured.url, load.each_of(requests), connections=16)


async def _status_bytes(settings: Settings, api: Api, measured: Measured) -> Result:
    """How many bytes of the history a change of the status takes, of a Pod that is stored as 3 KB."""
    pods = PODS.format(NAMESPACE)
    api.post(pods, _pod()).ok()
    before = _recorded(api)
    count = settings.at_most(STATUS_CHANGES)
    requests = (
        load.request("PATCH", f"{pods}/p/status", json.dumps(_status(n)).encode(), headers=_MERGE)
        for n in range(count)
    )
    await load.run(measured.url, load.each_of(requests), connections=1)
    size = (_recorded(api) - before) / count
    work = "history of a status change, Pod of 3 KB"
    return Result(work, "bytes", size, target=STATUS_BYTES_MAX, is_bound=True)


def _pod() -> dict[str, Any]:
    """A Pod of 3 KB with its defaults and field managers."""
    container = {
        "name": "shop",
        "image": "registry.example.com/shop/web:1.27.3",
        "ports": [{"name": "http", "containerPort": 8080}],
        "resources": {"limits": {"cpu": "1", "memory": "256Mi"}, "requests": {"cpu": "100m"}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}},
        "env": [{"name": f"SETTING_{n}", "value": f"value-{n}"} for n in range(6)],
    }
    labels = {"app.kubernetes.io/name": "shop", "app.kubernetes.io/part-of": "shop"}
    return {"metadata": {"name": "p", "labels": labels}, "spec": {"containers": [container]}}


_MERGE: Final = {"Content-Type": "application/merge-patch+json"}


def _status(number: int) -> dict[str, Any]:
    """A status such as a kubelet writes, with another condition each time."""
    ready = {
        "type": "Ready",
        "status": "False" if number % 2 else "True",
        "lastTransitionTime": f"2026-01-01T00:{number // 60 % 60:02}:{number % 60:02}Z",
    }
    return {"status": {"phase": "Running", "conditions": [ready]}}


def _recorded(api: Api) -> float:
    """The size of the history once all changes are in it."""
    while metric(api, "apiserver_history_lag_seconds"):
        time.sleep(0.05)
    return metric(api, "apiserver_history_size_bytes")


def _time_ms(work: str, api: Api, path: str, most: float) -> Result:
    def times() -> Iterator[float]:
        for _ in range(READS):
            began = time.perf_counter()
            answer = api.get(path)
            yield 1_000 * (time.perf_counter() - began)
            answer.ok()

    return Result(work, "ms", statistics.median(times()), target=most, is_bound=True)


async def _catching_up(settings: Settings) -> Result:
    """Changes while the server had no history, and how long the next start takes until all are recorded."""
    target, count = CONFIGMAPS.format(NAMESPACE), settings.at_most(MISSED_CHANGES)
    data = Path(settings.directory) / "missed"
    with ServerProcess(data, "--controllers=-*", _FLAG) as first:
        await make_namespace(first.url, NAMESPACE)
        await create(first.url, target, lambda n: config_map(f"c-{n:06}"), MISSED_OBJECTS)
    with ServerProcess(data, "--controllers=-*") as second:
        measured = Measured(second.pid, second.url)
        for turn in range(-(-count // MISSED_OBJECTS)):
            await _put_all(measured, target, turn, MISSED_OBJECTS)
    with ServerProcess(data, "--controllers=-*", _FLAG) as third, closing(Api(third)) as api:
        began = time.perf_counter()
        while metric(api, "apiserver_history_changes_total") < count:
            time.sleep(0.05)
        took_s = time.perf_counter() - began
    work = f"catching up {count:,} changes of {MISSED_OBJECTS:,} objects"
    return Result(work, "s", took_s, target=CATCH_UP_S_MAX * count / MISSED_CHANGES, is_bound=True)
