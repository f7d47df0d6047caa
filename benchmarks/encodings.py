"""Lists in other encodings than JSON, and OpenAPI, which have to be encoded rather than copied."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import AsyncIterator, Mapping
from typing import Final

from benchmarks import load
from benchmarks.processes import Measured, pings
from benchmarks.report import Result
from benchmarks.workloads import (
    CONFIGMAPS,
    LISTED_OBJECTS,
    LISTING,
    LoadTarget,
    Settings,
    bare_bytes,
    body_of,
    compare,
    fill,
    repeatedly,
    server,
)

_AS: Final = "application/json;as={};v=v1;g=meta.k8s.io"
_TABLE: Final = {"Accept": _AS.format("Table")}
_PARTIAL: Final = {"Accept": _AS.format("PartialObjectMetadataList")}
_PROTOBUF: Final = {"Accept": "application/vnd.kubernetes.protobuf"}
_YAML: Final = {"Accept": "application/yaml"}
_GZIP: Final = {"Accept-Encoding": "gzip"}
# The number of new servers whose first OpenAPI request is measured.
FIRST_TIMES: Final = 3


async def encodings(settings: Settings) -> AsyncIterator[Result]:
    """Lists of 5,000 objects of 1 KB whose encodings are cached already."""
    with server(settings) as (_, measured):
        await fill(measured.url, "bench", LISTED_OBJECTS)
        for name, headers, target_ratio in (
            ("Table", _TABLE, 0.5),
            ("PartialObjectMetadata", _PARTIAL, 0.5),
            ("YAML", _YAML, 0.0),
        ):
            async for result in _compare_with_bytes(settings, measured, name, headers, target_ratio):
                yield result
        async for result in _compare_protobuf_with_json(settings, measured):
            yield result
        target = CONFIGMAPS.format("bench")
        with bare_bytes(settings, await body_of(measured.url, target), kind="gzip") as limit:
            ours, bare = LoadTarget(measured, repeatedly(target, _GZIP)), LoadTarget(limit, repeatedly("/"))
            for work, _, connections in _CONCURRENCIES:
                yield await compare(settings, work.format("JSON, gzip"), 0.0, ours, bare, connections)


async def _compare_with_bytes(
    settings: Settings, measured: Measured, form: str, headers: Mapping[str, str], target_ratio: float
) -> AsyncIterator[Result]:
    """Compare a list with sending as many bytes."""
    target = CONFIGMAPS.format("bench")
    with bare_bytes(settings, await body_of(measured.url, target, headers)) as limit:
        ours, bare = LoadTarget(measured, repeatedly(target, headers)), LoadTarget(limit, repeatedly("/"))
        for work, has_target, connections in _CONCURRENCIES:
            yield await compare(
                settings, work.format(form), target_ratio if has_target else 0.0, ours, bare, connections
            )


async def _compare_protobuf_with_json(settings: Settings, measured: Measured) -> AsyncIterator[Result]:
    target = CONFIGMAPS.format("bench")
    await body_of(measured.url, target, _PROTOBUF)
    ours, json_list = (
        LoadTarget(measured, repeatedly(target, _PROTOBUF)),
        LoadTarget(measured, repeatedly(target)),
    )
    for work, has_target, connections in _CONCURRENCIES:
        target_ratio = 0.5 if has_target else 0.0
        yield await compare(
            settings, work.format("protobuf, beside JSON"), target_ratio, ours, json_list, connections
        )


# The workload, whether the encoding's target applies, and the connections. Concurrent lists share encoded
# parts; lists one after the other do not.
_CONCURRENCIES: Final = (("LIST 5,000 x 1 KB, {}", True, LISTING), ("  one after the other", False, 1))


# ---- OpenAPI


async def openapi(settings: Settings) -> AsyncIterator[Result]:
    """All documents of version 3, as clients ask for them, from new servers."""
    costs, stalls, quiet_stalls = [], [], []
    for _ in range(FIRST_TIMES):
        with server(settings) as (_, measured):
            before, began = measured.cpu_s(), time.perf_counter()
            await _read_openapi(measured.url)
            costs.append(measured.cpu_s() - before)
            took_s = time.perf_counter() - began
        with server(settings) as (_, measured):
            async with pings(measured.url) as quiet:
                await asyncio.sleep(took_s)
            async with pings(measured.url) as beside_openapi:
                await _read_openapi(measured.url)
            quiet_stalls.append(quiet.longest_s * 1e3)
            stalls.append(beside_openapi.longest_s * 1e3)
    median = statistics.median
    yield Result("OpenAPI v3 of all groups, the server's CPU", "s", median(costs), target=3, is_bound=True)
    yield Result(
        *("  longest stall meanwhile", "ms", median(stalls), median(quiet_stalls), 20),
        is_bound=True,
        note=f"of {FIRST_TIMES} servers: {_listed(stalls)} ms; beside it that in as long a time without: "
        f"{_listed(quiet_stalls)} ms",
    )


async def _read_openapi(url: str) -> None:
    """Read the index, and all documents that it lists."""
    paths = json.loads(await body_of(url, "/openapi/v3"))["paths"].values()
    requests = (load.request("GET", path["serverRelativeURL"], headers=_GZIP) for path in paths)
    await load.run(url, load.each_of(requests), connections=1)


def _listed(figures: list[float]) -> str:
    return ", ".join(f"{figure:.1f}" for figure in figures)
