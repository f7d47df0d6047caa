"""What the simulated scheduler does with pods that wait together."""

from __future__ import annotations

import asyncio
from typing import Final

import orjson

from apiserver.meta.conditions import find_condition
from apiserver.meta.vocabulary import Document
from apiserver.storage.embedded import EmbeddedStore
from apiserver.testkit.simulation.component import ClusterAccess
from apiserver.testkit.simulation.scheduler import SimulatedScheduler
from apiserver.testkit.simulation.stages import NODE_ANNOTATION
from tests.support.eventually import eventually
from tests.support.in_process import resource, server
from tests.unit.testkit.simulation.access import access, cached, create, events

POD: Final = resource("pods", "")
NODE: Final = resource("nodes", "")
READY: Final = {"allocatable": {"pods": "2"}, "conditions": [{"type": "Ready", "status": "True"}]}


def pod(name: str) -> Document:
    containers = [{"name": "c", "image": "i", "resources": {}}]
    # A new node has a taint, which something else takes away.
    spec = {"containers": containers, "tolerations": [{"operator": "Exists"}]}
    return {"metadata": {"name": name}, "spec": spec}


def is_told(found: Document) -> bool:
    return find_condition(found, "PodScheduled") is not None


async def test_a_pod_that_cannot_be_written_holds_up_no_others(store: EmbeddedStore) -> None:
    """It is first of those that fit on the same nodes."""
    async with server(store) as registry:
        malformed = pod("first") | {"status": {"conditions": ["malformed"]}}
        malformed["metadata"] |= {"namespace": "default", "uid": "u"}
        value = orjson.dumps({"apiVersion": "v1", "kind": "Pod", **malformed})
        await store.create(registry.key(POD, "default", "first"), value)
        scheduler = SimulatedScheduler(access(registry, ClusterAccess), events(registry))
        running = asyncio.create_task(scheduler.run())
        await eventually(lambda: scheduler.queue.failures(("default", "first")) > 0)
        await create(registry, POD, pod("second"))
        await eventually(lambda: is_told(cached(registry, POD, "second")))
        meta = {"name": "n", "annotations": {NODE_ANNOTATION: "true"}}
        await create(registry, NODE, {"metadata": meta, "spec": {}, "status": READY})
        await eventually(lambda: cached(registry, POD, "second").get("spec", {}).get("nodeName") == "n")
        running.cancel()
        await asyncio.wait([running])
