"""Custom resources: reads and watches compared with built-in ones, and the cost of schemas and rules."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from benchmarks import load, processes
from benchmarks.fan_out import Round
from benchmarks.processes import Measured
from benchmarks.report import Result
from benchmarks.workloads import (
    CONFIGMAPS,
    CONNECTIONS,
    EVENTS,
    LISTED_OBJECTS,
    LISTING,
    MIB,
    ROUNDS,
    WATCHED_CONFIGMAPS,
    WATCHERS,
    LoadTarget,
    Settings,
    WatchedResource,
    bare_bytes,
    body_of,
    compare,
    create,
    fan_outs_on,
    full_speed_result,
    make_fan_out_namespaces,
    make_namespace,
    posts,
    rate,
    repeatedly,
    server,
)

GROUP: Final = "shop.example.com"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ORDERS: Final = f"/apis/{GROUP}/v1/namespaces/bench/orders"
NOTES: Final = f"/apis/{GROUP}/v1/namespaces/{{}}/notes"
OBJECT_BYTES: Final = 1024
MANY_DEFINITIONS: Final = 500
# The time until all of them are served, and the memory that each adds to the server.
SERVED_WITHIN_S: Final = 20
DEFINITION_MIB: Final = 0.3
# From the answer to its creation until a definition is served.
FIRST_SERVED_WITHIN_S: Final = 0.1
POLL_MAX: Final = 10_000
# The objects of the watches have lower numbers.
FIRST_UNWATCHED: Final = 100_000
# As fast as built-in ones, with a margin for how much two measurements of the same differ.
AS_FAST_AS_BUILT_IN: Final = 0.9


def definition(plural: str, kind: str, properties: Mapping[str, Any] | None = None) -> bytes:
    """A CustomResourceDefinition. properties: of its schema; by default thirty fields and five rules."""
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties or _MANY_PROPERTIES}},
        "subresources": {"status": {}},
    }
    document = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [version],
        },
    }
    return json.dumps(document).encode()


def order(name: str) -> bytes:
    """An object of 1 KB that sets most of the fields."""
    spec: dict[str, Any] = {
        "name": name,
        "least": 1,
        "most": 5,
        "replicas": 3,
        "mode": "Fast",
        "host": "shop.example.com",
        "items": [{"name": f"item-{n}", "count": n} for n in range(5)],
        "labels": {f"key-{n}": "value" for n in range(5)},
        **{f"text{n:02}": f"the text of field {n}" for n in range(15)},
        **{f"flag{n}": True for n in range(3)},
        "note": "",
    }
    document = {"apiVersion": f"{GROUP}/v1", "kind": "Order", "metadata": {"name": name}, "spec": spec}
    spec["note"] = "x" * max(0, OBJECT_BYTES - len(json.dumps(document, separators=(",", ":"))))
    return json.dumps(document, separators=(",", ":")).encode()


def note(number: int, stamp: str) -> bytes:
    """An object like a ConfigMap of another kind: about as long, also with what the server adds."""
    body = WATCHED_CONFIGMAPS.body(number, stamp).replace(b'"v1"', f'"{GROUP}/v1"'.encode(), 1)
    return body.replace(b'"ConfigMap"', b'"Note"', 1)


_RULES_KEY: Final = "x-kubernetes-validations"
_RULES: Final = [
    {"rule": "self.least <= self.most", "message": "least must not be more than most"},
    {"rule": "self.replicas >= self.least && self.replicas <= self.most"},
    {"rule": "self.items.all(item, item.count >= 0)"},
    {"rule": "self.mode != 'Slow' || self.replicas == 1"},
    {"rule": "!has(self.host) || self.host.matches('^[a-z.-]+$')"},
]
_TEXT: Final = {"type": "string", "maxLength": 300}
_FIELDS: Final[dict[str, Any]] = {
    "name": {"type": "string", "maxLength": 63, "pattern": "^[a-z0-9-]+$"},
    "least": {"type": "integer", "minimum": 0, "default": 1},
    "most": {"type": "integer", "maximum": 1000},
    "replicas": {"type": "integer", "format": "int32", "default": 1},
    "mode": {"type": "string", "enum": ["Fast", "Slow"], "default": "Fast"},
    "host": {"type": "string", "maxLength": 253},
    "items": {
        "type": "array",
        "maxItems": 20,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string", "maxLength": 63}, "count": {"type": "integer"}},
        },
    },
    "labels": {"type": "object", "maxProperties": 20, "additionalProperties": _TEXT},
    **{f"text{n:02}": _TEXT for n in range(15)},
    **{f"flag{n}": {"type": "boolean", "default": False} for n in range(5)},
    "note": {"type": "string", "maxLength": 1000},
    "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
_MANY_PROPERTIES: Final = {
    "spec": {"type": "object", "properties": _FIELDS, "required": ["name"], _RULES_KEY: _RULES},
    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
_NOTE_PROPERTIES: Final = {"data": {"type": "object", "additionalProperties": {"type": "string"}}}
_WATCHED_NOTES: Final = WatchedResource(NOTES, note)


async def custom_resources(settings: Settings) -> AsyncIterator[Result]:
    for part in (_writes, _reads, _compare_reads_with_built_in, _watches, _many):
        async for result in part(settings):
            yield result


async def _writes(settings: Settings) -> AsyncIterator[Result]:
    """Creates of a type with a schema of thirty fields and five rules."""
    with (
        server(settings) as (_, measured),
        tempfile.TemporaryDirectory(dir=settings.directory) as other,
        processes.bare("put", other) as limit,
    ):
        await make_namespace(measured.url, "bench")
        served_s = await _define(measured, "orders", "Order")
        yield Result(
            "first served after its definition", "s", served_s, 0, FIRST_SERVED_WITHIN_S, is_bound=True
        )
        ours, bare = LoadTarget(measured, posts(ORDERS, order)), LoadTarget(limit, posts("/", order))
        yield await compare(settings, "create of 1 KB, 30 fields, 5 rules", 0.3, ours, bare)


async def _reads(settings: Settings) -> AsyncIterator[Result]:
    """Reads of the same type, compared with the bare limit."""
    with server(settings) as (_, measured):
        await make_namespace(measured.url, "bench")
        await _define(measured, "orders", "Order")
        await create(measured.url, ORDERS, lambda number: order(f"c-{number:06}"), LISTED_OBJECTS)
        for work, target, target_ratio, connections in (
            ("GET from cache (RV=0)", f"{ORDERS}/c-000001?resourceVersion=0", 0.45, CONNECTIONS),
            ("GET consistent", f"{ORDERS}/c-000001", 0.45, CONNECTIONS),
            ("LIST 5,000 x 1 KB from cache", f"{ORDERS}?resourceVersion=0", 0.8, LISTING),
        ):
            ours = LoadTarget(measured, repeatedly(target))
            with bare_bytes(settings, await body_of(measured.url, target)) as limit:
                bare = LoadTarget(limit, repeatedly("/"))
                yield await compare(
                    settings, f"custom resources, {work}", target_ratio, ours, bare, connections
                )


async def _compare_reads_with_built_in(settings: Settings) -> AsyncIterator[Result]:
    """Compare two types on one server that differ only in that one is custom."""
    with server(settings) as (_, measured):
        await make_namespace(measured.url, "bench")
        await _define(measured, "notes", "Note", _NOTE_PROPERTIES)
        for watched in (_WATCHED_NOTES, WATCHED_CONFIGMAPS):
            await create(measured.url, watched.target.format("bench"), watched.unstamped, LISTED_OBJECTS)
        for work, query, connections in (
            ("GET", "/c-000001", CONNECTIONS),
            ("LIST 5,000 x 1 KB", "", LISTING),
        ):
            custom, built_in = (
                LoadTarget(measured, repeatedly(target.format("bench") + query))
                for target in (NOTES, CONFIGMAPS)
            )
            yield await compare(
                settings, f"custom / built-in, {work}", AS_FAST_AS_BUILT_IN, custom, built_in, connections
            )


async def _watches(settings: Settings) -> AsyncIterator[Result]:
    """Compare both kinds on one server, each with a bare limit of its own; the four alternate."""
    events = settings.at_most(EVENTS)
    customs: list[tuple[Round, Round]] = []
    built_ins: list[tuple[Round, Round]] = []
    with server(settings) as (_, measured):
        await make_fan_out_namespaces(measured.url)
        await _define(measured, "notes", "Note", _NOTE_PROPERTIES)
        async with (
            fan_outs_on(_WATCHED_NOTES, measured, WATCHERS) as (custom, custom_bare),
            fan_outs_on(WATCHED_CONFIGMAPS, measured, WATCHERS) as (built_in, built_in_bare),
        ):
            for _ in range(ROUNDS):
                customs.append((await custom.round(events), await custom_bare.round(events)))
                built_ins.append((await built_in.round(events), await built_in_bare.round(events)))
        create_us = await _create_us(measured, _WATCHED_NOTES)
        built_in_create_us = await _create_us(measured, WATCHED_CONFIGMAPS)
    shape = f"watch, {WATCHERS} x {events} events"
    yield full_speed_result(f"custom resources, {shape}", customs)
    yield full_speed_result(f"built-in resources, {shape}", built_ins)
    ours, theirs = ([one for one, _ in rounds] for rounds in (customs, built_ins))
    cpu_us, built_in_cpu_us = (statistics.median(one.cpu_us for one in side) for side in (ours, theirs))
    yield Result(
        "custom / built-in, watch",
        "/s",
        statistics.median(one.deliveries_per_second for one in ours),
        statistics.median(one.deliveries_per_second for one in theirs),
        AS_FAST_AS_BUILT_IN,
        cpu_us=cpu_us,
        note=f"the server's CPU for a delivery: custom {cpu_us:.1f} us, built-in {built_in_cpu_us:.1f} us; "
        f"of it for the create, by which a schema is dearer: "
        f"{create_us / WATCHERS:.1f} us, {built_in_create_us / WATCHERS:.1f} us",
    )


async def _create_us(measured: Measured, watched: WatchedResource) -> float:
    """The server's CPU time for a create without watches."""
    target, numbers = watched.target.format("bench"), range(FIRST_UNWATCHED, FIRST_UNWATCHED + EVENTS)
    creates = (load.request("POST", target, watched.unstamped(number)) for number in numbers)
    _, cpu_us = await rate(measured, load.each_of(creates))
    return cpu_us


