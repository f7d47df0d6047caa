"""Server-side apply, and what field ownership costs all other writes.

The limit is that of other writes: to parse the same bytes as JSON, and to put them into the store.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final

from benchmarks import load, processes
from benchmarks.bodies import config_map, deployment
from benchmarks.processes import Measured
from benchmarks.report import Result
from benchmarks.workloads import (
    CONFIGMAPS,
    EMBEDDED,
    LoadTarget,
    RequestsFor,
    Settings,
    compare,
    make_namespace,
    posts,
    rate,
    server,
    stores,
)

# Enough that no two connections write one object at the same time.
OBJECTS: Final = 200
DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/bench/deployments"
_APPLY: Final = {"Content-Type": "application/apply-patch+yaml"}
_MERGE: Final = {"Content-Type": "application/merge-patch+json"}
# The most by which ownership may slow a PUT down.
TRACKING_MOST: Final = 0.2
SIZES_KB: Final = (1, 10, 100, 1000)

Body = Callable[[str, str], bytes]


def apply(target: str, name: str, body: bytes, manager: str) -> bytes:
    return load.request("PATCH", f"{target}/{name}?fieldManager={manager}&force=true", body, headers=_APPLY)


def applies(target: str, body: Body) -> RequestsFor:
    """Applies that each change one field of one of the objects."""
    turns = itertools.count(1)

    def request() -> bytes:
        turn = next(turns)
        name = f"c-{turn % OBJECTS:03}"
        return apply(target, name, body(name, str(turn)), "first")

    return lambda for_s: load.generated(request, for_s=for_s)


def applies_of_the_same(target: str, body: Body) -> RequestsFor:
    """Applies of what the same manager applied last."""
    turns = itertools.count(1)

    def request() -> bytes:
        name = f"c-{next(turns) % OBJECTS:03}"
        return apply(target, name, body(name, "same"), "first")

    return lambda for_s: load.generated(request, for_s=for_s)


async def apply_workload(settings: Settings) -> AsyncIterator[Result]:
    """A small object with one manager, and a large one with three."""
    for store in stores(settings):
        with (
            server(settings, *store.flags) as (_, measured),
            processes.bare("put", store.location) as limit,
        ):
            await make_namespace(measured.url, "bench")
            async for result in _applies(settings, store.name, measured, limit):
                yield result
            if store.name == EMBEDDED:
                target = CONFIGMAPS.format("bench")
                async for result in _tracked(settings, measured, target):
                    yield result
                for size_kb in SIZES_KB:
                    yield await _of_size(settings, measured, target, size_kb)


async def _applies(
    settings: Settings, store: str, measured: Measured, limit: Measured
) -> AsyncIterator[Result]:
    for work, where, body, target_ratio in (
        ("ConfigMap of 1 KB", CONFIGMAPS.format("bench"), _config_map, 0.25),
        ("Deployment of 4 KB, three managers", DEPLOYMENTS, _deployment, 0.12),
    ):
        bare = LoadTarget(limit, posts("/", lambda name, body=body: body(name, "")))  # type: ignore[misc]
        await _send_all(measured, (apply(where, n, body(n, "first"), "first") for n in _names()))
        if where == DEPLOYMENTS:
            await _add_managers(measured)
        ours = LoadTarget(measured, applies(where, body))
        yield await compare(settings, f"apply of one field, {work}, {store}", target_ratio, ours, bare)
        await _send_all(measured, (apply(where, n, body(n, "same"), "first") for n in _names()))
        ours = LoadTarget(measured, applies_of_the_same(where, body))
        yield await compare(settings, f"apply of nothing new, {work}, {store}", 0.5, ours, bare)


async def _tracked(settings: Settings, measured: Measured, target: str) -> AsyncIterator[Result]:
    """Compare PUTs of objects with owners with PUTs of objects without.

    An object whose managedFields were removed (row F21) has no owners until the next apply.
    """
    await _send_all(
        measured,
        (load.request("POST", target, config_map(f"{kind}-{n}")) for n in _names() for kind in ("t", "u")),
    )
    body = b'{"metadata":{"managedFields":[{}]}}'
    await _send_all(
        measured, (load.request("PATCH", f"{target}/u-{n}", body, headers=_MERGE) for n in _names())
    )
    tracked, untracked = (LoadTarget(measured, _puts(target, prefix)) for prefix in ("t", "u"))
    yield await compare(
        settings, "PUT with owners beside without", 1 / (1 + TRACKING_MOST), tracked, untracked
    )


def _puts(target: str, prefix: str) -> RequestsFor:
    turns = itertools.count(1)

    def request() -> bytes:
        turn = next(turns)
        name = f"{prefix}-c-{turn % OBJECTS:03}"
        return load.request("PUT", f"{target}/{name}", config_map(name, marker=str(turn)))

    return lambda for_s: load.generated(request, for_s=for_s)


async def _of_size(settings: Settings, measured: Measured, target: str, size_kb: int) -> Result:
    """The CPU time of an apply of one field, for each KB of the object, which has ten keys to a KB."""
    document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"size-{size_kb}"},
        "data": {f"key-{n:06}": "x" * 80 for n in range(10 * size_kb)},
    }
    turns = itertools.count()

    def request() -> bytes:
        document["data"] |= {"marker": str(next(turns))}  # type: ignore[operator]
        return apply(target, f"size-{size_kb}", json.dumps(document).encode(), "first")

    _, cpu_us = await rate(measured, load.generated(request, for_s=settings.seconds), connections=1)
    return Result(f"  apply of one field of {size_kb:,} KB, for a KB", "us CPU", cpu_us / size_kb)


async def _add_managers(measured: Measured) -> None:
    """Add two managers: one that applies a label, and one that sets the status."""
    status = json.dumps({"status": {"replicas": 3, "readyReplicas": 3, "observedGeneration": 1}}).encode()
    await _send_all(measured, (apply(DEPLOYMENTS, n, _label(n), "second") for n in _names()))
    await _send_all(
        measured,
        (load.request("PATCH", f"{DEPLOYMENTS}/{n}/status", status, headers=_MERGE) for n in _names()),
    )


def _label(name: str) -> bytes:
    metadata = {"name": name, "labels": {"team": "shop"}}
    return json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}).encode()


def _names() -> Iterable[str]:
    return (f"c-{n:03}" for n in range(OBJECTS))


async def _send_all(measured: Measured, requests: Iterable[bytes]) -> None:
    await load.run(measured.url, load.each_of(iter(requests)), connections=16)


def _config_map(name: str, marker: str) -> bytes:
    return config_map(name, marker=marker)


def _deployment(name: str, marker: str) -> bytes:
    return deployment(name, marker=marker)
