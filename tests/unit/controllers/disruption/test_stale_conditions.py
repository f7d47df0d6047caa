"""Pods that were to be disrupted and still exist are no target any more.

https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.controllers.disruption.stale_conditions import StaleDisruptionConditions, stale_in_s
from apiserver.meta import timestamps
from apiserver.meta.conditions import find_condition
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.strategy import UpdateStrategy
from apiserver.registry.write_request import ProposedObject, WriteRequest
from apiserver.storage.embedded import EmbeddedStore
from tests.support.eventually import eventually
from tests.support.in_process import TABLE, resource, running, server

NOW_S: Final = 1_700_000_000.0
PODS: Final = resource("pods", "")
BY_SERVER: Final = UpdateStrategy()


def target(ago_s: float = 130.0, **more: Any) -> Document:
    since = timestamps.to_text(NOW_S - ago_s)
    condition = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": since}
    return {**condition, "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting", **more}


def pod(*conditions: Document, phase: str = "Running", **meta: Any) -> Document:
    return {"metadata": meta, "status": {"phase": phase, "conditions": list(conditions)}}


STALE: Final[dict[str, tuple[Document, float | None]]] = {
    "just set": (pod(target(0)), 120.0),
    "set long ago": (pod(target(130)), -10.0),
    "never set": (pod({"type": "Ready", "status": "True"}), None),
    "taken back": (pod(target(status="False")), None),
    "by the kubelet": (pod(target(reason="TerminationByKubelet")), None),
    "being deleted": (pod(target(), deletionTimestamp="2020-01-01T00:00:00Z"), None),
    "ended": (pod(target(), phase="Failed"), None),
    "no status": ({"metadata": {}}, None),
}


@pytest.mark.parametrize(("found", "in_s"), STALE.values(), ids=STALE)
def test_when_the_condition_is_stale(found: Document, in_s: float | None) -> None:
    assert stale_in_s(found, NOW_S) == in_s


async def test_a_stale_condition_is_taken_back(store: EmbeddedStore) -> None:
    async with server(store) as registry:

        async def add(name: str, condition: Document) -> None:
            spec = {"containers": [{"name": "c", "image": "i"}]}
            document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
            PODS.check(document)
            request = WriteRequest(resource=PODS, namespace="default", name=name, update=BY_SERVER)
            await registry.create(request, ProposedObject(document))
            status = {"phase": "Running", "conditions": [condition], "qosClass": "BestEffort"}
            await registry.update(
                request, lambda found: ProposedObject({**found.document(), "status": status})
            )

        def condition_of(name: str) -> Document:
            found = registry.cache.get_cached(registry.key(PODS, "default", name))
            assert found is not None
            assert found.value is not None
            return find_condition(found.value.document(), "DisruptionTarget") or {}

        await add("old", target(130))
        await add("young", target(10))
        controller = StaleDisruptionConditions(registry, ServedTable(TABLE), lambda: NOW_S)
        async with running(controller.run()):
            await eventually(lambda: condition_of("old")["status"] == "False")
            await eventually(lambda: controller.queue.is_delayed(("default", "young")))
        taken_back = condition_of("old")
        assert taken_back["lastTransitionTime"] == timestamps.to_text(NOW_S)
        assert taken_back["reason"] == "EvictionByEvictionAPI"
        assert condition_of("young") == target(10)