async def _many(settings: Settings) -> AsyncIterator[Result]:
    with server(settings) as (_, measured):
        before = measured.memory_bytes()
        began = time.perf_counter()
        numbers = range(MANY_DEFINITIONS)
        creates = (
            load.request("POST", DEFINITIONS, definition(f"kinds{n:03}", f"Kind{n:03}")) for n in numbers
        )
        await load.run(measured.url, load.each_of(creates), connections=4)
        for number in numbers:
            await _wait_until_served(measured, f"kinds{number:03}")
        took = time.perf_counter() - began
        yield Result(f"{MANY_DEFINITIONS} definitions served", "s", took, 0, SERVED_WITHIN_S, is_bound=True)
        each = (measured.memory_bytes() - before) / MIB / MANY_DEFINITIONS
        yield Result("memory that one of them adds", "MB", each, 0, DEFINITION_MIB, is_bound=True)


async def _define(
    measured: Measured, plural: str, kind: str, properties: Mapping[str, Any] | None = None
) -> float:
    """Define a type; returns the seconds from the answer until a request to the type succeeded."""
    request = load.request("POST", DEFINITIONS, definition(plural, kind, properties))
    await load.run(measured.url, load.each_of(iter([request])), connections=1)
    began = time.perf_counter()
    await _wait_until_served(measured, plural)
    return time.perf_counter() - began


async def _wait_until_served(measured: Measured, plural: str) -> None:
    for _ in range(POLL_MAX):
        try:
            await body_of(measured.url, f"/apis/{GROUP}/v1/namespaces/default/{plural}?limit=1")
        except load.UnexpectedAnswer:
            continue
        return
    raise TimeoutError(f"{plural} is not served")
