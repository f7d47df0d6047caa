"""What functions of extensions cost who writes. `make bench ARGS=extensions`.

Functions that do nothing are measured by the time of whole requests, one after the other: creates that they
see, and in turn creates of another type, in the same server. Two servers would differ by more than such a
function takes. Lists whose objects a function converts are compared with lists whose versions differ in name
only; the function's own time is that of its worker, and not counted.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import AsyncIterator
from typing import Any, Final

from benchmarks.processes import Measured
from benchmarks.report import Result
from benchmarks.workloads import LISTED_OBJECTS, Settings, create, make_namespace, server
from tests.support.api import Api
from tests.support.definitions import DEFINITIONS, OPEN_SPEC, Defined, define, definition, version
from tests.support.metrics import metric

MODULE: Final = "tests.extensions.modules.nothing"
# Of the types: the functions of the module see the objects of the first one.
GROUPS: Final = ("seen.example.com", "unseen.example.com")
# What a function that does nothing may add to a create, by the extension.
INLINE_US_MAX: Final = 20
PROCESS_US_MAX: Final = 250
REQUESTS: Final = 2_000
CONVERTING: Final = "tests.extensions.modules.shop_v2"
# The processor time of a first list in another version, compared with one without functions: objects are also
# encoded for the worker, decoded from its answer, and compared with the originals.
CONVERSION_TIMES_MAX: Final = 2
# Views are cached: each of these namespaces is listed once.
LISTED_NAMESPACES: Final = ("list-0", "list-1", "list-2")
_NOTE: Final = "x" * 600
_TEXT: Final = "x" * 900
_CALLS: Final = "apiserver_extension_call_duration_seconds_count"


async def extensions(settings: Settings) -> AsyncIterator[Result]:
    for part in (_writes, _conversions):
        async for result in part(settings):
            yield result


async def _conversions(settings: Settings) -> AsyncIterator[Result]:
    with server(settings, f"--extension={CONVERTING}") as (process, measured), Api(process) as api:
        api.post(DEFINITIONS, _versions_in_name_only()).ok()
        for name in LISTED_NAMESPACES:
            await make_namespace(measured.url, name)
        converted_ms, plain_ms = [
            min([await _first_list_ms(settings, measured, api, group, name) for name in LISTED_NAMESPACES])
            for group in ("shop.example.com", "same.example.com")
        ]
    yield Result(
        f"list of {settings.at_most(LISTED_OBJECTS)} that a function converts / versions of the same form",
        "x",
        converted_ms / plain_ms,
        target=CONVERSION_TIMES_MAX,
        is_bound=True,
        note=f"{converted_ms:.0f} ms and {plain_ms:.0f} ms of the server's processor time",
    )


async def _first_list_ms(
    settings: Settings, measured: Measured, api: Api, group: str, namespace: str
) -> float:
    """Returns the server's processor time for a list in v1 of new objects that are stored in v2."""
    count = settings.at_most(LISTED_OBJECTS)

    def body(number: int) -> bytes:
        meta, spec = {"name": f"o-{number:06}"}, {"length": f"{number}cm", "note": _NOTE}
        order = {"apiVersion": f"{group}/v2", "kind": "Order", "metadata": meta, "spec": spec}
        return json.dumps(order).encode()

    await create(measured.url, f"/apis/{group}/v2/namespaces/{namespace}/orders", body, count)
    began_s = measured.cpu_s()
    found = api.get(f"/apis/{group}/v1/namespaces/{namespace}/orders").ok()
    took_ms = 1e3 * (measured.cpu_s() - began_s)
    assert len(found["items"]) == count
    return took_ms


def _versions_in_name_only() -> dict[str, Any]:
    """The definition of orders in another group, without a conversion."""
    spec = {"type": "object", "properties": {name: {"type": "string"} for name in ("length", "note")}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "orders.same.example.com"},
        "spec": {
            "group": "same.example.com",
            "scope": "Namespaced",
            "names": {"plural": "orders", "kind": "Order"},
            "versions": [
                {"name": name, "served": True, "storage": name == "v2", "schema": schema}
                for name in ("v1", "v2")
            ],
        },
    }


async def _writes(settings: Settings) -> AsyncIterator[Result]:
    for extension, function, most_us in (
        ("inline", "an inline function that mutates", INLINE_US_MAX),
        ("validating", "an inline function that validates", INLINE_US_MAX),
        ("process", "a function in a process", PROCESS_US_MAX),
    ):
        with server(settings, f"--extension={MODULE}:{extension}") as (process, _), Api(process) as api:
            kinds = [define(api, definition(group, version(schema=OPEN_SPEC))) for group in GROUPS]
            # They alternate, as the machine is not equally fast at all times.
            times = [[_create_us(kind) for kind in kinds] for _ in range(settings.at_most(REQUESTS))]
            assert metric(api, _CALLS) == len(times)
        ours_us, without_us = (statistics.median(each) for each in zip(*times, strict=True))
        yield Result(
            f"{function}, p50 of a create of 1 KB",
            "us",
            ours_us - without_us,
            target=most_us,
            is_bound=True,
            note=f"{without_us:.0f} us without it",
        )


def _create_us(kind: Defined) -> float:
    body = json.dumps(kind.body("a", spec={"text": _TEXT})).encode()
    began = time.perf_counter()
    answer = kind.api.post(f"{kind.objects()}?dryRun=All", body)
    took_us = 1e6 * (time.perf_counter() - began)
    answer.ok()
    return took_us
