"""The eviction of pods, beneath HTTP. Row I15. Clients: `tests/server/test_disruption_budgets.py`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from apiserver.endpoints.handlers.subresources.eviction import Evictions
from apiserver.load.offload import Offload
from apiserver.load.size_class import HUGE_BYTES, SizeClass
from apiserver.meta.options import DeleteOptions
from apiserver.registry.write_request import ProposedObject, WriteRequest
from apiserver.storage.embedded import EmbeddedStore
from tests.support.in_process import resource, server

PODS: Final = resource("pods", "")
BUDGETS: Final = resource("poddisruptionbudgets", "policy")
LARGE: Final = {"large": "v" * HUGE_BYTES}


class RecordingOffload(Offload):
    """decoded: the sizes of what it was given to do."""

    __slots__ = ("decoded",)

    def __init__(self) -> None:
        super().__init__()
        self.decoded: list[SizeClass] = []

    async def run_begun(self, size: SizeClass, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.decoded.append(size)
        return await super().run_begun(size, work, *args, **kwargs)


async def test_large_pods_and_budgets_are_decoded_beside_the_event_loop(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path / "data", durable=False)
    async with server(store) as registry:
        labels = {"app": "a"}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "a", "namespace": "default", "labels": labels, "annotations": LARGE},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "b", "namespace": "default", "annotations": LARGE},
            "spec": {"selector": {"matchLabels": labels}, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
        }
        for kind, document in ((PODS, pod), (BUDGETS, budget)):
            kind.check(document)
            await registry.create(WriteRequest(resource=kind, namespace="default"), ProposedObject(document))
        # Pending pods do not count for budgets.
        status = WriteRequest(
            resource=PODS, namespace="default", name="a", update=PODS.subresources["status"].update
        )
        await registry.update(
            status, lambda found: ProposedObject({**found.document(), "status": {"phase": "Running"}})
        )
        offload = RecordingOffload()
        evictions = Evictions(registry, lambda: 0.0, offload)
        await evictions.evict(PODS, BUDGETS, "default", "a", DeleteOptions(dry_run=True))
        assert offload.decoded == [SizeClass.HUGE, SizeClass.HUGE]
        offload.close()
    await store.close()
