"""Custom resources: as fast to read as built-in ones, and what their schemas and rules cost a write."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import AsyncIterator
from typing import Any, Final

from benchmarks import load, processes
from benchmarks.processes import Measured
from benchmarks.report import Result
from benchmarks.works import (
    LISTED_OBJECTS,
    LISTING,
    MIB,
    Settings,
    Side,
    answer_to,
    bare_bytes,
    beside,
    make_namespace,
    posts,
    repeatedly,
    server,
)

GROUP: Final = "shop.example.com"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ORDERS: Final = f"/apis/{GROUP}/v1/namespaces/bench/orders"
OBJECT_BYTES: Final = 1024
MANY_DEFINITIONS: Final = 500
# Together, until all of them are served; and what each adds to the server's memory.
SERVED_WITHIN_S: Final = 20
DEFINITION_MIB: Final = 0.3
# Until the first of many is served, after its create was answered.
FIRST_SERVED_WITHIN_S: Final = 0.1
POLL_MAX: Final = 10_000


def definition(plural: str, kind: str) -> bytes:
    """A definition with thirty fields and five rules."""
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": _FIELDS, "required": ["name"], _RULES_KEY: _RULES},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
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


async def custom_resources(settings: Settings) -> AsyncIterator[Result]:
    """Writes and reads of one type with a schema of thirty fields and five rules; then many types."""
    with (
        server(settings) as (_, measured),
        tempfile.TemporaryDirectory(dir=settings.directory) as other,
        processes.bare("put", other) as limit,
    ):
        await make_namespace(measured.url, "bench")
        served_s = await _defined(measured, "orders", "Order")
        yield Result(
            "first served after its definition", "s", served_s, 0, FIRST_SERVED_WITHIN_S, is_bound=True
        )
        ours, bare = Side(measured, posts(ORDERS, order)), Side(limit, posts("/", order))
        yield await beside(settings, "create of 1 KB, 30 fields, 5 rules", 0.3, ours, bare)
    with server(settings) as (_, measured):
        await make_namespace(measured.url, "bench")
        await _defined(measured, "orders", "Order")
        creates = (load.request("POST", ORDERS, order(f"c-{n:06}")) for n in range(LISTED_OBJECTS))
        await load.run(measured.url, load.each_of(creates), connections=32)
        for work, target, least, connections in (
            ("GET from cache (RV=0)", f"{ORDERS}/c-000001?resourceVersion=0", 0.45, 16),
            ("GET consistent", f"{ORDERS}/c-000001", 0.45, 16),
            ("LIST 5,000 x 1 KB from cache", f"{ORDERS}?resourceVersion=0", 0.8, LISTING),
        ):
            ours = Side(measured, repeatedly(target))
            with bare_bytes(settings, await answer_to(measured.url, target)) as limit:
                bare = Side(limit, repeatedly("/"))
                yield await beside(settings, f"custom resources, {work}", least, ours, bare, connections)
    async for result in _many(settings):
        yield result


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
            await _served(measured, f"kinds{number:03}")
        took = time.perf_counter() - began
        yield Result(f"{MANY_DEFINITIONS} definitions served", "s", took, 0, SERVED_WITHIN_S, is_bound=True)
        each = (measured.memory_bytes() - before) / MIB / MANY_DEFINITIONS
        yield Result("memory that one of them adds", "MB", each, 0, DEFINITION_MIB, is_bound=True)


async def _defined(measured: Measured, plural: str, kind: str) -> float:
    """How long after the answer the first request to it was answered."""
    request = load.request("POST", DEFINITIONS, definition(plural, kind))
    await load.run(measured.url, load.each_of(iter([request])), connections=1)
    began = time.perf_counter()
    await _served(measured, plural)
    return time.perf_counter() - began


async def _served(measured: Measured, plural: str) -> None:
    for _ in range(POLL_MAX):
        try:
            await answer_to(measured.url, f"/apis/{GROUP}/v1/namespaces/default/{plural}?limit=1")
        except load.UnexpectedAnswer:
            continue
        return
    raise TimeoutError(f"{plural} is not served")
